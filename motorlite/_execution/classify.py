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


def reason(error: PyMongoError, operation: Operation, policy: OverloadRetry, *, ordinary: bool) -> RetryReason:
    """Why the operation may be retried after `error`, by whichever rule comes first.

    `ordinary`: whether the retryable reads or writes specification applies to this operation here.
    """
    overloaded = error.has_error_label(SYSTEM_OVERLOADED)
    if error.has_error_label(RETRYABLE):
        if overloaded:
            return RetryReason.OVERLOAD
        if not policy.needs_both_labels:
            return RetryReason.LABEL
    elif overloaded and not policy.needs_both_labels:
        # The server said that it is overloaded and did not say that it may be asked again.
        return RetryReason.NONE
    if ordinary:
        if operation.kind is Kind.READ and is_retryable_read_error(error):
            return RetryReason.READ
        if operation.kind is Kind.WRITE and error.has_error_label(RETRYABLE_WRITE):
            return RetryReason.WRITE
    return RetryReason.NONE


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
