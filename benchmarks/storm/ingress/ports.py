"""Net: the connections of clients through the ingress to one server.

Messages pass as they are. Of a request only the name of its command is read, of a reply nothing. Each connection of a
client has its own to the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from benchmarks.documents import reply_to
from benchmarks.storm.ingress import messages
from benchmarks.storm.ingress.gate import Gate, Verdict

if TYPE_CHECKING:
    from benchmarks.storm.scenario import Server

BACKLOG: Final = 4096
_BUFFER: Final = memoryview(bytearray(256 * 1024))
"""What a socket received. Each piece is copied before the next one is read, so that all connections share it."""
Work: TypeAlias = Callable[[], None]


class Port:
    """The address at which one server, the target, is reached through the ingress."""

    def __init__(self, address: tuple[str, int], target: tuple[str, int]) -> None:
        self.address = address
        self.target = target
        self.gate = Gate(None, 0, 0.0)
        # A set that keeps their order.
        self.links: dict[ClientLink, None] = {}
        self.rejection = messages.rejection(None)
        # Requests that are held back, if they are.
        self.held: list[Work] | None = None
        # Tasks in progress, which the event loop does not keep alive.
        self.tasks: set[asyncio.Task[Any]] = set()
        self._listener: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None

    @staticmethod
    def now() -> float:
        """The time: on sockets that of the system's monotonic clock."""
        return asyncio.get_running_loop().time()

    async def open(self) -> None:
        if self._listener is None:
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(self.address)
            loop = asyncio.get_running_loop()
            self._listener = await loop.create_server(lambda: ClientLink(self), sock=listener, backlog=BACKLOG)

    def close(self) -> None:
        """Refuse connections, close those that are open, and forget what they wait for."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        self.gate.queue.drop(self.now())
        for link in list(self.links):
            link.close()

    def reset(self, server: Server | None, seed: int) -> None:
        """Begin anew with other limits; None: without any. What waits is done at once."""
        self.gate.queue.change(inf, self.now())
        self._perform()
        self.gate = Gate(server, seed, self.now())
        self.rejection = messages.rejection(None if server is None else server.base_backoff)

    def hold(self) -> None:
        """Hold back all requests from now on, but for those before authentication."""
        if self.held is None:
            self.held = []

    def release(self) -> None:
        """Let the requests go on that were held back, and later ones."""
        held, self.held = self.held, None
        for work in held or ():
            work()

    def change(self, *, capacity: float, failure_rate: float | None, unreachable: bool) -> None:
        """Change the speed of the server and the share of failures, and whether it is unreachable."""
        self.gate.change(self.now(), capacity=capacity, failure_rate=failure_rate, unreachable=unreachable)
        self._perform()

    def push(self, work: Work, units: float) -> None:
        """Do something when the server has come to it."""
        queue = self.gate.queue
        queue.push(work, units, self.now())
        if self._timer is None:
            self._wait()

    def _wait(self) -> None:
        at = self.gate.queue.next_at()
        if at is not None:
            delay = max(0.0, at - self.now())
            self._timer = asyncio.get_running_loop().call_later(delay, self._perform)

    def _perform(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        latency = 0.0 if self.gate.server is None else self.gate.server.latency
        for work in self.gate.queue.finished(self.now()):
            if latency:
                asyncio.get_running_loop().call_later(latency, work)
            else:
                work()
        if self._timer is None:
            self._wait()


class _Stream(asyncio.BufferedProtocol):
    """One side of a connection."""

    transport: asyncio.Transport | None = None

    def get_buffer(self, sizehint: int) -> memoryview:
        return _BUFFER

    def write(self, data: bytes) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)

    def close(self) -> None:
        if self.transport is not None:
            self.transport.abort()


class ClientLink(_Stream):
    """A client's connection."""

    def __init__(self, port: Port) -> None:
        self.port = port
        # Whether the other side is a member of the replica set; None until its first message shows it.
        self._is_member: bool | None = None
        # Messages that wait for the end of the handshake; None after it.
        self._held: list[bytes] | None = []
        # The bytes of a message that is not complete.
        self._partial = bytearray()
        self._server: ServerLink | None = None
        # While the limiter lets the connection wait, and the gate that does.
        self._timer: asyncio.TimerHandle | None = None
        self._gate = port.gate
        self.is_closed = False
        # When a request was forwarded whose answer has not begun to arrive; else 0.
        self.sent_at = 0.0

    # --- the socket ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.port.links[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        self.port.links.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._gate.gone()
        if self._server is not None:
            self._server.close()

    def buffer_updated(self, nbytes: int) -> None:
        if not self._partial and nbytes >= 4 and nbytes == int.from_bytes(_BUFFER[:4], "little"):
            self._received(bytes(_BUFFER[:nbytes]))
            return
        partial = self._partial
        partial += _BUFFER[:nbytes]
        while len(partial) >= 4:
            size = int.from_bytes(partial[:4], "little")
            if size < 16:
                self.close()
                return
            if len(partial) < size:
                return
            message = bytes(partial[:size])
            del partial[:size]
            self._received(message)

    # --- messages ---

    def _received(self, message: bytes) -> None:
        if self._held is not None:
            self._held.append(message)
            if self._is_member is None:
                self._introduced(message)
            return
        if self._is_member:
            self._forward(message)
            return
        request = messages.parse(message)
        if request.command in messages.UNAUTHENTICATED:
            self._forward(message)
            return
        port = self.port
        if port.held is not None:
            port.held.append(lambda: self._forward(message))
            return
        verdict = port.gate.request(port.now())
        if verdict is Verdict.ADMIT:
            port.push(lambda: self._admitted(message), port.gate.cost(verdict))
        else:
            answer = messages.UNREACHABLE if verdict is Verdict.UNREACHABLE else port.rejection
            reply = reply_to(message, answer) if request.is_answered else b""
            port.push(lambda: self.write(reply), port.gate.cost(verdict))

    def _admitted(self, message: bytes) -> None:
        self.sent_at = self.port.now()
        self._forward(message)

    def _forward(self, message: bytes) -> None:
        if self.is_closed:
            return
        if self._server is None:
            self._server = ServerLink(self)
            self._server.connect()
        self._server.send(message)

    # --- the beginning ---

    def _introduced(self, message: bytes) -> None:
        """Decide about the connection at its first message, which shows members of the replica set.

        They are exempt, as in a deployment that names their addresses in
        `ingressConnectionEstablishmentRateLimiterBypass`. The server can tell from the address, and decides a moment
        earlier. A client notices no difference: its connection is closed before the reply to its handshake.
        """
        self._is_member = messages.MEMBER_MARK in message
        if self._is_member:
            self._established()
            return
        self._gate = self.port.gate
        wait = self._gate.connect(self.port.now())
        if wait is None:
            self.close()
        elif wait:
            self._timer = asyncio.get_running_loop().call_later(wait, self._let_in)
        else:
            self._shake_hands()

    def _let_in(self) -> None:
        self._timer = None
        self._gate.connected()
        self._shake_hands()

    def _shake_hands(self) -> None:
        self.port.push(self._established, self.port.gate.handshake_cost)

    def _established(self) -> None:
        held, self._held = self._held or [], None
        for message in held:
            self._received(message)


class ServerLink(_Stream):
    """The connection to the server that belongs to a client's."""

    def __init__(self, client: ClientLink) -> None:
        self._client = client
        self._unsent: list[bytes] = []

    def connect(self) -> None:
        tasks = self._client.port.tasks
        task = asyncio.create_task(self._connect())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _connect(self) -> None:
        with contextlib.suppress(OSError):
            await asyncio.get_running_loop().create_connection(lambda: self, *self._client.port.target)
            return
        self._client.close()

    def send(self, message: bytes) -> None:
        """Send a message, as soon as there is a connection."""
        if self.transport is None:
            self._unsent.append(message)
        else:
            self.write(message)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if self._client.is_closed:
            self.close()
        for message in self._unsent:
            self.write(message)
        self._unsent.clear()

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.close()

    def buffer_updated(self, nbytes: int) -> None:
        client = self._client
        client.write(bytes(_BUFFER[:nbytes]))
        if client.sent_at:
            counts = client.port.gate.counts
            counts.answered += 1
            counts.answer_seconds += client.port.now() - client.sent_at
            client.sent_at = 0.0
