"""Pure: the rules of operations in transactions: where they read, and which labels their errors get.

Transactions specification, "readPreference", "Error Labels".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from motorlite._base.error_codes import (
    MAX_TIME_MS_EXPIRED,
    RETRYABLE_WRITE,
    RETRYABLE_WRITE_CODES,
    SYSTEM_OVERLOADED,
    TRANSIENT_TRANSACTION,
    UNKNOWN_COMMIT_RESULT,
)
from motorlite._execution.operation import Ends
from motorlite.errors import (
    AdmissionError,
    AutoReconnect,
    InvalidOperation,
    NotPrimaryError,
    PyMongoError,
    error_code,
)
from motorlite.read_preferences import ReadPreference

if TYPE_CHECKING:
    from motorlite._execution.operation import Operation
    from motorlite.read_preferences import ServerMode

_NO_LABELS: Final = frozenset[str]()


def in_transaction(operation: Operation[Any], preference: ServerMode) -> Operation[Any]:
    """Return the operation as a transaction with this read preference executes it.

    Raises:
        InvalidOperation: It would not read from the primary, or would stream replies on a connection that it keeps.
    """
    if operation.keeps_connection:
        raise InvalidOperation("an exhaust cursor cannot be opened in a transaction: no other operation could follow")
    own = operation.read_preference
    if own is None:
        return operation
    effective = own if operation.has_own_preference else preference
    if effective.mode != ReadPreference.PRIMARY.mode:
        raise InvalidOperation(f"read preference in a transaction must be primary, not: {effective!r}")
    twin = operation.reading_from(ReadPreference.PRIMARY)
    if isinstance(operation.selector, tuple):
        twin.selector = operation.selector  # the server of a cursor
    # Not sent, even where a direct connection needs one otherwise.
    twin.read_preference = None
    return twin


def added_labels(operation: Operation[Any], error: PyMongoError) -> frozenset[str]:
    """Return the labels that the driver must add to the error of an attempt."""
    if operation.ends is Ends.COMMIT:
        return frozenset({UNKNOWN_COMMIT_RESULT}) if _leaves_unknown(error) else _NO_LABELS
    return frozenset({TRANSIENT_TRANSACTION}) if _is_network_error(error) else _NO_LABELS


def settles(error: PyMongoError) -> bool:
    """Whether an error of commitTransaction rules out that an earlier attempt has committed the transaction.

    The server says so once a majority agrees that there is no such transaction. An overloaded server has not checked.
    """
    return error.has_error_label(TRANSIENT_TRANSACTION) and not error.has_error_label(SYSTEM_OVERLOADED)


def _leaves_unknown(error: PyMongoError) -> bool:
    """Whether an error of commitTransaction does not tell if the transaction was committed."""
    if isinstance(error, AutoReconnect | AdmissionError) or error.has_error_label(RETRYABLE_WRITE):
        return True
    code = error_code(error)
    return code == MAX_TIME_MS_EXPIRED or code in RETRYABLE_WRITE_CODES


def _is_network_error(error: PyMongoError) -> bool:
    """Whether a command did not get the reply of a server, so that the transaction cannot go on.

    Servers label their replies themselves. If the client itself refuses an operation (`AdmissionError`), this
    transaction lacks it, but the transaction as a whole can be repeated.
    """
    if isinstance(error, AutoReconnect):
        return not isinstance(error, NotPrimaryError)
    return isinstance(error, AdmissionError)
