"""Net: a framed stream on trio, over a bare trio socket or trio's TLS."""

from __future__ import annotations

import select
from collections import deque
from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING

import trio

from motorlite._base.values import format_address
from motorlite._net.failures import describe
from motorlite.errors import AutoReconnect, NetworkTimeout, PyMongoError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

    from motorlite._base.values import Address
    from motorlite._net.runtime import Framer

_CHUNK = 64 * 1024


class TrioStream:
    """A FrameStream on a trio socket."""

    __slots__ = (
        "_address",
        "_framer",
        "_frames",
        "_incoming",
        "_is_streaming",
        "_poll",
        "_socket",
        "_tls",
        "has_unsent",
        "is_closed",
        "sent_nothing",
    )

    # Trio does not report events on an idle socket.
    ask_after = 0.0

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
        # None without TLS; reads and writes then go straight to the socket.
        self._tls = tls
        # Bytes received but not yet decrypted. Private to trio; None if a future trio removes it.
        self._incoming: ssl.MemoryBIO | None = getattr(tls, "_incoming", None)
        # Exhaust replies that arrived together with an earlier one.
        self._frames: deque[bytes | bytearray] = deque()
        # Whether more messages may follow the reply (`expect_more`).
        self._is_streaming = False
        # Polls the socket in half the time of its own `is_readable`; None where the system call does not exist.
        self._poll: select.poll | None = None
        if hasattr(select, "poll"):
            self._poll = select.poll()
            self._poll.register(socket, select.POLLIN)
        self.is_closed = False
        # True during a write of a request, and after an interrupted one.
        self.has_unsent = False
        # If a time limit or scope has expired when the task runs, trio cancels before the first byte is written.
        self.sent_nothing = False

    async def exchange(self, data: bytes, until: float) -> bytes | bytearray:
        self._check_open()
        if until == inf:
            with self._translated():
                await self._write(data)
                return await self._read()
        with trio.CancelScope(deadline=until), self._translated():
            await self._write(data)
            return await self._read()
        raise self._too_late()

    async def receive(self, until: float) -> bytes | bytearray:
        if self._frames:
            await trio.lowlevel.checkpoint()
            return self._frames.popleft()
        self._check_open()
        with trio.CancelScope(deadline=until), self._translated():
            return await self._read()
        raise self._too_late()

    async def send(self, data: bytes, until: float) -> None:
        self._check_open()
        with trio.CancelScope(deadline=until) as scope, self._translated():
            await self._write(data)
        if scope.cancelled_caught:
            raise self._too_late()

    async def _write(self, data: bytes) -> None:
        self.sent_nothing = False
        self.has_unsent = True
        sent = 0
        try:
            if self._tls is not None:
                await trio.lowlevel.checkpoint_if_cancelled()
            else:
                sent = await self._socket.send(data)
        except trio.Cancelled:
            self.sent_nothing = True
            self.has_unsent = False
            raise
        if self._tls is not None:
            await self._tls.send_all(data)
        elif sent < len(data):
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
                # Release the view, one of our own: stack frames of a cancellation may outlive it and stop the framer's
                # buffer from growing.
                with memoryview(framer.buffer()) as buffer:
                    count = await self._socket.recv_into(buffer)
                if not count:
                    raise self._peer_closed()
                framer.received(count)
                while (frame := framer.next_frame()) is not None:
                    self._frames.append(frame)
                    if not self._is_streaming:
                        break
            if self._frames:
                frame = self._frames.popleft()
                if not self._is_streaming and self._has_surplus:
                    # The reply is valid, but the connection must not be reused.
                    self.abort()
                return frame

    def _peer_closed(self) -> AutoReconnect:
        return AutoReconnect(f"{format_address(self._address)}: the server closed the connection")

    def _check_open(self) -> None:
        if self.is_closed:
            self.sent_nothing = True
            raise AutoReconnect(f"{format_address(self._address)}: the connection is closed")

    def _too_late(self) -> NetworkTimeout:
        # Raised behind the scope, not within a context manager around it: there trio's cancellation would be the
        # error's context, and on Python 3.13 part of a reference cycle.
        return NetworkTimeout(f"{format_address(self._address)}: no reply in time")

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

    @property
    def _has_surplus(self) -> bool:
        incoming = self._incoming
        return bool(self._frames) or not self._framer.is_empty or (incoming is not None and incoming.pending > 0)

    def expect_more(self, is_expected: bool) -> None:
        self._is_streaming = is_expected
        if not is_expected and self._has_surplus:
            self.abort()

    def is_healthy(self) -> bool:
        if self.is_closed or self._has_surplus:
            return False
        # Readable means closed by the peer, or unrequested bytes.
        return not (self._socket.is_readable() if self._poll is None else self._poll.poll(0))

    def abort(self) -> None:
        self.is_closed = True
        self._socket.close()
