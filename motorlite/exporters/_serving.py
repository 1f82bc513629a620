"""Shell: the thread that shows this program's clients to readers on a Unix socket.

It needs nothing of any event loop, so it works on all of them, and shows also a loop that is stuck. Without a reader it
waits in one system call, and no client is followed. A reader that does not read costs one snapshot of memory, and is
dropped.
"""

from __future__ import annotations

import atexit
import errno
import os
import selectors
import socket
import sys
import threading
import time
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from motorlite import AsyncMongoClient
from motorlite._base.values import format_address
from motorlite._base.version import __version__
from motorlite.exporters import _sockets
from motorlite.exporters._snapshots import client_snapshot, program_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._options.options import ClientOptions
    from motorlite.stats import ClientStats

T = TypeVar("T")

# Seconds between two snapshots.
INTERVAL: Final = 1.0
# Seconds without a byte taken, after which a reader is dropped.
PATIENCE: Final = 5.0
# Errors of `accept` when the program has no file descriptor or memory left, and how long to wait then.
_NOTHING_LEFT: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_PAUSE: Final = 0.1
# Further ones are turned away.
MOST_READERS: Final = 8
# How long `close` waits for the thread, which makes one snapshot at most.
_JOIN_TIMEOUT: Final = 5.0
# A dictionary of the driver that grows while it is copied is copied again.
_TRIES: Final = 10


class Watchable(Protocol):
    """What is shown: what is behind a client."""

    @property
    def options(self) -> ClientOptions: ...

    def stats(self) -> ClientStats: ...

    def watch(self) -> dict[str, Any] | None: ...

    def end_watch(self) -> None: ...


def again(read: Callable[[], T]) -> T:
    """Return what `read` returns, although the event loop changes it meanwhile."""
    for _ in range(_TRIES - 1):
        try:
            return read()
        except RuntimeError:
            continue  # "dictionary changed size during iteration"
    return read()


class Reader:
    """A program that reads snapshots."""

    __slots__ = ("left", "sock", "taken_at")

    def __init__(self, sock: socket.socket, now: float) -> None:
        self.sock = sock
        # What it has not taken yet of the newest snapshot that it got.
        self.left = memoryview(b"")
        self.taken_at = now

    def send(self, now: float) -> bool:
        """Send as much as it takes. Return whether it is still there."""
        try:
            while self.left:
                self.left = self.left[self.sock.send(self.left) :]
                self.taken_at = now
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True


class Server:
    """The socket of this process, its thread and its readers."""

    def __init__(self, path: str | None, interval: float = INTERVAL, patience: float = PATIENCE) -> None:
        self._given = path
        self._interval = interval
        self._patience = patience
        # None: all clients.
        self._chosen: WeakSet[Watchable] | None = WeakSet()
        # In the order of their first snapshots.
        self._numbers: WeakKeyDictionary[Watchable, int] = WeakKeyDictionary()
        self._last_number = 0
        self._readers: dict[socket.socket, Reader] = {}
        self._is_closed = False
        self._open()

    def _open(self) -> None:
        self.path: str = _sockets.own_path() if self._given is None else os.path.abspath(self._given)
        self._listener = _sockets.listen(self.path)
        self._pid = os.getpid()
        self._wake_up, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._facts = {"motorlite": __version__, "pid": self._pid, "program": program()}
        self._thread = threading.Thread(target=self._run, name="motorlite live", daemon=True)
        self._thread.start()

    def show(self, core: Watchable | None) -> None:
        """Show this client too; None: all clients."""
        if core is None:
            self._chosen = None
        elif self._chosen is not None:
            self._chosen.add(core)

    # --- the thread ---

    def _run(self) -> None:
        due = 0.0
        while not self._is_closed:
            wait = max(0.0, due - time.perf_counter()) if self._readers else None
            for key, events in self._selector.select(wait):
                if key.fileobj is self._listener:
                    due = min(due, self._accept(time.perf_counter()))
                elif isinstance(key.data, Reader):
                    self._serve(key.data, events)
            now = time.perf_counter()
            if self._readers and now >= due:
                self._publish(now)
                due = now + self._interval
        self._end_watches()

    def _accept(self, now: float) -> float:
        """Accept a reader. Return when the next snapshot is due: at once, if there is a new reader."""
        try:
            sock, _ = self._listener.accept()
        except OSError as error:
            if error.errno in _NOTHING_LEFT:
                time.sleep(_PAUSE)  # the listener stays ready
            return inf
        with suppress(OSError):  # it has gone again
            if len(self._readers) >= MOST_READERS or not _sockets.is_of_this_user(sock):
                sock.close()
                return inf
            sock.setblocking(False)
            reader = self._readers[sock] = Reader(sock, now)
            self._selector.register(sock, selectors.EVENT_READ, reader)
        return now

    def _serve(self, reader: Reader, events: int) -> None:
        is_there = True
        if events & selectors.EVENT_READ:
            try:
                # Readers say nothing; an end of file is the only news.
                is_there = bool(reader.sock.recv(4096))
            except BlockingIOError:
                pass
            except OSError:
                is_there = False
        if is_there and events & selectors.EVENT_WRITE:
            is_there = reader.send(time.perf_counter())
        self._settle(reader, is_there=is_there)

    def _settle(self, reader: Reader, *, is_there: bool) -> None:
        if is_there:
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if reader.left else 0)
            self._selector.modify(reader.sock, wanted, reader)
            return
        self._selector.unregister(reader.sock)
        del self._readers[reader.sock]
        reader.sock.close()
        if not self._readers:
            self._end_watches()

    def _publish(self, now: float) -> None:
        line = None
        for reader in tuple(self._readers.values()):
            if reader.left:
                self._settle(reader, is_there=now - reader.taken_at <= self._patience)
                continue  # a slow one misses snapshots
            if line is None:
                try:
                    line = memoryview(self.snapshot(now))
                except RuntimeError:
                    return  # the event loop changes too much at the moment
            reader.left, reader.taken_at = line, now
            self._settle(reader, is_there=reader.send(now))

    def _cores(self) -> tuple[Watchable, ...]:
        chosen = self._chosen
        return again(lambda: AsyncMongoClient._cores() if chosen is None else tuple(chosen))

    def snapshot(self, now: float) -> bytes:
        """Return the line for a reader, and follow the clients from now on."""
        clients = []
        for core in self._cores():
            watched = again(core.watch)
            if watched is None:
                continue
            number = self._numbers.get(core)
            if number is None:
                number = self._numbers[core] = self._last_number = self._last_number + 1
            clients.append((number, client_snapshot(number, name_of(core.options), again(core.stats), watched)))
        clients.sort(key=lambda each: each[0])
        return program_snapshot(self._facts, now, [client for _, client in clients])

    def _end_watches(self) -> None:
        for core in self._cores():
            core.end_watch()

    # --- the end ---

    def close(self) -> None:
        """End the thread, close the sockets and remove the file."""
        if self._is_closed or self._pid != os.getpid():
            return
        if _servers.get(self._given) is self:
            del _servers[self._given]
        self._is_closed = True
        with suppress(FileNotFoundError):
            os.unlink(self.path)
        self._wake_up.send(b"x")
        if self._thread is not threading.current_thread():
            self._thread.join(_JOIN_TIMEOUT)
        self._close_sockets()

    def _close_sockets(self) -> None:
        self._selector.close()
        for sock in (self._listener, self._wake_up, self._woken, *self._readers):
            sock.close()
        self._readers.clear()

    def after_fork(self) -> None:
        """In a child: leave the sockets to the parent, and open one of its own if it has a name of its own."""
        self._close_sockets()
        if self._given is not None:
            self._is_closed = True
            return
        try:
            self._open()
        except OSError:
            # A child is not the place to fail: it goes on without the view.
            self._is_closed = True


# By given path; None: that of the process id.
_servers: Final[dict[str | None, Server]] = {}
_lock = threading.Lock()


def serve(core: Watchable | None, path: str | None) -> Server:
    """Return the server at `path`, which shows `core`, or all clients."""
    with _lock:
        server = _servers.get(path)
        if server is None:
            server = _servers[path] = Server(path)
        server.show(core)
    return server


def name_of(options: ClientOptions) -> str:
    """Return what a person calls a client: its appName, or else its hosts."""
    if options.app_name:
        return options.app_name
    return options.srv.host_name if options.srv is not None else ",".join(map(format_address, options.seeds))


def program() -> str:
    """Return what was started. No arguments, which may be secrets."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name:
        return f"-m {spec.name.removesuffix('.__main__')}"
    return os.path.basename(sys.argv[0]) or "python" if sys.argv else "python"


def _close_all() -> None:
    for server in tuple(_servers.values()):
        server.close()


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()  # another thread of the parent may have held it
    for path, server in tuple(_servers.items()):
        server.after_fork()
        if server._is_closed:
            del _servers[path]


atexit.register(_close_all)
os.register_at_fork(after_in_child=_after_fork)
