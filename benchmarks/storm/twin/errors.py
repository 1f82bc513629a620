"""Pure: the errors of simulated attempts, as values for the driver's decisions. They are never raised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from motorlite._base.error_codes import RETRYABLE, SYSTEM_OVERLOADED
from motorlite._base.values import Progress
from motorlite._retry.failure import Failure
from motorlite.errors import AutoReconnect, NetworkTimeout, OperationFailure, PyMongoError

if TYPE_CHECKING:
    from motorlite._base.values import Address

WIRE_VERSION: Final = 27
REJECTED: Final = 462
UNREACHABLE: Final = 6


def rejection(base_backoff: float | None) -> OperationFailure:
    """Return the error of a request that the ingress rejects. `base_backoff` is in seconds."""
    reply = {"ok": 0, "code": REJECTED, "errorLabels": [SYSTEM_OVERLOADED, RETRYABLE]}
    if base_backoff is not None:
        reply["baseBackoffMS"] = round(base_backoff * 1000)
    return OperationFailure("the ingress request rate limit is exceeded", REJECTED, reply)


def unreachable() -> OperationFailure:
    """Return the error of a request that the server answers with "host unreachable"."""
    return OperationFailure("host unreachable", UNREACHABLE, {"ok": 0, "code": UNREACHABLE})


def _not_accepted() -> AutoReconnect:
    error = AutoReconnect("the connection was closed before the handshake")
    for label in (SYSTEM_OVERLOADED, RETRYABLE):
        error._add_error_label(label)
    return error


NOT_ACCEPTED: Final = _not_accepted()
"""Of an operation whose connection was refused or closed before the end of its handshake."""
LOST: Final = AutoReconnect("the server closed the connection")
NO_REPLY: Final = NetworkTimeout("no reply in time")


def failure(error: PyMongoError, progress: Progress, address: Address | None, phase: str | None = None) -> Failure:
    """Return a failed attempt of a retryable read."""
    return Failure(
        error=error,
        progress=progress,
        address=address,
        wire_version=0 if progress is Progress.NOT_SENT else WIRE_VERSION,
        phase=phase,
        labels=error.error_labels,
        is_ordinary=True,
    )


def outcome(failed: Failure) -> str:
    """Return what became of a request that ended with a failure."""
    if failed.has_label(SYSTEM_OVERLOADED):
        return "rejected"
    return "timed_out" if failed.error.timeout else "failed"
