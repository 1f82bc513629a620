"""Pure: encodes commands as wire messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson.codec_options import DEFAULT_CODEC_OPTIONS

from motorlite._net.host import next_request_id as next_request_id
from motorlite._net.runtime import Parts
from motorlite._wire import op_msg
from motorlite._wire.documents import encode, encode_small
from motorlite._wire.op_msg import FIXED, START_SIZE, start
from motorlite.errors import DocumentTooLarge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bson.codec_options import CodecOptions

    from motorlite._base.values import Document, ServerFacts

# Bytes. Larger requests are compressed in a thread before they are passed to the stream (`CompressedStream`), because
# zlib may take a tenth of a second per megabyte.
LARGE: Final = 256 * 1024
# Bytes by which a command may exceed the document limit, for the fields around the document.
_COMMAND_OVERHEAD: Final = 16 * 1024

# The field with the statement of each kind of write, and its name in errors.
_STATEMENTS: Final = {"insert": "documents", "update": "updates", "delete": "deletes"}
_NAMES: Final = {"documents": "document", "updates": "update", "deletes": "delete"}
# The size of a document without fields.
_EMPTY: Final = 5
# What an array has beside its one document.
_AROUND_ONE: Final = 8

# Bytes from which a view of a document costs less than a copy.
_WORTH_A_VIEW: Final = 8 * 1024


def encode_command(
    document: Document,
    codec_options: CodecOptions[Any],
    sequences: Sequence[tuple[str, Sequence[bytes]]],
    request_id: int,
    facts: ServerFacts,
    *,
    is_acknowledged: bool,
    is_exhaust: bool = False,
) -> bytes:
    """Encode a command as a wire message and check it against the server's limits.

    Raises:
        DocumentTooLarge: the command exceeds a size limit of the server.
        bson.errors.InvalidDocument: a value cannot be encoded as BSON.
    """
    body = encode(document, codec_options)
    flags = 0 if is_acknowledged else op_msg.MORE_TO_COME
    if is_exhaust:
        flags = op_msg.EXHAUST_ALLOWED
    message = op_msg.encode(request_id, body, sequences, flags)
    if len(message) > facts.max_bson_object_size:
        if not is_acknowledged:
            _check_statement(document, len(body), codec_options, facts)
        _check_command(len(body), message, facts)
    return message


def _check_statement(document: Document, size: int, codec_options: CodecOptions[Any], facts: ServerFacts) -> None:
    """Check the statement of an unacknowledged write, which has `size` bytes with all its fields.

    The server could not report that it is too large. Batches of bulk writes check their statements themselves.
    """
    field = _STATEMENTS.get(next(iter(document)))
    if field is not None and field in document:
        around = len(encode({**document, field: [{}]}, codec_options)) - _EMPTY
        _check_size(_NAMES[field], size - around, facts.max_bson_object_size)


def encoded_fields(document: Document) -> bytes:
    """Return the fields of `document` as bytes, without the length before and the zero behind them."""
    return encode(document, DEFAULT_CODEC_OPTIONS)[4:-1]


def encode_parts(
    document: Document,
    codec_options: CodecOptions[Any],
    around: tuple[bytes, bytes],
    request_id: int,
    facts: ServerFacts,
    sequences: Sequence[tuple[str, Sequence[bytes]]] = (),
    *,
    is_exhaust: bool = False,
) -> bytes:
    """Like `encode_command`, for a command whose first and last fields are encoded already.

    Args:
        document: The fields in between.
        codec_options: The options for encoding them.
        around: The fields before and behind them, the latter with the zero that ends the command.
        request_id: The id of the message.
        facts: The limits of the server.
        sequences: The sections of kind 1.
        is_exhaust: Whether the server may send further replies.
    """
    before, behind = around
    own = encode(document, codec_options)
    size = len(before) + len(own) + len(behind) - 1
    fields = own[4:-1] if size < _WORTH_A_VIEW else memoryview(own)[4:-1]
    if sequences or is_exhaust:
        body = b"".join((size.to_bytes(4, "little"), before, fields, behind))
        message = op_msg.encode(request_id, body, sequences, op_msg.EXHAUST_ALLOWED if is_exhaust else 0)
    else:
        message = b"".join((start(START_SIZE + size, request_id, FIXED, size), before, fields, behind))
    if len(message) > facts.max_bson_object_size:
        _check_command(size, message, facts)
    return message


def encode_around_large(
    field: str, document: bytes, around: tuple[bytes, bytes], request_id: int, facts: ServerFacts
) -> bytes | Parts:
    """Like `encode_parts`, for a command with one field in between, an array of one encoded document.

    `encode_parts` would copy that three times. This copies it once, or not at all if the message is `LARGE`.
    """
    before, behind = around
    opening = b"\x04%s\0%s\x030\0" % (field.encode(), (len(document) + _AROUND_ONE).to_bytes(4, "little"))
    size = len(before) + len(opening) + len(document) + len(behind) + 5
    first = b"".join((start(START_SIZE + size, request_id, FIXED, size), before, opening))
    message = Parts(first, document, b"\0" + behind)
    if len(message) > facts.max_bson_object_size:
        _check_command(size, message, facts)
    return message if len(message) >= LARGE else message.joined()


def encode_around_small(
    before: bytes, document: Any, behind: bytes, request_id: int, facts: ServerFacts
) -> bytes | None:
    """Like `encode_parts`, for a command with one field in between, a small document. None: use `encode_parts`.

    `before` ends with the type and the name of that field.
    """
    own = encode_small(document)
    if own is None:
        return None
    size = len(before) + len(own) + len(behind) + 4
    if size > facts.max_bson_object_size:
        return None  # `encode_parts` knows the limits
    return b"".join((start(START_SIZE + size, request_id, FIXED, size), before, own, behind))


def _check_command(size: int, message: bytes | Parts, facts: ServerFacts) -> None:
    _check_size("command", size, facts.max_bson_object_size + _COMMAND_OVERHEAD)
    _check_size("message", len(message), facts.max_message_size)


def _check_size(what: str, size: int, limit: int) -> None:
    if size > limit:
        raise DocumentTooLarge(f"the {what} has {size} bytes, more than the {limit} that the server accepts")
