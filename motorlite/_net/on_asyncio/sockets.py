"""Net: streams without TLS on asyncio's own event loop, which read and write their sockets themselves.

Through a transport of asyncio's, a message takes more calls. And through a future, the task that waits for a message
runs in the loop's next turn only: that is one more system call, and two thirds of what the loop does for a reply. Here
the callback that reads the message runs the task (`Reply`).

uvloop's transports are faster than this, so uvloop keeps its own, and TLS has to use transports anyway.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import socket
from typing import TYPE_CHECKING, Any, Final, Self

from motorlite._net.on_asyncio.stream import AsyncioStream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence

    from motorlite._base.values import Address
    from motorlite._net.runtime import Framer

_logger = logging.getLogger("motorlite.client")
# Bytes of one read.
_CHUNK: Final = 64 * 1024
# As in asyncio: `send` waits while more bytes than this are unsent.
_MANY_UNSENT: Final = 64 * 1024
_SENDS_PARTS: Final = hasattr(socket.socket, "sendmsg")
_NOT_NOW: Final = (BlockingIOError, InterruptedError)


def watches_sockets(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether `SocketStream` works on this loop, and is faster than the loop's own transports."""
    # nest_asyncio runs a loop within its tasks. Where the callback that reads a reply runs the task, the loop could not
    # call it again for the next reply on the same connection. It must be applied before: a patched loop tells nothing,
    # and to look at it for each reply would cost every program (docs/troubleshooting.md).
    return isinstance(loop, asyncio.SelectorEventLoop) and not hasattr(loop, "_nest_patched")


class Reply:
    """A message that a task waits for: a Future-compatible object, as asyncio calls it.

    A task that awaits it is run at once when the message arrives, and not by the loop's next turn. Everything else that
    ends the wait happens while the program or the stream does something else, and so wakes the task as a future does.
    """

    __slots__ = (
        "_asyncio_future_blocking",
        "_context",
        "_error",
        "_loop",
        "_none",
        "_others",
        "_wake",
        "frame",
        "is_done",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # What asyncio's tasks know such an object by.
        self._asyncio_future_blocking = False
        self.frame: bytes | bytearray | None = None
        self._error: BaseException | None = None
        self.is_done = False
        # Runs the waiting task, in its context.
        self._wake: Callable[[Reply], object] | None = None
        self._context: contextvars.Context | None = None
        # Callbacks of code that watches the task, and their contexts. If there are none, this is None, but not in the
        # loop's debug mode, whose messages about slow steps should name the task.
        self._none: tuple[()] | None = () if loop.get_debug() else None
        self._others: Sequence[tuple[Callable[[Reply], object], contextvars.Context | None]] | None = self._none

    def again(self) -> Self:
        """Begin to wait for another message; the task that waited for the one before has been run."""
        self.is_done = False
        return self

    def deliver(self, frame: bytes | bytearray) -> None:
        """Run the waiting task. Not for callers in a task. When it returns, the stream may be in use, or closed."""
        self.frame = frame
        context = self._context
        if context is None or self._others is not None:
            self._end(None)
            return
        wake, self._wake, self._context = self._wake, None, None
        self.is_done = True
        context.run(wake, self)  # type: ignore[arg-type]  # set with the context

    def forget(self) -> bytes | bytearray | None:
        """Forget a task that does not wait any more. Return the message if it has come."""
        frame, self.frame = self.frame, None
        self._wake, self._context, self._others = None, None, self._none
        return frame

    # --- for tasks ---

    def __await__(self) -> Generator[Self, None, bytes | bytearray]:
        if not self.is_done:
            self._asyncio_future_blocking = True
            yield self
        if self._error is not None:
            self.result()
        # Kept until the next request, it would hold the memory of a large reply.
        frame, self.frame = self.frame, None
        assert frame is not None
        return frame

    def add_done_callback(
        self, callback: Callable[[Reply], object], *, context: contextvars.Context | None = None
    ) -> None:
        if self.is_done:
            self._loop.call_soon(callback, self, context=context)
        elif self._wake is None:
            self._wake, self._context = callback, context
        else:
            self._others = [*(self._others or ()), (callback, context)]

    def result(self) -> None:
        """Raise the error, if there is one. The message itself is what the awaiting task gets."""
        error = self._error
        if error is not None:
            # Its traceback leads back to this object.
            self._error = None
            try:
                raise error
            finally:
                del error

    def cancel(self, msg: object = None) -> bool:
        if self.is_done:
            return False
        self._end(asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg))
        return True

    # --- for streams ---

    def done(self) -> bool:
        return self.is_done

    def set_result(self, frame: bytes | bytearray) -> None:
        self.frame = frame
        self._end(None)

    def set_exception(self, error: BaseException) -> None:
        self._end(error)

    def exception(self) -> BaseException | None:
        return self._error

    def _end(self, error: BaseException | None) -> None:
        if self.is_done:
            # On Ctrl-C, the signal handler of asyncio.run has just cancelled the task, in the middle of this.
            return
        self._error, self.is_done = error, True
        others, self._others = self._others, self._none
        wake, context, self._wake, self._context = self._wake, self._context, None, None
        if wake is not None:
            self._loop.call_soon(wake, self, context=context)
        for callback, its_context in others or ():
            self._loop.call_soon(callback, self, context=its_context)


class SocketStream(AsyncioStream):
    """A FrameStream on a non-blocking socket that the event loop watches."""

    __slots__ = ("_has_part", "_input")

    def __init__(self, address: Address, framer: Framer, loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
        super().__init__(address, framer, loop, sock)
        self._make_waiter = Reply(loop).again  # type: ignore[assignment]  # it has what a stream needs of a future
        # `_socket` becomes None when a request is only partly sent.
        self._input = sock
        # Whether the framer has an incomplete message.
        self._has_part = False
        if sock.family != getattr(socket, "AF_UNIX", None):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transport = self._lower = _SocketTransport(loop, sock, self)

    def read_some(self) -> None:
        """Read what the system has now, at most a buffer full, and wake the waiting task if its message is there."""
        framer = self._framer
        try:
            if self._has_part:
                count = self._input.recv_into(framer.buffer())
                if not count:
                    self._ended()
                    return
                frame = framer.received_one(count)
            else:
                data = self._input.recv(_CHUNK)
                if not data:
                    self._ended()
                    return
                frame = framer.whole(data)
        except _NOT_NOW:
            return
        except OSError as error:
            self.lost(error)
            return
        except Exception as error:
            _logger.exception("reading from a socket failed")
            self.lost(error)
            return
        waiter: Any = self._waiter
        if frame is None or waiter is None or not self._is_owed or self._is_streaming or waiter.is_done:
            self._sort_guarded(frame)
        else:
            self._is_owed, self._waiter = False, None
            waiter.deliver(frame)

    def _sort_guarded(self, frame: bytes | bytearray | None) -> None:
        try:
            self._sort(frame)
        except Exception as error:  # there is no memory for a large reply
            _logger.exception("reading from a socket failed")
            self.lost(error)
        else:
            self._has_part = not self._framer.is_empty

    def interrupted(self, waiting: Awaitable[bytes | bytearray]) -> None:
        assert isinstance(waiting, Reply)
        self._waiter = None
        frame = waiting.forget()
        if frame is not None:
            self._frames.insert(0, frame)

    @property
    def has_unsent(self) -> bool:
        return self._transport.get_write_buffer_size() > 0

    def _ended(self) -> None:
        self.eof_received()
        self._transport.abort()

    def lost(self, error: Exception) -> None:
        """Close the stream because its socket failed."""
        self.connection_lost(error)
        self._transport.abort()


class _SocketTransport(asyncio.Transport):
    """What a `SocketStream` needs of a transport. Unlike one of asyncio's, it closes its socket at once."""

    __slots__ = ("_is_closing", "_is_full", "_is_reading", "_loop", "_number", "_socket", "_stream", "_unsent")

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket, stream: SocketStream) -> None:
        self._loop = loop
        self._socket = sock
        self._number = sock.fileno()
        self._stream = stream
        # Views, not copies: a large request would take its memory twice.
        self._unsent: list[memoryview] = []
        # Whether the stream must not send more.
        self._is_full = False
        self._is_closing = False
        self._is_reading = False
        self.resume_reading()

    def resume_reading(self) -> None:
        if not self._is_reading and not self._is_closing:
            self._is_reading = True
            # For as long as the stream is open, the loop keeps the context, so it is not that of an operation.
            contextvars.Context().run(self._loop.add_reader, self._number, self._stream.read_some)

    def pause_reading(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._number)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        if self._is_closing:
            return
        rest = [memoryview(data) for data in list_of_data]
        if not self._unsent:
            try:
                # Windows sends one part only.
                sent = self._socket.sendmsg(rest) if _SENDS_PARTS else self._socket.send(rest[0])
            except _NOT_NOW:
                sent = 0
            except OSError as error:
                # Not now: the stream has not begun to wait.
                self._loop.call_soon(self._stream.lost, error)
                return
            while rest and sent >= len(rest[0]):
                sent -= len(rest.pop(0))
            if not rest:
                return
            rest[0] = rest[0][sent:]
            self._loop.add_writer(self._number, self._write_more)
        self._unsent += rest
        if not self._is_full and self.get_write_buffer_size() > _MANY_UNSENT:
            self._is_full = True
            self._stream.pause_writing()

    def _write_more(self) -> None:
        unsent = self._unsent
        try:
            rest = unsent[0][self._socket.send(unsent[0]) :]
        except _NOT_NOW:
            return
        except OSError as error:
            self._stream.lost(error)
            return
        if rest:
            unsent[0] = rest
            return
        del unsent[0]
        if not unsent:
            self._loop.remove_writer(self._number)
            if self._is_full:
                self._is_full = False
                self._stream.resume_writing()

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self._unsent))

    def is_closing(self) -> bool:
        return self._is_closing

    def abort(self) -> None:
        if self._is_closing:
            return
        self.pause_reading()
        self._is_closing = True
        if self._unsent:
            # Kept: the server cannot have executed an incomplete request.
            self._loop.remove_writer(self._number)
        self._socket.close()
        del self._stream  # else only the collector could free the two, and what has arrived of a large reply
