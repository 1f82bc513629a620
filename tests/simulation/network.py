"""Shell: the network of a simulation: bytes between clients and servers, messages between servers, and their faults.

A connection of a client is the driver's own stream on a transport in memory. Its bytes arrive in their order; what is
sent on different connections overtakes. A cut link does what TCP does: bytes wait, and arrive when it works again, or
the connection is reset if the other end has gone meanwhile. Messages between servers are single packets, which may be
lost and overtake each other.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol

from motorlite._net.failures import connecting
from motorlite._net.on_asyncio.stream import AsyncioStream

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from motorlite._base.values import Address
    from motorlite._net.runtime import Connector, Framer, Runtime

CLIENT: Final = "client"
"""The host of all clients."""
_LATENCY: Final = 0.0005
_JITTER: Final = 0.001
# Bytes that a connection takes without being read at its other end: the buffers of two kernels.
_CAPACITY: Final = 128 * 1024
# Seconds until the keepalive of a client's socket looks whether a silent peer is still there.
_KEEPALIVE: Final = 120.0


class Server(Protocol):
    """What a host offers to the network."""

    is_up: bool
    is_frozen: bool

    def accept(self, connection: Connection) -> None:
        """A client has connected."""

    def received(self, connection: Connection, data: bytes) -> None:
        """Bytes of a client have arrived."""

    def closed(self, connection: Connection) -> None:
        """A client has closed its end, or the connection was reset."""


class Observer(Protocol):
    """What looks at the connections of one client, from the client's side."""

    def opened(self, key: Connection, address: Address) -> None:
        """A connection has been established."""

    def sent(self, key: Connection, data: bytes) -> None:
        """The client has written bytes; called in its task."""

    def received(self, key: Connection, data: bytes) -> None:
        """Bytes reach the client."""

    def ended(self, key: Connection, *, by_client: bool) -> None:
        """The client has closed the connection, or learns that it has ended."""

    def step(self) -> None:
        """The event loop has run a callback."""

    def quiet(self) -> None:
        """Nothing is ready to run, and the clock is about to move."""

    def closed(self) -> None:
        """The client has been closed, and the loop was quiet since."""


class Pipe:
    """One direction of a connection."""

    def __init__(self, network: Network, source: str, target: str, deliver: Callable[[bytes], None]) -> None:
        self._network = network
        self.source = source
        self.target = target
        self._deliver = deliver
        # Bytes that were written and have not been delivered.
        self.pending: int = 0
        # What arrived while the link was cut or the receiver frozen, in order.
        self._held: list[bytes] = []
        self._arrives = 0.0
        # Bytes until the connection is reset; None: it is not going to be.
        self.left: int | None = None
        self.on_cut: Callable[[], None] | None = None

    def write(self, data: bytes) -> None:
        network = self._network
        self.pending += len(data)
        if network.chance.random() < network.splits and len(data) > 1:
            at = network.chance.randrange(1, len(data))
            self._send(data[:at])
            data = data[at:]
        self._send(data)

    def _send(self, data: bytes) -> None:
        network = self._network
        # Timers of one moment have no order among themselves.
        self._arrives = max(self._arrives + 1e-6, network.now() + network.latency(self.source, self.target))
        network.call_at(self._arrives, self._arrive, data)

    def _arrive(self, data: bytes) -> None:
        if self._held or not self._network.is_open(self.source, self.target):
            self._held.append(data)
            return
        self._pass(data)

    def _pass(self, data: bytes) -> None:
        self.pending -= len(data)
        if self.left is not None:
            data = data[: self.left]
            self.left -= len(data)
        if data:
            self._deliver(data)
        if self.left == 0 and self.on_cut is not None:
            self.left = None
            self.on_cut()

    def flush(self) -> None:
        """Deliver what was held, if the link is open again."""
        while self._held and self._network.is_open(self.source, self.target):
            self._pass(self._held.pop(0))

    @property
    def is_held(self) -> bool:
        """Whether bytes wait for the link."""
        return bool(self._held)

    def drop(self) -> None:
        """Nothing more arrives."""
        self._held.clear()
        self._deliver = _nothing
        self.on_cut = None


def _nothing(data: bytes) -> None: ...


class Connection(asyncio.Transport):
    """A connection of a client: the transport of its stream, and what its server writes to."""

    def __init__(
        self, network: Network, number: int, address: Address, server: Server, observer: Observer | None
    ) -> None:
        super().__init__()
        self.observer = observer
        host = network.host_of(address)
        self.network = network
        self.number = number
        self.host = host
        self.server = server
        self.stream: AsyncioStream
        self._client_closed = self._server_closed = False
        self._is_paused = False
        self._has_to_reset = False
        self.to_server = Pipe(network, CLIENT, host, self._at_server)
        self.to_client = Pipe(network, host, CLIENT, self._at_client)
        self.to_server.on_cut = self.to_client.on_cut = self.reset
        # What the server knows of it.
        self.state: Any = None

    # --- the client's transport ---

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._client_closed:
            return
        if self.observer is not None:
            self.observer.sent(self, bytes(data))
        if self._has_to_reset:
            # The server's host has forgotten the connection.
            self.network.call_at(self.network.now() + _LATENCY, self._lose, ConnectionResetError("connection reset"))
            return
        self.to_server.write(bytes(data))
        if self.to_server.pending > _CAPACITY and not self._is_paused:
            self._is_paused = True
            self.stream.pause_writing()

    def get_write_buffer_size(self) -> int:
        return max(0, self.to_server.pending - _CAPACITY)

    def is_closing(self) -> bool:
        return self._client_closed

    def pause_reading(self) -> None:
        """Readers here are never slow: what arrives is taken."""

    def resume_reading(self) -> None: ...

    def abort(self) -> None:
        if not self._client_closed:
            self._lose(None, by_client=True)

    def close(self) -> None:
        self.abort()

    def _lose(self, error: Exception | None, *, by_client: bool = False) -> None:
        """The client's end closes."""
        if self._client_closed:
            return
        if self.observer is not None:
            self.observer.ended(self, by_client=by_client)
        self._client_closed = True
        self.network.connections.pop(self.number, None)
        self.network.record("close", self.number, str(error or ""))
        self.to_client.drop()
        self.network.call_soon(self.stream.connection_lost, error)
        if not self._server_closed:
            self.network.call_at(self.network.now() + _LATENCY, self._notice)

    def _notice(self) -> None:
        """The server's end hears of it, unless the link is cut: then when that works again."""
        if self._server_closed:
            return
        if not self.network.is_open(CLIENT, self.host):
            self.network.later_notices.append(self)
            return
        self._server_closed = True
        self.to_server.drop()
        self.server.closed(self)

    def notice(self) -> None:
        """Try again to let the server know."""
        self._notice()

    # --- the server's end ---

    def send(self, data: bytes) -> None:
        """Send bytes to the client."""
        if not self._server_closed:
            self.to_client.write(data)

    def reset(self) -> None:
        """The connection breaks; both ends hear of it if they can."""
        self._end_at_server()
        if self.network.is_open(self.host, CLIENT):
            self._lose(ConnectionResetError("connection reset by peer"))
        else:
            self._forget()

    def vanish(self) -> None:
        """The server's end is gone, and the client does not hear of it until it sends something (half-open)."""
        self._end_at_server()
        self._forget()

    def _forget(self) -> None:
        """The server's host knows nothing of the connection; the client's keepalive finds that out in the end."""
        self._has_to_reset = True
        self.network.call_at(self.network.now() + _KEEPALIVE, self._lose, ConnectionResetError("connection reset"))

    def hang_up(self) -> None:
        """The server closes its end after what it has sent."""
        if self._server_closed:
            return
        self._server_closed = True
        self.server.closed(self)
        self.to_server.drop()
        self.network.call_at(max(self.network.now(), self.to_client._arrives) + 1e-6, self._end_of_file)

    def _end_of_file(self) -> None:
        if not self._client_closed:
            self.stream.eof_received()
            self._lose(None)

    def _end_at_server(self) -> None:
        if not self._server_closed:
            self._server_closed = True
            self.to_server.drop()
            self.server.closed(self)

    # --- arrivals ---

    def _at_server(self, data: bytes) -> None:
        self.network.record("->", self.number, data)
        if self._is_paused and self.to_server.pending <= _CAPACITY // 2:
            self._is_paused = False
            self.stream.resume_writing()
        if not self._server_closed:
            self.server.received(self, data)

    def _at_client(self, data: bytes) -> None:
        self.network.record("<-", self.number, data)
        if self.observer is not None and not self._client_closed:
            self.observer.received(self, data)
        view = memoryview(data)
        while view and not self._client_closed:
            buffer = self.stream.get_buffer(len(view))
            count = min(len(buffer), len(view))
            buffer[:count] = view[:count]
            view = view[count:]
            self.stream.buffer_updated(count)

    def flush(self) -> None:
        """The link may work again."""
        self.to_server.flush()
        if self._has_to_reset and self.network.is_open(self.host, CLIENT) and self.to_server.is_held:
            self._lose(ConnectionResetError("connection reset by peer"))
        self.to_client.flush()


class Network:
    """All hosts and links.

    Args:
        loop: The loop of the simulation.
        chance: Draws latencies, and which packets are lost.
        record: Writes the trace.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, chance: Random, record: Callable[..., None]) -> None:
        self.chance = chance
        self.record = record
        self.now: Callable[[], float] = loop.time
        self.call_at: Callable[..., asyncio.TimerHandle] = loop.call_at
        self.call_soon: Callable[..., asyncio.Handle] = loop.call_soon
        self.connections: dict[int, Connection] = {}
        # Connections whose client has gone while the link was cut.
        self.later_notices: list[Connection] = []
        # Pairs of hosts, from and to, between which nothing passes.
        self._cut: set[tuple[str, str]] = set()
        # Seconds that are added to the latency from or to a host.
        self.delays: dict[str, float] = {}
        # The share of messages that arrive in two pieces, of packets between servers that are lost, and of connections
        # that are refused.
        self.splits: float = 0.02
        self.losses: float = 0.0
        self.refusals: float = 0.0
        self.servers: dict[str, Server] = {}
        # How often servers have sent what nobody has asked for.
        self.unasked: int = 0
        self._made = 0

    @staticmethod
    def host_of(address: Address) -> str:
        return address[0]

    def latency(self, source: str, target: str) -> float:
        """Seconds that the next message from one host to another takes."""
        delays = self.delays
        found = _LATENCY + _JITTER * self.chance.random()
        if delays:
            found += max(delays.get(source, 0.0), delays.get(target, 0.0)) * (0.5 + self.chance.random())
        return found

    def is_open(self, source: str, target: str) -> bool:
        """Whether bytes pass: the link is not cut, and the target takes them."""
        if self._cut and (source, target) in self._cut:
            return False
        server = self.servers.get(target)
        return server is None or not server.is_frozen

    def cut(self, one: str, other: str) -> None:
        """Let nothing pass from one host to another. The other direction has a cut of its own."""
        self._cut.add((one, other))

    def heal(self, one: str, other: str) -> None:
        """Undo `cut`."""
        self._cut.discard((one, other))
        self.flush()

    def flush(self) -> None:
        """Deliver what may pass again."""
        for connection in list(self.connections.values()):
            connection.flush()
        notices, self.later_notices = self.later_notices, []
        for connection in notices:
            connection.to_server.flush()
            connection.notice()

    def packet(
        self, source: str, target: str, deliver: Callable[..., None], *arguments: Any, is_lossless: bool = False
    ) -> None:
        """Send a message between servers, which may be lost; only by a cut if `is_lossless`."""
        if not self.is_open(source, target):
            return
        if self.losses and not is_lossless and self.chance.random() < self.losses:
            return
        self.call_at(self.now() + self.latency(source, target), deliver, *arguments)

    def drop_connections(self, host: str, *, silently: bool = False) -> None:
        """End all connections of clients to a host."""
        for connection in list(self.connections.values()):
            if connection.host == host:
                if silently:
                    connection.vanish()
                else:
                    connection.reset()

    # --- connecting ---

    def connector(
        self, observer: Callable[[], Observer | None], _runtime: Runtime, _tls: object, _proxy: object = None
    ) -> Connector:
        """What a client opens its streams with."""

        async def connect(address: Address, framer: Framer, until: float) -> AsyncioStream:
            return await self.connect(address, framer, until, observer())

        return connect

    async def connect(
        self, address: Address, framer: Framer, until: float, observer: Observer | None = None
    ) -> AsyncioStream:
        """Open a stream to a server, as `Runtime.connect` does."""
        loop = asyncio.get_running_loop()
        with connecting(address):
            async with asyncio.timeout_at(until):
                server = await self._shake_hands(self.host_of(address))
        self._made += 1
        connection = Connection(self, self._made, address, server, observer)
        self.connections[connection.number] = connection
        connection.stream = AsyncioStream(address, framer, loop)
        connection.stream.connection_made(connection)
        self.record("open", connection.number, self.host_of(address))
        if observer is not None:
            observer.opened(connection, address)
        server.accept(connection)
        return connection.stream

    async def _shake_hands(self, host: str) -> Server:
        await asyncio.sleep(self.latency(CLIENT, host) + self.latency(host, CLIENT))
        # TCP repeats the first packet after one, two, four ... seconds.
        pause = 1.0
        while (CLIENT, host) in self._cut or (host, CLIENT) in self._cut:
            await asyncio.sleep(pause)
            pause *= 2
        server = self.servers.get(host)
        if server is None or not server.is_up or (self.refusals and self.chance.random() < self.refusals):
            raise ConnectionRefusedError("connection refused")
        return server
