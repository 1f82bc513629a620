"""Net: the runtime on asyncio and on event loops with its interface (uvloop)."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import socket
import sys
import time
from asyncio import get_running_loop
from collections import deque
from contextlib import suppress
from copy import copy
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from motorlite._net.failures import HandshakeTimeout, connecting
from motorlite._net.host import enable_keepalive, keep_from_children
from motorlite._net.on_asyncio.sockets import SocketStream, watches_sockets
from motorlite._net.on_asyncio.stream import AsyncioStream, Silence, resolve
from motorlite._net.runtime import WaitTimeout

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence

    from motorlite._base.values import Address
    from motorlite._net.runtime import Dial, Framer
    from motorlite._options.parts import ProxyOptions


# Staggered connection attempts to the addresses of a host on asyncio (RFC 8305, section 5).
#
# asyncio's own `happy_eyeballs_delay` leaves sockets open when it is cancelled, and uvloop does not support it.

T = TypeVar("T")

# Seconds between the starts of two attempts (RFC 8305, section 8; trio uses the same).
STAGGER: Final = 0.25


async def first_of(attempts: Iterable[Callable[[], Coroutine[Any, Any, T]]], close: Callable[[T], None]) -> T:
    """Return the first successful attempt's result. Other results are closed, also when the caller is cancelled.

    The next attempt starts `STAGGER` seconds after the previous one, or immediately when one has failed.

    Raises:
        OSError: all attempts failed; the error of the first to fail.
    """
    waiting = deque(attempts)
    running: set[asyncio.Task[T]] = set()
    winner: asyncio.Task[T] | None = None
    failure: OSError | None = None
    try:
        while waiting or running:
            if waiting:
                running.add(asyncio.create_task(waiting.popleft()(), name="motorlite connection attempt"))
            pause = STAGGER if waiting else None
            done, _ = await asyncio.wait(running, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                error = task.exception()
                if error is None:
                    winner = task
                    running.discard(task)
                    return task.result()
                if isinstance(error, (KeyboardInterrupt, SystemExit)):
                    # Its task has raised it out of the event loop. Here, a second one would end the program's clean-up.
                    error = InterruptedError("connecting was interrupted")
                if not isinstance(error, OSError):  # a TimeoutError is one
                    raise error
                failure = failure or copy(error)  # the task keeps the original
            running -= done
    finally:
        try:
            await _end(running, close)
        except BaseException:
            if winner is not None:
                close(winner.result())
            raise
    assert failure is not None
    try:
        raise failure
    finally:
        del failure  # its traceback references this frame


async def _end(tasks: set[asyncio.Task[T]], close: Callable[[T], None]) -> None:
    for task in tasks:
        task.cancel()
        # The task may succeed all the same. The callback runs even if this coroutine is cancelled.
        task.add_done_callback(partial(_close_result, close))
    if tasks:
        await asyncio.wait(tasks)


def _close_result(close: Callable[[T], None], task: asyncio.Task[T]) -> None:
    if not task.cancelled() and task.exception() is None:
        close(task.result())


# One entry of getaddrinfo's result.
_AddressInfo: TypeAlias = "tuple[socket.AddressFamily, socket.SocketKind, int, str, Any]"
_logger = logging.getLogger("motorlite.client")
# The value that a waiter receives at its time limit.
_EXPIRED = object()


class AsyncioWaiter:
    """A one-shot waiter on a future."""

    __slots__ = ("_future", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._future: asyncio.Future[Any] = loop.create_future()

    def offer(self, value: Any) -> bool:
        return resolve(self._future, value)

    def take_back(self) -> Any | None:
        # A task can be cancelled after its future has a result and before the task runs again.
        future = self._future
        if future.done() and not future.cancelled() and future.result() is not _EXPIRED:
            return future.result()
        return None

    def wait(self, until: float) -> Awaitable[Any]:
        # Not a coroutine around the future, which thousands of waiting operations would each have.
        return self._future if until == inf else self._wait_until(until)

    async def _wait_until(self, until: float) -> Any:
        timer = self._loop.call_at(until, self.offer, _EXPIRED)
        try:
            value = await self._future
        finally:
            timer.cancel()
        if value is _EXPIRED:
            # Raised here, not set on the future: the future would keep the error, and the error this frame.
            raise WaitTimeout
        return value


class AsyncioHost:
    """An asyncio.TaskGroup in its own task, so that the loop's shutdown ends everything in order."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str, on_end: Callable[[], None]) -> None:
        self._on_end = on_end
        self._loop = loop
        self._group: asyncio.TaskGroup | None = None
        # Tasks spawned before the host task first ran.
        self._early: list[_AsyncioTask] = []
        self._stop = asyncio.Event()
        self.is_closed = False
        self._task = loop.create_task(self._main(), name=name, context=contextvars.Context())
        # Not at the end of `_main`: it never starts when the loop shuts down in this iteration.
        self._task.add_done_callback(self._ended, context=contextvars.Context())

    async def _main(self) -> None:
        try:
            await self._serve()
        except asyncio.CancelledError:
            # The loop shuts down. A finished task keeps its error, and the error would keep frames, on Python 3.13 also
            # those of the loop with all other tasks.
            return

    async def _serve(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                while self._early:  # no loop variable: it would keep the last task alive
                    self._early.pop(0).start(group)
                try:
                    await self._stop.wait()
                finally:  # also when the loop's shutdown cancels this task: a task spawned now would block the shutdown
                    self.is_closed = True
                raise _Stop
        except* _Stop:
            pass

    def _ended(self, _task: asyncio.Task[None]) -> None:
        self.is_closed = True
        self._on_end()

    def spawn(self, function: Callable[..., Awaitable[None]], *args: Any, name: str = "work") -> _AsyncioTask:
        task = _AsyncioTask(function, args, name, self._interrupt)
        if self.is_closed:
            return task
        if self._group is None:
            self._early.append(task)
        else:
            task.start(self._group)
        return task

    def stop(self) -> None:
        self.is_closed = True
        self._stop.set()

    def _interrupt(self, error: BaseException) -> None:
        """End the host, because Ctrl-C or an exit of the program has ended one of its tasks."""
        self.stop()
        # Out of the event loop, but not out of the task: the group would raise it again, out of the host's task, and so
        # end what the program does to clean up.
        self._loop.call_soon(_raise, error)

    async def close(self) -> None:
        self.stop()
        await asyncio.wait([self._task])


def _raise(error: BaseException) -> None:
    try:
        raise error
    finally:
        del error  # its traceback references this frame


class _Stop(Exception):
    """Makes the task group cancel its tasks."""


class _AsyncioTask:
    __slots__ = ("_args", "_function", "_interrupt", "_is_cancelled", "_name", "_task")

    def __init__(
        self,
        function: Callable[..., Awaitable[None]],
        args: tuple[Any, ...],
        name: str,
        interrupt: Callable[[BaseException], None],
    ) -> None:
        self._function = function
        self._args = args
        self._interrupt = interrupt
        self._name = f"motorlite {name}"
        self._task: asyncio.Task[None] | None = None
        self._is_cancelled = False

    def start(self, group: asyncio.TaskGroup) -> None:
        if not self._is_cancelled:
            # In an empty context, since the group's callback keeps the context that it is added in.
            self._task = contextvars.Context().run(group.create_task, self._run(), name=self._name)

    async def _run(self) -> None:
        if self._task is None:
            # An eager task factory runs the first step before `spawn` returns. Callers of `spawn` rely on it running
            # later.
            await asyncio.sleep(0)
        try:
            await self._function(*self._args)
        except Exception:
            _logger.exception("background task %s failed", self._function)
        except (KeyboardInterrupt, SystemExit) as error:
            self._interrupt(error)

    def cancel(self) -> None:
        self._is_cancelled = True
        # The CancelledError has a frame that references this object.
        task, self._task = self._task, None
        if task is not None:
            task.cancel()


_ANYIO: Final = "anyio._backends._asyncio"
_modules: Final = sys.modules


# What each event loop has one of, by the function that makes it.
_shared: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Any, Any]]] = WeakKeyDictionary()


class AsyncioRuntime:
    """The running asyncio event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.name = "uvloop" if type(self._loop).__module__.startswith("uvloop") else "asyncio"
        # Asyncio's own method calls the same function.
        is_usual = type(self._loop).time is asyncio.BaseEventLoop.time
        self.now: Callable[[], float] = time.monotonic if is_usual else self._loop.time
        # Returns the deadline of anyio's scopes around the caller; None until anyio is used.
        self._of_scopes: Callable[[], float] | None = None

    def is_current(self) -> bool:
        try:
            is_here = get_running_loop() is self._loop
        except RuntimeError:
            return False
        if is_here and "trio" in _modules:
            import trio

            # A trio task in guest mode cannot await asyncio futures.
            return not trio.lowlevel.in_trio_task()
        return is_here

    def deadline_here(self) -> float | None:
        # As `is_current` and `scope_deadline`, without their calls: every operation begins with this.
        try:
            if get_running_loop() is not self._loop:
                return None
        except RuntimeError:
            return None
        if self._of_scopes is None and _ANYIO not in _modules and "trio" not in _modules:
            return inf
        return self.scope_deadline() if self.is_current() else None

    def scope_deadline(self) -> float:
        find = self._of_scopes
        if find is None:
            # If anyio's asyncio backend was never loaded, none of its scopes can be around the caller.
            if _ANYIO not in _modules:
                return inf
            find = self._of_scopes = _of_scopes()
        return find()

    def shared(self, make: Callable[[], T]) -> T:
        try:
            made = _shared.setdefault(self._loop, {})
        except TypeError:  # the loop is of a type without weak references
            return make()
        if make not in made:
            made[make] = make()
        value: T = made[make]
        return value

    def waiter(self) -> AsyncioWaiter:
        return AsyncioWaiter(self._loop)

    def host(self, name: str, on_end: Callable[[], None]) -> AsyncioHost:
        return AsyncioHost(self._loop, name, on_end)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def connect(
        self,
        address: Address,
        framer: Framer,
        until: float,
        tls: ssl.SSLContext | None,
        proxy: ProxyOptions | None = None,
        dial: Dial | None = None,
    ) -> AsyncioStream:
        host, port = address
        limit = until if until != inf else None
        with connecting(address):
            if port is not None and proxy is not None:
                from motorlite._net.proxy import through

                with through(proxy, host, port):
                    async with asyncio.timeout_at(limit):
                        sock = await self._open_through(proxy, host, port)
            else:
                async with asyncio.timeout_at(limit):
                    sock = await (self._open(host, port) if dial is None else dial(address, until))
            scope = asyncio.timeout_at(limit)
            try:
                async with scope:
                    return await self._stream(sock, address, framer, tls)
            except TimeoutError:
                if tls is None or not scope.expired():
                    raise
                raise HandshakeTimeout from None

    async def _stream(
        self, sock: socket.socket, address: Address, framer: Framer, tls: ssl.SSLContext | None
    ) -> AsyncioStream:
        loop = self._loop
        if tls is None and watches_sockets(loop):
            try:
                return SocketStream(address, framer, loop, sock)
            except BaseException:
                sock.close()
                raise
        stream = AsyncioStream(address, framer, loop, sock if tls is None else None)
        create = loop.create_unix_connection if address[1] is None else loop.create_connection
        try:
            transport, _ = await create(Silence if tls is not None else lambda: stream, sock=sock)
        except BaseException:
            sock.close()
            raise
        if tls is not None:
            await stream.secure(transport, tls, address[0])
        return stream

    async def _open(self, host: str, port: int | None) -> socket.socket:
        """Return a connected socket. It gets its transport as late as possible: a transport reads immediately."""
        if port is None:
            return await self._connected_socket((socket.AF_UNIX, socket.SOCK_STREAM, 0, "", host))
        found = await self._addresses(host, port)
        if not found:
            raise OSError(f"no address found for {host}")
        return await first_of([partial(self._connected_socket, info) for info in found], socket.socket.close)

    async def _open_through(self, proxy: ProxyOptions, host: str, port: int) -> socket.socket:
        from motorlite._net.proxy import introduce

        loop = self._loop
        sock = await self._open(proxy.host, proxy.port)
        try:
            write, read = partial(loop.sock_sendall, sock), partial(loop.sock_recv, sock)
            await introduce(proxy, host, port, write, read, partial(_peek, sock))
        except BaseException:
            sock.close()
            raise
        return sock

    async def _connected_socket(self, found: _AddressInfo) -> socket.socket:
        family, kind, proto, _, where = found
        sock = socket.socket(family, kind, proto)
        keep_from_children(sock)
        try:
            sock.setblocking(False)
            if family != getattr(socket, "AF_UNIX", None):
                enable_keepalive(sock)
            await self._loop.sock_connect(sock, where)
        except BaseException:
            sock.close()
            raise
        return sock

    async def _addresses(self, host: str, port: int) -> Sequence[_AddressInfo]:
        try:
            # An IP address needs no lookup, and so no thread. For text, Python would import its tables of IDNA.
            return socket.getaddrinfo(host.encode(), port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except socket.gaierror:
            return await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)

    async def run_in_thread(self, function: Callable[[], T], until: float = inf) -> T:
        scope = asyncio.timeout_at(until if until != inf else None)
        try:
            async with scope:
                return await asyncio.to_thread(_without_stop, function)
        except TimeoutError:
            if scope.expired():
                raise WaitTimeout from None
            raise

    def run_soon(self, function: Callable[..., object], *args: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(function, *args, context=contextvars.Context())


def _without_stop(function: Callable[[], T]) -> T:
    """Call `function`. Before Python 3.12, a future refuses a StopIteration, and its caller would wait forever."""
    try:
        return function()
    except StopIteration as error:
        # Without the function, which may be bound to a secret.
        raise RuntimeError("a function in a thread raised StopIteration") from error


def _of_scopes() -> Callable[[], float]:
    """Return anyio's function for the deadline of the scopes around the caller, on this event loop."""
    import anyio.lowlevel

    # `anyio.current_effective_deadline` asks at each call which event loop is running, which takes longer than the
    # answer. Before anyio 4.11, tokens did not have it.
    backend = getattr(anyio.lowlevel.current_token(), "backend_class", None)
    find: Callable[[], float] = anyio.current_effective_deadline
    return find if backend is None else backend.current_effective_deadline


async def _peek(sock: socket.socket) -> bytes:
    try:
        return sock.recv(1, socket.MSG_PEEK)
    except OSError:  # no data; or the socket is broken, and the next operation on it raises
        return b""
