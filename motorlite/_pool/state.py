"""Pure: a pool as one synchronous object: which caller gets a connection, and which waits because it is full.

Theory of operation (connection monitoring and pooling specification). Every change of state happens in one of the
methods below, between two awaits of the shell, so no lock is needed. Work outside of this object (establish, close or
interrupt a connection) is appended to `effects`, which the shell performs afterwards.

Connections are established in the background, on behalf of the oldest request that has none in progress. The request
gets the first connection that becomes free, regardless of its source. A request that gives up does not waste the
connection that was opened for it. If establishing fails, the request on whose behalf it was done gets the error. A
clear abandons all establishments in progress: they would be stale when done, and would keep others waiting until then.

A connection whose last caller did not wait for the reply is `pending` until that reply has arrived. Closing a
connection for every timeout would burden a slow server with new connections. In a pool full of pending connections, a
request waits for the first reply to arrive. A reply that takes too long (`pace`) is given up in favor of the request.

Behind a load balancer each service has its own generation (`services`). Clearing a service makes only its connections
stale; the pool stays ready, and waiters keep waiting.
"""

from __future__ import annotations

import enum
from collections import OrderedDict, deque
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from motorlite._admission.pace import Advice, Pace, next_turn
from motorlite._admission.pool_queue import Establishment, PoolQueue
from motorlite._base.values import cut, format_address
from motorlite._connection.handshake import Purpose
from motorlite.errors import (
    CircuitBreakerOpenError,
    InvalidOperation,
    PoolClearedError,
    PoolClosedError,
    WaitQueueTimeoutError,
)
from motorlite.monitoring import ConnectionClosedReason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bson.objectid import ObjectId

    from motorlite._admission.bounded_queue import BoundedQueue
    from motorlite._admission.concurrency_limit import AdaptiveLimit
    from motorlite._admission.pool_queue import Request
    from motorlite._base.values import Address
    from motorlite._connection.connection import Connection
    from motorlite.errors import PyMongoError
    from motorlite.overload import WaitQueue


# The state that a pool behind a load balancer keeps for each service.
#
# A connection through a load balancer leads to one of several services, and the client cannot choose the service. The
# handshake reports it (`serviceId`). From then on the connection becomes stale together with the other connections to
# that service only.


class Services:
    """The generation and the number of connections of each service.

    A service without connections is forgotten. Its next connection starts at generation 0 again, which cannot be
    confused with that of an older connection, because there are no older connections.
    """

    __slots__ = ("_connections", "_generations")

    def __init__(self) -> None:
        self._generations: dict[ObjectId, int] = {}
        self._connections: dict[ObjectId, int] = {}

    def __len__(self) -> int:
        return len(self._connections)

    def generation(self, service_id: ObjectId) -> int:
        """Return the generation of new connections to this service."""
        return self._generations.get(service_id, 0)

    def join(self, service_id: ObjectId) -> int:
        """Count a new connection to this service and return its generation."""
        self._connections[service_id] = self._connections.get(service_id, 0) + 1
        return self.generation(service_id)

    def leave(self, service_id: ObjectId) -> None:
        """Count one connection less."""
        left = self._connections[service_id] - 1
        if left:
            self._connections[service_id] = left
        else:
            del self._connections[service_id]
            self._generations.pop(service_id, None)

    def clear(self, service_id: ObjectId) -> None:
        """Make all connections to this service stale."""
        if service_id in self._connections:
            self._generations[service_id] = self.generation(service_id) + 1


# A connection is in exactly one place: `idle`, `in_use`, `pending`, or not in the pool. A connection that is being
# established is an `Establishment` in `connecting`. maxPoolSize limits the sum of the four.


class Phase(enum.Enum):
    """The states of a pool."""

    PAUSED = "paused"
    READY = "ready"
    CLOSED = "closed"


_READY, _CLOSED, _OTHER = Phase.READY, Phase.CLOSED, Purpose.OTHER


# The effects that the state of a pool requests from its shell.


class Establish(NamedTuple):
    """Effect: start establishing a connection."""

    establishment: Establishment


class Abandon(NamedTuple):
    """Effect: stop establishing a connection; it has left the pool."""

    establishment: Establishment
    reason: str


class Close(NamedTuple):
    """Effect: close a connection that has left the pool."""

    connection: Connection
    reason: str


class Drain(NamedTuple):
    """Effect: receive the owed reply, and report the outcome with `drained` or `drain_failed`.

    If the reply has not arrived by the loop time `overdue_at`, call `overdue` then.
    """

    connection: Connection
    overdue_at: float


class Interrupt(NamedTuple):
    """Effect: make the operation on this connection fail."""

    connection: Connection


class Refuse(NamedTuple):
    """Effect: wake these requests, which have left the queue, with their refusals."""

    requests: list[Request]


Effect: TypeAlias = Establish | Abandon | Close | Drain | Interrupt | Refuse


# The settings of a pool.


class PoolSettings(NamedTuple):
    """The settings of a pool; times in seconds."""

    # 0: no limit.
    max_size: int
    min_size: int
    # How many connections may be established at the same time.
    max_connecting: int
    # None: idle connections are kept forever.
    max_idle_time: float | None
    # None: an operation waits as long as its deadline allows.
    wait_queue_timeout: float | None
    # 0: no timeout.
    connect_timeout: float
    # The settings of the application with their public names and units, for events.
    given: Mapping[str, int]
    # For each command that authenticates a connection that no operation waits for: timeoutMS of the client.
    command_timeout: float = inf
    maintenance_interval: float = 1.0
    # None: the queue is unbounded, as the pooling specification has it.
    wait_queue: WaitQueue | None = None


# The errors of operations that get no connection from a pool.


def breaker_opened(address: Address, waited: float, retry_after: float) -> CircuitBreakerOpenError:
    """Return the error of an operation that waited for a connection when the breaker of its server opened."""
    error = CircuitBreakerOpenError(
        f"the circuit breaker of {format_address(address)} opened while the operation waited for a connection: "
        "too many operations failed there"
    )
    error.address, error.wait_time, error.retry_after = address, waited, retry_after
    return error


def timed_out(
    address: Address, phase: str, waited: float, numbers: Mapping[str, int], cause: str = ""
) -> WaitQueueTimeoutError:
    """Return the error of an operation that got no connection within `waited` seconds.

    `numbers` describe the pool. `cause` is what they do not say.
    """
    # The text is quoted from the load balancer specification ("Connection Tracking"), except most numbers.
    shown = ", ".join(f"{name}: {number}" for name, number in numbers.items())
    error = WaitQueueTimeoutError(
        f"Timeout waiting for connection from the connection pool. {shown}, "
        f"waited for {format_address(address)}: {waited:.3f} s{cause and '; '}{cause}"
    )
    error.phase, error.address, error.wait_time = phase, address, waited
    return error


# Maximum number of pending replies without a caller; the oldest is given up when another one is added.
MAX_PENDING: Final = 100
# The errors of a paused pool show at most this many characters of the reason for the clear.
_MAX_REASON: Final = 1000


class PoolState:
    """The connections and the waiting requests of one pool, and all changes of them."""

    def __init__(self, address: Address, options: PoolSettings) -> None:
        self.address: Address = address
        self._options = options
        # With this many connections in use, the pool has no others, neither idle nor pending nor connecting: requests
        # can only wait for one of them.
        self._full_at = options.max_size or inf
        self._max_idle_time = inf if options.max_idle_time is None else options.max_idle_time
        # `ask_after` of the pool's streams, which are all alike.
        self._ask_after = 0.0
        self.phase: Phase = Phase.PAUSED
        # Incremented by every clear; connections of an older generation are stale.
        self.generation: int = 0
        # Behind a load balancer: the generations of its services. `generation` does not change there.
        self.services: Services = Services()
        # Why the pool was last cleared, for the errors of requests to a paused pool; empty if unknown.
        self.cleared_because: str = ""
        # Why the newest attempt to establish a connection failed, for the errors of requests that time out; empty
        # if it succeeded, or the pool was cleared since.
        self.last_failure: str = ""
        # The pool was closed because its server left the deployment.
        self.is_server_gone: bool = False
        # The most recently checked in connection is at the right end and is taken first, so that surplus connections
        # stay idle.
        self.idle: deque[Connection] = deque()
        self.in_use: set[Connection] = set()
        # Connections that await the reply of an abandoned request, oldest first. True: the reply is overdue.
        self.pending: OrderedDict[Connection, bool] = OrderedDict()
        # How many operations may run at once, if the client limits that further than by maxPoolSize.
        self.limit: AdaptiveLimit | None = None
        # In the order of their start.
        self.connecting: dict[Establishment, None] = {}
        # How long operations take here, and how long callers wait.
        self.pace: Pace = Pace()
        # The advice to callers that waited too long. A configured wait queue has its own.
        self.advice: Advice = Advice()
        # The configured wait queue, or None.
        self.bounded: BoundedQueue | None = None
        if options.wait_queue is not None:
            from motorlite._admission.bounded_queue import BoundedQueue

            self.bounded = BoundedQueue(options.wait_queue, address, options.max_size, self.pace, self.ages)
        self.queue: PoolQueue | BoundedQueue = PoolQueue(self.pace) if self.bounded is None else self.bounded
        # Effects for the shell to perform next.
        self.effects: list[Effect] = []
        self._last_id = 0

    # --- facts ---

    @property
    def created(self) -> int:
        """The number of connections started so far."""
        return self._last_id

    @property
    def total(self) -> int:
        """The number of connections, including those being established."""
        return len(self.idle) + len(self.in_use) + len(self.pending) + len(self.connecting)

    @property
    def running(self) -> int:
        """The number of operations that the server seems to work on: not those whose pending reply is overdue."""
        return len(self.in_use) + len(self.pending) - sum(self.pending.values())

    @property
    def room(self) -> int | None:
        """How many more operations may have a connection, whether it is open yet or not; None: any number."""
        size, limit = self._options.max_size, self.limit
        room = size - len(self.in_use) - len(self.pending) if size else None
        if limit is None:
            return room
        permitted = limit.value - self.running
        return permitted if room is None else min(room, permitted)

    def may_use(self) -> bool:
        """Whether the concurrency limit, if there is one, permits another operation."""
        return self.limit is None or self.running < self.limit.value

    def ages(self, now: float) -> list[float]:
        """Return how many seconds the operations have been running, including those without a caller."""
        return [now - connection.in_use_since for connection in (*self.in_use, *self.pending)]

    def retry_after(self, now: float) -> float:
        """Estimate after how many seconds an operation that arrives now gets a connection."""
        if self.bounded is not None:
            return self.bounded.retry_after(self.queue.count, now)
        return next_turn(self.ages(now), self.pace.mean(now), self.queue.count, self._options.max_size)

    def count(self, purpose: Purpose) -> int:
        """Return the number of connections in use for `purpose`."""
        return sum(connection.purpose is purpose for connection in self.in_use)

    def generation_for(self, service_id: ObjectId | None) -> int:
        """Return the generation of new connections, to the service behind a load balancer if one is given."""
        return self.generation if service_id is None else self.services.generation(service_id)

    def _perished(self, connection: Connection, now: float) -> str | None:
        """Return why `connection` must no longer be used, or None."""
        service_id = connection.service_id
        if connection.generation != (self.generation if service_id is None else self.services.generation(service_id)):
            # A broken connection may have caused the clear itself; that does not make it stale.
            is_broken = connection.stream.is_closed and connection.interruption is None
            return ConnectionClosedReason.ERROR if is_broken else ConnectionClosedReason.STALE
        if self.phase is _CLOSED:
            return ConnectionClosedReason.POOL_CLOSED
        if connection.stream.is_closed:
            return ConnectionClosedReason.ERROR
        idle_for = now - connection.idle_since
        if idle_for > self._max_idle_time:
            return ConnectionClosedReason.IDLE
        if idle_for > connection.stream.ask_after and not connection.stream.is_healthy():
            return ConnectionClosedReason.ERROR
        return None

    def numbers(self) -> dict[str, int]:
        """Return the numbers that the errors of requests that time out show."""
        numbers = {
            "maxPoolSize": self._options.max_size,
            "connections in use by cursors": self.count(Purpose.CURSOR),
            "connections in use by transactions": self.count(Purpose.TRANSACTION),
            "connections in use by other operations": self.count(Purpose.OTHER),
            "idle": len(self.idle),
            "being established": len(self.connecting),
            "more operations waiting": len(self.queue),
        }
        if self.pending:
            numbers["waiting for the reply to an abandoned operation"] = len(self.pending)
        return numbers

    def cause(self, waited: float, now: float) -> str:
        """Return why a request got no connection within `waited` seconds; empty if the numbers show it."""
        if self.limit is not None and not self.may_use():
            return f"the concurrency limit allows {self.limit.value} operations at once, and {self.running} are running"
        if self.idle:
            return "a connection became free at the moment when the time was up"
        if not self.connecting:
            return ""
        oldest = next(iter(self.connecting))
        age = now - oldest.started_at
        if not self.last_failure and age < waited / 2:
            return ""
        before = f"; the attempt before it failed: {self.last_failure}" if self.last_failure else ""
        return f"{oldest.step} {age:.3f} s{before}"

    # --- check-out and check-in ---

    def take(self, now: float) -> Connection | None:
        """Take an idle connection for an operation that need not wait; None if it must wait with `enqueue`."""
        if self.phase is not _READY or self.queue.count or (self.limit is not None and not self.may_use()):
            return None
        idle = self.idle
        while idle:
            connection = idle.pop()
            stream, idle_for = connection.stream, now - connection.idle_since
            # As `_next_idle` and `_perished`, without the 2,000 instructions of their calls. A stale one is never idle:
            # `_keep` lets none in, and `clear` and `clear_service` drop them.
            if (
                stream.is_closed
                or idle_for > self._max_idle_time
                or (idle_for > self._ask_after and not stream.is_healthy())
            ):
                reason = self._perished(connection, now)
                if reason is not None:
                    self._drop(connection, reason)
                    continue
            self.in_use.add(connection)
            connection.asked_for_at = connection.in_use_since = now
            connection.urgency = None  # the limit does not matter for a caller that need not wait
            return connection
        return None

    def enqueue(self, request: Request, now: float) -> None:
        """Add a waiting `request`; it is offered a connection or an error, now or later."""
        if self.phase is not _READY:
            refusal = self._refusal()
            request.waiter.offer(refusal())
            return
        if self.bounded is not None and not self.bounded.admit(request, self.room, len(self.connecting), now):
            return
        self.queue.push(request)
        if self.bounded is not None or len(self.in_use) < self._full_at:
            self.serve(now)

    def expire(self, request: Request, now: float) -> WaitQueueTimeoutError:
        """Remove `request`, whose time is up; return its error. Call `serve` afterwards."""
        phase = "queue" if request.establishment is None else "connecting"
        self.queue.discard(request)
        request.release()
        waited = now - request.since
        error = timed_out(self.address, phase, waited, self.numbers(), self.cause(waited, now))
        error.depth = self.queue.count
        if self.bounded is None:
            pace = self.pace.mean(now) / max(self._options.max_size, 1)
            error.retry_after = max(self.advice.give(self.retry_after(now), now, pace), waited)
        else:
            self.bounded.timed_out(error, self.queue.count, waited, now)
        return error

    def stay(self, request: Request, now: float) -> None:
        """Let `request` wait on with a new waiter: its time in the queue is up, but it has passed the queue."""
        if request.establishment is not None or any(other is request for other in self.queue):
            return
        # Its turn came, or the pool was cleared, after the old waiter had given up and before the new one was there.
        if request.refusal is not None or self.phase is not _READY:
            refusal = request.refusal or self._refusal()
            request.waiter.offer(refusal())
            return
        self.queue.push_first(request)
        self.serve(now)

    def give_up(self, request: Request, now: float) -> None:
        """Remove `request`, which stopped waiting; the connection being established for it goes to the next one."""
        self.queue.discard(request)
        request.release()
        self.serve(now)

    def put(self, connection: Connection, now: float) -> None:
        """Return `connection` after an operation that is done, or has stopped waiting for the reply."""
        if connection not in self.in_use:
            raise InvalidOperation(f"connection {connection.id} was not checked out of this pool")
        is_waited_for = self.queue.count
        if (is_waited_for or self.pending) and connection.owed is None and connection.purpose is _OTHER:
            self.pace.worked(now - connection.in_use_since, now, connection.urgency)
        if self.bounded is not None:
            self.bounded.worked(connection, now)
        if (
            connection.generation == self.generation
            and connection.owed is None
            and connection.service_id is None
            and self.phase is not _CLOSED
            and not connection.stream.is_closed
        ):  # as `_keep` does: the calls would take as long as the rest of this method
            connection.idle_since = now
            if is_waited_for and self.bounded is None and self.limit is None and not self.idle:
                # Straight to the next request, as `_hand_out` does; the connection remains in use.
                request = self.queue.pop(now)
                if request.establishment is not None:
                    request.release()
                connection.asked_for_at, connection.in_use_since = request.since, now
                connection.urgency = request.urgency
                if not request.waiter.offer(connection):
                    self.in_use.remove(connection)
                    self._hand_out(connection, now)
                if self.connecting:  # the one begun for the request just served may go to another
                    self._establish_for_waiting()
                return
            self.in_use.remove(connection)
            self.idle.append(connection)
        else:
            self.in_use.remove(connection)
            self._keep(connection, now)
        if is_waited_for:
            self.serve(now)

    def put_back(self, connection: Connection, now: float) -> None:
        """Return the unused `connection` of a caller that was cancelled at the moment it received it."""
        self.in_use.discard(connection)
        self._keep(connection, now)
        self.serve(now)

    def caller_left(self, connection: Connection, now: float) -> None:
        """Record that a caller whose limit the driver cannot see cancelled the operation on `connection`."""
        if self.queue and connection.purpose is _OTHER:
            self.pace.left(now - connection.asked_for_at, now)

    def _keep(self, connection: Connection, now: float) -> None:
        connection.idle_since = now
        reason = self._perished(connection, now)
        if reason is not None:
            self._drop(connection, reason)
        elif connection.owed is not None:
            self._await_reply(connection, now)
        else:
            self.idle.append(connection)

    # --- replies without a caller ---

    def _await_reply(self, connection: Connection, now: float) -> None:
        if connection.owed_until <= now:
            self._drop(connection, ConnectionClosedReason.ERROR)
            return
        if len(self.pending) >= MAX_PENDING:
            self._give_up_reply(next(iter(self.pending)))
        self.pending[connection] = False
        overdue_at = connection.in_use_since + self.pace.overdue_after(now)
        self.effects.append(Drain(connection, min(overdue_at, connection.owed_until)))

    def _give_up_reply(self, connection: Connection) -> None:
        del self.pending[connection]
        self._drop(connection, ConnectionClosedReason.ERROR)

    def overdue(self, connection: Connection, now: float) -> None:
        """Mark the reply of a pending connection as overdue, so that it may be given up."""
        self.pending[connection] = True
        self.serve(now)

    def drained(self, connection: Connection, now: float) -> None:
        """Keep a pending connection whose reply has arrived."""
        del self.pending[connection]
        self.pace.drained(now - connection.in_use_since, now, connection.urgency)
        self._keep(connection, now)
        self.serve(now)

    def drain_failed(self, connection: Connection, now: float) -> None:
        """Drop a pending connection whose reply did not arrive in time, or that broke."""
        del self.pending[connection]
        self._drop(connection, ConnectionClosedReason.ERROR)
        self.serve(now)

    # --- waiting ---

    def _next_idle(self, now: float) -> Connection | None:
        idle = self.idle
        while idle:
            connection = idle.pop()
            reason = self._perished(connection, now)
            if reason is None:
                return connection
            self._drop(connection, reason)
        return None

    def _drop(self, connection: Connection, reason: str) -> None:
        """Have the shell close `connection`, which is no longer in the pool."""
        if connection.service_id is not None:
            self.services.leave(connection.service_id)
        self.effects.append(Close(connection, reason))

    def serve(self, now: float) -> None:
        """Give connections to waiting requests in the queue's order; start establishing the missing ones."""
        queue = self.queue
        while queue.count and self.idle and self.may_use():
            connection = self._next_idle(now)
            if connection is None:
                break
            self._hand_out(connection, now)
        if self.bounded is not None:
            self.bounded.refuse_overdue(now)
        self._establish_for_waiting()

    def _hand_out(self, connection: Connection, now: float) -> None:
        while self.queue.count:
            request = self.queue.pop(now)
            if self.bounded is not None and request.has_expired(now):
                request.refuse(self.expire(request, now))
                continue
            if request.establishment is not None:
                request.release()
            self.in_use.add(connection)
            connection.asked_for_at, connection.in_use_since, connection.urgency = request.since, now, request.urgency
            if request.waiter.offer(connection):
                if self.bounded is not None:
                    self.bounded.served(now - request.since)
                return
            self.in_use.discard(connection)
        self.idle.append(connection)

    def _establish_for_waiting(self) -> None:
        if not self.queue.count or len(self.in_use) >= self._full_at:
            return
        orphans = deque([item for item in self.connecting if item.request is None])
        if not orphans and len(self.connecting) >= self._options.max_connecting:
            return
        for request in self.queue:
            if request.establishment is not None:
                continue
            if orphans:
                establishment = orphans.popleft()
                establishment.request = request
            elif self._may_use_another() and self._may_establish(makes_room=True):
                establishment = self._new_establishment(request)
            else:
                return
            request.establishment = establishment

    def _may_use_another(self) -> bool:
        """Whether the concurrency limit leaves room for a connection besides those that are being established."""
        return self.limit is None or self.running + len(self.connecting) < self.limit.value

    def _may_establish(self, *, makes_room: bool = False) -> bool:
        """Whether another connection may be established; `makes_room` gives up an overdue reply if the pool is full."""
        options = self._options
        if self.phase is not _READY or len(self.connecting) >= options.max_connecting:
            return False
        if options.max_size == 0 or self.total < options.max_size:
            return True
        if makes_room:
            for connection, is_overdue in self.pending.items():
                if is_overdue:
                    self._give_up_reply(connection)
                    return True
        return False

    def _new_establishment(self, request: Request | None) -> Establishment:
        self._last_id += 1
        establishment = Establishment(self._last_id, self.generation, request)
        self.connecting[establishment] = None
        self.effects.append(Establish(establishment))
        return establishment

    # --- establishment ---

    def established(self, establishment: Establishment, connection: Connection, now: float) -> None:
        """Add `connection`, the result of `establishment`, which was not abandoned."""
        del self.connecting[establishment]
        self.last_failure = ""
        if establishment.request is not None:
            establishment.request.has_passed = True
            establishment.request.release()
        self._ask_after = connection.stream.ask_after
        self._keep(connection, now)  # its service may have been cleared while it authenticated
        self.serve(now)
        # The next connection for minPoolSize need not wait for maintenance.
        self.populate()

    def failed(self, establishment: Establishment, error: PyMongoError) -> None:
        """Remove the failed `establishment`, which was not abandoned; its requester gets `error`.

        Call `serve` after the topology has handled the error, which may clear the pool.
        """
        del self.connecting[establishment]
        self.last_failure = cut(str(error), _MAX_REASON)
        request = establishment.request
        if request is not None:
            request.release()
            self.queue.discard(request)
            request.waiter.offer(error)

    def populate(self) -> None:
        """Start establishing connections up to minPoolSize, as far as maxConnecting allows."""
        while self.total < self._options.min_size and self._may_establish():
            self._new_establishment(None)

    def prune(self, now: float) -> None:
        """Close idle connections that are stale, have been idle for too long, or were closed by the server."""
        kept = []
        for connection in self.idle:
            reason = self._perished(connection, now)
            if reason is None:
                kept.append(connection)
            else:
                self._drop(connection, reason)
        if len(kept) < len(self.idle):
            self.idle = deque(kept)

    # --- life cycle ---

    def ready(self) -> bool:
        """Allow connections; return False if they were already allowed or the pool is closed."""
        if self.phase is not Phase.PAUSED:
            return False
        self.phase = _READY
        return True

    def clear(self, because: BaseException | None, *, interrupt_in_use: bool = False) -> bool:
        """Make every connection stale and pause; return False if the pool was already paused or closed."""
        if self.phase is Phase.CLOSED:
            return False
        was_ready = self.phase is _READY
        self.generation += 1
        self.phase = Phase.PAUSED
        self.cleared_because = "" if because is None else cut(str(because), _MAX_REASON)
        self.last_failure = ""
        self._discard_all(ConnectionClosedReason.STALE)
        if interrupt_in_use:
            self.effects.extend(Interrupt(connection) for connection in self.in_use)
            self._give_up_replies(ConnectionClosedReason.STALE)
        return was_ready

    def clear_service(self, service_id: ObjectId) -> bool:
        """Make every connection to one service stale; return False if the pool is closed."""
        if self.phase is Phase.CLOSED:
            return False
        self.services.clear(service_id)
        stale = [connection for connection in self.idle if connection.service_id == service_id]
        if stale:
            self.idle = deque(connection for connection in self.idle if connection.service_id != service_id)
        for connection in stale:
            self._drop(connection, ConnectionClosedReason.STALE)
        return True

    def close(self, *, is_server_gone: bool = False) -> bool:
        """Close the pool permanently; return False if it is already closed.

        Waiters get a retryable error if only this server is gone and not the whole client.
        """
        if self.phase is Phase.CLOSED:
            return False
        self.phase = _CLOSED
        self.is_server_gone = is_server_gone
        self._discard_all(ConnectionClosedReason.POOL_CLOSED)
        self._give_up_replies(ConnectionClosedReason.POOL_CLOSED)
        return True

    def refuse_waiting(self) -> None:
        """Fail all waiters because the client is being closed; connections in use may still be checked in."""
        self._refuse_waiting(self._closed())

    def refuse_gated(self, retry_after: float, now: float) -> int:
        """Fail the waiters that the server's breaker stops, because it has opened. Returns their number."""
        gated = [request for request in self.queue if request.is_gated]
        for request in gated:
            self._refuse(request, partial(breaker_opened, self.address, now - request.since, retry_after))
        if gated:
            self.effects.append(Refuse(gated))
            self.serve(now)  # others may use their connections
        return len(gated)

    def _refuse_waiting(self, refusal: Callable[[], PyMongoError]) -> None:
        waiting = list(self.queue)
        for request in waiting:
            self._refuse(request, refusal)
        if waiting:
            self.effects.append(Refuse(waiting))

    def _refuse(self, request: Request, refusal: Callable[[], PyMongoError]) -> None:
        self.queue.discard(request)
        request.release()
        request.refusal = refusal

    def _give_up_replies(self, reason: str) -> None:
        for connection in self.pending:
            self._drop(connection, reason)
        self.pending.clear()

    def _discard_all(self, reason: str) -> None:
        """Discard everything except the connections that are in use or pending."""
        self._refuse_waiting(self._refusal())
        for connection in self.idle:
            self._drop(connection, reason)
        self.effects.extend(Abandon(establishment, reason) for establishment in self.connecting)
        self.idle.clear()
        self.connecting.clear()

    # Each operation gets an error of its own, made when it is woken.

    def _closed(self) -> Callable[[], PyMongoError]:
        return partial(PoolClosedError, f"the connection pool of {format_address(self.address)} is closed")

    def _refusal(self) -> Callable[[], PyMongoError]:
        where = format_address(self.address)
        if self.phase is not _CLOSED:
            reason = f": {self.cleared_because}" if self.cleared_because else ""
            return partial(PoolClearedError, f"the connection pool of {where} was cleared{reason}")
        return partial(PoolClearedError, f"{where} has left the deployment") if self.is_server_gone else self._closed()
