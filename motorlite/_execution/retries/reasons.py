"""Pure: why an attempt failed: the table of reasons.

The first row that fits decides. What the server may have done with the command (`Progress`) comes first: an error of
the same type means one thing before the command was sent and another after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from motorlite._base.error_codes import (
    NOT_PRIMARY_CODES,
    REAUTHENTICATION_REQUIRED,
    RETRYABLE,
    RETRYABLE_READ_CODES,
    RETRYABLE_WRITE,
    SYSTEM_OVERLOADED,
)
from motorlite._base.progress import Progress
from motorlite.errors import (
    AdmissionError,
    AutoReconnect,
    CircuitBreakerOpenError,
    PyMongoError,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
    error_code,
)
from motorlite.retry import RetryReason

if TYPE_CHECKING:
    from motorlite._execution.failure import Failure

_NOT_SENT, _IN_FLIGHT, _ANSWERED = Progress


class _Row(NamedTuple):
    """A row fits if all of its columns do."""

    progress: Progress
    reason: RetryReason
    error: type[PyMongoError] = PyMongoError
    # One of these codes, unless the set is empty.
    codes: frozenset[int] = frozenset()
    label: str | None = None
    # Whether the attempt had a connection; None: either.
    is_connected: bool | None = None
    # Whether the connection was authenticated again after the error.
    was_reauthenticated: bool = False


# The comments have the names of the reasons in the RFC "SDK3 Retry Handling", where it has one.
_TABLE: Final = (
    _Row(_NOT_SENT, RetryReason.CIRCUIT_BREAKER_OPEN, CircuitBreakerOpenError),  # CIRCUIT_BREAKER_OPEN
    _Row(_NOT_SENT, RetryReason.CONNECTION_NOT_AVAILABLE, WaitQueueTimeoutError),  # SOCKET_NOT_AVAILABLE
    # SOCKET_NOT_AVAILABLE: "sockets not writable (too many outstanding writes)"
    _Row(_NOT_SENT, RetryReason.NOT_ADMITTED, AdmissionError),
    # SERVICE_NOT_AVAILABLE: "no query node present after failover"
    _Row(_NOT_SENT, RetryReason.NO_SUITABLE_SERVER, ServerSelectionTimeoutError),
    _Row(_NOT_SENT, RetryReason.CONNECTION_NOT_AVAILABLE, AutoReconnect, is_connected=True),  # SOCKET_NOT_AVAILABLE
    _Row(_NOT_SENT, RetryReason.SERVER_NOT_AVAILABLE, AutoReconnect),  # NODE_NOT_AVAILABLE
    # What a server answered to hello or to the authentication.
    _Row(_NOT_SENT, RetryReason.OVERLOAD, label=SYSTEM_OVERLOADED),  # SERVICE_NOT_AVAILABLE
    _Row(_NOT_SENT, RetryReason.RETRYABLE_ERROR, label=RETRYABLE),  # SERVICE_NOT_AVAILABLE
    _Row(_NOT_SENT, RetryReason.SERVER_NOT_AVAILABLE, codes=RETRYABLE_READ_CODES),  # NODE_NOT_AVAILABLE
    _Row(_IN_FLIGHT, RetryReason.CONNECTION_LOST_IN_FLIGHT, AutoReconnect),  # SOCKET_CLOSED_WHILE_IN_FLIGHT
    # KV_NOT_MY_VBUCKET, KV_COLLECTION_OUTDATED, VIEWS_NO_ACTIVE_PARTITION: never shown to the application
    _Row(
        _ANSWERED,
        RetryReason.REAUTHENTICATION_REQUIRED,
        codes=frozenset({REAUTHENTICATION_REQUIRED}),
        was_reauthenticated=True,
    ),
    _Row(_ANSWERED, RetryReason.OVERLOAD, label=SYSTEM_OVERLOADED),  # KV_TEMPORARY_FAILURE, SEARCH_TOO_MANY_REQUESTS
    # KV_ERROR_MAP_RETRY_INDICATED, SERVICE_RESPONSE_CODE_INDICATED
    _Row(_ANSWERED, RetryReason.RETRYABLE_ERROR, label=RETRYABLE),
    # SERVICE_RESPONSE_CODE_INDICATED; not for operations that are not idempotent, as part of a write may have happened
    _Row(_ANSWERED, RetryReason.FAILOVER, codes=NOT_PRIMARY_CODES),
    _Row(_ANSWERED, RetryReason.TEMPORARY_FAILURE, codes=RETRYABLE_READ_CODES),
    _Row(_ANSWERED, RetryReason.TEMPORARY_FAILURE, label=RETRYABLE_WRITE),
)


def reason_of(failure: Failure, codes: frozenset[int] = frozenset()) -> RetryReason:
    """Return why the attempt failed. `codes`: the ones that the strategy names, looked up after the table."""
    for row in _TABLE:
        if (
            row.progress is failure.progress
            and isinstance(failure.error, row.error)
            and (not row.codes or error_code(failure.error) in row.codes)
            and (row.label is None or failure.has_label(row.label))
            and (row.is_connected is None or row.is_connected is bool(failure.wire_version))
            and (failure.reauthenticated is not None or not row.was_reauthenticated)
        ):
            return row.reason
    if failure.progress is _ANSWERED and error_code(failure.error) in codes:
        return RetryReason.NAMED_CODE
    return RetryReason.UNKNOWN
