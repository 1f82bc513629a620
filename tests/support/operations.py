"""Operations and errors as the pure parts of the execution layer see them."""

from __future__ import annotations

from typing import Any

from motorlite._base.values import Progress
from motorlite._operations.contract import Command, Kind, Operation
from motorlite._retry.failure import Failure
from motorlite.errors import AutoReconnect, OperationFailure, PyMongoError, ServerSelectionTimeoutError


class Read(Operation[Any]):
    """A retryable read."""

    name = "read"
    kind = Kind.READ
    is_retryable = True

    def parse(self, reply: dict[str, Any]) -> Any:
        return reply

    def command(self, facts: Any) -> Command:
        return Command(self.name, {self.name: 1})


class Write(Read):
    """A retryable write."""

    name = "write"
    kind = Kind.WRITE


class Other(Read):
    """What a user sends with runCommand."""

    name = "other"
    kind = Kind.COMMAND
    is_retryable = False


def read() -> Read:
    return Read("db")


def write() -> Write:
    return Write("db")


def other() -> Other:
    return Other("db")


def server_error(code: int = 2, *labels: str, **fields: Any) -> OperationFailure:
    """What a server answered."""
    return OperationFailure("no", code, {"ok": 0, "code": code, "errorLabels": list(labels), **fields})


def overload(**fields: Any) -> OperationFailure:
    return server_error(462, "SystemOverloadedError", "RetryableError", **fields)


def network_error(*labels: str) -> AutoReconnect:
    """A connection that broke after the command was put on it."""
    error = AutoReconnect("closed")
    error.reached_server = True
    for label in labels:
        error._add_error_label(label)
    return error


def failed(error: PyMongoError, **facts: Any) -> Failure:
    """The attempt that ended with `error`; a write concern error comes with a reply."""
    progress = Progress.NOT_SENT
    if error.reached_server:
        progress = Progress.ANSWERED if isinstance(error, OperationFailure) else Progress.IN_FLIGHT
    known = {"progress": progress, "phase": error.phase, "labels": error.error_labels, "is_ordinary": True}
    return Failure(error=error, **{**known, **facts})


def unsent(*labels: str) -> PyMongoError:
    """What failed before anything was sent."""
    error = ServerSelectionTimeoutError("none")
    error.phase = "selection"
    for label in labels:
        error._add_error_label(label)
    return error
