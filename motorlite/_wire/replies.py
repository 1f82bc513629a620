"""Pure: reads server replies: their fields, and the exceptions for their errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from bson.dbref import DBRef

from motorlite._base import error_documents
from motorlite._base.error_documents import (
    CURSOR_NOT_FOUND,
    DUPLICATE_KEY_CODES,
    MAX_TIME_MS_EXPIRED,
    NOT_PRIMARY_CODES,
    RETRYABLE_WRITE_CODES,
)
from motorlite._base.values import EncodedDocuments, is_encodable
from motorlite.errors import (
    CursorNotFound,
    DuplicateKeyError,
    ExecutionTimeout,
    NotPrimaryError,
    OperationFailure,
    ProtocolError,
    PyMongoError,
    WriteConcernError,
    WriteConcernExecutionTimeout,
    WriteError,
    WriteExecutionTimeout,
    WTimeoutError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


# Exceptions, from the error documents in replies.


def error_from_reply(
    reply: Mapping[str, Any], max_wire_version: int | None = None, prefers_concern_error: bool = False
) -> PyMongoError:
    """Return the exception for a reply with ``ok: 0``.

    Args:
        reply: The reply.
        max_wire_version: The wire version of the server.
        prefers_concern_error: Whether a write concern error in it takes precedence, as with PyMongo, unless the other
            error permits a retry.
    """
    code, message = error_documents.code(reply), error_documents.message(reply)
    error: PyMongoError
    if (
        prefers_concern_error
        and code not in RETRYABLE_WRITE_CODES
        and isinstance(reply.get("writeConcernError"), Mapping)
    ):
        return write_concern_error(reply["writeConcernError"], reply.get("errorLabels") or ())
    if code in NOT_PRIMARY_CODES:
        error = NotPrimaryError(message, reply)
        error.reached_server = True
        return error
    if code in DUPLICATE_KEY_CODES:
        return DuplicateKeyError(message, code, reply, max_wire_version)
    if code == MAX_TIME_MS_EXPIRED:
        return ExecutionTimeout(message, code, reply, max_wire_version)
    if code == CURSOR_NOT_FOUND:
        return CursorNotFound(message, code, reply, max_wire_version)
    return OperationFailure(message, code, reply, max_wire_version)


def write_error(error: Mapping[str, Any], labels: Iterable[str] = ()) -> WriteError:
    """Return the exception for one entry of a reply's `writeErrors`; `labels` are the reply's own."""
    message, code = error_documents.message(error), error_documents.code(error)
    kind: type[WriteError] = WriteError
    if code in DUPLICATE_KEY_CODES:
        kind = DuplicateKeyError
    elif code == MAX_TIME_MS_EXPIRED:
        kind = WriteExecutionTimeout
    raised = kind(message, code, error)
    for label in labels:
        raised._add_error_label(label)
    return raised


def write_concern_error(error: Mapping[str, Any], labels: Iterable[str] = ()) -> WriteConcernError:
    """Return the exception for a reply's `writeConcernError`; `labels` are the reply's own."""
    code = error_documents.code(error)
    kind: type[WriteConcernError] = WriteConcernError
    if error_documents.is_wtimeout(error):
        kind = WTimeoutError
    elif code == MAX_TIME_MS_EXPIRED:
        kind = WriteConcernExecutionTimeout
    # As in PyMongo, the details have the labels too.
    found = [*error_documents.texts(labels)]
    details = {**error, "errorLabels": [*error_documents.texts(error.get("errorLabels")), *found]} if found else error
    return kind(error_documents.message(error), code, details)


# The fields of replies. A server may send anything, so operations read replies only through these functions, which
# raise ProtocolError for a field of the wrong type. Error documents (a reply with ``ok: 0``, an entry of `writeErrors`)
# are read leniently (`_base/error_documents`), because the error matters more than its fields.

# BSON integers have at most 64 bits, including the sign.
_LIMIT: Final = 2.0**63


def _wrong(field: str, value: object, allowed: str) -> ProtocolError:
    # Only the type is shown: the value may be huge, and it is the application's data.
    problem = "is missing" if value is None else f"is of type {type(value).__name__}"
    return ProtocolError(f"the server sent a malformed reply: {field} {problem}; it must be {allowed}")


def whole(value: object) -> int | None:
    """Return `value` as an integer, or None if it is not a whole number. Some proxies send whole numbers as doubles.

    A double beyond the range of BSON integers also yields None, because it could not be sent back.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return int(value) if isinstance(value, float) and value.is_integer() and -_LIMIT <= value < _LIMIT else None


def number(parent: Mapping[str, Any], field: str, default: int | None = None) -> int:
    """Return a non-negative integer field, or `default` if the field is missing."""
    value = parent.get(field, default)
    if type(value) is int and value >= 0:  # what nearly all servers send
        return value
    found = whole(value)
    if found is None:
        raise _wrong(field, value, "a whole number")
    if found < 0:
        raise ProtocolError(f"the server sent a malformed reply: {field} is {found}, but it cannot be negative")
    return found


def text(parent: Mapping[str, Any], field: str) -> str:
    """Return a string field."""
    value = parent.get(field)
    if not isinstance(value, str):
        raise _wrong(field, value, "text")
    return str.__str__(value)  # a plain string: `bson.Code` is a str that cannot be hashed


def document(parent: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    """Return a document field."""
    value = parent.get(field)
    # Nearly all are dicts, and `isinstance` with an abstract class takes 0.3 µs.
    if type(value) is not dict and not isinstance(value, Mapping):
        raise _wrong(field, value, "a document")
    return value


def array(parent: Mapping[str, Any], field: str) -> list[Any]:
    """Return an array field, with elements of any type."""
    value = parent.get(field)
    if not isinstance(value, list):
        raise _wrong(field, value, "an array")
    return value


def documents(parent: Mapping[str, Any], field: str, *, are_stored: bool = False) -> list[Any]:
    """Return a field that is an array of documents, of the codec options' document class.

    `are_stored`: they may be DBRefs, as which `bson` decodes documents with `$ref` and `$id`.
    """
    found = array(parent, field)
    if type(found) is EncodedDocuments:
        return found
    for kind in set(map(type, found)):
        if kind is not dict and not issubclass(kind, Mapping) and not (are_stored and kind is DBRef):
            raise ProtocolError(
                f"the server sent a malformed reply: {field} has an element of type {kind.__name__}; "
                "all must be documents"
            )
    return found


# --- cursors ---


def cursor(reply: Mapping[str, Any], batch: str) -> tuple[int, str, list[Any]]:
    """Return the id (0: the server has closed the cursor), namespace and documents of a reply's cursor.

    `batch` is the field with the documents. The namespace of an open cursor has a database and a collection.
    """
    found = document(reply, "cursor")
    cursor_id = whole(found.get("id"))
    if cursor_id is None:
        raise _wrong("the cursor's id", found.get("id"), "a whole number")
    namespace = found.get("ns")
    if cursor_id and not is_namespace(namespace):
        raise ProtocolError("the server sent a malformed reply: ns of the cursor must be a database and a collection")
    return cursor_id, namespace if isinstance(namespace, str) else "", documents(found, batch, are_stored=True)


def is_namespace(value: object) -> TypeGuard[str]:
    """Whether `value` names a database and a collection, and can be sent back in the next command."""
    if not isinstance(value, str):
        return False
    database, _, collection = value.partition(".")
    # The codec options may have let a lone surrogate through.
    return bool(database and collection) and is_encodable(value)


def first_document(reply: Mapping[str, Any], *, is_stored: bool = False) -> Any:
    """Return the first document of a reply's first batch, or None. `is_stored`: as in `documents`."""
    batch = documents(document(reply, "cursor"), "firstBatch", are_stored=is_stored)
    return batch[0] if batch else None


# --- writes ---


def labels(reply: Mapping[str, Any]) -> Sequence[str]:
    """Return the error labels of a successful reply."""
    if reply.get("errorLabels") is None:
        return ()
    found = array(reply, "errorLabels")
    if not all(isinstance(label, str) for label in found):
        raise ProtocolError("the server sent a malformed reply: errorLabels must be strings")
    return [str.__str__(label) for label in found]


def concern_error(reply: Mapping[str, Any]) -> WriteConcernError | None:
    """Return the write concern error of a reply, or None."""
    if reply.get("writeConcernError") is None:
        return None
    return write_concern_error(document(reply, "writeConcernError"), labels(reply))


def check_write_concern(reply: Mapping[str, Any]) -> None:
    """Raise the write concern error of a reply, if it has one."""
    if reply.get("writeConcernError") is not None:
        raise write_concern_error(document(reply, "writeConcernError"), labels(reply))


def check_write(reply: Mapping[str, Any]) -> None:
    """Raise the error of a reply to a single write, if any. A write error precedes a write concern error."""
    found = documents(reply, "writeErrors") if reply.get("writeErrors") is not None else ()
    if found:
        # The labels belong to the reply, whichever error is raised (retryable writes specification).
        raise write_error(found[-1], labels(reply))
    check_write_concern(reply)


def upserts(reply: Mapping[str, Any]) -> list[Any]:
    """Return an update's upserted documents, as documents with `index` and `_id`."""
    if reply.get("upserted") is None:
        return []
    found = documents(reply, "upserted")
    if not all("_id" in entry for entry in found):
        raise ProtocolError("the server sent a malformed reply: an upserted document has no _id")
    return found


def check_batch(reply: Mapping[str, Any], count: int) -> None:
    """Raise ProtocolError if the reply to a command with `count` statements is malformed, including its errors."""
    number(reply, "n", 0)
    number(reply, "nModified", 0)
    errors = documents(reply, "writeErrors") if reply.get("writeErrors") is not None else []
    for entry in (*errors, *upserts(reply)):
        if number(entry, "index") >= count:
            raise ProtocolError(
                f"the server sent a malformed reply: an index is out of range; {count} statements were sent"
            )
    if reply.get("writeConcernError") is not None:
        document(reply, "writeConcernError")
        labels(reply)
