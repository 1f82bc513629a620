"""Shell: a stream that compresses what is sent and decompresses what arrives.

It is put around a connection's own stream only where the client has compressors, so that connections without any pay
nothing for it. Compression is done on the event loop: it is the price that the option asks for, and a message that
was taken to a thread could be cancelled half-way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._wire.compression import Noop, choose, compress, decompress, may_compress
from motorlite._wire.frames import REPLY_HEADROOM

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from motorlite._net.runtime import FrameStream
    from motorlite._wire.compression import Compressor
    from motorlite._wire.frames import FrameReader


class CompressedStream:
    """A FrameStream around another one."""

    __slots__ = ("_by_id", "_compressor", "_framer", "_offered", "_stream")

    def __init__(self, stream: FrameStream, framer: FrameReader, offered: Sequence[Compressor]) -> None:
        self._stream = stream
        # Knows how large a message of this server may be.
        self._framer = framer
        self._offered = offered
        # Once they are offered, the server may use any of them, for the reply to hello as well.
        self._by_id: dict[int, Compressor] = {compressor.id: compressor for compressor in (Noop(), *offered)}
        # Of requests; None until hello told.
        self._compressor: Compressor | None = None

    def agree(self, accepted: Iterable[Any]) -> FrameStream:
        """Hello told which compressors the server accepts. What to go on with: without any, the stream inside."""
        self._compressor = choose(self._offered, accepted)
        return self if self._compressor is not None else self._stream

    @property
    def is_closed(self) -> bool:
        return self._stream.is_closed

    @property
    def has_unsent(self) -> bool:
        return self._stream.has_unsent

    async def exchange(self, data: bytes, until: float) -> bytes | bytearray:
        return self._unpack(await self._stream.exchange(self._pack(data), until))

    async def receive(self, until: float) -> bytes | bytearray:
        return self._unpack(await self._stream.receive(until))

    async def send(self, data: bytes, until: float) -> None:
        await self._stream.send(self._pack(data), until)

    def is_healthy(self) -> bool:
        return self._stream.is_healthy()

    def abort(self) -> None:
        self._stream.abort()

    def _pack(self, message: bytes) -> bytes:
        compressor = self._compressor
        if compressor is None or not may_compress(message):
            return message
        packed = compress(message, compressor)
        # What cannot be compressed grows; a server refuses a message above its limit, whatever is in it.
        return packed if len(packed) <= self._framer.max_message_size else message

    def _unpack(self, frame: bytes | bytearray) -> bytes | bytearray:
        return decompress(frame, self._by_id, self._framer.max_message_size + REPLY_HEADROOM)
