"""Pure: the operations of one client as its invariants see them, and what permits each of their attempts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from motorlite.errors import AutoReconnect, NotPrimaryError, OperationFailure, PyMongoError, ServerSelectionTimeoutError

if TYPE_CHECKING:
    from motorlite._base.values import Document
    from motorlite._execution.run import Attempt, Run
    from tests.simulation.wire import Request

# Written down again, from the specifications: the driver's own tables are what is being tested.
_OVERLOADED, _RETRYABLE, _RETRYABLE_WRITE = "SystemOverloadedError", "RetryableError", "RetryableWriteError"
_READS: Final = frozenset({"find", "aggregate", "distinct", "count", "listCollections", "listDatabases", "listIndexes"})
_ENDS: Final = frozenset({"commitTransaction", "abortTransaction"})
_READ_CODES: Final = frozenset({6, 7, 89, 91, 134, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436})
_REAUTHENTICATE: Final = 391

OVERLOAD: Final = "overload"
LABEL: Final = "label"
ORDINARY: Final = "ordinary"
ALWAYS: Final = "always"


@dataclass(slots=True, eq=False)
class Try:
    """One attempt of an operation.

    Attributes:
        attempt: The driver's state of it.
        requests: What it sent.
        error: How it failed; None before its end, and after a success.
        is_over: Whether it has ended.
        takes: The tokens that were taken after it, for the next one.
    """

    attempt: Attempt
    requests: list[Request] = field(default_factory=list)
    error: BaseException | None = None
    is_over: bool = False
    takes: int = 0

    @property
    def request(self) -> Request | None:
        """The command that it sent; None if it got no further than the connection."""
        return self.requests[-1] if self.requests else None

    def labels(self) -> frozenset[str]:
        """Return the labels of its error: the server's, or without a reply the driver's."""
        request = self.request
        if request is not None and request.reply is not None:
            return frozenset(request.reply.get("errorLabels", ()))
        return self.error.error_labels if isinstance(self.error, PyMongoError) else frozenset()

    @property
    def is_overload(self) -> bool:
        """Whether the server refused it because it was overloaded."""
        return _OVERLOADED in self.labels()


@dataclass(slots=True, eq=False)
class Running:
    """An operation that runs, with its attempts so far.

    Attributes:
        run: The driver's state of it.
        began_at: Loop time.
        tries: Its attempts, the newest last.
        permits: Why each attempt but the first was permitted.
        successes: How often it has paid into the budget for a success.
        reply: What it has obtained, which may have the error of a write concern.
        has_succeeded: Whether it has obtained a reply, or None for a write without one.
    """

    run: Run
    began_at: float
    tries: list[Try] = field(default_factory=list)
    permits: list[str] = field(default_factory=list)
    successes: int = 0
    reply: Document | None = None
    has_succeeded: bool = False

    def obtained(self, reply: Document | None) -> None:
        """Note the result of a successful attempt, or of the retries."""
        self.reply, self.has_succeeded = reply, True

    @property
    def current(self) -> Try | None:
        """The newest attempt, if it has not ended."""
        return self.tries[-1] if self.tries and not self.tries[-1].is_over else None

    @property
    def newest_request(self) -> Request | None:
        """The newest command that it sent."""
        return next((one.request for one in reversed(self.tries) if one.request is not None), None)


def permit(operation: Running, failed: Try) -> str | None:
    """Return what permits another attempt after `failed`; None: nothing does."""
    labels, request = failed.labels(), failed.request
    if _OVERLOADED in labels:
        return OVERLOAD if _RETRYABLE in labels else None
    if failed.error is None:
        return None
    if request is not None and _code(failed) == _REAUTHENTICATE:
        return ALWAYS
    if _RETRYABLE in labels:
        return LABEL
    return ORDINARY if _is_ordinary(operation, failed) else None


def _is_ordinary(operation: Running, failed: Try) -> bool:
    """Whether retryable reads or retryable writes permit another attempt."""
    declared, request = operation.run.operation, failed.request
    if operation.run.part is not None and declared.ends is None:
        return False  # in a transaction
    # Without a reply: what the driver says of connections, since only the driver knows why it has none.
    is_lost = isinstance(failed.error, AutoReconnect) and not isinstance(
        failed.error, (NotPrimaryError, ServerSelectionTimeoutError)
    )
    if request is None:
        code = failed.error.code if isinstance(failed.error, OperationFailure) else None
        return declared.is_retryable and (is_lost or code in _READ_CODES)
    is_lost = is_lost or request.reply is None
    if request.name in _READS and not _writes(request):
        return is_lost or _code(failed) in _READ_CODES
    if request.number is None:
        return False
    return is_lost or _RETRYABLE_WRITE in failed.labels()


def _writes(request: Request) -> bool:
    stages: list[dict[str, Any]] = request.document.get("pipeline", [])
    return any(name in stage for stage in stages for name in ("$out", "$merge"))


def _code(failed: Try) -> int | None:
    request = failed.request
    reply = None if request is None else request.reply
    if reply is None:
        return None
    code = reply.get("writeConcernError", reply).get("code")
    return code if isinstance(code, int) else None


def is_end_of_transaction(request: Request) -> bool:
    """Whether a command commits or aborts a transaction."""
    return request.name in _ENDS
