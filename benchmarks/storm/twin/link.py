"""Pure: the connections of one simulated client to one server.

The pool is the driver's own (`PoolState`), and this class performs its effects in simulated time, as
`motorlite._pool.pool` does with sockets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from benchmarks.storm.twin import errors
from benchmarks.storm.twin.connection import Connection
from motorlite._admission.tickets import Request
from motorlite._base.values import Progress
from motorlite._pool.state import Close, Drain, Establish, PoolState

if TYPE_CHECKING:
    from benchmarks.storm.twin.call import Call
    from benchmarks.storm.twin.client import Client
    from benchmarks.storm.twin.clock import Clock
    from benchmarks.storm.twin.recorder import Recorder
    from benchmarks.storm.twin.server import SimulatedServer
    from motorlite._admission.gate import Gate
    from motorlite._admission.tickets import Establishment
    from motorlite._pool.state import PoolOptions
    from motorlite._retry.failure import Failure


class _Place:
    """A wait that takes whatever it gets."""

    def offer(self, _: object) -> bool:
        return True


class Link:
    """One client's pool for one server."""

    __slots__ = (
        "_clock",
        "_connect_timeout",
        "_recorder",
        "client",
        "gate",
        "operation_count",
        "rejection",
        "server",
        "state",
        "unreachable",
    )

    def __init__(
        self,
        client: Client,
        server: SimulatedServer,
        options: PoolOptions,
        gate: Gate | None,
        clock: Clock,
        recorder: Recorder,
        rejection: Failure,
    ) -> None:
        self.client: Client = client
        self.server: SimulatedServer = server
        # The breaker and the concurrency limit, if the arm has any.
        self.gate: Gate | None = gate
        self.state: PoolState = PoolState(server.address, options)
        if gate is not None:
            self.state.limit = gate.limit
            if self.state.bounded is not None:
                self.state.bounded.admission.limit = gate.limit
        # Operations that hold or wait for a connection, for the choice between two servers.
        self.operation_count: int = 0
        # An attempt that the server rejected.
        self.rejection: Failure = rejection
        # One that it answered with "host unreachable".
        self.unreachable: Failure = errors.failure(errors.unreachable(), Progress.ANSWERED, server.address)
        self._connect_timeout = options.connect_timeout
        self._clock = clock
        self._recorder = recorder
        self.state.ready()

    def warm_up(self, connections: int) -> None:
        """Open some connections, at no cost: the run begins when the clients have been at work for a while."""
        state, requests = self.state, [Request(cast("Any", _Place())) for _ in range(connections)]
        for request in requests:
            state.enqueue(request, 0.0)
        while state.effects:
            (effect,) = state.effects[:1]
            assert isinstance(effect, Establish)
            del state.effects[0]
            opened = effect.establishment
            state.established(
                opened, cast("Any", Connection(self, opened.connection_id, opened.generation)), self._clock.now
            )
        for request in requests:
            state.give_up(request, self._clock.now)  # beyond a concurrency limit
        for connection in sorted(state.in_use, key=lambda each: each.id):
            state.put(connection, self._clock.now)

    # --- requests ---

    def send(self, call: Call, connection: Connection) -> None:
        """Send the command of an operation on its connection."""
        clock, server = self._clock, self.server
        self._recorder.attempts[self._recorder.step] += 1
        connection.call = call
        connection.serial += 1
        connection.sent_at = clock.now
        replied_at, succeeds = server.request(clock.now)
        connection.failure = None
        if not succeeds:
            connection.failure = self.unreachable if server.is_unreachable(clock.now) else self.rejection
            self._recorder.count("rejected")
        clock.at(replied_at, self._replied, connection)

    def _replied(self, connection: Connection) -> None:
        if connection.is_closed:
            return
        call = connection.call
        if call is not None:
            self.client.replied(call, connection)
            return
        connection.owed = None
        self.state.drained(cast("Any", connection), self._clock.now)
        self.perform()

    def put(self, connection: Connection) -> None:
        """Return a connection to the pool."""
        connection.call = None
        self.state.put(cast("Any", connection), self._clock.now)
        if self.state.effects:
            self.perform()

    def abandon(self, connection: Connection, until: float, *, closes_at_once: bool) -> None:
        """Leave a connection whose reply is still to come, and wait for it until then at most."""
        if closes_at_once:
            connection.is_closed = True
        else:
            connection.owed, connection.owed_until = connection.serial, until
        self.put(connection)

    # --- effects ---

    def perform(self) -> None:
        """Do what the state of the pool asks for."""
        effects = self.state.effects
        while effects:
            effect = effects.pop(0)
            if isinstance(effect, Close):
                connection = cast("Connection", effect.connection)
                connection.is_closed, connection.call = True, None
            elif isinstance(effect, Establish):
                self._establish(effect.establishment)
            elif isinstance(effect, Drain):
                self._drain(cast("Connection", effect.connection), effect.overdue_at)
            # What the others concern has been forgotten, and is not looked at any more.

    def _establish(self, establishment: Establishment) -> None:
        clock, started = self._clock, self._clock.now
        self._recorder.count("connections")
        is_accepted = not self.server.is_down and self.server.connect(self._shake_hands, (establishment, started))
        if not is_accepted:
            clock.at(started + self.server.latency, self._refused, establishment)

    def _shake_hands(self, begun: tuple[Establishment, float]) -> None:
        establishment, started = begun
        if establishment not in self.state.connecting:
            return
        limit = started + self._connect_timeout if self._connect_timeout else float("inf")
        ready_at = self.server.handshake(self._clock.now)
        if ready_at <= limit:
            self._clock.at(ready_at, self._established, begun)
        else:
            self._clock.at(max(limit, self._clock.now), self._refused, establishment)

    def _established(self, begun: tuple[Establishment, float]) -> None:
        establishment, started = begun
        if establishment not in self.state.connecting:
            return
        now = self._clock.now
        connection = Connection(self, establishment.connection_id, establishment.generation)
        self.state.pace.connected(now - started, now)
        self.state.established(establishment, cast("Any", connection), now)
        self.perform()

    def _refused(self, establishment: Establishment) -> None:
        if establishment not in self.state.connecting:
            return
        # Closed before the handshake: the error has the labels of overload, so the server stays known.
        self.state.failed(establishment, errors.NOT_ACCEPTED)
        self.state.serve(self._clock.now)
        self.perform()

    # --- replies that nobody waits for ---

    def _drain(self, connection: Connection, overdue_at: float) -> None:
        if overdue_at < connection.owed_until:
            self._clock.at(overdue_at, self._overdue, (connection, connection.serial))
        self._clock.at(connection.owed_until, self._drain_failed, (connection, connection.serial))

    def _is_owed(self, connection: Connection, serial: int) -> bool:
        return connection.owed == serial and connection in cast("Any", self.state.pending)

    def _overdue(self, drain: tuple[Connection, int]) -> None:
        if self._is_owed(*drain):
            self.state.overdue(cast("Any", drain[0]), self._clock.now)
            self.perform()

    def _drain_failed(self, drain: tuple[Connection, int]) -> None:
        if self._is_owed(*drain):
            self.state.drain_failed(cast("Any", drain[0]), self._clock.now)
            self.perform()

    # --- the server ---

    def crash(self) -> None:
        """The server has closed all connections. The operations on them fail."""
        state, now = self.state, self._clock.now
        in_use = sorted((cast("Connection", each) for each in state.in_use), key=lambda each: each.id)
        for connection in [*in_use, *cast("Any", state.pending), *cast("Any", state.idle)]:
            connection.is_closed = True
        for pending in list(state.pending):
            state.drain_failed(pending, now)
        state.clear(errors.LOST)
        self.perform()
        for connection in in_use:
            if connection.call is not None:
                self.client.failed(
                    connection.call, errors.failure(errors.LOST, Progress.IN_FLIGHT, self.server.address, "reply")
                )
