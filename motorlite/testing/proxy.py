"""Net: a TCP proxy in front of a server, for tests with network faults.

Theory of operation. The proxy has its own thread and event loop, so tests on any event loop, or on none, can use it.
Its methods block until the change is in effect, which takes at most one turn of that loop. Each connection is a `_Link`
with one task per direction that copies bytes. The tasks read the proxy's current faults before every piece, so faults
also act on open connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
import threading
from dataclasses import dataclass, field, replace
from functools import cache
from math import inf
from typing import TYPE_CHECKING, Final, Literal, Self, TypeAlias

from motorlite._wire.compression import decompress, make_compressors
from motorlite._wire.frames import HEADER, HEADER_SIZE, MAX_MESSAGE_SIZE, OP_COMPRESSED, OP_MSG
from motorlite._wire.op_msg import MORE_TO_COME, START_SIZE
from motorlite.errors import ProtocolError
from motorlite.testing.server.mongod_processes import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from typing import Any

    from motorlite._base.values import Address
    from motorlite._wire.compression import Compressor

HOST: Final = "127.0.0.1"
CHUNK: Final = 64 * 1024
BACKLOG: Final = 256
# With this option, closing sends RST instead of FIN and discards unsent data.
LINGER_NOT: Final = struct.pack("ii", 1, 0)
# Replica set members send this in the first message on their connections to each other ...
MEMBER_MARK: Final = b"\x03internalClient\x00"
# ... and this, if test commands are enabled: the name of their machine, and the port that they listen on.
MEMBER_PORT: Final = re.compile(rb"\x02hostInfo\x00....[^\x00:]*:(\d+)\x00", re.DOTALL)
# Where the name of the command is in a message: behind the length of its document and the type of the first field.
NAME_OFFSET: Final = START_SIZE + 5
LONGEST_NAME: Final = 64
# Pieces per second under a bandwidth limit.
SHARES: Final = 50

Towards: TypeAlias = Literal["both", "server", "client"]


@dataclass(frozen=True, slots=True)
class ProxyCounts:
    """Traffic of a proxy so far.

    Attributes:
        accepted: All accepted connections.
        open: Connections that are open now, including those between replica set members.
        open_clients: Open connections that are not known to be between members.
        bytes_to_server: Bytes forwarded to the server; bytes that a fault swallowed do not count.
        bytes_to_client: Bytes forwarded to the client, counted likewise.
        lost_replies: Replies that `FaultProxy.lose_replies` has kept from the client.
    """

    accepted: int
    open: int
    open_clients: int
    bytes_to_server: int
    bytes_to_client: int
    lost_replies: int = 0


@dataclass(frozen=True, slots=True)
class _Faults:
    """Faults of one direction; times in seconds."""

    delay: float = 0.0
    # Bytes forwarded at once, and the pause after them.
    piece: int = CHUNK
    interval: float = 0.0
    # Nothing is read; forwarding later resumes where it stopped.
    is_held: bool = False
    # Everything is read and discarded, including the end of the connection.
    is_swallowed: bool = False
    # Resets the connection after this many bytes; None: never.
    cut_after: int | None = None


_HEALTHY: Final = _Faults()


@dataclass(slots=True, eq=False)
class _Link:
    """A client's connection and the proxy's matching connection to the server."""

    client: socket.socket
    server: socket.socket
    task: asyncio.Task[None] | None = None
    # Whether the connection is between members; None until its first message.
    is_member: bool | None = None
    # The port of the member that has connected; 0 if it does not say, None for a client.
    member_port: int | None = None
    # Discarded bytes cannot be restored, so such a connection is unusable after `heal`.
    has_lost_bytes: bool = False
    # What the server sends next is a reply that the client must not get.
    loses_reply: bool = False
    # Bytes left until `cut_after`, by direction.
    left: dict[str, int] = field(default_factory=dict)
    ends_with_reset: bool = False


class FaultProxy:
    """A TCP proxy that injects network faults, also into open connections.

    Use it as a context manager, or call `close`::

        with FaultProxy(server.addresses[0]) as proxy:
            async with AsyncMongoClient(*proxy.address, directConnection=True) as client:
                await client.admin.command("ping")
                proxy.black_hole()
                ...
                proxy.heal()

    A client of a replica set uses the addresses that the members announce. ``LocalServer.start("replicaset", nodes=3,
    proxied=True)`` starts one whose members announce their proxies, so all traffic passes through the proxies: that of
    clients and that between members. `harms` selects the connections that the faults affect.

    Faults of different kinds add up until `heal`. `towards` selects the direction: ``"server"`` (data that clients
    send), ``"client"`` (data that they receive) or ``"both"``. All methods may be called from any thread and event
    loop; they block briefly.

    Args:
        target: The server.
        port: The port to listen on; 0 chooses a free port.

    Attributes:
        address: The address that the proxy listens on.
        target: The server.
        harms: The connections that faults affect: ``"all"`` (the default), ``"clients"`` or ``"members"``. The first
            message on a connection identifies replica set members. TLS hides it, so with TLS all connections count as
            clients.
    """

    def __init__(self, target: Address, *, port: int = 0) -> None:
        self.target: Address = target
        self.address: Address = (HOST, port or free_port())
        self.harms: Literal["all", "clients", "members"] = "all"
        self._faults: dict[str, _Faults] = {"server": _HEALTHY, "client": _HEALTHY}
        self._refuses = False
        # The members, by their ports, and None for clients, that are cut off.
        self._cut_off: frozenset[int | None] = frozenset()
        # The commands whose replies are lost, and how many more of them.
        self._losing: frozenset[str] = frozenset()
        self._losses_left = inf
        self._lost_replies = 0
        self._links: set[_Link] = set()
        self._accepted = 0
        self._bytes = {"server": 0, "client": 0}
        self._listener: socket.socket | None = _listen(self.address)
        self._loop = asyncio.new_event_loop()
        # Both belong to the loop. Every change of the faults sets and replaces the event; the task accepts connections.
        self._changed = asyncio.Event()
        self._accepting: asyncio.Task[None] | None = None
        # A daemon, so that a test that forgets to close a proxy does not block interpreter exit.
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"proxy {self.address[1]}", daemon=True)
        self._thread.start()
        self._do(self._open)

    # --- faults ---

    def delay(self, seconds: float, towards: Towards = "both") -> None:
        """Delay every piece (at most 64 KiB) by `seconds`."""
        self._set(towards, delay=seconds)

    def drip(self, interval: float = 0.001, towards: Towards = "both") -> None:
        """Forward one byte at a time, with a pause of `interval` seconds after each."""
        self._set(towards, piece=1, interval=interval)

    def limit(self, bytes_per_second: int, towards: Towards = "both") -> None:
        """Limit each connection to `bytes_per_second`."""
        piece = max(1, bytes_per_second // SHARES)
        self._set(towards, piece=piece, interval=piece / bytes_per_second)

    def hold(self, towards: Towards = "both") -> None:
        """Forward nothing, as if a cable were pulled; after `heal`, all data sent meanwhile arrives."""
        self._set(towards, is_held=True)

    def cut_off(self, *members: Address, clients: bool = False) -> None:
        """Forward nothing between the server and some of its peers, until the next call or `heal`.

        Unlike `hold`, it is independent of `harms` and of other faults. `LocalServer.partition` is made of it.

        Args:
            *members: Members that are cut off, by the addresses that their servers listen on, not those of their
                proxies. Their connections are known by what members with ``enableTestCommands`` send first.
            clients: Whether clients are cut off.
        """
        self._do(lambda: self._set_cut_off(frozenset([*(port for _, port in members), *([None] if clients else [])])))

    def black_hole(self, towards: Towards = "both") -> None:
        """Accept connections and swallow all data; `heal` resets every connection that has lost data."""
        self._set(towards, is_swallowed=True)

    def half_open(self, towards: Literal["server", "client"] = "client") -> None:
        """Swallow one direction, including the end of the connection, while the other one keeps working.

        Towards ``"client"``, the server reads requests and replies, or dies, and the client never receives anything.
        """
        self.black_hole(towards)

    def cut_after(self, count: int, towards: Towards = "both") -> None:
        """Reset each open or later connection once `count` more bytes have passed in that direction."""
        self._set(towards, cut_after=count)

    def lose_replies(self, *commands: str, times: int | None = None) -> None:
        """Let the server execute these commands, and reset the connection instead of passing on the reply.

        So the client cannot know whether they were executed. A failpoint with ``closeConnection`` closes the connection
        before the server executes anything. Each call replaces the one before. Commands are not recognised within TLS,
        nor if they are compressed and larger than 64 KiB.

        Args:
            *commands: Their names, as servers know them: ``"commitTransaction"``, ``"findAndModify"``. None at all:
                from now on, no reply is lost.
            times: How many of these commands lose their reply; None: all, until `heal`. A retry counts as one more.

        Raises:
            ValueError: `times` is less than 1.
        """
        if times is not None and times < 1:
            raise ValueError(f"times must be at least 1, not {times!r}")
        self._do(lambda: self._set_losing(frozenset(commands), inf if times is None else times))

    def refuse(self) -> None:
        """Refuse new connections; open ones stay.

        Unless `harms` is ``"all"``, they are accepted and reset at their first message, which identifies the peer.
        """
        self._do(self._refuse)

    def reset(self) -> None:
        """Reset all open connections (RST to both sides), once."""
        self._do(lambda: self._end(self._harmed(), is_reset=True))

    def hang_up(self) -> None:
        """Close all open connections cleanly (FIN to both sides), once."""
        self._do(lambda: self._end(self._harmed(), is_reset=False))

    def heal(self) -> None:
        """End all faults; connections that have lost bytes are reset."""
        self._do(self._heal)

    # --- the rest ---

    @property
    def counts(self) -> ProxyCounts:
        """A snapshot of the traffic so far."""
        links = tuple(self._links)
        return ProxyCounts(
            self._accepted,
            len(links),
            sum(1 for link in links if not link.is_member),
            self._bytes["server"],
            self._bytes["client"],
            self._lost_replies,
        )

    def close(self) -> None:
        """Close everything and end the thread; a second call does nothing."""
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
            self._publish_change()

        self._do(change)

    # --- on the proxy's own loop ---

    def _publish_change(self) -> None:
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

    async def _set_cut_off(self, peers: frozenset[int | None]) -> None:
        self._cut_off = peers
        self._publish_change()

    async def _set_losing(self, commands: frozenset[str], times: float) -> None:
        self._losing, self._losses_left = commands, times

    async def _heal(self) -> None:
        self._faults = dict.fromkeys(self._faults, _HEALTHY)
        self._refuses = False
        self._cut_off, self._losing = frozenset(), frozenset()
        await self._end([link for link in self._links if link.has_lost_bytes], is_reset=True)
        for link in self._links:
            link.left.clear()
            link.loses_reply = False
        self._publish_change()
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

    async def _readable(self, listener: socket.socket) -> None:
        """Wait for a connection, without accepting it: `sock_accept` loses one when it is cancelled at that moment."""
        future: asyncio.Future[None] = self._loop.create_future()

        def wake() -> None:
            if not future.done():
                future.set_result(None)

        self._loop.add_reader(listener, wake)
        try:
            await future
        finally:
            self._loop.remove_reader(listener)

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            await self._readable(listener)
            try:
                client, _ = listener.accept()
            except OSError:
                continue  # the client has left already
            server = socket.socket()
            for each in (client, server):
                each.setblocking(False)
                # Bytes that are sent one by one must not be coalesced.
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
            # A failure on one side is forwarded to the other.
            link.ends_with_reset = True

    def _closed(self, link: _Link) -> None:
        """Close both sockets; a done callback, because `_serve` runs nothing if it is cancelled before its start."""
        self._links.discard(link)
        for each in (link.client, link.server):
            if link.ends_with_reset:
                with contextlib.suppress(OSError):  # just reset by the other side
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
            each.close()

    async def _pump(self, link: _Link, direction: str, source: socket.socket, sink: socket.socket) -> None:
        opposite = "client" if direction == "server" else "server"
        while True:
            await self._while_held(link, direction)
            try:
                data = await self._loop.sock_recv(source, CHUNK)
            except OSError:
                await self._while_held(link, direction)
                await self._unless_swallowed(link, direction)
                raise
            if data and direction == "server" and link.is_member is None:
                link.is_member = MEMBER_MARK in data
                if link.is_member:
                    link.member_port = int(found[1]) if (found := MEMBER_PORT.search(data)) else 0
                if self._refuses and not self._spares(link):
                    raise _Cut
            if direction == "server":
                self._recognise(link, data)
            elif link.loses_reply and data:
                await self._lose(link)
            if not data:
                await self._while_held(link, direction)
                await self._unless_swallowed(link, direction)
                with contextlib.suppress(OSError):  # already closed by the other side
                    sink.shutdown(socket.SHUT_WR)
                return
            try:
                await self._pass_on(link, direction, sink, memoryview(data))
            except OSError:
                await self._unless_swallowed(link, opposite)
                raise

    def _recognise(self, link: _Link, data: bytes) -> None:
        """Note whether the reply to what the client sends is to be lost.

        A connection has one request at a time, so a request begins what is received, and what the server sends next is
        the reply.
        """
        if self._losing and self._losses_left and not self._spares(link) and command_name(data) in self._losing:
            link.loses_reply = True
            self._losses_left -= 1

    async def _lose(self, link: _Link) -> None:
        await self._while_held(link, "client")
        if link.loses_reply:  # still
            self._lost_replies += 1
            raise _Cut

    async def _unless_swallowed(self, link: _Link, direction: str) -> None:
        """Block while this side must not learn that the other side is gone."""
        if self._faults_of(link, direction).is_swallowed:
            link.has_lost_bytes = True
            await asyncio.Event().wait()  # until the link is ended

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
            # Counted before sending, so that a receiver never sees an outdated count.
            self._bytes[direction] += len(piece)
            await self._loop.sock_sendall(sink, piece)
            if left is not None and left <= len(piece):
                raise _Cut
            data = data[len(piece) :]
            if faults.interval:
                await asyncio.sleep(faults.interval)

    async def _while_held(self, link: _Link, direction: str) -> None:
        while self._is_cut_off(link) or self._faults_of(link, direction).is_held:
            await self._changed.wait()

    def _is_cut_off(self, link: _Link) -> bool:
        return link.is_member is not None and link.member_port in self._cut_off

    def _faults_of(self, link: _Link, direction: str) -> _Faults:
        return _HEALTHY if self._spares(link) else self._faults[direction]

    def _spares(self, link: _Link) -> bool:
        if link.is_member is None:
            # Not known yet: its first message is read, which tells.
            return self.harms != "all"
        return self.harms == ("clients" if link.is_member else "members")


class _Cut(Exception):
    """Resets a connection immediately."""


def command_name(data: bytes) -> str | None:
    """The name of the command that a request begins with; None if `data` does not begin one that has a reply."""
    try:
        *_, response_to, op_code = HEADER.unpack_from(data)
        if response_to or op_code not in (OP_MSG, OP_COMPRESSED):
            return None
        message = decompress(data, _compressors(), MAX_MESSAGE_SIZE)
    except (struct.error, ProtocolError):
        return None
    if HEADER.unpack_from(message)[3] != OP_MSG or message[START_SIZE - 1 : START_SIZE] != b"\0":
        return None
    if message[HEADER_SIZE] & MORE_TO_COME:
        return None
    return bytes(message[NAME_OFFSET : NAME_OFFSET + LONGEST_NAME]).partition(b"\0")[0].decode(errors="replace")


@cache
def _compressors() -> Mapping[int, Compressor]:
    found, _ = make_compressors(("zlib", "snappy", "zstd"))
    return {each.id: each for each in found}


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
