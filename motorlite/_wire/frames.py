"""Pure: splits a stream of bytes into messages, however the bytes arrive.

Write bytes into `buffer()`, call `received(count)`, then call `next_frame()` until it returns None (more data is
needed). The 64 KiB buffer is reused. A larger message gets its own buffer, which grows as bytes arrive: an announced
length alone never makes the driver allocate. It grows in few and large steps, because each one copies what is there.
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


_BUFFER_SIZE: Final = 64 * 1024
_LENGTH: Final = Struct("<i")
# A large message's buffer is at most this many times as large as what has arrived.
_GROWTH: Final = 16
# Servers announce size limits for requests; their replies may exceed these by some overhead.
REPLY_HEADROOM: Final = 16 * 1024
# What the answer of a web server begins with.
_HTTP: Final = b"HTTP/"


class FrameReader:
    """The receiving end of one connection."""

    __slots__ = ("_buffer", "_filled", "_large", "_large_filled", "_large_length", "_view", "max_message_size")

    def __init__(self, max_message_size: int = MAX_MESSAGE_SIZE) -> None:
        # Bytes; updated with the server's maxMessageSizeBytes from hello.
        self.max_message_size: int = max_message_size
        self._buffer = bytearray(_BUFFER_SIZE)
        self._view = memoryview(self._buffer)
        # The number of received bytes in `_buffer`.
        self._filled = 0
        # A message larger than `_buffer`: its bytes so far, their count, and its announced length.
        self._large: bytearray | None = None
        self._large_filled = 0
        self._large_length = 0

    def buffer(self) -> memoryview:
        """The space for the next bytes; never empty. It may be the same view each time, so do not release it.

        A large message moves to a larger buffer later, so keep no view of it either.
        """
        large = self._large
        if large is None:
            filled = self._filled
            return self._view[filled:] if filled else self._view
        if self._large_filled == len(large):
            self._large = large = _grown(large, self._large_length)
        return memoryview(large)[self._large_filled :]

    def received(self, count: int) -> None:
        """Record that `count` bytes were written at the start of `buffer()`."""
        if self._large is None:
            self._filled += count
        else:
            self._large_filled += count

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
        if self._large is not None:
            self._large_filled += count
            return None
        self._filled = filled = self._filled + count
        if filled < HEADER_SIZE or _LENGTH.unpack_from(self._buffer)[0] != filled:
            return None
        self._filled = 0
        return self._buffer[:filled]

    def next_frame(self) -> bytes | bytearray | None:
        """Return the next whole message, or None if more bytes are needed.

        Raises:
            ProtocolError: the announced length is invalid; the stream is unusable.
        """
        large = self._large
        if large is not None:
            if self._large_filled < self._large_length:
                return None
            self._large = None
            return large
        filled = self._filled
        if filled < HEADER_SIZE:
            return None
        length: int = _LENGTH.unpack_from(self._buffer)[0]
        if length == filled:
            self._filled = 0
            return self._buffer[:length]
        if length < HEADER_SIZE or length > self.max_message_size + REPLY_HEADROOM:
            if self._buffer.startswith(_HTTP):
                raise ProtocolError("the peer speaks HTTP: this is the port of a web server, not of MongoDB")
            raise ProtocolError(
                f"a message announces {length} bytes; allowed are {HEADER_SIZE} to {self.max_message_size}",
            )
        if length < filled:
            frame = self._buffer[:length]
            self._buffer[: filled - length] = self._buffer[length:filled]
            self._filled = filled - length
            return frame
        if length > _BUFFER_SIZE:
            self._large = _grown(self._view[:filled], length)
            self._large_filled, self._large_length, self._filled = filled, length, 0
        return None

    @property
    def is_empty(self) -> bool:
        """Whether no part of a message has arrived."""
        return self._filled == 0 and self._large is None


def _grown(arrived: bytearray | memoryview, length: int) -> bytearray:
    """Return a larger buffer, for a message of `length` bytes, that begins with what has arrived."""
    grown = bytearray(min(max(_GROWTH * len(arrived), 2 * _BUFFER_SIZE), length))
    grown[: len(arrived)] = arrived
    return grown
