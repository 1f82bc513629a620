"""Pure: what a pool holds, and the facts that follow from it. `state` changes it.

A connection is in exactly one place: `idle`, `in_use`, `pending`, or not in the pool. A connection that is being
established is an `Establishment` in `connecting`. maxPoolSize limits the sum of the four.
"""

from __future__ import annotations

import enum
from collections import OrderedDict, deque
from typing import TYPE_CHECKING

from motorlite._connection.purpose import Purpose
from motorlite._overload.retry_after import Advice, next_turn
from motorlite._pool.pace import Pace
from motorlite._pool.queue import WaitQueue
from motorlite._pool.services import Services
from motorlite.monitoring import ConnectionClosedReason

if TYPE_CHECKING:
    from bson.objectid import ObjectId

    from motorlite._base.values import Address
    from motorlite._connection.connection import Connection
    from motorlite._overload.concurrency_limit import AdaptiveLimit
    from motorlite._pool.bounded_queue import BoundedQueue
    from motorlite._pool.effects import Effect
    from motorlite._pool.options import PoolOptions
    from motorlite._pool.requests import Establishment


class Phase(enum.Enum):
    """The states of a pool."""

    PAUSED = "paused"
    READY = "ready"
    CLOSED = "closed"


# A global, since reading a member of an enumeration takes 0.28 µs on Python 3.11, and every operation checks out.
_CLOSED = Phase.CLOSED


class PoolContents:
    """The connections and the waiting requests of one pool."""

    __slots__ = (
        "_last_id",
        "_options",
        "address",
        "advice",
        "bounded",
        "cleared_because",
        "connecting",
        "effects",
        "generation",
        "idle",
        "in_use",
        "is_server_gone",
        "last_failure",
        "limit",
        "pace",
        "pending",
        "phase",
        "queue",
        "services",
    )

    def __init__(self, address: Address, options: PoolOptions) -> None:
        self.address: Address = address
        self._options = options
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
            from motorlite._pool.bounded_queue import BoundedQueue

            self.bounded = BoundedQueue(options.wait_queue, address, options.max_size, self.pace, self.ages)
        self.queue: WaitQueue | BoundedQueue = WaitQueue(self.pace) if self.bounded is None else self.bounded
        # Effects for the shell to perform next.
        self.effects: list[Effect] = []
        self._last_id = 0

    # --- changes of single fields ---

    def _enter(self, phase: Phase) -> None:
        self.phase = phase

    def _make_stale(self, because: str) -> None:
        """Begin a new generation, and pause."""
        self.generation += 1
        self.phase = Phase.PAUSED
        self.cleared_because = because
        self.last_failure = ""

    def _replace_idle(self, connections: list[Connection]) -> None:
        self.idle = deque(connections)

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
    def _is_full(self) -> bool:
        """Whether all connections are in use, so that waiting requests can only wait for one of these."""
        return not self.connecting and not self.pending and 0 < self._options.max_size <= len(self.in_use)

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
            return self.bounded.admission.retry_after(self.queue.count, now)
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
        limit = self._options.max_idle_time
        if limit is not None and idle_for > limit:
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
