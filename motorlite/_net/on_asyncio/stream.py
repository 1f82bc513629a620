"""Net: a framed stream on a transport of asyncio or uvloop, as one native BufferedProtocol without tasks or locks.

`sockets` has the stream that is usual on asyncio's own loop, where no TLS needs a transport.

The hot path is one `write` and one future per request. A time limit costs one comparison. Each stream keeps one loop
timer, armed for the earliest limit it has seen, and checks the current limit when it fires. A timer per request would
cost 1.6 µs to make and cancel.
"""

from __future__ import annotations

import asyncio
import contextvars
import ssl
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeVar

from motorlite._base.hosts import certified
from motorlite._base.values import format_address
from motorlite._net.failures import SURPLUS, TLS_REFUSED, describe
from motorlite.errors import AutoReconnect, NetworkTimeout, ProtocolError, PyMongoError

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

    from motorlite._base.values import Address
    from motorlite._net.runtime import Framer, Parts

T = TypeVar("T")

# call_at may run a callback up to the clock's resolution early.
_EARLY: Final = 0.001
# Seconds. In effect no limit, because connectTimeoutMS limits the handshake. The loop's default is a minute.
_HANDSHAKE: Final = 10.0**9
# Bytes. The system usually takes a smaller request at once; of a larger one, the transport knows how much is unsent.
_LARGE: Final = 16 * 1024


class Silence(asyncio.Protocol):
    """The protocol of a transport until TLS begins. A server never speaks first, and cleartext proves nothing.

    Cleartext must not reach the stream that carries the decrypted bytes.
    """

    def __init__(self) -> None:
        self.is_broken = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # TLS then reads early bytes first, and rejects them. uvloop reads despite the pause.
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
        "_make_waiter",
        "_socket",
        "_timer",
        "_transport",
        "_until",
        "_waiter",
        "is_closed",
        "sent_nothing",
    )

    # The event loop also reads idle streams, and closes them.
    ask_after = 1.0

    def __init__(
        self, address: Address, framer: Framer, loop: asyncio.AbstractEventLoop, sock: socket.socket | None = None
    ) -> None:
        self._address = address
        self._framer = framer
        self._loop = loop
        # The transport's socket, for small requests; None with TLS, and once the transport may have unsent bytes.
        self._socket = sock
        self._transport: asyncio.Transport
        # The socket's transport: the same one, or the one below TLS.
        self._lower: asyncio.Transport
        self.is_closed = False
        # An open stream always writes before it waits.
        self.sent_nothing = False
        # Why the stream closed; raised to its next user.
        self._error: PyMongoError | None = None
        # The future of the task waiting for a message, and its time limit.
        self._make_waiter: Callable[[], asyncio.Future[Any]] = loop.create_future
        self._waiter: asyncio.Future[Any] | None = None
        self._until = inf
        # The timer, and the loop time that it is armed for (infinity: not armed).
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for = inf
        # Messages that arrived without a waiting task: exhaust replies, or the reply to an abandoned request.
        self._frames: list[bytes | bytearray] = []
        # Whether a reply is pending: from writing a request until its reply arrives. None before the first request.
        self._is_owed: bool | None = None
        # Whether more messages may follow that reply (`expect_more`).
        self._is_streaming = False
        # None, or the future of a `send` that waits for the transport's buffer to drain.
        self._can_write: asyncio.Future[None] | None = None

    # --- asyncio.BufferedProtocol ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = self._lower = transport  # type: ignore[assignment]  # create_connection makes a Transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._framer.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        frame = self._framer.received_one(nbytes)
        waiter = self._waiter
        if frame is None or waiter is None or not self._is_owed or self._is_streaming or waiter.done():
            self._sort(frame)
        else:
            self._is_owed, self._waiter = False, None
            try:  # as `resolve`, without the call
                waiter.set_result(frame)
            except asyncio.InvalidStateError:
                self._frames.append(frame)

    def _sort(self, frame: bytes | bytearray | None) -> None:
        """Hand out the messages that the server owes, first `frame` if there is one. Any others close the stream."""
        framer = self._framer
        try:
            while self._is_owed:
                if frame is None:
                    frame = framer.next_frame()
                    if frame is None:
                        if self._is_streaming and self._frames:
                            # Enough for now: `receive` resumes reading once it has handed these out.
                            self._transport.pause_reading()
                        return
                self._is_owed = self._is_streaming
                waiter, self._waiter = self._waiter, None
                if waiter is None or waiter.done() or not resolve(waiter, frame):
                    self._frames.append(frame)
                frame = None
        except PyMongoError as error:
            self._fail(error)
            self._transport.abort()
            return
        if frame is not None or not framer.is_empty:
            self._refuse_surplus()

    def _refuse_surplus(self) -> None:
        """Close the stream: the peer sent unrequested bytes. The operation with the last reply is unaffected."""
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
        if waiter is not None:
            resolve(waiter, None)

    def _fail(self, error: PyMongoError) -> None:
        """Mark the stream as closed and wake its waiters. Later callers see the first reason."""
        self.is_closed = True
        if self._error is None:
            self._error = type(error)(str(error))  # a copy: the frames of a raised error reference this stream
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for waiter in (self._waiter, self._can_write):
            if waiter is not None:
                _raise_in(waiter, self._closed_error())

    def _closed_error(self) -> PyMongoError:
        """Return a new exception each time: a raised one keeps the traceback and context of its raiser."""
        first = self._error
        assert first is not None
        return type(first)(str(first))

    async def secure(self, lower: asyncio.Transport, tls: ssl.SSLContext, host: str) -> None:
        """Start TLS on `lower`, whose protocol is a `Silence`. Await it before any other method."""
        self._transport = self._lower = lower
        silence = lower.get_protocol()
        try:
            if isinstance(silence, Silence) and silence.is_broken:
                raise ssl.SSLError(ssl.SSL_ERROR_SSL, "bytes arrived in the clear before TLS began")
            if lower.is_closing():
                raise ConnectionResetError(TLS_REFUSED)
            # Not create_connection(ssl=...): TLS passes a whole write down and forgets it, so only the lower transport
            # knows how much is unsent.
            transport = await self._loop.start_tls(
                lower, self, tls, server_hostname=certified(host), ssl_handshake_timeout=_HANDSHAKE
            )
            if self.is_closed:  # the server sent bytes before any request
                raise self._closed_error()
            if transport is None:
                raise ConnectionResetError(TLS_REFUSED)
        except ConnectionError:
            lower.abort()
            raise ConnectionResetError(TLS_REFUSED) from None
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
            # The buffer is gone. The transport had paused writing while the buffer was full (with TLS: not empty).
            return self._can_write is not None
        return self._transport.get_write_buffer_size() > 0 or self._lower.get_write_buffer_size() > 0

    async def exchange(self, data: bytes | Parts, until: float) -> bytes | bytearray:
        return await self._awaited(self.start_exchange(data, until))

    def start_exchange(self, data: bytes | Parts, until: float) -> asyncio.Future[bytes | bytearray]:
        if self.is_closed:
            self.sent_nothing = True
            raise self._closed_error()
        sock = self._socket
        if sock is None:
            self._write(data)
        elif len(data) > _LARGE:
            self._write(data)
            if self.has_unsent:
                self._socket = None  # the next request must not overtake this one, if the server answers early
        else:
            # A third of the instructions of the transport's method.
            assert isinstance(data, bytes)  # parts are large
            try:
                sent = sock.send(data)
            except OSError as error:
                sent = self._refused(error)
            if sent < len(data):
                self._socket = None  # as above
                self._transport.write(memoryview(data)[sent:])
        # As `_next_message`, without the call.
        self._waiter = waiter = self._make_waiter()
        self._is_owed = True
        if until < self._armed_for:
            self._arm(until)
        self._until = until
        return waiter

    def _write(self, data: bytes | Parts) -> None:
        if isinstance(data, bytes):
            self._transport.write(data)
        else:
            self._transport.writelines(data.parts)

    def _next_message(self, until: float) -> asyncio.Future[bytes | bytearray]:
        """Return a future of the next message."""
        waiter: asyncio.Future[bytes | bytearray] = self._make_waiter()
        self._waiter = waiter
        self._is_owed = True
        if until < self._armed_for:
            self._arm(until)
        self._until = until
        return waiter

    def interrupted(self, waiting: Awaitable[bytes | bytearray]) -> None:
        assert isinstance(waiting, asyncio.Future)
        self._waiter = None
        if waiting.done() and not waiting.cancelled() and waiting.exception() is None:
            self._frames.insert(0, waiting.result())

    def _refused(self, error: OSError) -> int:
        """Return how many bytes of a request the system has taken: 0, or raise if the connection is broken."""
        if isinstance(error, (BlockingIOError, InterruptedError)):
            return 0
        self._fail(AutoReconnect(f"{format_address(self._address)}: {describe(error)}"))
        self._transport.abort()
        self.sent_nothing = True
        raise self._closed_error() from error

    async def receive(self, until: float) -> bytes | bytearray:
        if self._frames:
            if self._is_streaming:
                # A server that never pauses must not starve the loop's other tasks.
                await asyncio.sleep(0)
            frame = self._frames.pop(0)
            if self._is_streaming and not self._frames and not self.is_closed:
                self._transport.resume_reading()
            return frame
        if self.is_closed:
            raise self._closed_error()
        return await self._awaited(self._next_message(until))

    async def _awaited(self, waiter: asyncio.Future[bytes | bytearray]) -> bytes | bytearray:
        try:
            return await waiter
        except BaseException:
            self.interrupted(waiter)
            del waiter  # it holds the error, whose traceback references this frame
            raise

    def expect_more(self, is_expected: bool) -> None:
        self._is_streaming = is_expected
        if is_expected:
            return
        self._is_owed = False
        if not self.is_closed and (self._frames or not self._framer.is_empty):
            self._refuse_surplus()

    async def send(self, data: bytes, until: float) -> None:
        if self.is_closed:
            self.sent_nothing = True
            raise self._closed_error()
        self._socket = None  # the transport may still have a part of it when this returns
        if self._lower is self._transport:
            self._transport.write(data)
        else:
            # TLS delays a write only while an earlier one is unsent. Splitting the data in two makes this write wait.
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
        # The loop reports a close as soon as it runs. An unread reply belongs to an abandoned request.
        return not self.is_closed and not self._frames and self._framer.is_empty and not self._transport.is_closing()

    def abort(self) -> None:
        self._fail(AutoReconnect(f"{format_address(self._address)}: the connection was closed by this client"))
        self._transport.abort()

    # --- time limits ---

    def _arm(self, until: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed_for = until
        # The timer outlives the operation. In the operation's context, it would keep the values of its variables.
        self._timer = self._loop.call_at(until, self._check_limit, context=contextvars.Context())

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


def resolve(waiter: asyncio.Future[T], value: T) -> bool:
    """Set a result. Return whether the waiter took it; one that is done does not.

    To ask it first is not enough: on Ctrl-C, the signal handler of asyncio.run cancels a task between any two steps.
    """
    try:
        waiter.set_result(value)
    except asyncio.InvalidStateError:
        return False
    return True


def _raise_in(waiter: asyncio.Future[Any], error: PyMongoError) -> None:
    try:
        waiter.set_exception(error)
    except asyncio.InvalidStateError:
        return  # done, as in `resolve`
    # Marks the error as retrieved. The future may have no waiter (a write paused during an exchange), and the loop
    # would log that.
    waiter.exception()
