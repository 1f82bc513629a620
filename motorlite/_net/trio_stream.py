"""Net: a framed stream on trio: a bare trio socket, or trio's TLS over it."""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING

import trio

from motorlite._net.failures import describe
from motorlite.errors import AutoReconnect, NetworkTimeout, PyMongoError
from motorlite.values import format_address

if TYPE_CHECKING:
    from collections.abc import Iterator

    from motorlite._net.runtime import Framer
    from motorlite.values import Address

_CHUNK = 64 * 1024


class TrioStream:
    """A FrameStream on a trio socket."""

    __slots__ = ("_address", "_framer", "_frames", "_socket", "_tls", "has_unsent", "is_closed")

    def __init__(
        self,
        address: Address,
        framer: Framer,
        socket: trio.socket.SocketType,
        tls: trio.SSLStream[trio.SocketStream] | None,
    ) -> None:
        self._address = address
        self._framer = framer
        self._socket = socket
        # None: plain; reading and writing then go straight to the socket.
        self._tls = tls
        # Messages that arrived together with an earlier one.
        self._frames: deque[bytes | bytearray] = deque()
        self.is_closed = False
        # True while (and after an interrupted) write of a request.
        self.has_unsent = False

    async def exchange(self, data: bytes, until: float) -> bytes | bytearray:
        self._check_open()
        if until == inf:
            with self._translated():
                await self._write(data)
                return await self._read()
        with self._limited(until):
            await self._write(data)
            return await self._read()

    async def receive(self, until: float) -> bytes | bytearray:
        if self._frames:
            await trio.lowlevel.checkpoint()
            return self._frames.popleft()
        self._check_open()
        with self._limited(until):
            return await self._read()

    async def send(self, data: bytes, until: float) -> None:
        self._check_open()
        with self._limited(until):
            await self._write(data)

    async def _write(self, data: bytes) -> None:
        self.has_unsent = True
        if self._tls is not None:
            await self._tls.send_all(data)
        else:
            sent = await self._socket.send(data)
            if sent < len(data):
                rest = memoryview(data)[sent:]
                while rest:
                    rest = rest[await self._socket.send(rest) :]
        self.has_unsent = False

    async def _read(self) -> bytes | bytearray:
        framer = self._framer
        while True:
            if self._tls is not None:
                data = await self._tls.receive_some(_CHUNK)
                if not data:
                    raise self._peer_closed()
                self._frames.extend(framer.feed(data))
            else:
                count = await self._socket.recv_into(framer.buffer())
                if not count:
                    raise self._peer_closed()
                framer.received(count)
                while (frame := framer.next_frame()) is not None:
                    self._frames.append(frame)
            if self._frames:
                return self._frames.popleft()

    def _peer_closed(self) -> AutoReconnect:
        return AutoReconnect(f"{format_address(self._address)}: the server closed the connection")

    def _check_open(self) -> None:
        if self.is_closed:
            raise AutoReconnect(f"{format_address(self._address)}: the connection is closed")

    @contextmanager
    def _limited(self, until: float) -> Iterator[None]:
        with trio.CancelScope(deadline=until) as scope, self._translated():
            yield
        if scope.cancelled_caught:
            raise NetworkTimeout(f"{format_address(self._address)}: no reply in time")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self.abort()
            raise AutoReconnect(f"{format_address(self._address)}: {describe(error.__cause__ or error)}") from error
        except PyMongoError:
            self.abort()
            raise

    def is_healthy(self) -> bool:
        # Trio tells nothing of an idle socket: readable means closed, or bytes that nobody asked for.
        if self.is_closed or self._frames or not self._framer.is_empty:
            return False
        return not self._socket.is_readable()

    def abort(self) -> None:
        self.is_closed = True
        self._socket.close()
