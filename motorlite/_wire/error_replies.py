"""Pure: makes exceptions from the error documents in replies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from motorlite._base import error_documents
from motorlite._base.error_codes import (
    CURSOR_NOT_FOUND,
    DUPLICATE_KEY_CODES,
    MAX_TIME_MS_EXPIRED,
    NOT_PRIMARY_CODES,
    RETRYABLE_WRITE_CODES,
)
from motorlite.errors import (
    CursorNotFound,
    DuplicateKeyError,
    ExecutionTimeout,
    NotPrimaryError,
    OperationFailure,
    PyMongoError,
    WriteConcernError,
    WriteConcernExecutionTimeout,
    WriteError,
    WriteExecutionTimeout,
    WTimeoutError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable


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
    raised = kind(error_documents.message(error), code, error)
    for label in error_documents.texts(labels):
        raised._add_error_label(label)
    return raised
