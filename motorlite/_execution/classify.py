"""Pure: what an error permits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._execution.operation import Kind
from motorlite.errors import (
    NO_WRITES_PERFORMED,
    RETRYABLE,
    RETRYABLE_READ_CODES,
    RETRYABLE_WRITE,
    RETRYABLE_WRITE_CODES,
    SYSTEM_OVERLOADED,
    AutoReconnect,
    NotPrimaryError,
    PyMongoError,
    ServerSelectionTimeoutError,
    error_code,
)
from motorlite.retry import RetryReason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from motorlite._execution.operation import Operation
    from motorlite.retry import OverloadRetry

# From 4.4 on servers attach RetryableWriteError themselves, and drivers must not.
_LABELS_WRITES = 9
# The labels that rules about retries look at.
_RETRY_LABELS = (RETRYABLE, SYSTEM_OVERLOADED, RETRYABLE_WRITE)


def rules(
    error: PyMongoError, operation: Operation, policy: OverloadRetry, *, ordinary: bool
) -> tuple[RetryReason, ...]:
    """The rules that permit a retry after `error`, the preferred one first; none: it is not retryable.

    `ordinary`: whether the retryable reads or writes specification applies to this operation here.
    """
    if error.has_error_label(SYSTEM_OVERLOADED):
        if error.has_error_label(RETRYABLE):
            # No fallback: after an overload error every retry needs backoff and a token, whatever else permits it.
            return (RetryReason.OVERLOAD,)
        # Rule 4: the server did not say that it may be asked again. The later revision lets the ordinary rule decide,
        # after a backoff.
        return _ordinary_rule(error, operation) if ordinary and policy.needs_both_labels else ()
    permitted = _ordinary_rule(error, operation) if ordinary else ()
    if error.has_error_label(RETRYABLE) and not policy.needs_both_labels:
        return (RetryReason.LABEL, *permitted)
    return permitted


def _ordinary_rule(error: PyMongoError, operation: Operation) -> tuple[RetryReason, ...]:
    if operation.kind is Kind.READ and is_retryable_read_error(error):
        return (RetryReason.READ,)
    if operation.kind is Kind.WRITE and error.has_error_label(RETRYABLE_WRITE):
        return (RetryReason.WRITE,)
    return ()


def is_candidate(error: PyMongoError) -> bool:
    """Whether some rule retries such errors, be it for other operations or under other options."""
    return is_retryable_read_error(error) or any(map(error.has_error_label, _RETRY_LABELS))


def is_network_error(error: PyMongoError) -> bool:
    """Whether a socket failed, or the pool was cleared because one did."""
    return isinstance(error, AutoReconnect) and not isinstance(error, (NotPrimaryError, ServerSelectionTimeoutError))


def is_retryable_read_error(error: PyMongoError) -> bool:
    """Retryable reads specification, "Retryable Error"."""
    return is_network_error(error) or error_code(error) in RETRYABLE_READ_CODES


def label_write_error(error: PyMongoError, max_wire_version: int) -> None:
    """Add RetryableWriteError where the driver must (retryable writes specification, "RetryableWriteError Labels").

    To be called for retryable writes only; `max_wire_version` is 0 when no server was reached.
    """
    if is_network_error(error) or (
        error.reached_server and max_wire_version < _LABELS_WRITES and error_code(error) in RETRYABLE_WRITE_CODES
    ):
        error._add_error_label(RETRYABLE_WRITE)


def is_retryable_concern_error(reply: Mapping[str, Any], max_wire_version: int, *, is_mongos: bool) -> bool:
    """Whether a reply with ``ok: 1`` has a write concern error after which the write should be retried."""
    if max_wire_version >= _LABELS_WRITES:
        labels = reply.get("errorLabels") or ()
        return RETRYABLE_WRITE in labels or RETRYABLE in labels
    code = reply["writeConcernError"].get("code")
    return not is_mongos and isinstance(code, int) and code in RETRYABLE_WRITE_CODES


def to_raise(errors: Sequence[PyMongoError], operation: Operation) -> PyMongoError:
    """Which of the errors of an operation's attempts, oldest first, is the one to raise.

    Reads: the newest from a server or a socket. Writes and runCommand: the newest of those that does not say that
    nothing was written. Without one, the first: what failed before anything was sent never replaces an earlier error.
    """
    for error in reversed(errors):
        if error.reached_server and (operation.kind is Kind.READ or not error.has_error_label(NO_WRITES_PERFORMED)):
            return error
    return errors[0]
