"""Net: framed streams on trio whose sockets one system task reads, where the system has epoll.

`trio.lowlevel.wait_readable` registers a socket anew for every single wait. Here each socket stays registered with an
epoll object of the client's, and trio waits for that object: once for all the replies that have arrived. As on asyncio,
idle streams are read too, and close when their peer does.
"""

from __future__ import annotations

import contextvars
import logging
import select
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import trio
from trio.lowlevel import (
    Abort,
    checkpoint_if_cancelled,
    current_task,
    notify_closing,
    reschedule,
    spawn_system_task,
    wait_readable,
    wait_task_rescheduled,
)

from motorlite._base.values import format_address
from motorlite._net.failures import SURPLUS, describe
from motorlite._net.host import keep_from_children
from motorlite._net.on_trio.stream import BROKEN, CHUNK, WOKEN, TrioStream
from motorlite.errors import AutoReconnect, ProtocolError, PyMongoError

if TYPE_CHECKING:
    import socket

    from motorlite._base.values import Address
    from motorlite._net.runtime import Framer

_logger = logging.getLogger("motorlite.client")


class Reader:
    """Reads the sockets of its streams in a system task, from the first stream's beginning to the last one's end."""

    __slots__ = ("__weakref__", "_epoll", "_number", "_streams", "is_closed")

    def __init__(self) -> None:
        # The open streams, by the numbers of their sockets.
        self._streams: dict[int, EpollStream] = {}
        self._epoll = select.epoll()
        self._number = self._epoll.fileno()
        self.is_closed = False
        try:
            spawn_system_task(self._run, name="motorlite sockets", context=contextvars.Context())
        except BaseException:
            self._epoll.close()
            raise
        # A child shares the registrations, not only the descriptor: closing its copies would change the parent's.
        keep_from_children(self)

    def fileno(self) -> int:
        return -1 if self.is_closed else self._number

    def add(self, stream: EpollStream, number: int) -> None:
        """Read the socket `number` for `stream` until `remove`."""
        try:
            self._epoll.register(number, select.EPOLLIN)
        except BaseException:
            if not self._streams:
                self._close()
            raise
        self._streams[number] = stream

    def remove(self, number: int) -> None:
        """Forget a socket, which is still open."""
        del self._streams[number]
        self.pause(number)
        if not self._streams:
            self._close()

    def pause(self, number: int) -> None:
        # Not `modify`: epoll reports a broken connection even to those who wait for no event, again and again.
        with suppress(OSError):  # paused already, or this is a forked child
            self._epoll.unregister(number)

    def resume(self, number: int) -> None:
        self._epoll.register(number, select.EPOLLIN)

    async def _run(self) -> None:
        # An exception that escapes a system task makes trio end the program.
        reason = "the event loop is ending"
        try:
            while not self.is_closed:
                await wait_readable(self._number)
                self.read_ready()
        except trio.ClosedResourceError:
            pass  # the last stream has closed
        except OSError as error:  # a forked child's descriptor leads nowhere
            reason = describe(error)
        except Exception as error:
            reason = describe(error)
            _logger.exception("the task that reads the sockets failed")
        finally:
            for stream in list(self._streams.values()):
                stream.fail(reason)

    def read_ready(self) -> None:
        """Read once from each socket that has something."""
        if self.is_closed:  # since the task was woken, or a stream's time was up
            return
        streams = self._streams
        for number, _ in self._epoll.poll(0, len(streams)):
            stream = streams.get(number)
            if stream is None:  # closed since, by a handler of the log below
                continue
            try:
                stream.read_some()
            except Exception as error:
                _logger.exception("reading from a socket failed")
                stream.fail(describe(error))

    def _close(self) -> None:
        self.is_closed = True
        notify_closing(self._number)
        self._epoll.close()


class EpollStream(TrioStream):
    """A FrameStream on a non-blocking socket that a `Reader` reads."""

    __slots__ = ("_error", "_has_part", "_is_owed", "_is_paused", "_reader", "_task")

    # The reader also reads idle streams, and closes them, as soon as the event loop runs. After a second, `is_healthy`
    # asks the socket: the program may have kept the loop busy.
    ask_after = 1.0

    def __init__(self, address: Address, framer: Framer, sock: socket.socket, reader: Reader) -> None:
        super().__init__(address, framer, sock)
        self._reader = reader
        # The task waiting for a message. The message goes to `_frames`, and stays there if the task is cancelled.
        self._task: trio.lowlevel.Task | None = None
        # Why the stream closed; raised to its next user.
        self._error: PyMongoError | None = None
        # Whether a reply is pending: from writing a request until its reply arrives. None before the first request.
        self._is_owed: bool | None = None
        # Whether messages must be received before the reader reads more of them.
        self._is_paused = False
        # Whether the framer has an incomplete message.
        self._has_part = False
        reader.add(self, sock.fileno())

    # --- for the reader ---

    def read_some(self) -> None:
        """Read what the system has now, at most a buffer full, and wake the waiting task if its message is there."""
        framer = self._framer
        frame: bytes | bytearray | None
        try:
            if self._has_part:
                count = self._socket.recv_into(framer.buffer())
                frame = framer.received_one(count) if count else None
            else:
                data = self._socket.recv(CHUNK)
                count = len(data)
                frame = framer.whole(data)
            if not count:
                self._close(self._peer_closed())
            elif frame is None or not self._is_owed or self._is_streaming:
                self._sort(frame)
            else:
                self._is_owed = False
                self._frames.append(frame)
                # As `_wake`, without its call.
                task = self._task
                if task is not None:
                    self._task = None
                    reschedule(task, WOKEN)
        except BlockingIOError:
            pass
        except OSError as error:
            self._broken(error)
        except PyMongoError as error:
            self._close(error)

    def _sort(self, frame: bytes | bytearray | None) -> None:
        """Keep the messages that the server owes, first `frame` if there is one. Any others close the stream."""
        framer, frames = self._framer, self._frames
        while self._is_owed:
            if frame is None:
                frame = framer.next_frame()
                if frame is None:
                    break
            self._is_owed = self._is_streaming
            frames.append(frame)
            frame = None
        self._has_part = not framer.is_empty
        if frames:
            self._wake()
        if self._is_owed:
            # One message is the waiting task's. More are enough for now: `receive` resumes reading.
            if self._is_streaming and len(frames) > 1:
                self._is_paused = True
                self._reader.pause(self._socket.fileno())
        elif frame is not None or self._has_part:
            self._refuse_surplus()

    def fail(self, reason: str) -> None:
        """Close the stream for this reason."""
        self._close(AutoReconnect(f"{format_address(self._address)}: {reason}"))

    # --- FrameStream ---

    async def _exchange_until(self, data: bytes, until: float) -> bytes | bytearray:
        with trio.CancelScope(deadline=until):
            return await self._exchange(data)
        return self._unread()

    async def _exchange(self, data: bytes) -> bytes | bytearray:
        self.sent_nothing = True
        if self.is_closed:
            raise self._closed_error()
        await checkpoint_if_cancelled()
        # Set before the system call. Otherwise, after a KeyboardInterrupt between the two, the connection's next user
        # would get the reply, or the connection would close when the reply arrives, and a cursor in it stay open.
        self.sent_nothing, self._is_owed = False, True
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent, self.sent_nothing = 0, True
        except OSError as error:
            self.sent_nothing = True
            raise self._broken(error) from error
        if sent < len(data):
            await self._finish_request(data, sent)
            if self._frames:  # the server has answered already
                return self._frames.pop(0)
        # As `_read`, without its coroutine.
        try:
            self._task = current_task()
            await wait_task_rescheduled(self._stop_waiting)
        except BaseException:  # also a KeyboardInterrupt, which may come before the task waits
            self._task = None
            raise
        if self._frames:
            return self._frames.pop(0)
        raise self._closed_error()

    async def _finish_request(self, data: bytes, sent: int) -> None:
        try:
            await self._write_rest(data, sent)
        except BROKEN as error:
            raise self._broken(error) from error
        finally:
            if self.sent_nothing:
                self._is_owed = False

    async def receive(self, until: float) -> bytes | bytearray:
        if self._frames:
            await trio.lowlevel.checkpoint()
            frame = self._frames.pop(0)
            if self._is_paused and not self._frames and not self.is_closed:
                self._resume()
            return frame
        if self.is_closed:
            raise self._closed_error()
        self._is_owed = True
        with trio.CancelScope(deadline=until):
            return await self._read()
        return self._unread()

    def _unread(self) -> bytes | bytearray:
        """Return the message that has arrived, though the time is up; raise if there is none.

        After the program has kept the event loop busy, trio cancels before the reader's task runs.
        """
        if not self.sent_nothing and not self.has_unsent:
            try:
                self._reader.read_ready()
            except OSError as error:  # as in the reader's task
                raise self._broken(error) from error
            if self._frames:
                return self._frames.pop(0)
            if self.is_closed:
                raise self._closed_error()
        raise self._too_late()

    def expect_more(self, is_expected: bool) -> None:
        self._is_streaming = is_expected
        if is_expected:
            return
        self._is_owed = False
        if self._has_surplus:
            self._refuse_surplus()

    def abort(self) -> None:
        self.fail("the connection was closed by this client")

    # --- waiting, and the end ---

    async def _read(self) -> bytes | bytearray:
        try:
            self._task = current_task()
            await wait_task_rescheduled(self._stop_waiting)
        except BaseException:
            self._task = None
            raise
        if self._frames:
            return self._frames.pop(0)
        raise self._closed_error()

    def _stop_waiting(self, _raise_cancel: Any) -> Abort:
        self._task = None
        return Abort.SUCCEEDED

    def _wake(self) -> None:
        task = self._task
        if task is not None:
            self._task = None
            reschedule(task, WOKEN)

    def _resume(self) -> None:
        self._is_paused = False
        try:
            self._reader.resume(self._socket.fileno())
        except OSError as error:
            self._broken(error)

    def _refuse_surplus(self) -> None:
        """Close the stream: the peer sent unrequested bytes. The operation with the last reply is unaffected."""
        kind = ProtocolError if self._is_owed is None else AutoReconnect
        self._close(kind(f"{format_address(self._address)}: {SURPLUS}"))

    def _close(self, error: PyMongoError) -> None:
        """Close the socket and wake its waiting task. Later callers see the first reason."""
        if self.is_closed:
            return
        self.is_closed = True
        self._error = type(error)(str(error))  # a copy: the frames of a raised error reference this stream
        # Before it is closed: a socket that a child process has too would remain registered.
        self._reader.remove(self._socket.fileno())
        if self.has_unsent:
            notify_closing(self._socket)
        self._socket.close()
        self._wake()

    def _broken(self, error: BaseException) -> PyMongoError:
        self.fail(describe(error.__cause__ or error))
        return self._closed_error()

    def _check_open(self) -> None:
        if self.is_closed:
            self.sent_nothing = True
            raise self._closed_error()

    def _closed_error(self) -> PyMongoError:
        """Return a new exception each time: a raised one keeps the traceback and context of its raiser."""
        first = self._error
        assert first is not None
        return type(first)(str(first))
