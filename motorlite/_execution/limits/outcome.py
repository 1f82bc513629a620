"""Pure: what an attempt says about its server."""

from __future__ import annotations

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
