"""Pure: OP_MSG messages, encoded and parsed (specification "OP_MSG").

A message has flags and sections: one section of kind 0 (the command or the reply) and any number of kind 1 (document
sequences). With `CHECKSUM_PRESENT` it ends with a CRC-32C, which is verified.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Final

from motorlite._wire.frames import HEADER_SIZE, OP_MSG
from motorlite.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Sequence


# CRC-32C (Castagnoli), the checksum of OP_MSG. Servers send it only on request, so plain Python is enough.

_POLYNOMIAL = 0x82F63B78


def _table() -> tuple[int, ...]:
    entries = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ _POLYNOMIAL if value & 1 else value >> 1
        entries.append(value)
    return tuple(entries)


_TABLE = _table()


def crc32c(data: bytes | memoryview) -> int:
    """The checksum of `data` as an unsigned 32-bit integer."""
    value = 0xFFFFFFFF
    for byte in bytes(data):
        value = (value >> 8) ^ _TABLE[(value ^ byte) & 0xFF]
    return value ^ 0xFFFFFFFF


CHECKSUM_PRESENT: Final = 1
MORE_TO_COME: Final = 1 << 1
EXHAUST_ALLOWED: Final = 1 << 16
# Unknown bits 0 to 15 must be rejected; unknown bits above are ignored.
_REQUIRED_BITS: Final = 0xFFFF

# Header, flags and the kind byte of a first section of kind 0: the start of nearly every message.
_PREFIX: Final = Struct("<iiiiIB")
_PREFIX_SIZE: Final = _PREFIX.size

# What comes before the fields of a document that is the only section of a request without flags:
# ``start(START_SIZE + size, request_id, FIXED, size)`` for a document of `size` bytes.
start: Final = Struct("<ii13si").pack
START_SIZE: Final = _PREFIX_SIZE
FIXED: Final = _PREFIX.pack(0, 0, 0, OP_MSG, 0, 0)[8:]

_FLAGS: Final = Struct("<I")
_INT32: Final = Struct("<i")
_SMALLEST_DOCUMENT: Final = 5
# Of a reply: responseTo, opCode, flags, the kind byte and the length of the document.
_REPLY: Final = Struct("<8xiiIBi")
# Bytes from which a view of a body costs less than a copy.
_WORTH_A_VIEW: Final = 8 * 1024


@dataclass(slots=True, eq=False, repr=False)
class Message:
    """A parsed OP_MSG message. `body` and the documents of `sequences` are views of the received bytes."""

    request_id: int
    response_to: int
    # The sender will send another message without a request (exhaust replies).
    more_to_come: bool
    body: memoryview
    sequences: dict[str, list[memoryview]] | None


def encode(
    request_id: int,
    body: bytes,
    sequences: Sequence[tuple[str, Sequence[bytes]]] = (),
    flags: int = 0,
) -> bytes:
    """Encode a message with `body` as its section of kind 0 and `sequences` as sections of kind 1."""
    if not sequences:
        return _PREFIX.pack(_PREFIX_SIZE + len(body), request_id, 0, OP_MSG, flags, 0) + body
    parts = [b"", body]
    length = _PREFIX_SIZE + len(body)
    for identifier, documents in sequences:
        name = identifier.encode() + b"\0"
        size = 4 + len(name) + sum(map(len, documents))
        parts += (b"\x01", _INT32.pack(size), name, *documents)
        length += 1 + size
    parts[0] = _PREFIX.pack(length, request_id, 0, OP_MSG, flags, 0)
    return b"".join(parts)


def sole_body(frame: bytes | bytearray, request_id: int) -> bytes | bytearray | memoryview | None:
    """Return the body of `frame` if it is what servers usually send: one section without flags that replies to us.

    None means that only `parse` can tell. Making a `Message` of every reply would cost twice as much.
    """
    size = len(frame) - _PREFIX_SIZE
    if size < _SMALLEST_DOCUMENT or _REPLY.unpack_from(frame) != (request_id, OP_MSG, 0, 0, size):
        return None
    return frame[_PREFIX_SIZE:] if size < _WORTH_A_VIEW else memoryview(frame)[_PREFIX_SIZE:]


def parse(frame: bytes | bytearray) -> Message:
    """Parse `frame`, one whole message as returned by `FrameReader`.

    Raises:
        ProtocolError: `frame` is not a well-formed OP_MSG.
    """
    try:
        length, request_id, response_to, op_code, flags, kind = _PREFIX.unpack_from(frame)
    except StructError:
        raise ProtocolError(f"a message of {len(frame)} bytes is too short for OP_MSG") from None
    if op_code != OP_MSG:
        raise ProtocolError(f"expected OP_MSG ({OP_MSG}), got a message with opcode {op_code}")
    if flags & _REQUIRED_BITS & ~(CHECKSUM_PRESENT | MORE_TO_COME):
        raise ProtocolError(f"OP_MSG has unknown required flag bits: {flags:#x}")
    view = memoryview(frame)
    if not flags & CHECKSUM_PRESENT and kind == 0 and length - _PREFIX_SIZE >= _SMALLEST_DOCUMENT:
        body = view[_PREFIX_SIZE:]
        if _INT32.unpack_from(body)[0] == length - _PREFIX_SIZE:  # one section, the common case
            return Message(request_id, response_to, flags & MORE_TO_COME != 0, body, None)
    end = length
    if flags & CHECKSUM_PRESENT:
        end -= 4
        if end < HEADER_SIZE + 4 or crc32c(view[:end]) != _FLAGS.unpack_from(frame, end)[0]:
            raise ProtocolError("the checksum of an OP_MSG message is wrong")
    section_body, sequences = _parse_sections(view[HEADER_SIZE + 4 : end])
    return Message(request_id, response_to, flags & MORE_TO_COME != 0, section_body, sequences)


def _parse_sections(sections: memoryview) -> tuple[memoryview, dict[str, list[memoryview]]]:
    body: memoryview | None = None
    sequences: dict[str, list[memoryview]] = {}
    position = 0
    while position < len(sections):
        kind = sections[position]
        position += 1
        size = _size_at(sections, position)
        payload = sections[position : position + size]
        position += size
        if kind == 0:
            if body is not None:
                raise ProtocolError("OP_MSG has more than one section of kind 0")
            if size < _SMALLEST_DOCUMENT:
                raise ProtocolError(f"a document cannot have {size} bytes")
            body = payload
        elif kind == 1:
            name, documents = _parse_sequence(payload)
            if name in sequences:
                raise ProtocolError(f"OP_MSG repeats the document sequence {name!r}")
            sequences[name] = documents
        else:
            raise ProtocolError(f"OP_MSG has a section of unknown kind {kind}")
    if body is None:
        raise ProtocolError("OP_MSG has no section of kind 0")
    return body, sequences


def _parse_sequence(payload: memoryview) -> tuple[str, list[memoryview]]:
    raw = bytes(payload[4:])
    end = raw.find(b"\0")
    if end < 0:
        raise ProtocolError("a document sequence has no identifier")
    try:
        name = raw[:end].decode()
    except UnicodeDecodeError:
        raise ProtocolError("the identifier of a document sequence is not UTF-8") from None
    documents = []
    position = 4 + end + 1
    while position < len(payload):
        size = _size_at(payload, position)
        if size < _SMALLEST_DOCUMENT:
            raise ProtocolError(f"a document cannot have {size} bytes")
        documents.append(payload[position : position + size])
        position += size
    return name, documents


def _size_at(data: memoryview, position: int) -> int:
    """The int32 size at `position`, checked against the end of `data`."""
    if position + 4 > len(data):
        raise ProtocolError("an OP_MSG section is cut off")
    size: int = _INT32.unpack_from(data, position)[0]
    if size < 4 or position + size > len(data):
        raise ProtocolError(f"an OP_MSG section announces {size} bytes, more than the message has")
    return size
