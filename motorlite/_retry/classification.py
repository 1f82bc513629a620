"""Pure: why an attempt failed, which retries its error permits, and which error to raise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from motorlite._base import wire_versions
from motorlite._base.error_documents import (
    MAX_TIME_MS_EXPIRED,
    NO_WRITES_PERFORMED,
    NOT_PRIMARY_CODES,
    REAUTHENTICATION_REQUIRED,
    RETRYABLE,
    RETRYABLE_READ_CODES,
    RETRYABLE_WRITE,
    RETRYABLE_WRITE_CODES,
    SYSTEM_OVERLOADED,
)
from motorlite._base.values import Progress
from motorlite._operations.contract import Kind
from motorlite.errors import (
    AdmissionError,
    AutoReconnect,
    CircuitBreakerOpenError,
    ExecutionTimeout,
    NotPrimaryError,
    OperationFailure,
    ProtocolError,
    PyMongoError,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
    WriteError,
    error_code,
)
from motorlite.retry import RetryReason, RetryRule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from motorlite._operations.contract import Operation
    from motorlite._retry.failure import Failure
    from motorlite.retry import OverloadRetry


# Why an attempt failed: the table of reasons.
#
# The first row that fits decides. What the server may have done with the command (`Progress`) comes first: an error
# of the same type means one thing before the command was sent and another after it.

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


_TABLE: Final = (
    _Row(_NOT_SENT, RetryReason.CIRCUIT_BREAKER_OPEN, CircuitBreakerOpenError),
    _Row(_NOT_SENT, RetryReason.CONNECTION_NOT_AVAILABLE, WaitQueueTimeoutError),
    _Row(_NOT_SENT, RetryReason.NOT_ADMITTED, AdmissionError),
    _Row(_NOT_SENT, RetryReason.NO_SUITABLE_SERVER, ServerSelectionTimeoutError),
    # What a server that steps down or ends answered to hello or to the authentication.
    _Row(_NOT_SENT, RetryReason.OVERLOAD, NotPrimaryError, label=SYSTEM_OVERLOADED),
    _Row(_NOT_SENT, RetryReason.RETRYABLE_ERROR, NotPrimaryError, label=RETRYABLE),
    _Row(_NOT_SENT, RetryReason.CONNECTION_NOT_AVAILABLE, AutoReconnect, is_connected=True),
    _Row(_NOT_SENT, RetryReason.SERVER_NOT_AVAILABLE, AutoReconnect),
    # What another one answered.
    _Row(_NOT_SENT, RetryReason.OVERLOAD, label=SYSTEM_OVERLOADED),
    _Row(_NOT_SENT, RetryReason.RETRYABLE_ERROR, label=RETRYABLE),
    _Row(_NOT_SENT, RetryReason.SERVER_NOT_AVAILABLE, codes=RETRYABLE_READ_CODES),
    _Row(_IN_FLIGHT, RetryReason.CONNECTION_LOST_IN_FLIGHT, AutoReconnect),
    _Row(
        _ANSWERED,
        RetryReason.REAUTHENTICATION_REQUIRED,
        codes=frozenset({REAUTHENTICATION_REQUIRED}),
        was_reauthenticated=True,
    ),
    _Row(_ANSWERED, RetryReason.OVERLOAD, label=SYSTEM_OVERLOADED),
    _Row(_ANSWERED, RetryReason.RETRYABLE_ERROR, label=RETRYABLE),
    # Not for operations that are not idempotent, as part of a write may have happened.
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


# Classifies errors: which retries they permit, and which error to raise.

# From this version on, servers attach RetryableWriteError themselves and drivers must not add it.
_LABELS_WRITES = wire_versions.V4_4
# The labels that the retry rules read.
_RETRY_LABELS = (RETRYABLE, SYSTEM_OVERLOADED, RETRYABLE_WRITE)


def is_ordinary(operation: Operation[Any], *, is_numbered: bool) -> bool:
    """Whether the retryable reads or retryable writes specification applies.

    `is_numbered`: whether the command has a transaction number on this server, or would have had one.
    """
    return operation.is_retryable and (is_numbered or operation.kind is not Kind.WRITE)


def rules(failure: Failure, operation: Operation[Any], policy: OverloadRetry) -> tuple[RetryRule, ...]:
    """The rules that permit a retry after `failure`, the preferred one first. Empty if it is not retryable."""
    ordinary = failure.is_ordinary
    if failure.has_label(SYSTEM_OVERLOADED):
        if failure.has_label(RETRYABLE):
            # No fallback: after an overload error every retry needs backoff and a token, even if another rule permits.
            return (RetryRule.OVERLOAD_POLICY,)
        # Rule 4: the server did not mark the error as retryable. The later revision lets the ordinary rule decide,
        # after a backoff.
        return _ordinary_rule(failure, operation) if ordinary and policy.needs_both_labels else ()
    permitted = _ordinary_rule(failure, operation) if ordinary else ()
    if failure.has_label(RETRYABLE) and not policy.needs_both_labels:
        return (RetryRule.OVERLOAD_POLICY, *permitted)
    return permitted


def _ordinary_rule(failure: Failure, operation: Operation[Any]) -> tuple[RetryRule, ...]:
    if operation.kind is Kind.READ and is_retryable_read_error(failure.error):
        return (RetryRule.SPECIFICATION,)
    if operation.kind is Kind.WRITE and failure.has_label(RETRYABLE_WRITE):
        return (RetryRule.SPECIFICATION,)
    return ()


def is_candidate(failure: Failure) -> bool:
    """Whether any rule retries such errors, even if only for other operations or with other options."""
    return is_retryable_read_error(failure.error) or any(map(failure.has_label, _RETRY_LABELS))


def is_retryable_network_error(error: PyMongoError) -> bool:
    """Whether a socket failed, or the pool was cleared because one did."""
    return isinstance(error, AutoReconnect) and not isinstance(error, (NotPrimaryError, ServerSelectionTimeoutError))


def is_retryable_read_error(error: PyMongoError) -> bool:
    """Whether `error` is a "Retryable Error" of the retryable reads specification."""
    return is_retryable_network_error(error) or error_code(error) in RETRYABLE_READ_CODES


def with_write_label(failure: Failure) -> Failure:
    """Return `failure` with RetryableWriteError where the driver must add it. Only for ordinary writes.

    Retryable writes specification, "RetryableWriteError Labels".
    """
    error = failure.error
    if is_retryable_network_error(error) or (
        error.reached_server and failure.wire_version < _LABELS_WRITES and error_code(error) in RETRYABLE_WRITE_CODES
    ):
        return failure._replace(labels=failure.labels | {RETRYABLE_WRITE})
    return failure


def is_retryable_concern_error(reply: Mapping[str, Any], max_wire_version: int, *, is_mongos: bool) -> bool:
    """Whether a reply with ``ok: 1`` has a write concern error that calls for a retry of the write."""
    if max_wire_version >= _LABELS_WRITES:
        labels = reply.get("errorLabels") or ()
        return RETRYABLE_WRITE in labels or RETRYABLE in labels
    code = reply["writeConcernError"].get("code")
    return not is_mongos and isinstance(code, int) and code in RETRYABLE_WRITE_CODES


def may_have_been_executed(failure: Failure, operation: Operation[Any]) -> bool:
    """Whether the failed attempt may have changed something: its reply is missing or unread, or does not rule that out.

    An error of a failing server may interrupt a write, unless a label says that nothing was written.
    """
    if operation.kind is Kind.READ or failure.progress is Progress.NOT_SENT:
        return False
    if failure.progress is Progress.IN_FLIGHT or failure.reply is not None or failure.is_executed:
        return True
    if failure.has_label(NO_WRITES_PERFORMED) or was_rejected(failure):
        return False
    code = error_code(failure.error)
    is_interrupted = failure.has_label(RETRYABLE_WRITE) or code in RETRYABLE_WRITE_CODES or code == MAX_TIME_MS_EXPIRED
    return is_interrupted or operation.writes_until_error


def leaves_unknown(error: Exception, operation: Operation[Any]) -> bool:
    """Whether an error in a reply with ``ok: 1`` does not tell what the operation has changed.

    A write of many documents, which is never a retryable write, has changed those before the error.
    """
    if operation.kind is Kind.READ:
        return False
    return isinstance(error, ProtocolError) or (isinstance(error, WriteError) and not operation.is_retryable)


def was_rejected(failure: Failure) -> bool:
    """Whether the error is a "retryable overload error": the server did no work for the command."""
    return failure.has_label(SYSTEM_OVERLOADED) and failure.has_label(RETRYABLE)


def is_turned_away(failure: Failure) -> bool:
    """Whether authentication failed, or hello was refused, for a reason that lasts: no retry rule covers the error.

    Where nothing was executed, the operation ends with this error, even after others: only the user can mend its cause.
    """
    error = failure.error
    is_refusal = isinstance(error, OperationFailure) and not isinstance(error, ExecutionTimeout)
    return is_refusal and not failure.reached_server and not is_candidate(failure)


def to_raise(failures: Sequence[Failure], operation: Operation[Any]) -> Failure:
    """Select the failure to raise. `failures` are ordered oldest first.

    Reads: the newest failure that reached a server. Writes and runCommand: the newest one that reached a server and
    lacks the label NoWritesPerformed. Otherwise the first: a failure before anything was sent replaces no earlier error
    (but see `is_turned_away`). A server's request to authenticate again, which was followed, is only raised if nothing
    else went wrong.
    """
    failures = [failure for failure in failures if failure.reauthenticated is None] or failures
    for failure in reversed(failures):
        if failure.reached_server and (operation.kind is Kind.READ or not failure.has_label(NO_WRITES_PERFORMED)):
            return failure
    return failures[0]
