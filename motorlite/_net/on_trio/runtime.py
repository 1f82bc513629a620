"""Net: the runtime on trio."""

from __future__ import annotations

import contextvars
import logging
import select
import signal
import socket
import ssl
from contextlib import suppress
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeVar

import trio

from motorlite._base.hosts import certified
from motorlite._net.failures import TLS_REFUSED, HandshakeTimeout, connecting, describe
from motorlite._net.host import enable_keepalive, keep_from_children
from motorlite._net.on_trio.epoll import EpollStream, Reader
from motorlite._net.on_trio.stream import WOKEN, TrioStream, TrioTLSStream
from motorlite._net.runtime import WaitTimeout

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from motorlite._base.values import Address
    from motorlite._net.runtime import Dial, Framer
    from motorlite._options.parts import ProxyOptions

T = TypeVar("T")
_logger = logging.getLogger("motorlite.client")
_NOTHING = object()
_HAS_EPOLL: Final = hasattr(select, "epoll")


class TrioWaiter:
    """A one-shot waiter. An accepted value is always received, because trio cannot cancel a woken task."""

    __slots__ = ("_is_over", "_task", "_value")

    def __init__(self) -> None:
        self._value: Any = _NOTHING
        self._task: trio.lowlevel.Task | None = None
        self._is_over = False

    def offer(self, value: Any) -> bool:
        if self._is_over or self._value is not _NOTHING:
            return False
        self._value = value
        if self._task is not None:
            trio.lowlevel.reschedule(self._task, WOKEN)
            self._task = None
        return True

    def take_back(self) -> Any | None:
        # The value was accepted before `wait` began, and `wait` was never reached.
        return None if self._value is _NOTHING else self._value

    async def wait(self, until: float) -> Any:
        if self._value is not _NOTHING:
            return self._value
        try:
            self._task = trio.lowlevel.current_task()
            if until == inf:
                await trio.lowlevel.wait_task_rescheduled(self._abort)
                return self._value
            with trio.CancelScope(deadline=until):
                await trio.lowlevel.wait_task_rescheduled(self._abort)
        except BaseException:  # also a KeyboardInterrupt, which may come before the task waits
            self._task, self._is_over = None, True
            raise
        if self._value is _NOTHING:
            raise WaitTimeout
        return self._value

    def _abort(self, _raise_cancel: Any) -> trio.lowlevel.Abort:
        self._task = None
        self._is_over = True
        return trio.lowlevel.Abort.SUCCEEDED


class TrioHost:
    """A nursery in a system task, which outlives the task that made the client."""

    def __init__(self, name: str, on_end: Callable[[], None]) -> None:
        self._on_end = on_end
        self._nursery: trio.Nursery | None = None
        # Tasks spawned before the host task first ran.
        self._early: list[_TrioTask] = []
        self._scope = trio.CancelScope()
        self._ended = trio.Event()
        self.is_closed = False
        trio.lowlevel.spawn_system_task(self._main, name=name, context=contextvars.Context())

    async def _main(self) -> None:
        # An exception that escapes a system task makes trio end the program.
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    self._nursery = nursery
                    while self._early:  # no loop variable: it would keep the last task alive
                        self._start(nursery, self._early.pop(0))
                    await trio.sleep_forever()
        finally:
            self.is_closed = True
            self._ended.set()
            self._on_end()

    def spawn(self, function: Callable[..., Awaitable[None]], *args: Any, name: str = "work") -> _TrioTask:
        task = _TrioTask(function, args, name)
        if self.is_closed:
            return task
        if self._nursery is None:
            self._early.append(task)
        else:
            contextvars.Context().run(self._start, self._nursery, task)
        return task

    @staticmethod
    def _start(nursery: trio.Nursery, task: _TrioTask) -> None:
        nursery.start_soon(task.run, name=task.name)

    def stop(self) -> None:
        self.is_closed = True
        self._scope.cancel()

    async def close(self) -> None:
        self.stop()
        await self._ended.wait()


class _TrioTask:
    __slots__ = ("_args", "_function", "_scope", "name")

    def __init__(self, function: Callable[..., Awaitable[None]], args: tuple[Any, ...], name: str) -> None:
        self._function = function
        self._args = args
        self.name = f"motorlite {name}"
        self._scope = trio.CancelScope()

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        # Protected: KeyboardInterrupt belongs to the program; raised here it would end the system task.
        if self._scope.cancel_called:  # as on asyncio, a task cancelled early never starts
            return
        with self._scope:
            try:
                try:
                    await self._function(*self._args)
                except* KeyboardInterrupt:  # of a task that the function has started, which is not protected
                    _pass_on_interrupt()
            except Exception:
                _logger.exception("background task %s failed", self._function)

    def cancel(self) -> None:
        self._scope.cancel()


# What each event loop has one of, by the function that makes it.
_shared: Final[trio.lowlevel.RunVar[dict[Any, Any]]] = trio.lowlevel.RunVar("motorlite")


class TrioRuntime:
    """The running trio event loop."""

    name = "trio"

    def __init__(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        # Of the clock itself, not `trio.current_time`: statistics are also read from other threads.
        self.now: Callable[[], float] = trio.lowlevel.current_clock().current_time
        # Reads the open plain sockets. None before the first one; closed while there are none.
        self._reader: Reader | None = None

    def is_current(self) -> bool:
        # In guest mode the host loop's own tasks also run in the thread of a trio run.
        return trio.lowlevel.in_trio_task() and trio.lowlevel.current_trio_token() is self._token

    def deadline_here(self) -> float | None:
        return trio.current_effective_deadline() if self.is_current() else None

    def scope_deadline(self) -> float:
        return trio.current_effective_deadline()

    def shared(self, make: Callable[[], T]) -> T:
        try:
            made = _shared.get()
        except LookupError:
            made = {}
            _shared.set(made)
        if make not in made:
            made[make] = make()
        value: T = made[make]
        return value

    def waiter(self) -> TrioWaiter:
        return TrioWaiter()

    def host(self, name: str, on_end: Callable[[], None]) -> TrioHost:
        return TrioHost(name, on_end)

    async def sleep(self, seconds: float) -> None:
        await trio.sleep(seconds)

    async def connect(
        self,
        address: Address,
        framer: Framer,
        until: float,
        tls: ssl.SSLContext | None,
        proxy: ProxyOptions | None = None,
        dial: Dial | None = None,
    ) -> TrioStream:
        with connecting(address):
            stream = await (self._open(address, until, proxy) if dial is None else self._dialled(dial, address, until))
            with trio.CancelScope(deadline=until):
                return await self._secure(stream, address, framer, tls)
            raise HandshakeTimeout  # without TLS, nothing waits

    async def _open(self, address: Address, until: float, proxy: ProxyOptions | None) -> trio.SocketStream:
        host, port = address
        if port is not None and proxy is not None:
            from motorlite._net.proxy import through

            with through(proxy, host, port):
                with trio.CancelScope(deadline=until):
                    return await self._open_through(proxy, host, port)
                raise TimeoutError
        with trio.CancelScope(deadline=until):
            return await self._open_directly(host, port)
        raise TimeoutError

    @staticmethod
    async def _dialled(dial: Dial, address: Address, until: float) -> trio.SocketStream:
        with trio.CancelScope(deadline=until):
            return trio.SocketStream(trio.socket.from_stdlib_socket(await dial(address, until)))
        raise TimeoutError

    async def _open_directly(self, host: str, port: int | None) -> trio.SocketStream:
        if port is None:
            stream = await trio.open_unix_socket(host)
        else:
            stream = await _open_tcp(host, port)
            enable_keepalive(stream.socket)
        keep_from_children(stream.socket)
        return stream

    async def _open_through(self, proxy: ProxyOptions, host: str, port: int) -> trio.SocketStream:
        from motorlite._net.proxy import introduce

        stream = await self._open_directly(proxy.host, proxy.port)
        try:
            await introduce(proxy, host, port, stream.send_all, stream.receive_some, partial(_peek, stream.socket))
        except BaseException as error:
            stream.socket.close()
            if isinstance(error, trio.BrokenResourceError):
                raise _cause(error) from None
            raise
        return stream

    async def _secure(
        self, stream: trio.SocketStream, address: Address, framer: Framer, tls: ssl.SSLContext | None
    ) -> TrioStream:
        if tls is None:
            sock = socket.socket(fileno=stream.socket.detach())
            sock.setblocking(False)
            keep_from_children(sock)
            return self._plain(sock, address, framer)
        secured = trio.SSLStream(stream, tls, server_hostname=certified(address[0]), https_compatible=True)
        try:
            await secured.do_handshake()
        except BaseException as error:
            stream.socket.close()
            if isinstance(error, trio.BrokenResourceError):
                cause = _cause(error)
                raise cause if isinstance(cause, ssl.SSLError) else ConnectionResetError(TLS_REFUSED) from None
            raise
        return TrioTLSStream(address, framer, stream.socket, secured)

    def _plain(self, sock: socket.socket, address: Address, framer: Framer) -> TrioStream:
        if not _HAS_EPOLL:
            return TrioStream(address, framer, sock)
        try:
            if self._reader is None or self._reader.is_closed:
                self._reader = Reader()
            return EpollStream(address, framer, sock, self._reader)
        except BaseException:
            sock.close()
            raise

    async def run_in_thread(self, function: Callable[[], T], until: float = inf) -> T:
        with trio.CancelScope(deadline=until):
            # As on asyncio, a cancelled caller does not wait for the thread.
            return await trio.to_thread.run_sync(function, abandon_on_cancel=True)
        raise WaitTimeout

    def run_soon(self, function: Callable[..., object], *args: Any) -> None:
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(_call, function, args)


def _call(function: Callable[..., object], args: tuple[Any, ...]) -> None:
    """Call `function` and log its exception, as asyncio does: a failing callback does not end the run."""
    try:
        function(*args)
    except Exception:
        _logger.exception("%s failed on the event loop", function)


def _pass_on_interrupt() -> None:
    """Pass a Ctrl-C on to the program: in a system task, it would end the run with an internal error of trio's."""
    signal.raise_signal(signal.SIGINT)


async def _open_tcp(host: str, port: int) -> trio.SocketStream:
    opened: list[trio.SocketStream] = []
    try:
        opened.append(await trio.open_tcp_stream(host, port))
    except* KeyboardInterrupt:
        # The tasks that trio starts for the addresses are not protected, as background work is.
        _pass_on_interrupt()
    if not opened:
        raise InterruptedError("connecting was interrupted")
    return opened[0]


async def _peek(sock: trio.socket.SocketType) -> bytes:
    return await sock.recv(1, socket.MSG_PEEK) if sock.is_readable() else b""


def _cause(error: trio.BrokenResourceError) -> OSError:
    """The OSError that trio wraps when a socket breaks."""
    cause = error.__cause__
    return cause if isinstance(cause, OSError) else ConnectionError(describe(error))
