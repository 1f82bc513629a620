"""Pure: what the order of a wait queue is worth when more callers come than the server can serve.

A simulation in virtual time around the real pool: callers arrive at random, at a multiple of what the connections can
serve, and each gives up after a fixed time. The figure is the goodput: the share of the capacity that went into answers
for which a caller still waited.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, Final, cast

from benchmarks.report import align
from motorlite._admission.tickets import Request, Ticket
from motorlite._client.settings import pool_options
from motorlite._connection.handshake import Purpose
from motorlite._options.options import client_options
from motorlite._pool.state import Close, Drain, Establish, PoolState
from motorlite.overload import WaitQueue

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

CONNECTIONS: Final = 10
# Seconds that an operation takes on average; the times are exponentially distributed.
TAKES: Final = 0.03
PATIENCE: Final = (0.05, 0.2, 1.0)
LOADS: Final = (1.3, 2.0, 4.0)
DEPTH: Final = 10_000
SEED: Final = 7
# Nothing is counted before, so that the queue has settled.
WARM_UP: Final = 5.0
ORDERS: Final[dict[str, WaitQueue | None]] = {
    # Equal priorities leave the strict order.
    "first in, first out": WaitQueue("queue", DEPTH, 60.0, "priority", None),
    "no option": None,
    "fifo": WaitQueue("queue", DEPTH, 60.0, "fifo", None),
    "adaptive": WaitQueue("queue", DEPTH, 60.0, "adaptive", None),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one order."""

    order: str
    load: float
    patience: float
    is_seen: bool
    # Answers in time, as a share of the capacity; callers that were told early, as a share of all.
    goodput: float
    dropped: float
    # Seconds until the answers that came in time: median and 99th percentile.
    median: float
    slowest: float


class _Stream:
    ask_after = 1.0
    is_closed = False

    def is_healthy(self) -> bool:
        return True


class _Connection:
    """What a pool reads of a connection."""

    def __init__(self, number: int) -> None:
        self.id = number
        self.generation = 0
        self.service_id = None
        self.purpose = Purpose.OTHER
        self.idle_since = self.in_use_since = self.asked_for_at = 0.0
        self.haste = None
        self.interruption = None
        self.owed: int | None = None
        self.owed_until = -inf
        self.stream = _Stream()


class _Caller:
    """One operation, and the waiter of its request."""

    __slots__ = ("arrived", "connection", "is_gone", "on_offer", "request")

    def __init__(self, arrived: float, on_offer: Callable[[_Caller, Any], None]) -> None:
        self.arrived = arrived
        self.on_offer = on_offer
        self.connection: Any = None
        self.is_gone = False
        self.request: Request | None = None

    def offer(self, value: object) -> bool:
        if self.is_gone or self.connection is not None:
            return False
        self.on_offer(self, value)
        return True


class Simulation:
    """One pool and its callers."""

    def __init__(self, queue: WaitQueue | None, load: float, patience: float, *, is_seen: bool) -> None:
        options = replace(
            pool_options(client_options()),
            max_size=CONNECTIONS,
            max_connecting=CONNECTIONS,
            wait_queue=queue,
            wait_queue_timeout=None,
        )
        self.state = PoolState(("db.example", 27017), options)
        self.state.ready()
        self.now = 0.0
        self._patience = patience
        # Whether the driver knows when the caller gives up.
        self._is_seen = is_seen
        self._rate = load * CONNECTIONS / TAKES
        self._random = random.Random(SEED)
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._numbers = count()
        self.arrived = self.dropped = 0
        self.latencies: list[float] = []

    def run(self, seconds: float) -> None:
        self._at(0.0, self._arrive)
        while self._events:
            self.now, _, act, arguments = heappop(self._events)
            if self.now > WARM_UP + seconds:
                return
            act(*arguments)
            self._perform()

    def _at(self, moment: float, act: Callable[..., None], *arguments: Any) -> None:
        heappush(self._events, (moment, next(self._numbers), act, arguments))

    def _arrive(self) -> None:
        self._at(self.now + self._random.expovariate(self._rate), self._arrive)
        self.arrived += self.now > WARM_UP
        caller = _Caller(self.now, self._answered)
        self._at(self.now + self._patience, self._give_up, caller)
        connection = self.state.take(self.now)
        if connection is not None:
            self._answered(caller, connection)
            return
        until = self.now + self._patience if self._is_seen else inf
        caller.request = request = Request(cast("Any", caller), self.now, until=until)
        if self.state.bounded is not None:
            self.state.bounded.fill_in(request, Ticket(self.now), until)
        self.state.enqueue(request, self.now)

    def _answered(self, caller: _Caller, value: Any) -> None:
        if isinstance(value, BaseException):
            self.dropped += self.now > WARM_UP
            caller.is_gone = True
            return
        caller.connection = value
        self._at(self.now + self._random.expovariate(1 / TAKES), self._replied, caller)

    def _replied(self, caller: _Caller) -> None:
        connection = caller.connection
        if caller.is_gone:
            connection.owed = None
            self.state.drained(connection, self.now)
            return
        if self.now > WARM_UP:
            self.latencies.append(self.now - caller.arrived)
        caller.is_gone = True
        self.state.put(connection, self.now)

    def _give_up(self, caller: _Caller) -> None:
        if caller.is_gone:
            return
        caller.is_gone = True
        if caller.connection is None:
            assert caller.request is not None
            if not self._is_seen:
                self.state.pace.left(self._patience, self.now)
            self.state.give_up(caller.request, self.now)
            return
        connection = caller.connection
        # It is never given up: closing it would not make the server any faster.
        connection.owed, connection.owed_until = 1, inf
        if not self._is_seen:
            self.state.caller_left(connection, self.now)
        self.state.put(connection, self.now)

    def _perform(self) -> None:
        effects, self.state.effects = self.state.effects, []
        for effect in effects:
            if isinstance(effect, Establish):
                connection: Any = _Connection(effect.establishment.connection_id)
                self._at(self.now, self.state.established, effect.establishment, connection, self.now)
            assert not isinstance(effect, Close)
            assert isinstance(effect, Establish | Drain)


def measure(order: str, load: float, patience: float, *, is_seen: bool, seconds: float) -> Outcome:
    """Simulate one order for some virtual seconds."""
    simulation = Simulation(ORDERS[order], load, patience, is_seen=is_seen)
    simulation.run(seconds)
    times = sorted(simulation.latencies) or [inf]
    return Outcome(
        order,
        load,
        patience,
        is_seen,
        goodput=len(simulation.latencies) / (seconds * CONNECTIONS / TAKES),
        dropped=simulation.dropped / simulation.arrived,
        median=times[len(times) // 2],
        slowest=times[int(len(times) * 0.99)],
    )


def render(outcomes: Sequence[Outcome]) -> str:
    """One line for each load and patience, one column for each order."""
    orders = list(dict.fromkeys(one.order for one in outcomes))
    rows = [("limit", "load", "gives up after", *orders)]
    by_case: dict[tuple[bool, float, float], dict[str, Outcome]] = {}
    for one in outcomes:
        by_case.setdefault((one.is_seen, one.load, one.patience), {})[one.order] = one
    for (is_seen, load, patience), found in by_case.items():
        cells = [f"{found[order].goodput:.0%}, {found[order].median * 1000:.0f} ms" for order in orders]
        rows.append(("seen" if is_seen else "not seen", f"{load:g}", f"{patience * 1000:.0f} ms", *cells))
    return align(rows)


def simulate(seconds: float) -> list[Outcome]:
    """Simulate every order under every load."""
    return [
        measure(order, load, patience, is_seen=is_seen, seconds=seconds)
        for is_seen in (True, False)
        for load in LOADS
        for patience in PATIENCE
        for order in ORDERS
    ]


def run(arguments: argparse.Namespace) -> int:
    """Print the goodput and the median latency of the answers that came in time; return the exit status."""
    outcomes = simulate(arguments.seconds)
    print(
        f"{CONNECTIONS} connections, operations take {TAKES * 1000:.0f} ms; goodput as a share of the capacity, and "
        f"the median time to those answers\n\n{render(outcomes)}"
    )
    return 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=20.0, help="virtual seconds of each run; default: 20")
