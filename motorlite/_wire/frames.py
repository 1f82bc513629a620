"""Pure: cuts a stream of bytes into messages, however the bytes arrive.

Ask for `buffer()`, put bytes there, say `received(count)`, take `next_frame()` until it answers None (more data is
needed). The buffer of 64 KiB is reused; a larger message gets a buffer of its own that grows as its bytes arrive, so
that an announced length alone never makes the driver allocate.
"""

from __future__ import annotations

from typing import Final

from motorlite._wire.header import HEADER, HEADER_SIZE, MAX_MESSAGE_SIZE
from motorlite.errors import ProtocolError

_BUFFER_SIZE: Final = 64 * 1024
# Servers add some overhead to the sizes that they announce for requests.
REPLY_HEADROOM: Final = 16 * 1024


class FrameReader:
    """The receiving end of one connection."""

    __slots__ = ("_buffer", "_filled", "_large", "_large_filled", "_large_length", "_view", "max_message_size")

    def __init__(self, max_message_size: int = MAX_MESSAGE_SIZE) -> None:
        # Bytes; set anew when hello has told the server's maxMessageSizeBytes.
        self.max_message_size = max_message_size
        self._buffer = bytearray(_BUFFER_SIZE)
        self._view = memoryview(self._buffer)
        # How much of `_buffer` holds received bytes.
        self._filled = 0
        # A message larger than `_buffer`: its bytes so far, their number, and its announced length.
        self._large: bytearray | None = None
        self._large_filled = 0
        self._large_length = 0

    def buffer(self) -> memoryview:
        """Where the next bytes go; never empty."""
        large = self._large
        if large is None:
            return self._view[self._filled :]
        if self._large_filled == len(large):
            # Doubling copies each byte twice at most, and never runs ahead of what has arrived.
            large.extend(bytes(min(len(large), self._large_length - len(large))))
        return memoryview(large)[self._large_filled :]

    def received(self, count: int) -> None:
        """`count` bytes were put at the start of `buffer()`."""
        if self._large is None:
            self._filled += count
        else:
            self._large_filled += count

    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes | bytearray]:
        """Take over all of `data` and answer the messages that it completes; for streams that hand out bytes.

        Raises:
            ProtocolError: as `next_frame`, but only once the messages before it have been answered.
        """
        frames: list[bytes | bytearray] = []
        rest = memoryview(data)
        while rest:
            target = self.buffer()
            count = min(len(target), len(rest))
            target[:count] = rest[:count]
            target.release()
            self.received(count)
            rest = rest[count:]
            try:
                while (frame := self.next_frame()) is not None:
                    frames.append(frame)
            except ProtocolError:
                if not frames:
                    raise
                break  # what is left in the buffer makes the next call fail
        return frames

    def next_frame(self) -> bytes | bytearray | None:
        """The next whole message, or None when more bytes are needed.

        Raises:
            ProtocolError: the announced length is impossible; the stream cannot be used any further.
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
        length: int = HEADER.unpack_from(self._buffer)[0]
        if length == filled:  # exactly one message, the common case
            self._filled = 0
            return bytes(self._view[:length])
        if length < HEADER_SIZE or length > self.max_message_size + REPLY_HEADROOM:
            raise ProtocolError(
                f"a message announces {length} bytes; allowed are {HEADER_SIZE} to {self.max_message_size}",
            )
        if length < filled:
            frame = bytes(self._view[:length])
            self._buffer[: filled - length] = self._buffer[length:filled]
            self._filled = filled - length
            return frame
        if length > _BUFFER_SIZE:
            self._make_large(length)
        return None

    def _make_large(self, length: int) -> None:
        self._large = bytearray(self._view[: self._filled])
        self._large.extend(bytes(min(_BUFFER_SIZE, length - self._filled)))
        self._large_filled = self._filled
        self._large_length = length
        self._filled = 0

    @property
    def is_empty(self) -> bool:
        """Whether no part of a message has arrived."""
        return self._filled == 0 and self._large is None
