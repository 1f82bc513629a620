"""Pure: error labels, codes that have a meaning to the driver, and lenient readers of error documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


# Error labels, and the server codes that have a meaning to the driver.

# Labels that servers attach or drivers must add (transactions, retryable writes, backpressure).
RETRYABLE_WRITE: Final = "RetryableWriteError"
RETRYABLE: Final = "RetryableError"
SYSTEM_OVERLOADED: Final = "SystemOverloadedError"
# Labels of errors after which the same command may succeed: the server did nothing for it, for now.
REFUSALS: Final = frozenset({SYSTEM_OVERLOADED, RETRYABLE})
NO_WRITES_PERFORMED: Final = "NoWritesPerformed"
TRANSIENT_TRANSACTION: Final = "TransientTransactionError"
UNKNOWN_COMMIT_RESULT: Final = "UnknownTransactionCommitResult"
TRANSACTION_LABELS: Final = frozenset({TRANSIENT_TRANSACTION, UNKNOWN_COMMIT_RESULT})
RESUMABLE_CHANGE_STREAM: Final = "ResumableChangeStreamError"

# Server discovery and monitoring specification, "not writable primary" and "node is recovering".
NOT_WRITABLE_PRIMARY_CODES: Final = frozenset({10058, 10107, 13435})
SHUTDOWN_CODES: Final = frozenset({91, 11600})
RECOVERING_CODES: Final = SHUTDOWN_CODES | {189, 11602, 13436}
NOT_PRIMARY_CODES: Final = NOT_WRITABLE_PRIMARY_CODES | RECOVERING_CODES

# Retryable writes specification, "RetryableWriteError Labels"; drivers add the label themselves only for servers older
# than 4.4. `test_classify` lists the codes of this and the next set again.
RETRYABLE_WRITE_CODES: Final = frozenset({6, 7, 89, 91, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436})
# Retryable reads specification, "Retryable Error": the same plus ReadConcernMajorityNotAvailableYet.
RETRYABLE_READ_CODES: Final = RETRYABLE_WRITE_CODES | {134}

# Change streams specification, "Resumable Error", for servers older than 4.4, which do not label these errors.
RESUMABLE_CODES: Final = frozenset(
    {6, 7, 63, 89, 91, 133, 150, 189, 234, 262, 9001, 10107, 11600, 11602, 13388, 13435, 13436}
)

MAX_TIME_MS_EXPIRED: Final = 50
CURSOR_NOT_FOUND: Final = 43
NO_SUCH_TRANSACTION: Final = 251
DUPLICATE_KEY_CODES: Final = frozenset({11000, 11001, 12582})
REAUTHENTICATION_REQUIRED: Final = 391
# AuthenticationFailed, and AtlasError: what Atlas replies instead ("bad auth").
CREDENTIALS_REFUSED: Final = frozenset({18, 8000})


# Reads servers' error documents leniently: the error itself matters more than its fields.

# The counts of changes that a bulk write has made.
_CHANGES: Final = ("nInserted", "nUpserted", "nModified", "nRemoved", "nDeleted")


def texts(labels: Any) -> Iterable[str]:
    """Return error labels as plain strings (`bson.Code` is an unhashable str)."""
    given = labels if isinstance(labels, list | tuple | set | frozenset) else ()
    return (str.__str__(label) for label in given if isinstance(label, str))


def code(error: Mapping[str, Any]) -> int | None:
    """The code of an error document, or None."""
    found = error.get("code")
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def message(error: Mapping[str, Any]) -> str:
    """The message of an error document."""
    found = error.get("errmsg") or error.get("$err")
    return str.__str__(found) if isinstance(found, str) else "the server sent an error without a message"


def is_wtimeout(error: Mapping[str, Any]) -> bool:
    """Whether a write concern was not satisfied within `wtimeout`."""
    info: Any = error.get("errInfo")
    return hasattr(info, "get") and bool(info.get("wtimeout"))


def concern_labels(details: Mapping[str, Any]) -> Iterable[str]:
    """The labels of a bulk write's write concern errors."""
    for error in details.get("writeConcernErrors") or ():
        yield from texts(error.get("errorLabels"))


def is_timeout(details: Mapping[str, Any]) -> bool:
    """Whether a time limit ended a bulk write, or passed according to a write error or the newest concern error."""
    newest = (details.get("writeConcernErrors") or ())[-1:]
    is_ended = bool(getattr(details.get("error"), "timeout", False))
    return is_ended or any(map(is_wtimeout, newest)) or is_expired(details)


def is_expired(details: Mapping[str, Any]) -> bool:
    """Whether a bulk write's details have error 50 as a write error, or as the newest write concern error.

    Client-side operations timeout, "Error Transformations".
    """
    errors = (*(details.get("writeErrors") or ()), *(details.get("writeConcernErrors") or ())[-1:])
    return any(code(error) == MAX_TIME_MS_EXPIRED for error in errors)


def has_written(details: Mapping[str, Any]) -> bool:
    """Whether a bulk write's details show changes, or cannot rule them out.

    A write of many documents that fails in the middle has changed those before. The server does not count them.
    """
    if any(details.get(name) for name in _CHANGES):
        return True
    return any(_is_of_many(error.get("op")) for error in details.get("writeErrors") or ())


def _is_of_many(operation: Any) -> bool:
    """Whether a failed operation is a statement that changes many documents, and not a document to insert.

    A document may have fields of the same names, but it has an `_id`, or another class than the driver's statements: a
    RawBSONDocument, say, which may not even decode.
    """
    if type(operation) is not dict or "_id" in operation:
        return False
    return bool(operation.get("multi")) or operation.get("limit") == 0
