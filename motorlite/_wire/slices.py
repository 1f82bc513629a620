"""Pure: decodes a reply with a large batch in slices, so that other tasks can run in between.

A batch is an array of documents. A slice is some of its elements, one after the other, in a document of its own, which
one C call decodes. It ends at a boundary between two elements. Their lengths lead from one boundary to the next, but a
Python loop over all of them costs a tenth of decoding. So the first choice is a place that looks like a boundary.

No wrong result can come of a wrong place, nor of a reply with other keys than "0", "1", "2" and so on: the first slice
begins where the batch begins, and bson refuses a slice whose elements do not end exactly where it ends, so every slice
begins at an element of the batch. A reply that cannot be decoded in slices is decoded whole instead, and then fails, if
it fails, as every other reply does.
"""

from __future__ import annotations

import re
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import bson

from motorlite._base.values import DocumentView, EncodedDocuments, RawBatch
from motorlite._wire.documents import LENIENT, codecs_of, decode_reply, plain_options, see_arrays

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from bson.codec_options import CodecOptions

# Bytes.
SLICE: Final = 256 * 1024
# How far to look for a likely boundary. With larger documents, a slice has so few that their lengths lead to the next.
_WINDOW: Final = 4096

_SIZE: Final = Struct("<I")
# The length of a slice's document, the type and key of its only element, and the length of that array.
_HEAD: Final = Struct("<i3si")
_ELEMENT: Final = b"\x04v\0"
_EMPTY: Final = b"\x05\0\0\0\0"
# Binary data of the ordinary subtype: its type, and its value when it is empty.
_BINARY, _NO_DATA = 0x05, b"\0\0\0\0\0"
# An element of an array of documents: type and key.
_NUMBERED: Final = rb"\x03(0|[1-9]\d{0,8})\0"
_DOCUMENT, _ARRAY = 0x03, 0x04
# The types of elements around a batch: how many bytes the value has, or has beyond its announced length.
_FIXED: Final = {0x01: 8, 0x07: 12, 0x08: 1, 0x09: 8, 0x0A: 0, 0x10: 4, 0x11: 8, 0x12: 8}
_ANNOUNCED: Final = {0x02: 4, _DOCUMENT: 0, _ARRAY: 0, 0x05: 5}
# A server sends about ten elements, with keys of up to 20 bytes, around a batch.
_MOST_ELEMENTS: Final = 100
_LONGEST_KEY: Final = 64
# The types of elements that bson copies; how much faster it copies than decodes, with a margin; and how many elements
# there may be before a large one: those of a chunk in GridFS are four.
_COPIED: Final = frozenset(_FIXED) | {0x02, 0x05}
_COPYING: Final = 16
_FIRST_FIELDS: Final = 8


class _Batch(NamedTuple):
    """Where the batch of a reply is: its name, and the bounds of the cursor's document and of the array."""

    field: str
    cursor: int
    start: int
    end: int


class _Boundary(NamedTuple):
    """Where an element of the batch begins, and its number; or where the batch ends."""

    position: int
    number: int


def decode_in_slices(
    body: memoryview, codec_options: CodecOptions[Any], fields: Mapping[str, Any] | None
) -> Generator[dict[str, Any], None, dict[str, Any]]:
    """Decode a reply like `documents.decode_reply`, with the same results and errors.

    Yields:
        Before each slice: the reply, whose batch is still incomplete. Nothing if there is no batch.
    """
    codecs = codecs_of(codec_options)
    batch = _batch_to_cut(body, codecs, fields)
    if batch is None:
        return decode_reply(body, codec_options, fields)
    if codec_options.document_class is RawBatch:
        return (yield from _cut(body, batch, codec_options, fields))
    # After a wrong guess, part of a slice is decoded again. Code of the application must not see that.
    guesses = codec_options.document_class in (dict, DocumentView) and not codecs
    plain = plain_options(codec_options)
    views = codec_options if guesses and codec_options.document_class is DocumentView else None
    if views is not None:
        codec_options = plain
    try:
        reply: dict[str, Any] = bson.decode(_without_batch(body, batch), plain)
        documents: list[Any] = reply["cursor"][batch.field]
        here, end = _Boundary(batch.start + 4, 0), batch.end - 1
        # What may still be decoded before the next yield.
        left = 0
        while here.position < end:
            large = _large_document(body, here, end) if guesses else None
            if large is not None and views is not None:
                start, stop = large
                view = _view(body[start:stop], views, plain)
                if view is not None:
                    # Of a slice's length each, there are too few to take long.
                    documents.append(view)
                    here = _Boundary(stop, here.number + 1)
                    continue
            cost = SLICE if large is None else _cost(body, *large)
            if cost > left:
                yield reply
                left = SLICE
            left -= cost
            if large is not None:
                documents.append(_decode_large(body, here, large, codec_options))
                here = _Boundary(large[1], here.number + 1)
                continue
            guess = _likely_boundary(body, here, end) if guesses else None
            there = guess or _next_boundary(body, here, end)
            try:
                documents += _decode_elements(body[here.position : there.position], codec_options)
            except Exception:
                if guess is None:
                    raise
                guesses = False  # probably, the documents have long arrays of documents themselves
            else:
                here = there
    except Exception:
        # Decoding all of it raises the error that belongs to it, if there is one, even where several are possible.
        return decode_reply(body, codec_options, fields)
    return reply


def _cut(
    body: memoryview, batch: _Batch, codec_options: CodecOptions[Any], fields: Mapping[str, Any] | None
) -> Generator[dict[str, Any], None, dict[str, Any]]:
    """Decode a reply, but cut its batch into documents only, by their lengths."""
    documents = EncodedDocuments()
    position, end = batch.start + 4, batch.end - 1
    try:
        reply: dict[str, Any] = bson.decode(_without_batch(body, batch), plain_options(codec_options))
        reply["cursor"][batch.field] = documents
        while position < end:
            yield reply
            stop = min(position + SLICE, end)
            while position < stop:
                key = b"\x03%d\0" % len(documents)
                start = position + len(key)
                size = _SIZE.unpack_from(body, start)[0]
                following = start + size
                if body[position:start] != key or size < len(_EMPTY) or following > end or body[following - 1]:
                    return decode_reply(body, codec_options, fields)
                documents.append(bytes(body[start:following]))
                position = following
    except Exception:
        return decode_reply(body, codec_options, fields)
    return reply


def decode_unread(body: bytes | bytearray | memoryview) -> dict[str, Any]:
    """Decode a reply that no caller receives. A large batch is left out, unless something about the reply is odd.

    Raises:
        ProtocolError: The server sent invalid BSON.
    """
    if len(body) > SLICE:
        view = memoryview(body)
        batch = _find_batch(view, "firstBatch") or _find_batch(view, "nextBatch")
        if batch is not None:
            body = _without_batch(view, batch)
    return decode_reply(body, LENIENT, {})


# --- slices ---


def _likely_boundary(body: memoryview, here: _Boundary, end: int) -> _Boundary | None:
    """Return a place behind a slice from `here` on that looks like an element of the batch, or None if there is none.

    An array in a document looks like that too.
    """
    start = here.position + SLICE
    if start >= end:
        return _Boundary(end, 0)
    for match in re.finditer(_NUMBERED, body[start : min(start + _WINDOW, end)]):
        position, number = start + match.start(), int(match[1])
        after = position + len(match[0]) + _SIZE.unpack_from(body, start + match.end())[0]
        following = b"\x03%d\0" % (number + 1)
        if number > here.number and (after == end or body[after : after + len(following)] == following):
            return _Boundary(position, number)
    return None


def _large_document(body: memoryview, here: _Boundary, end: int) -> tuple[int, int] | None:
    """Return the bounds of the next document if it is a slice of its own, which needs no copy."""
    key = b"\x03%d\0" % here.number
    start = here.position + len(key)
    if body[here.position : start] != key:
        return None
    stop = start + _SIZE.unpack_from(body, start)[0]
    return (start, stop) if 2 * (stop - start) >= SLICE and stop <= end else None


def _view(document: memoryview, views: CodecOptions[Any], plain: CodecOptions[Any]) -> DocumentView | None:
    """Return a document without a copy of its largest value, or None if that is not binary data, or too far behind."""
    position, size = 4, len(document)
    for _ in range(_FIRST_FIELDS):
        element = _element(document, position)
        if element is None:
            return None
        start, position = element.start + len(_NO_DATA), element.end
        if 2 * (position - start) > size:
            break
    else:
        return None
    if element.kind != _BINARY or document[start - 1] or position >= size:
        return None
    rest = bytearray(b"".join((document[: element.start], _NO_DATA, document[position:])))
    _SIZE.pack_into(rest, 0, len(rest))
    view = DocumentView(document, views)
    view.fields = bson.decode(bytes(rest), plain)
    if "$ref" in view.fields:
        return None
    view.fields[element.key.decode()] = document[start:position]
    return view


def _cost(body: memoryview, start: int, stop: int) -> int:
    """Return how many bytes of a slice of small documents take as long to decode as this document.

    A large string or binary value is copied, which takes much less time.
    """
    size = stop - start
    position = start + 4
    for _ in range(_FIRST_FIELDS):
        element = _element(body, position)
        if element is None or element.kind not in _COPIED:
            return size
        if 2 * (element.end - element.start) > size:
            return size // _COPYING
        position = element.end
    return size


def _next_boundary(body: memoryview, here: _Boundary, end: int) -> _Boundary:
    """Return where a slice from `here` on ends."""
    position, number = here
    stop = min(position + SLICE, end)
    while position < stop:
        # Type, key and its end.
        position += 2 + len(str(number))
        position += _SIZE.unpack_from(body, position)[0]
        number += 1
    if position > end:
        raise ValueError("an element ends outside of its array")
    return _Boundary(position, number)


def _decode_large(body: memoryview, here: _Boundary, large: tuple[int, int], codec_options: CodecOptions[Any]) -> Any:
    """Decode the next document, which has the bounds `large`."""
    start, stop = large
    document = bson.decode(body[start:stop], codec_options)
    if "$ref" in document:  # a DBRef perhaps, which bson makes only of a document inside of another one
        (document,) = _decode_elements(body[here.position : stop], codec_options)
    return document


def _decode_elements(elements: memoryview, codec_options: CodecOptions[Any]) -> list[Any]:
    size = len(elements)
    document = b"".join((_HEAD.pack(size + 13, _ELEMENT, size + 5), elements, b"\0\0"))
    decoded: list[Any] = bson.decode(document, codec_options)["v"]
    return decoded


# --- the reply around the batch ---


def _without_batch(body: memoryview, batch: _Batch) -> bytes:
    """Return the reply with an empty batch."""
    made = bytearray(b"".join((body[: batch.start], _EMPTY, body[batch.end :])))
    removed = len(body) - len(made)
    for position in (0, batch.cursor):
        _SIZE.pack_into(made, position, _SIZE.unpack_from(body, position)[0] - removed)
    return bytes(made)


def _batch_to_cut(body: memoryview, codecs: Sequence[Any] | None, fields: Mapping[str, Any] | None) -> _Batch | None:
    """Return where the batch is, or None if there is none, or the codecs must not see slices of it."""
    # A slice is an array too, which a decoder of arrays must not see.
    if not fields or "cursor" not in fields or see_arrays(codecs):
        return None
    ((field, nested),) = fields["cursor"].items()
    # Codecs may see only some values of each document: a slice would show them all.
    return None if codecs and isinstance(nested, dict) else _find_batch(body, field)


def _find_batch(body: memoryview, field: str) -> _Batch | None:
    """Return where the batch with the name `field` is, or None if the reply must be decoded whole."""
    try:
        # Otherwise the length of the rest could not be computed from the reply's own.
        if _SIZE.unpack_from(body)[0] != len(body):
            return None
        cursor = _bounds(body, 0, len(body), b"cursor", _DOCUMENT)
        batch = _bounds(body, *cursor, field.encode(), _ARRAY) if cursor is not None else None
    except (StructError, IndexError):  # it is cut off
        return None
    if cursor is None or batch is None or body[batch[1] - 1]:
        return None
    return _Batch(field, cursor[0], *batch)


def _bounds(body: memoryview, start: int, end: int, wanted: bytes, kind: int) -> tuple[int, int] | None:
    """Return the bounds of the value, of the type `kind`, of the document's only element with the key `wanted`.

    None if the document has no such element, or anything that no server sends.
    """
    found: tuple[int, int] | None = None
    position, end = start + 4, end - 1
    for _ in range(_MOST_ELEMENTS):
        if position >= end:
            return found if position == end else None
        element = _element(body, position)
        if element is None:
            return None
        position = element.end
        if element.key == wanted:
            if found is not None or element.kind != kind or position - element.start < len(_EMPTY):
                return None
            found = element.start, position
    return None


class _Element(NamedTuple):
    """An element of a document: its type, its key, and the bounds of its value."""

    kind: int
    key: bytes
    start: int
    end: int


def _element(body: memoryview, position: int) -> _Element | None:
    """Return the element that begins at `position`, or None if it has a type or a key that no server sends there.

    Raises:
        IndexError, struct.error: It is cut off.
    """
    kind = body[position]
    key = bytes(body[position + 1 : position + 1 + _LONGEST_KEY])
    length = key.find(b"\0")
    if length < 0:
        return None
    key = key[:length]
    start = position + 2 + len(key)
    if kind in _FIXED:
        return _Element(kind, key, start, start + _FIXED[kind])
    if kind in _ANNOUNCED:
        return _Element(kind, key, start, start + _SIZE.unpack_from(body, start)[0] + _ANNOUNCED[kind])
    return None
