"""Net: a framed stream on asyncio (and uvloop), as one native BufferedProtocol without tasks or locks.

The hot path is one `write` and one future per request. A time limit costs a comparison: each stream keeps one loop
timer that is armed for the earliest limit it has seen and looks at the current limit when it fires, instead of one
timer (1.6 µs to make and cancel) per request.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol

from motorlite._net.failures import SURPLUS, describe
from motorlite.errors import AutoReconnect, NetworkTimeout, ProtocolError, PyMongoError
from motorlite.values import format_address

if TYPE_CHECKING:
    from motorlite._net.runtime import Framer
    from motorlite.values import Address

# call_at may run a callback up to the clock's resolution early.
_EARLY: Final = 0.001


class _Socket(Protocol):
    def setsockopt(self, level: int, optname: int, value: int, /) -> None: ...


class Silence(asyncio.Protocol):
    """The protocol of a transport until TLS begins: a server never speaks first, and bytes in the clear prove nothing.

    They must not reach the stream that is to carry what TLS has decrypted.
    """

    def __init__(self) -> None:
        self.is_broken = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # So that what arrives early is the first that TLS reads, and refuses. uvloop reads all the same.
        transport.pause_reading()  # type: ignore[attr-defined]  # create_connection makes a Transport

    def data_received(self, data: bytes) -> None:
        self.is_broken = True


class AsyncioStream(asyncio.BufferedProtocol):
    """A FrameStream that is also the transport's protocol."""

    __slots__ = (
        "_address",
        "_armed_for",
        "_can_write",
        "_closed_waiter",
        "_error",
        "_framer",
        "_frames",
        "_is_owed",
        "_is_streaming",
        "_loop",
        "_lower",
        "_timer",
        "_transport",
        "_until",
        "_waiter",
        "is_closed",
    )

    # The event loop reads idle streams too, and closes them.
    ask_after = 1.0
    # It writes before it waits for anything.
    sent_nothing = False

    def __init__(self, address: Address, framer: Framer, loop: asyncio.AbstractEventLoop) -> None:
        self._address = address
        self._framer = framer
        self._loop = loop
        self._transport: asyncio.Transport
        # The socket's transport: the same, or what is below TLS.
        self._lower: asyncio.Transport
        self.is_closed = False
        # Why the stream is closed, to be raised by whoever uses it next.
        self._error: PyMongoError | None = None
        # The future of the task that waits for a message, and its time limit.
        self._waiter: asyncio.Future[Any] | None = None
        self._until = inf
        # The one timer, and the loop time that it is armed for (infinity: not armed).
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for = inf
        # Messages that arrived while nobody waited: exhaust replies, or the reply of an abandoned request.
        self._frames: deque[bytes | bytearray] = deque()
        # Whether a message may arrive: since a request was written, until its reply is here. None before the first.
        self._is_owed: bool | None = None
        # Whether more messages may follow that one (`expect_more`).
        self._is_streaming = False
        # None, or the future of a `send` that waits until the transport's buffer has drained.
        self._can_write: asyncio.Future[None] | None = None

    # --- asyncio.BufferedProtocol ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = self._lower = transport  # type: ignore[assignment]  # create_connection makes a Transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._framer.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        framer = self._framer
        try:
            framer.received(nbytes)
            while self._is_owed:
                frame = framer.next_frame()
                if frame is None:
                    if self._is_streaming and self._frames:
                        # Enough for now: `receive` goes on reading when it has handed these out.
                        self._transport.pause_reading()
                    return
                self._is_owed = self._is_streaming
                waiter = self._waiter
                if waiter is not None and not waiter.done():
                    waiter.set_result(frame)
                else:
                    self._frames.append(frame)
        except PyMongoError as error:
            self._fail(error)
            self._transport.abort()
            return
        if not framer.is_empty:
            self._refuse_surplus()

    def _refuse_surplus(self) -> None:
        """Close: the peer sent more than it was asked for. The operation whose reply came before is not concerned."""
        kind = ProtocolError if self._is_owed is None else AutoReconnect
        self._fail(kind(f"{format_address(self._address)}: {SURPLUS}"))
        self._transport.abort()

    def eof_received(self) -> bool:
        self._fail(AutoReconnect(f"{format_address(self._address)}: the server closed the connection"))
        return False  # the transport closes itself

    def connection_lost(self, exc: Exception | None) -> None:
        reason = describe(exc) if exc is not None else "the connection is closed"
        self._fail(AutoReconnect(f"{format_address(self._address)}: {reason}"))

    def pause_writing(self) -> None:
        self._can_write = self._loop.create_future()

    def resume_writing(self) -> None:
        waiter, self._can_write = self._can_write, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _fail(self, error: PyMongoError) -> None:
        """The stream is of no more use; the first reason is the one that is told."""
        self.is_closed = True
        if self._error is None:
            self._error = type(error)(str(error))  # a copy: it may have been raised, and its frames lead back here
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for waiter in (self._waiter, self._can_write):
            if waiter is not None:
                _raise_in(waiter, self._closed_error())

    def _closed_error(self) -> PyMongoError:
        """A new exception each time: a raised one keeps the traceback and the context of its raiser."""
        first = self._error
        assert first is not None
        return type(first)(str(first))

    async def secure(self, lower: asyncio.Transport, tls: ssl.SSLContext, host: str) -> None:
        """Begin TLS on `lower`, whose protocol is a `Silence`; to be awaited before anything else."""
        self._transport = self._lower = lower
        silence = lower.get_protocol()
        try:
            if isinstance(silence, Silence) and silence.is_broken:
                raise ssl.SSLError(ssl.SSL_ERROR_SSL, "bytes arrived in the clear before TLS began")
            if lower.is_closing():
                raise ConnectionResetError("the server closed the connection")
            # Not create_connection(ssl=...): TLS hands a write down whole and forgets it, so that only the lower
            # transport knows what is unsent.
            transport = await self._loop.start_tls(lower, self, tls, server_hostname=host)
            if self.is_closed:  # it spoke before it was asked anything
                raise self._closed_error()
            if transport is None:
                raise ConnectionResetError("the connection was lost")
        except BaseException:
            lower.abort()
            raise
        # See `send`.
        transport.set_write_buffer_limits(high=1, low=0)
        self._transport = transport

    # --- FrameStream ---

    @property
    def has_unsent(self) -> bool:
        if self.is_closed:
            return False
        return self._transport.get_write_buffer_size() > 0 or self._lower.get_write_buffer_size() > 0

    async def exchange(self, data: bytes, until: float) -> bytes | bytearray:
        if self.is_closed:
            raise self._closed_error()
        waiter = self._waiter = self._loop.create_future()
        self._is_owed = True
        self._transport.write(data)
        if until < self._armed_for:
            self._arm(until)
        self._until = until
        try:
            return await waiter  # type: ignore[no-any-return]  # the future of a frame
        except BaseException:
            self._keep(waiter)
            del waiter  # it has the error, whose traceback has this frame
            raise
        finally:
            self._waiter = None

    async def receive(self, until: float) -> bytes | bytearray:
        if self._frames:
            if self._is_streaming:
                # A server that never pauses must not keep the loop from its other tasks.
                await asyncio.sleep(0)
            frame = self._frames.popleft()
            if self._is_streaming and not self._frames and not self.is_closed:
                self._transport.resume_reading()
            return frame
        if self.is_closed:
            raise self._closed_error()
        waiter = self._waiter = self._loop.create_future()
        self._is_owed = True
        if until < self._armed_for:
            self._arm(until)
        self._until = until
        try:
            return await waiter  # type: ignore[no-any-return]  # the future of a frame
        except BaseException:
            self._keep(waiter)
            del waiter  # it has the error, whose traceback has this frame
            raise
        finally:
            self._waiter = None

    def _keep(self, waiter: asyncio.Future[Any]) -> None:
        """The task was cancelled in the same turn of the loop in which its message came: do not lose the message."""
        if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
            self._frames.appendleft(waiter.result())

    def expect_more(self, is_expected: bool) -> None:
        self._is_streaming = is_expected
        if is_expected:
            return
        self._is_owed = False
        if not self.is_closed and (self._frames or not self._framer.is_empty):
            self._refuse_surplus()

    async def send(self, data: bytes, until: float) -> None:
        if self.is_closed:
            raise self._closed_error()
        if self._lower is self._transport:
            self._transport.write(data)
        else:
            # TLS holds back a write only while an earlier one stays unsent: so that this one waits, it has two parts.
            view = memoryview(data)
            self._transport.write(view[:-1])
            self._transport.write(view[-1:])
        waiter = self._can_write
        if waiter is not None:
            if waiter.done():  # an earlier send gave up
                waiter = self._can_write = self._loop.create_future()
            timer = self._loop.call_at(until, self._expire, waiter) if until != inf else None
            try:
                await waiter
            finally:
                if timer is not None:
                    timer.cancel()

    def is_healthy(self) -> bool:
        # The loop tells of a close as soon as it runs. An unread reply is that of an abandoned request.
        return not self.is_closed and not self._frames and self._framer.is_empty and not self._transport.is_closing()

    def abort(self) -> None:
        self._fail(AutoReconnect(f"{format_address(self._address)}: the connection was closed by this client"))
        self._transport.abort()

    # --- time limits ---

    def _arm(self, until: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed_for = until
        self._timer = self._loop.call_at(until, self._check_limit)

    def _check_limit(self) -> None:
        self._timer = None
        self._armed_for = inf
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        if self._until - self._loop.time() <= _EARLY:
            self._expire(waiter)
        elif self._until != inf:
            self._arm(self._until)

    def _expire(self, waiter: asyncio.Future[Any]) -> None:
        _raise_in(waiter, NetworkTimeout(f"{format_address(self._address)}: no reply in time"))


def _raise_in(waiter: asyncio.Future[Any], error: PyMongoError) -> None:
    if not waiter.done():
        waiter.set_exception(error)
        # Nobody may be waiting (a write that is paused during an exchange); the loop would complain of that.
        waiter.exception()


def enable_keepalive(sock: _Socket) -> None:
    """Find dead peers within minutes rather than hours; the values are those that MongoDB recommends to drivers."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 120), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 9)):
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
