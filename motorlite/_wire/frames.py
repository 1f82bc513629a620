"""Pure: splits a stream of bytes into messages, however the bytes arrive.

Write bytes into `buffer()`, call `received(count)`, then call `next_frame()` until it returns None (more data is
needed). All connections on an event loop share one buffer of 64 KiB, in which nothing stays: what has arrived of an
incomplete message moves to a buffer of its own, so an idle connection needs none. That buffer grows as bytes arrive: an
announced length alone never makes the driver allocate. It grows in few and large steps, because each one copies what is
there.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from motorlite.errors import ProtocolError

# The message header that every MongoDB wire protocol message starts with.

OP_COMPRESSED: Final = 2012
OP_MSG: Final = 2013

# length, requestID, responseTo, opCode; all little-endian int32.
HEADER: Final = Struct("<iiii")
HEADER_SIZE: Final = HEADER.size

# Servers may announce any limit; this one applies until the handshake.
MAX_MESSAGE_SIZE: Final = 48_000_000


BUFFER_SIZE: Final = 64 * 1024
_LENGTH: Final = Struct("<i")
# The buffer of an incomplete message is at most this many times as large as what has arrived.
_GROWTH: Final = 16
# Servers announce size limits for requests; their replies may exceed these by some overhead.
REPLY_HEADROOM: Final = 16 * 1024
# What the answer of a web server begins with.
_HTTP: Final = b"HTTP/"


class ReceiveBuffer:
    """Where the connections on one event loop receive, one after the other."""

    __slots__ = ("data", "view")

    def __init__(self) -> None:
        self.data: bytearray = bytearray(BUFFER_SIZE)
        self.view: memoryview = memoryview(self.data)


class FrameReader:
    """The receiving end of one connection."""

    __slots__ = ("_data", "_filled", "_part", "_part_filled", "_part_length", "_view", "max_message_size")

    def __init__(self, max_message_size: int = MAX_MESSAGE_SIZE, shared: ReceiveBuffer | None = None) -> None:
        # Bytes; updated with the server's maxMessageSizeBytes from hello.
        self.max_message_size: int = max_message_size
        shared = shared or ReceiveBuffer()
        self._data, self._view = shared.data, shared.view
        # The number of received bytes in the shared buffer. Between two reads, it is 0 unless the stream has closed.
        self._filled = 0
        # An incomplete message: its bytes so far, their count, and its announced length, or 0 while its header is
        # incomplete.
        self._part: bytearray | None = None
        self._part_filled = 0
        self._part_length = 0

    def buffer(self) -> memoryview:
        """The space for the next bytes; never empty. It may be the same view each time, so do not release it.

        A message moves to a larger buffer later, so keep no view of it either.
        """
        part = self._part
        if part is None:
            filled = self._filled
            return self._view[filled:] if filled else self._view
        if self._part_filled == len(part):
            if not self._part_length:  # `next_frame` refuses its header
                return self._view
            self._part = part = _grown(part, self._part_length)
        return memoryview(part)[self._part_filled :]

    def received(self, count: int) -> None:
        """Record that `count` bytes were written at the start of `buffer()`. Then call `next_frame` as said above."""
        if self._part is None:
            self._filled += count
        else:
            self._part_filled += count

    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes | bytearray]:
        """Consume all of `data` and return the messages that it completes; for streams that return bytes.

        Raises:
            ProtocolError: as `next_frame`, but only after the preceding messages have been returned.
        """
        frames: list[bytes | bytearray] = []
        rest = memoryview(data)
        while rest:
            with memoryview(self.buffer()) as target:
                count = min(len(target), len(rest))
                target[:count] = rest[:count]
            self.received(count)
            rest = rest[count:]
            try:
                while (frame := self.next_frame()) is not None:
                    frames.append(frame)
            except ProtocolError:
                if not frames:
                    raise
                break  # the rest of the buffer makes the next call fail
        return frames

    def received_one(self, count: int) -> bytearray | None:
        """Like `received`. Return the message if the buffer now holds exactly one, as it nearly always does.

        Else None: call `next_frame`.
        """
        if self._part is not None:
            self._part_filled += count
            return None
        self._filled = filled = self._filled + count
        if filled < HEADER_SIZE or _LENGTH.unpack_from(self._data)[0] != filled:
            return None
        self._filled = 0
        return self._data[:filled]

    def whole(self, data: bytes) -> bytes | None:
        """Return `data` if it is exactly one message, as it nearly always is: at most `BUFFER_SIZE` bytes.

        Else keep it, and return None: call `next_frame`. Only while `is_empty`.
        """
        count = len(data)
        if count >= HEADER_SIZE and _LENGTH.unpack_from(data)[0] == count:
            return data
        self._data[:count] = data
        self._filled = count
        return None

    def next_frame(self) -> bytes | bytearray | None:
        """Return the next whole message, or None if more bytes are needed.

        Raises:
            ProtocolError: the announced length is invalid; the stream is unusable.
        """
        if self._part is not None:
            return self._next_part(self._part)
        filled = self._filled
        if filled < HEADER_SIZE:
            if filled:
                self._move(filled, HEADER_SIZE, 0)
            return None
        length: int = _LENGTH.unpack_from(self._data)[0]
        if length == filled:
            self._filled = 0
            return self._data[:length]
        if not HEADER_SIZE <= length <= self.max_message_size + REPLY_HEADROOM:
            self._move(HEADER_SIZE, HEADER_SIZE, 0)  # the next call raises, too
            raise self._refused(length)
        if length < filled:
            frame = self._data[:length]
            self._data[: filled - length] = self._data[length:filled]
            self._filled = filled - length
            return frame
        self._move(filled, length, length)
        return None

    def _move(self, filled: int, length: int, announced: int) -> None:
        """Leave the shared buffer to the other connections."""
        self._part = _grown(self._view[:filled], length)
        self._part_filled, self._part_length, self._filled = filled, announced, 0

    def _next_part(self, part: bytearray) -> bytearray | None:
        filled = self._part_filled
        if not self._part_length:
            if filled < HEADER_SIZE:
                return None
            length: int = _LENGTH.unpack_from(part)[0]
            if not HEADER_SIZE <= length <= self.max_message_size + REPLY_HEADROOM:
                raise self._refused(length)
            self._part_length = length
        if filled < self._part_length:
            return None
        self._part = None
        return part

    def _refused(self, length: int) -> ProtocolError:
        if (self._part or b"").startswith(_HTTP):
            return ProtocolError("the peer speaks HTTP: this is the port of a web server, not of MongoDB")
        # SSH, Redis and mail servers begin with text; no length of a message that is allowed does.
        begin = bytes(self._part or b"")[:8]
        is_text = begin.isascii() and begin.decode().isprintable()
        hint = "; it begins with text: is this the port of another service?" if begin and is_text else ""
        return ProtocolError(
            f"a message announces {length} bytes; allowed are {HEADER_SIZE} to {self.max_message_size}{hint}"
        )

    @property
    def is_empty(self) -> bool:
        """Whether no part of a message has arrived."""
        return self._filled == 0 and self._part is None


def _grown(arrived: bytearray | memoryview, length: int) -> bytearray:
    """Return a larger buffer, for a message of `length` bytes, that begins with what has arrived."""
    grown = bytearray(min(max(_GROWTH * len(arrived), 2 * BUFFER_SIZE), length))
    grown[: len(arrived)] = arrived
    return grown
