"""Pure: what an attempt says about its server, and the namespace of an operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._base.error_codes import MAX_TIME_MS_EXPIRED, SYSTEM_OVERLOADED
from motorlite._base.progress import Progress
from motorlite._overload.circuit_breaker import Outcome
from motorlite.errors import (
    AutoReconnect,
    NotPrimaryError,
    PoolClearedError,
    ProtocolError,
    PyMongoError,
    ServerSelectionTimeoutError,
    error_code,
)

if TYPE_CHECKING:
    from motorlite._execution.operation import Operation

# Failures of a socket that other errors already stand for: the pool was cleared because another operation failed, and
# one lost server would count once for each operation that waited. State changes are the topology's business.
_NEUTRAL = (NotPrimaryError, PoolClearedError, ServerSelectionTimeoutError)


def outcome_of(error: BaseException, progress: Progress) -> Outcome:
    """Return what a failed attempt says about its server.

    Failures: network errors, timeouts (of the client and of the server) and overload errors. Any other reply is a
    success. Errors of the client itself (a document that cannot be encoded, a cancellation) say nothing.
    """
    if not isinstance(error, PyMongoError):
        return Outcome.NEUTRAL
    if error.has_error_label(SYSTEM_OVERLOADED):
        return Outcome.FAILURE
    if isinstance(error, _NEUTRAL):
        return Outcome.NEUTRAL
    if isinstance(error, AutoReconnect | ProtocolError):
        return Outcome.FAILURE
    if progress is not Progress.ANSWERED:
        return Outcome.NEUTRAL
    return Outcome.FAILURE if error_code(error) == MAX_TIME_MS_EXPIRED else Outcome.SUCCESS


def collection_of(operation: Operation[Any]) -> str | None:
    """Return the name of the operation's collection; None for commands about databases, and for `command()`."""
    name = getattr(operation, "_collection", None)
    if name is None:
        document = getattr(operation, "_document", None)
        # The first field of a command has its name.
        name = document.get(operation.name) if isinstance(document, dict) else None
    return name if isinstance(name, str) else None
