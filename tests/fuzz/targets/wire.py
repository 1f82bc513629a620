"""What arrives on a socket: frames, OP_MSG, OP_COMPRESSED."""

from __future__ import annotations

from functools import partial
from random import Random
from struct import Struct
from typing import TYPE_CHECKING, Final

import bson

from motorlite._wire import op_msg
from motorlite._wire.compression import announced_size, compress, decompress, make_compressors
from motorlite._wire.frames import HEADER, HEADER_SIZE, OP_MSG, REPLY_HEADROOM, FrameReader
from motorlite.errors import ProtocolError
from tests.fuzz.target import Limit, Target

if TYPE_CHECKING:
    from motorlite._wire.compression import Compressor

_MAX_MESSAGE: Final = 1024 * 1024
_INT32: Final = Struct("<i")
_FLAGS: Final = Struct("<I")

# --- frames ---

# A second byte above this stands for zeros behind the stream, which make messages large.
_NO_ZEROS: Final = 240
_ZEROS: Final = 16 * 1024
# The buffer that is reused, and the smallest one of a large message.
_SMALL_BUFFER, _LARGE_BUFFER = 64 * 1024, 128 * 1024


def frames(data: bytes) -> None:
    """A stream that arrives in pieces: the same frames as at once, and no buffer beyond what has arrived.

    Raises nothing but ProtocolError.
    """
    if len(data) < 2:
        return
    stream = data[2:] + bytes(max(0, data[1] - _NO_ZEROS) * _ZEROS)
    expected, is_refused = _expected_frames(stream)
    assert _received(stream, max(data[0] + 1, len(stream) // 64)) == (expected, is_refused)
    reader, found = FrameReader(_MAX_MESSAGE), list[bytes]()
    try:
        found += map(bytes, reader.feed(stream))
        if is_refused:  # a wrong length behind frames makes the next call fail
            reader.feed(b"\0")
            raise AssertionError
    except ProtocolError:
        assert is_refused
    assert found == expected


def _expected_frames(stream: bytes) -> tuple[list[bytes], bool]:
    """Split a stream by the lengths in it; also whether one of them is wrong."""
    found: list[bytes] = []
    while len(stream) >= HEADER_SIZE:
        length = _INT32.unpack_from(stream)[0]
        if not HEADER_SIZE <= length <= _MAX_MESSAGE + REPLY_HEADROOM:
            return found, True
        if length > len(stream):
            break
        found.append(stream[:length])
        stream = stream[length:]
    return found, False


def _received(stream: bytes, size: int) -> tuple[list[bytes], bool]:
    """Receive a stream as sockets do."""
    reader, found, position = FrameReader(_MAX_MESSAGE), list[bytes](), 0
    while position < len(stream):
        space = reader.buffer()
        part = stream[position : position + min(size, len(space))]
        assert part
        space[: len(part)] = part
        position += len(part)
        try:
            frame: bytes | bytearray | None = reader.received_one(len(part))
            while frame is not None or (frame := reader.next_frame()) is not None:
                found.append(bytes(frame))
                frame = None
        except ProtocolError:
            return found, True
        kept = reader._part
        assert kept is None or len(kept) <= max(16 * reader._part_filled, _LARGE_BUFFER)
        assert not reader._filled, "something is left in the shared buffer"
    return found, False


# --- OP_MSG ---

_WITH_CHECKSUM: Final = 4


def message(data: bytes) -> None:
    """A frame that should be OP_MSG: encoded again it is the same message, and usual replies are recognized.

    Raises nothing but ProtocolError. An odd first byte stands for a correct checksum, where there is one.
    """
    if len(data) < HEADER_SIZE:
        return
    frame = _INT32.pack(len(data)) + data[4:]
    if data[0] & 1 and len(data) >= HEADER_SIZE + 2 * _WITH_CHECKSUM:
        frame = frame[:-4] + op_msg.crc32c(frame[:-4]).to_bytes(4, "little")
    response_to = _INT32.unpack_from(frame, 8)[0]
    sole = op_msg.sole_body(frame, response_to)
    try:
        parsed = op_msg.parse(frame)
    except ProtocolError:
        assert sole is None
        return
    assert parsed.response_to == response_to
    assert not _FLAGS.unpack_from(frame, HEADER_SIZE)[0] & 0xFFFC, "bits that must be understood"
    assert all(_INT32.unpack_from(each)[0] == len(each) for each in (parsed.body, *_documents(parsed)))
    assert len(parsed.body) + sum(map(len, _documents(parsed))) <= len(frame) - HEADER_SIZE
    if sole is not None:
        assert (bytes(sole), None, False) == (bytes(parsed.body), parsed.sequences, parsed.more_to_come)
        assert op_msg.sole_body(frame, response_to ^ 1) is None
    again = op_msg.parse(
        op_msg.encode(
            parsed.request_id,
            bytes(parsed.body),
            [(name, [*map(bytes, found)]) for name, found in (parsed.sequences or {}).items()],
            op_msg.MORE_TO_COME if parsed.more_to_come else 0,
        )
    )
    assert (again.request_id, again.more_to_come) == (parsed.request_id, parsed.more_to_come)
    assert again.body == parsed.body
    assert _documents(again) == _documents(parsed)


def _documents(parsed: op_msg.Message) -> list[memoryview]:
    return [each for found in (parsed.sequences or {}).values() for each in found]


# --- OP_COMPRESSED ---

_COMPRESSORS: Final = {each.name: each for each in make_compressors(("zlib", "zstd", "snappy"))[0]}


def compressed(compressor: Compressor, data: bytes) -> None:
    """The content of an OP_COMPRESSED message, behind the size that it announces and the original opcode.

    Raises nothing but ProtocolError: the content has exactly the announced size.
    """
    if len(data) < 8:
        return
    size, op_code = Struct("<ii").unpack_from(data)
    frame = Struct("<iiiiiiB").pack(len(data) + 17, 1, 2, 2012, op_code, size, compressor.id) + data[8:]
    assert announced_size(frame) == size
    try:
        found = decompress(frame, {compressor.id: compressor}, _MAX_MESSAGE)
    except ProtocolError:
        return
    assert len(found) == HEADER_SIZE + size <= _MAX_MESSAGE
    assert HEADER.unpack_from(found) == (len(found), 1, 2, op_code)
    again = compress(bytes(found), compressor)
    assert bytes(decompress(again, {compressor.id: compressor}, _MAX_MESSAGE)) == found


# --- seeds ---

_HELLO: Final = bson.encode({"ok": 1.0, "isWritablePrimary": True, "maxWireVersion": 21})
_SEQUENCES: Final = [("documents", [_HELLO, bson.encode({})]), ("ops", [])]
_MESSAGES: Final = (
    op_msg.encode(7, _HELLO),
    op_msg.encode(7, _HELLO, (), op_msg.MORE_TO_COME),
    op_msg.encode(7, _HELLO, _SEQUENCES),
    op_msg.encode(7, _HELLO + bytes(4), (), op_msg.CHECKSUM_PRESENT),
)


def _compressed_seeds(compressor: Compressor) -> list[bytes]:
    contents = [b"", _HELLO, b"the content of a message, " * 40, bytes(60_000), Random(1).randbytes(500)]
    return [Struct("<ii").pack(len(content), OP_MSG) + compressor.compress(memoryview(content)) for content in contents]


def _compressed_target(compressor: Compressor) -> Target:
    return Target(
        f"compressed-{compressor.name}",
        partial(compressed, compressor),
        _compressed_seeds(compressor),
        ("_wire.compression",),
        weight=400,
        # The state of zlib; and a byte is at most a thousand of the content, each held twice or thrice for a moment.
        memory=Limit(512 * 1024, 4_000),
    )


TARGETS: Final = (
    Target(
        "frames",
        frames,
        [bytes([size, 0]) + b"".join(_MESSAGES) for size in (0, 30, 255)]
        + [b"\xff\xff" + HEADER.pack(size, 1, 2, OP_MSG) for size in (70_000, 200_000, _MAX_MESSAGE + REPLY_HEADROOM)],
        ("_wire.frames",),
        weight=500,
        # The zeros, and their frames.
        memory=Limit(2 * 1024 * 1024, 20),
    ),
    Target("message", message, _MESSAGES, ("_wire.op_msg",), weight=1200),
    *map(_compressed_target, _COMPRESSORS.values()),
)
