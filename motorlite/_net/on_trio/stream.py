"""Net: framed streams on trio: on a bare non-blocking socket, or through trio's TLS.

The bare stream is for systems without epoll; `epoll` has the other one. It writes at once and then waits for the
socket, which is the only checkpoint of an exchange. With the methods of trio's sockets there would be two, and a vain
attempt to read before the reply can be there.
"""

from __future__ import annotations

import select
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeVar

import trio
from outcome import Outcome
from trio.lowlevel import checkpoint_if_cancelled, notify_closing, wait_readable, wait_writable

from motorlite._base.values import format_address
from motorlite._net.failures import describe
from motorlite.errors import AutoReconnect, NetworkTimeout, PyMongoError

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import AsyncGenerator, Awaitable, Coroutine, Generator

    from motorlite._base.values import Address
    from motorlite._net.runtime import Framer, Parts

T = TypeVar("T")

# Bytes of one read.
CHUNK: Final = 64 * 1024
# What a socket that broke or was closed raises.
BROKEN = (OSError, trio.BrokenResourceError, trio.ClosedResourceError)


class _Nothing(Outcome[None]):
    """As `outcome.Value(None)`, but it may be used more than once: to make one is half of what `reschedule` costs."""

    __slots__ = ()

    def unwrap(self) -> None:
        return None

    def send(self, gen: Generator[T, None, object]) -> T:
        return gen.send(None)

    async def asend(self, agen: AsyncGenerator[T, None]) -> T:
        return await agen.asend(None)


# What wakes a task that finds its value elsewhere.
WOKEN: Final = _Nothing()


class TrioStream:
    """A FrameStream on a non-blocking socket."""

    __slots__ = (
        "_address",
        "_framer",
        "_frames",
        "_is_streaming",
        "_poll",
        "_socket",
        "has_unsent",
        "is_closed",
        "sent_nothing",
    )

    # Trio does not report events on an idle socket.
    ask_after = 0.0

    def __init__(self, address: Address, framer: Framer, sock: socket.socket) -> None:
        self._address = address
        self._framer = framer
        self._socket = sock
        # Exhaust replies that arrived together with an earlier one.
        self._frames: list[bytes | bytearray] = []
        # Whether more messages may follow the reply (`expect_more`).
        self._is_streaming = False
        # None until needed, and where the system call does not exist.
        self._poll: select.poll | None = None
        self.is_closed = False
        # True while a part of a request waits to be written, and after that was interrupted.
        self.has_unsent = False
        # If a time limit or scope has expired when the task runs, trio cancels before the first byte is written. The
        # system may also refuse the first byte, if the connection is broken.
        self.sent_nothing = False

    # --- FrameStream ---

    def start_exchange(self, data: bytes | Parts, until: float) -> Coroutine[Any, Any, bytes | bytearray]:
        if not isinstance(data, bytes):
            data = data.joined()
        return self._exchange(data) if until == inf else self._exchange_until(data, until)

    exchange = start_exchange

    def interrupted(self, waiting: Awaitable[bytes | bytearray]) -> None:
        """Nothing can have arrived: the socket still has it."""

    async def _exchange_until(self, data: bytes, until: float) -> bytes | bytearray:
        with trio.CancelScope(deadline=until):
            return await self._exchange(data)
        raise self._too_late()

    async def _exchange(self, data: bytes) -> bytes | bytearray:
        self._check_open()
        await self._or_close(self._write(data))
        return await self._or_close(self._read())

    async def _or_close(self, step: Coroutine[Any, Any, T]) -> T:
        """Await a step. If it shows that the connection is of no use any more, close it."""
        try:
            return await step
        except BROKEN as error:
            raise self._broken(error) from error
        except PyMongoError:
            self.abort()
            raise

    async def receive(self, until: float) -> bytes | bytearray:
        if self._frames:
            await trio.lowlevel.checkpoint()
            return self._frames.pop(0)
        self._check_open()
        with trio.CancelScope(deadline=until):
            return await self._or_close(self._read())
        raise self._too_late()

    async def send(self, data: bytes, until: float) -> None:
        self._check_open()
        with trio.CancelScope(deadline=until) as scope:
            await self._or_close(self._write(data))
            await trio.lowlevel.cancel_shielded_checkpoint()
        if scope.cancelled_caught:
            raise self._too_late()

    def expect_more(self, is_expected: bool) -> None:
        self._is_streaming = is_expected
        if not is_expected and self._has_surplus:
            self.abort()

    def is_healthy(self) -> bool:
        if self.is_closed or self._has_surplus:
            return False
        # Readable means closed by the peer, or unrequested bytes.
        if not hasattr(select, "poll"):
            return not select.select([self._socket], [], [], 0)[0]
        if self._poll is None:
            self._poll = select.poll()
            self._poll.register(self._socket, select.POLLIN)
        return not self._poll.poll(0)

    def abort(self) -> None:
        self.is_closed = True
        if self._socket.fileno() != -1:
            notify_closing(self._socket)
            self._socket.close()

    # --- reading and writing ---

    async def _write(self, data: bytes) -> None:
        """Write `data`. Waits only for a full buffer of the system."""
        self.sent_nothing = True
        await checkpoint_if_cancelled()
        # Set before the system call. Otherwise, after a KeyboardInterrupt between the two, the connection's next user
        # would get the reply.
        self.sent_nothing = False
        try:
            sent = self._send_some(data)
        except OSError:
            self.sent_nothing = True
            raise
        if sent < len(data):
            self.sent_nothing = not sent
            await self._write_rest(data, sent)

    async def _write_rest(self, data: bytes, sent: int) -> None:
        """Write what the system did not take at first."""
        self.has_unsent = True
        try:
            while not sent:
                await wait_writable(self._socket)
                sent = self._send_some(data)
        except trio.Cancelled:
            self.has_unsent = False
            raise
        self.sent_nothing = False
        rest = memoryview(data)[sent:]
        while rest:
            await wait_writable(self._socket)
            rest = rest[self._send_some(rest) :]
        self.has_unsent = False

    def _send_some(self, data: bytes | memoryview) -> int:
        """Write as much as the system takes now. Return the number of bytes."""
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0

    async def _read(self) -> bytes | bytearray:
        framer = self._framer
        while True:
            await wait_readable(self._socket)
            try:
                count = self._socket.recv_into(framer.buffer())
            except BlockingIOError:
                continue
            if not count:
                raise self._peer_closed()
            frame = framer.received_one(count)
            if frame is not None:
                return frame
            frame = framer.next_frame()
            if frame is None:
                continue
            if self._is_streaming:
                while (following := framer.next_frame()) is not None:
                    self._frames.append(following)
            elif not framer.is_empty:
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

    def _broken(self, error: BaseException) -> PyMongoError:
        self.abort()
        return AutoReconnect(f"{format_address(self._address)}: {describe(error.__cause__ or error)}")

    @property
    def _has_surplus(self) -> bool:
        return bool(self._frames) or not self._framer.is_empty


class TrioTLSStream(TrioStream):
    """A FrameStream on trio's TLS, which owns the socket."""

    __slots__ = ("_incoming", "_tls")

    def __init__(
        self,
        address: Address,
        framer: Framer,
        sock: trio.socket.SocketType,
        tls: trio.SSLStream[trio.SocketStream],
    ) -> None:
        super().__init__(address, framer, sock)  # type: ignore[arg-type]  # used for what both kinds of socket have
        self._tls = tls
        # Bytes received but not yet decrypted. Private to trio; None if a future trio removes it.
        self._incoming: ssl.MemoryBIO | None = getattr(tls, "_incoming", None)

    def abort(self) -> None:
        self.is_closed = True
        self._socket.close()

    async def _write(self, data: bytes) -> None:
        self.sent_nothing = True
        await checkpoint_if_cancelled()
        self.sent_nothing = False
        self.has_unsent = True
        await self._tls.send_all(data)
        self.has_unsent = False

    async def _read(self) -> bytes | bytearray:
        while True:
            data = await self._tls.receive_some(CHUNK)
            if not data:
                raise self._peer_closed()
            self._frames.extend(self._framer.feed(data))
            if self._frames:
                frame = self._frames.pop(0)
                if not self._is_streaming and self._has_surplus:
                    # As without TLS.
                    self.abort()
                return frame

    @property
    def _has_surplus(self) -> bool:
        incoming = self._incoming
        return super()._has_surplus or (incoming is not None and incoming.pending > 0)
