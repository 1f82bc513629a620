"""Net: a TCP proxy in front of a server, for tests of what a program does when the network fails.

Theory of operation. The proxy has a thread and an event loop of its own, so tests on any event loop, or on none, can
use it; its methods block until what they ask for is done, which takes no longer than a turn of that loop. Each
connection is a `_Link` with one task that copies bytes in each direction. The tasks read the proxy's present faults
before every piece, which is why faults act on connections that are open already.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, Self, TypeAlias

from motorlite.testing.mongod_processes import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from motorlite.values import Address

HOST: Final = "127.0.0.1"
CHUNK: Final = 64 * 1024
BACKLOG: Final = 256
# Closing with this in force sends RST instead of FIN, and throws away what was not sent.
LINGER_NOT: Final = struct.pack("ii", 1, 0)
# The members of a replica set say so in the first message on their connections to each other.
MEMBER_MARK: Final = b"\x03internalClient\x00"
# How often a limited bandwidth is handed out in a second.
SHARES: Final = 50

Towards: TypeAlias = Literal["both", "server", "client"]


@dataclass(frozen=True, slots=True)
class ProxyCounts:
    """What went through a proxy so far.

    Attributes:
        accepted: All connections.
        open: Those that are open now, between the members of a replica set included.
        open_clients: Those of them that are not known to be between members.
        bytes_to_server: Bytes that were passed on to the server; what a fault swallowed does not count.
        bytes_to_client: The same in the other direction.
    """

    accepted: int
    open: int
    open_clients: int
    bytes_to_server: int
    bytes_to_client: int


@dataclass(frozen=True, slots=True)
class _Faults:
    """What happens to the bytes of one direction; times in seconds."""

    delay: float = 0.0
    # How many bytes are passed on at once, and how long the next ones wait after them.
    piece: int = CHUNK
    interval: float = 0.0
    # Nothing is read; it goes on where it stopped.
    is_held: bool = False
    # Everything is read and thrown away, the end of the connection included.
    is_swallowed: bool = False
    # The connection is reset after so many bytes; None: never.
    cut_after: int | None = None


_HEALTHY: Final = _Faults()


@dataclass(slots=True, eq=False)
class _Link:
    """One connection of a client, and that of the proxy to the server."""

    client: socket.socket
    server: socket.socket
    task: asyncio.Task[None] | None = None
    # None until its first message has told whether it is one between members.
    is_member: bool | None = None
    # What is thrown away cannot be made up for: such a connection is of no use after a `heal`.
    has_lost_bytes: bool = False
    # By direction, how many bytes are left until `cut_after`.
    left: dict[str, int] = field(default_factory=dict)
    ends_with_reset: bool = False


class FaultProxy:
    """A TCP proxy that can be told to misbehave, also towards connections that are open.

    Use it as a context manager, or call `close`::

        with FaultProxy(server.addresses[0]) as proxy:
            async with AsyncMongoClient(*proxy.address, directConnection=True) as client:
                await client.admin.command("ping")
                proxy.black_hole()
                ...
                proxy.heal()

    A client of a replica set uses the addresses that the members announce. ``LocalServer.start("replicaset", nodes=3,
    proxied=True)`` starts one whose members announce their proxies, so that all traffic passes through them: that of
    the clients, and what the members say to each other. `harms` says who meets the faults.

    Faults of different kinds add up until `heal`. `towards` says which direction is meant: ``"server"`` (what clients
    send), ``"client"`` (what they receive) or ``"both"``. All methods may be called from any thread and event loop;
    they block for a moment.

    Args:
        target: The server.
        port: Where to listen; 0 chooses a free port.

    Attributes:
        address: Where the proxy listens.
        target: The server.
        harms: Whose connections meet the faults: ``"all"`` at first, ``"clients"`` or ``"members"``. The members of
            a replica set are known by the first message on a connection, which TLS hides: there all are clients.
    """

    def __init__(self, target: Address, *, port: int = 0) -> None:
        self.target: Address = target
        self.address: Address = (HOST, port or free_port())
        self.harms: Literal["all", "clients", "members"] = "all"
        self._faults: dict[str, _Faults] = {"server": _HEALTHY, "client": _HEALTHY}
        self._refuses = False
        self._links: set[_Link] = set()
        self._accepted = 0
        self._bytes = {"server": 0, "client": 0}
        self._listener: socket.socket | None = _listen(self.address)
        self._loop = asyncio.new_event_loop()
        # Both belong to the loop: replaced and set by every change of the faults; who accepts.
        self._changed = asyncio.Event()
        self._accepting: asyncio.Task[None] | None = None
        # A daemon: a test that forgets to close a proxy must not keep the interpreter from ending.
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"proxy {self.address[1]}", daemon=True)
        self._thread.start()
        self._do(self._open)

    # --- faults ---

    def delay(self, seconds: float, towards: Towards = "both") -> None:
        """Let every piece (of 64 KiB at most) wait for `seconds` before it is passed on."""
        self._set(towards, delay=seconds)

    def drip(self, interval: float = 0.001, towards: Towards = "both") -> None:
        """Pass on one byte at a time, and wait for `interval` seconds after each."""
        self._set(towards, piece=1, interval=interval)

    def limit(self, bytes_per_second: int, towards: Towards = "both") -> None:
        """Pass on so many bytes in a second, on each connection."""
        piece = max(1, bytes_per_second // SHARES)
        self._set(towards, piece=piece, interval=piece / bytes_per_second)

    def hold(self, towards: Towards = "both") -> None:
        """Pass nothing on, as when a cable is pulled; after `heal` everything arrives that was sent meanwhile."""
        self._set(towards, is_held=True)

    def black_hole(self, towards: Towards = "both") -> None:
        """Accept connections and swallow what is sent; `heal` resets every connection that has lost something."""
        self._set(towards, is_swallowed=True)

    def half_open(self, towards: Literal["server", "client"] = "client") -> None:
        """Swallow one direction, the end of the connection included, while the other one goes on.

        Towards ``"client"``: the server reads requests and answers, or dies, and the client never hears of it.
        """
        self.black_hole(towards)

    def cut_after(self, count: int, towards: Towards = "both") -> None:
        """Reset each connection once `count` more bytes went through it in that direction; also later ones."""
        self._set(towards, cut_after=count)

    def refuse(self) -> None:
        """Refuse new connections; open ones stay.

        Where not all are harmed, they are accepted and reset with their first message: nobody knows earlier who it is.
        """
        self._do(self._refuse)

    def reset(self) -> None:
        """Reset all open connections (RST to both sides), once."""
        self._do(lambda: self._end(self._harmed(), is_reset=True))

    def hang_up(self) -> None:
        """Close all open connections in order (FIN to both sides), once."""
        self._do(lambda: self._end(self._harmed(), is_reset=False))

    def heal(self) -> None:
        """End all faults; connections that have lost bytes are reset."""
        self._do(self._heal)

    # --- the rest ---

    @property
    def counts(self) -> ProxyCounts:
        """What went through so far."""
        links = tuple(self._links)
        return ProxyCounts(
            self._accepted,
            len(links),
            sum(1 for link in links if not link.is_member),
            self._bytes["server"],
            self._bytes["client"],
        )

    def close(self) -> None:
        """Close everything and end the thread; the second time does nothing."""
        if self._loop.is_closed():
            return
        self._do(self._close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<FaultProxy {self.address[0]}:{self.address[1]} for {self.target[0]}:{self.target[1]}>"

    def _do(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        asyncio.run_coroutine_threadsafe(function(), self._loop).result()

    def _set(self, towards: Towards, **fault: Any) -> None:
        async def change() -> None:
            for direction in self._faults if towards == "both" else (towards,):
                self._faults[direction] = replace(self._faults[direction], **fault)
                if "cut_after" in fault:
                    for link in self._links:
                        link.left[direction] = fault["cut_after"]
            self._tell_of_change()

        self._do(change)

    # --- on the proxy's own loop ---

    def _tell_of_change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _open(self) -> None:
        if self._listener is None:
            self._listener = _listen(self.address)
        if self._accepting is None:
            self._accepting = self._loop.create_task(self._accept(self._listener))

    async def _stop_listening(self) -> None:
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait([self._accepting])
            self._accepting = None
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    async def _refuse(self) -> None:
        self._refuses = True
        if self.harms == "all":
            await self._stop_listening()

    async def _heal(self) -> None:
        self._faults = dict.fromkeys(self._faults, _HEALTHY)
        self._refuses = False
        await self._end([link for link in self._links if link.has_lost_bytes], is_reset=True)
        for link in self._links:
            link.left.clear()
        self._tell_of_change()
        await self._open()

    async def _close(self) -> None:
        await self._stop_listening()
        await self._end(list(self._links), is_reset=True)

    def _harmed(self) -> list[_Link]:
        return [link for link in self._links if not self._spares(link)]

    async def _end(self, links: list[_Link], *, is_reset: bool) -> None:
        tasks = [link.task for link in links if link.task is not None]
        for link, task in zip(links, tasks, strict=True):
            link.ends_with_reset = is_reset
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            client, _ = await self._loop.sock_accept(listener)
            server = socket.socket()
            for each in (client, server):
                each.setblocking(False)
                # What is to be sent byte by byte must not be put together again.
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = _Link(client, server)
            for direction, faults in self._faults.items():
                if faults.cut_after is not None:
                    link.left[direction] = faults.cut_after
            self._accepted += 1
            self._links.add(link)
            link.task = self._loop.create_task(self._serve(link))
            link.task.add_done_callback(lambda _, link=link: self._closed(link))  # type: ignore[misc]  # bound now

    async def _serve(self, link: _Link) -> None:
        try:
            try:
                await self._loop.sock_connect(link.server, self.target)
            except OSError:
                await self._unless_swallowed(link, "client")
                raise
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(link, "server", link.client, link.server))
                group.create_task(self._pump(link, "client", link.server, link.client))
        except* (OSError, _Cut):
            # Of one side, to be passed on to the other.
            link.ends_with_reset = True

    def _closed(self, link: _Link) -> None:
        """Not at the end of `_serve`, of which nothing runs when it is cancelled before it began."""
        self._links.discard(link)
        for each in (link.client, link.server):
            if link.ends_with_reset:
                with contextlib.suppress(OSError):  # reset by the other side a moment ago
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
            each.close()

    async def _pump(self, link: _Link, direction: str, source: socket.socket, sink: socket.socket) -> None:
        opposite = "client" if direction == "server" else "server"
        while True:
            await self._while_held(link, direction)
            try:
                data = await self._loop.sock_recv(source, CHUNK)
            except OSError:
                await self._unless_swallowed(link, direction)
                raise
            if data and direction == "server" and link.is_member is None:
                link.is_member = MEMBER_MARK in data
                if self._refuses and not self._spares(link):
                    raise _Cut
            if not data:
                await self._while_held(link, direction)
                await self._unless_swallowed(link, direction)
                with contextlib.suppress(OSError):  # the other side has gone first
                    sink.shutdown(socket.SHUT_WR)
                return
            try:
                await self._pass_on(link, direction, sink, memoryview(data))
            except OSError:
                await self._unless_swallowed(link, opposite)
                raise

    async def _unless_swallowed(self, link: _Link, direction: str) -> None:
        """Do not return while nobody on this side may hear that the other one is gone."""
        if self._faults_of(link, direction).is_swallowed:
            link.has_lost_bytes = True
            await asyncio.Event().wait()  # until the connection is ended

    async def _pass_on(self, link: _Link, direction: str, sink: socket.socket, data: memoryview) -> None:
        delay = self._faults_of(link, direction).delay
        if delay:
            await asyncio.sleep(delay)
        while data:
            await self._while_held(link, direction)
            faults = self._faults_of(link, direction)
            if faults.is_swallowed:
                link.has_lost_bytes = True
                return
            piece = data[: faults.piece]
            left = link.left.get(direction) if faults.cut_after is not None else None
            if left is not None:
                piece = piece[:left]
                link.left[direction] = left - len(piece)
            # Counted first: who has received them finds them counted.
            self._bytes[direction] += len(piece)
            await self._loop.sock_sendall(sink, piece)
            if left is not None and left <= len(piece):
                raise _Cut
            data = data[len(piece) :]
            if faults.interval:
                await asyncio.sleep(faults.interval)

    async def _while_held(self, link: _Link, direction: str) -> None:
        while self._faults_of(link, direction).is_held:
            await self._changed.wait()

    def _faults_of(self, link: _Link, direction: str) -> _Faults:
        return _HEALTHY if self._spares(link) else self._faults[direction]

    def _spares(self, link: _Link) -> bool:
        return self.harms == ("clients" if link.is_member else "members")


class _Cut(Exception):
    """A connection is to be reset now."""


def _listen(address: Address) -> socket.socket:
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener
