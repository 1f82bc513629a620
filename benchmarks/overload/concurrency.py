"""Pure: `python -m benchmarks concurrency`: adaptive concurrency limits on a modelled server, in simulated time.

The server runs `capacity` operations at once; the others wait inside it, in order. The capacity halves for the middle
third. Callers send one operation after the other, so that the limit alone decides how long the server's queue is. The
same random numbers drive every limit.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from dataclasses import dataclass
from statistics import mean
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from benchmarks.figures import markdown
from motorlite._admission.concurrency_limit import AdaptiveLimit
from motorlite.overload import ConcurrencyLimit

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

POOL: Final = 100
CAPACITY: Final = 20
SERVICE: Final = 0.010
# What a caller waits after an error of overload.
PAUSE: Final = 0.1
# How much of each third is left out, until the limit has followed the capacity.
SETTLING: Final = 1 / 6


class Limit(Protocol):
    """A limit under test."""

    @property
    def value(self) -> int: ...
    def succeeded(self, seconds: float, at_once: int, now: float) -> None: ...
    def failed(self, seconds: float, now: float) -> None: ...


class NoLimit:
    """Nothing but maxPoolSize; it learns nothing."""

    value = POOL

    def succeeded(self, seconds: float, at_once: int, now: float) -> None: ...

    def failed(self, seconds: float, now: float) -> None: ...


class AIMD:
    """Additive increase, multiplicative decrease: after errors, and after operations slower than `threshold`."""

    def __init__(self, threshold: float = math.inf) -> None:
        self._threshold = threshold
        self._exact = 20.0
        self._next_cut_at = 0.0

    @property
    def value(self) -> int:
        return int(self._exact)

    def succeeded(self, seconds: float, at_once: int, now: float) -> None:
        """Grow by one per round of operations, unless this one was slow."""
        if seconds > self._threshold:
            self.failed(seconds, now)
        elif at_once * 2 >= self.value:
            self._exact = min(POOL, self._exact + 1 / self._exact)

    def failed(self, seconds: float, now: float) -> None:
        """Shrink by a tenth, once per duration."""
        if now >= self._next_cut_at:
            self._exact = max(1.0, self._exact * 0.9)
            self._next_cut_at = now + seconds


# All with a mean of about 10 ms.
SERVICE_TIMES: Final[dict[str, Callable[[random.Random], float]]] = {
    "constant": lambda dice: SERVICE * dice.uniform(0.95, 1.05),
    "exponential": lambda dice: dice.expovariate(1 / SERVICE),
    "heavy tail": lambda dice: SERVICE * math.exp(dice.gauss(0, 1) - 0.5),
    "3 % take 200 ms": lambda dice: SERVICE * (20 if dice.random() < 0.03 else 0.42),
}
LIMITS: Final[dict[str, Callable[[], Limit]]] = {
    f"maxPoolSize {POOL}": NoLimit,
    "AIMD, errors only": AIMD,
    "AIMD, 5 ms": lambda: AIMD(0.005),
    "AIMD, 20 ms": lambda: AIMD(0.020),
    "AIMD, 50 ms": lambda: AIMD(0.050),
    "gradient": lambda: AdaptiveLimit(ConcurrencyLimit()),
}


class Phase(NamedTuple):
    """What was measured while the capacity did not change."""

    # Completed operations per second, as a fraction of what the server can do.
    throughput: float
    # The mean of the limit.
    limit: float
    # Time that operations spent at the server, in seconds.
    median: float
    # Errors of overload per second.
    errors: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A server and its callers."""

    service: Callable[[random.Random], float]
    callers: int = 300
    # The server refuses operations while so many wait inside it.
    room: int | None = None
    seconds: float = 90.0

    def capacity(self, now: float) -> int:
        """How many operations the server runs at once."""
        return CAPACITY // 2 if self.seconds <= 3 * now < 2 * self.seconds else CAPACITY


class Simulation:
    """One run of one limit."""

    def __init__(self, scenario: Scenario, limit: Limit, seed: int = 1) -> None:
        self._scenario = scenario
        self._limit = limit
        self._dice = random.Random(seed)
        self._events: list[tuple[float, int, str, float]] = []
        self._count = 0
        # Callers in the client's queue, start times of operations in the server's queue.
        self._callers = 0
        self._waiting: deque[float] = deque()
        self._busy = 0
        self._sent = 0
        # (time, duration) of completed operations, times of errors, and (time, limit).
        self.completed: list[tuple[float, float]] = []
        self.errors: list[float] = []
        self.limits: list[tuple[float, int]] = []

    def _later(self, time: float, kind: str, sent_at: float = 0.0) -> None:
        self._count += 1
        heapq.heappush(self._events, (time, self._count, kind, sent_at))

    def run(self) -> None:
        scenario = self._scenario
        for _ in range(scenario.callers):
            self._later(self._dice.uniform(0, 0.05), "call")
        for number in range(int(scenario.seconds * 20)):
            self._later(number / 20, "look")
        while self._events:
            now, _, kind, sent_at = heapq.heappop(self._events)
            if now >= scenario.seconds:
                return
            if kind == "call":
                self._callers += 1
            elif kind == "look":
                self.limits.append((now, min(POOL, self._limit.value)))
            else:
                self._end(kind, now, sent_at)
            self._send(now)

    def _end(self, kind: str, now: float, sent_at: float) -> None:
        if kind == "reply":
            self._busy -= 1
            self._limit.succeeded(now - sent_at, self._sent, now)
            self.completed.append((now, now - sent_at))
            self._later(now, "call")
        else:
            self._limit.failed(now - sent_at, now)
            self.errors.append(now)
            self._later(now + PAUSE, "call")
        self._sent -= 1

    def _send(self, now: float) -> None:
        scenario = self._scenario
        while self._callers and self._sent < min(POOL, self._limit.value):
            self._callers -= 1
            self._sent += 1
            if scenario.room is not None and len(self._waiting) >= scenario.room:
                self._later(now + 0.0005, "error", now)
            else:
                self._waiting.append(now)
        while self._waiting and self._busy < scenario.capacity(now):
            self._busy += 1
            self._later(now + scenario.service(self._dice), "reply", self._waiting.popleft())

    def phases(self) -> Iterator[Phase]:
        """What was measured in each third, once it had settled."""
        third = self._scenario.seconds / 3
        for number in range(3):
            first, last = (number + SETTLING) * third, (number + 1) * third
            durations = sorted(duration for time, duration in self.completed if first <= time < last)
            seconds = last - first
            yield Phase(
                len(durations) / seconds * SERVICE / self._scenario.capacity(first),
                mean(value for time, value in self.limits if first <= time < last),
                durations[len(durations) // 2],
                sum(first <= time < last for time in self.errors) / seconds,
            )


def measure(scenario: Scenario, limit: Limit) -> list[Phase]:
    simulation = Simulation(scenario, limit)
    simulation.run()
    return list(simulation.phases())


def table(scenario: Scenario) -> str:
    """Compare all limits: the phases with full, with half and again with full capacity."""
    rows: list[Sequence[str]] = [
        ("limit", "throughput, % of capacity", "mean limit", "median at the server, ms", "errors/s")
    ]
    for name, make in LIMITS.items():
        values = ((100 * one.throughput, one.limit, 1000 * one.median, one.errors) for one in measure(scenario, make()))
        rows.append((name, *(" / ".join(f"{value:.0f}" for value in each) for each in zip(*values, strict=True))))
    return markdown(rows)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=90.0, help="simulated time (default: 90)")


def run(arguments: argparse.Namespace) -> int:
    for room in (None, 30):
        for name, service in SERVICE_TIMES.items():
            behaviour = "never refuses" if room is None else f"refuses when {room} operations wait"
            print(f"\nService time: {name}; the server {behaviour}\n")
            print(table(Scenario(service=service, room=room, seconds=arguments.seconds)), flush=True)
    return 0
