"""Pure: one simulated server behind its ingress.

All work, be it for admitted requests, rejections or handshakes, is done in the order in which it arrives. Since the
speed of the server is known for all times, the moment at which a piece of work will be done is known as soon as it
arrives: work needs no events of its own. Work is done even if its client has gone in the meantime, which a real server
notices no earlier than when it replies.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import TYPE_CHECKING, Any

from benchmarks.storm.timeline import Timeline, condition, times_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from benchmarks.storm.scenario import Scenario
    from benchmarks.storm.twin.clock import Clock


class Limiter:
    """A token bucket that is filled at a rate that may change at known times."""

    __slots__ = ("_burst", "_rates", "_since", "_tokens")

    def __init__(self, rates: Timeline, burst: float) -> None:
        self._rates = rates
        # Seconds of the rate that it holds; at least one token.
        self._burst = burst
        self._tokens = inf
        self._since = 0.0

    @property
    def tokens(self) -> float:
        """The tokens at the time of the last call."""
        return self._tokens

    def _fill(self, now: float) -> None:
        total = self._rates.total(now)
        capacity = max(1.0, self._burst * self._rates.rate(now))
        self._tokens = min(capacity, self._tokens + total - self._since)
        self._since = total

    def take(self, now: float) -> bool:
        """Take a token. Returns False if there is none."""
        self._fill(now)
        # Sums of small numbers fall a little short of one.
        if self._tokens < 1 - 1e-9:
            return False
        self._tokens = max(0.0, self._tokens - 1)
        return True

    def next_at(self, now: float) -> float:
        """Return when there will be a token."""
        self._fill(now)
        return now if self._tokens >= 1 else self._rates.when(self._since + 1 - self._tokens)


class SimulatedServer:
    """A server, its limiters, and the work that waits."""

    __slots__ = (
        "_admission",
        "_clock",
        "_connections",
        "_dice",
        "_done",
        "_failures",
        "_lobby",
        "_spec",
        "_speed",
        "_unreachable",
        "address",
        "is_down",
        "latency",
    )

    def __init__(self, scenario: Scenario, index: int, dice: Random, clock: Clock) -> None:
        spec = self._spec = scenario.servers[index]
        times = times_of(scenario)
        conditions = [condition(scenario, index, time) for time in times]
        self.address: tuple[str, int | None] = (f"server{index}.example", 27017)
        self.latency: float = spec.latency
        self.is_down: bool = conditions[0].is_down
        self._speed = Timeline(times, [spec.work * each.capacity for each in conditions])
        self._admission: Limiter | None = None
        if spec.mode == "shed":
            rates = [spec.admission_rate * each.capacity for each in conditions]
            self._admission = Limiter(Timeline(times, rates), spec.admission_burst)
        self._connections: Limiter | None = None
        if spec.connection_rate is not None:
            self._connections = Limiter(Timeline([0.0], [spec.connection_rate]), spec.connection_burst)
        # Connections that wait for the limiter, as `connect` got them.
        self._lobby: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._clock = clock
        self._failures = Timeline(times, [each.failure_rate for each in conditions])
        # 1 while it answers every request with "host unreachable".
        self._unreachable = Timeline(times, [float(each.is_unreachable) for each in conditions])
        self._dice = dice
        # The work that had arrived, in units since the start, when the last piece of it arrived; idle time counts as
        # work.
        self._done = 0.0

    def backlog(self, now: float) -> float:
        """Return the units of work that wait."""
        return max(0.0, self._done - self._speed.total(now))

    def is_unreachable(self, now: float) -> bool:
        """Whether it answers a request of this moment with "host unreachable"."""
        return bool(self._unreachable.rate(now))

    def request(self, now: float) -> tuple[float, bool]:
        """Take a request. Returns when the client has its reply, and whether the request succeeds."""
        if self.is_unreachable(now):
            return self._after(now, self._spec.rejection_cost), False
        if self._admission is not None and not self._admission.take(now):
            return self._after(now, self._spec.rejection_cost), False
        failure_rate = self._failures.rate(now)
        succeeds = not failure_rate or self._dice.random() >= failure_rate
        return self._after(now, 1.0), succeeds

    def connect(self, begin: Callable[[Any], None], subject: Any) -> bool:
        """Call ``begin(subject)`` when a new connection may begin its handshake. Returns False if it is closed."""
        limiter, lobby = self._connections, self._lobby
        if limiter is None or (not lobby and limiter.take(self._clock.now)):
            begin(subject)
            return True
        if len(lobby) >= self._spec.connection_queue:
            return False
        lobby.append((begin, subject))
        if len(lobby) == 1:
            self._clock.at(limiter.next_at(self._clock.now), self._let_in, limiter)
        return True

    def _let_in(self, limiter: Limiter) -> None:
        if self._lobby and limiter.take(self._clock.now):
            begin, subject = self._lobby.popleft()
            begin(subject)
        if self._lobby:
            self._clock.at(limiter.next_at(self._clock.now), self._let_in, limiter)

    def handshake(self, now: float) -> float:
        """Return when a handshake that begins now will be done."""
        return self._after(now, self._spec.handshake_cost)

    def crash(self, now: float) -> None:
        """Forget the work that waits."""
        self._done = self._speed.total(now)
        self._lobby.clear()

    def _after(self, now: float, cost: float) -> float:
        speed = self._speed
        done = speed.total(now)
        if done < self._done:
            done = self._done
        self._done = done + cost
        return speed.when(self._done) + self.latency
