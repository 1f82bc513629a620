"""Pure: the circuit breaker of one server.

Theory of operation. A breaker is asked before each attempt (`enter`) and learns its outcome (`leave`). `enter` returns
a `Visit`, or None for an attempt that must not be made.

- Closed: outcomes are counted in slices of the window. When enough attempts were counted and too many of them failed,
  the breaker opens.
- Open: what the breaker gates is refused. What it does not gate passes and is not counted. The first attempt after
  `open_for` makes the breaker half-open: there is no timer, since without an attempt there is nothing to decide.
- Half-open: attempts become probes while there are places for probes. The others are refused if they are gated, and
  otherwise pass uncounted. One failed probe opens the breaker again; `probes` successes close it. A probe may run for
  an hour, or without a limit, and must not block the server that long: when no probe has begun for `open_for`, another
  one may, whatever is still running.

An outcome counts only in the period in which its attempt began: an attempt that was sent before the server recovered
says nothing about the server now. A neutral outcome, such as a cancelled probe, only gives the place back.
"""

from __future__ import annotations

import enum
from bisect import bisect_left
from collections import deque
from itertools import accumulate
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from motorlite.overload.breaker import BreakerState
from motorlite.stats import Durations

if TYPE_CHECKING:
    from motorlite.overload.breaker import CircuitBreaker


# Counts durations for the statistics.

# Upper bounds in seconds: from an idle pool to the longest queue timeout.
BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class DurationCounter:
    """A histogram that grows."""

    __slots__ = ("_counts", "_total")

    def __init__(self) -> None:
        # By bound; the last one has the durations above all bounds.
        self._counts = [0] * (len(BOUNDS) + 1)
        self._total = 0.0

    def add(self, seconds: float) -> None:
        """Count a duration."""
        self._counts[bisect_left(BOUNDS, seconds)] += 1
        self._total += seconds

    def snapshot(self) -> Durations:
        """Return the counts so far."""
        *buckets, count = accumulate(self._counts)
        return Durations(count, self._total, dict(zip(BOUNDS, buckets, strict=True)))


_SLICES: Final = 10
# The hint of a half-open breaker without places, in seconds, if `open_for` is not shorter.
_SOON: Final = 1.0


class Outcome(enum.Enum):
    """What an attempt says about its server."""

    SUCCESS = "success"
    FAILURE = "failure"
    # Nothing: it was cancelled, or failed for a reason of the client's own.
    NEUTRAL = "neutral"


class Visit(NamedTuple):
    """An attempt that a breaker let pass."""

    # The number of state changes before it.
    period: int
    is_probe: bool


class Change(NamedTuple):
    """A change of state, with what led to it."""

    state: BreakerState
    # Attempts counted in the window and failures among them, when a closed breaker opens; probes otherwise.
    operations: int
    failures: int
    # Seconds until an open breaker lets probes pass; 0 for other states.
    retry_after: float


class CountedAttempts:
    """Attempts of the recent past, counted in slices of time so that memory does not grow with the load."""

    __slots__ = ("_slice", "_slices", "failures", "operations")

    def __init__(self, window: float) -> None:
        self._slice = window / _SLICES
        # [number of the slice, operations, failures], oldest first; slices without attempts are left out.
        self._slices: deque[list[int]] = deque()
        self.operations: int = 0
        self.failures: int = 0

    def add(self, now: float, *, is_failure: bool) -> None:
        """Count one attempt that ended `now`."""
        current = self.forget(now)
        if not self._slices or self._slices[-1][0] != current:
            self._slices.append([current, 0, 0])
        newest = self._slices[-1]
        newest[1] += 1
        newest[2] += is_failure
        self.operations += 1
        self.failures += is_failure

    def forget(self, now: float) -> int:
        """Drop the slices that have left the window. Returns the number of the current slice."""
        current = int(now // self._slice)
        while self._slices and self._slices[0][0] <= current - _SLICES:
            _, operations, failures = self._slices.popleft()
            self.operations -= operations
            self.failures -= failures
        return current

    def counts(self, now: float) -> tuple[int, int]:
        """The operations in the window, and the failures among them. Changes nothing, so that any thread may ask."""
        oldest = int(now // self._slice) - _SLICES
        recent = [each for each in tuple(self._slices) if each[0] > oldest]
        return sum(each[1] for each in recent), sum(each[2] for each in recent)

    def clear(self) -> None:
        """Forget everything."""
        self._slices.clear()
        self.operations = self.failures = 0


class Breaker:
    """The state of one server's breaker."""

    def __init__(self, settings: CircuitBreaker) -> None:
        self._settings = settings
        self.state: BreakerState = BreakerState.CLOSED
        # Incremented by every change of state.
        self._period = 0
        self._counted = CountedAttempts(settings.window)
        # Loop time from which on an open breaker lets probes pass.
        self._half_open_at = -inf
        # In this half-open period: probes under way, probes that succeeded, and the loop time from which on another
        # probe may begin even if all places are taken.
        self._under_way = 0
        self._proved = 0
        self._next_probe_at = -inf
        # How often the breaker opened, and how many attempts it refused.
        self.opened: int = 0
        self.refused: int = 0
        # The `retry_after` of refused attempts.
        self.advised: DurationCounter = DurationCounter()

    def counts(self, now: float) -> tuple[int, int]:
        """The attempts that count at present, and the failures among them."""
        return self._counted.counts(now)

    def gates(self, *, is_retry: bool) -> bool:
        """Whether the breaker refuses these attempts while it is open."""
        return is_retry or self._settings.gates_first_attempts

    def enter(self, now: float, *, is_retry: bool, is_admitted: bool = False) -> tuple[Visit | None, Change | None]:
        """Ask for an attempt. Returns its visit, or None if it is refused, and the change of state, if any.

        `is_admitted`: the attempt must not be refused, since it continues admitted work.
        """
        state = self.state
        if state is BreakerState.CLOSED:
            return Visit(self._period, is_probe=False), None
        change = None
        if state is BreakerState.OPEN and now >= self._half_open_at:
            change = self._become(BreakerState.HALF_OPEN, now)
        if self.state is BreakerState.HALF_OPEN and self._has_place(now):
            self._under_way += 1
            self._next_probe_at = now + self._settings.open_for
            return Visit(self._period, is_probe=True), change
        if not is_admitted and self.gates(is_retry=is_retry):
            self.count_refusal(self.retry_after(now))
            return None, change
        return Visit(self._period, is_probe=False), change

    def count_refusal(self, retry_after: float) -> None:
        """Count a refused attempt, whose caller may try again after `retry_after` seconds."""
        self.refused += 1
        self.advised.add(retry_after)

    def leave(self, visit: Visit, outcome: Outcome, now: float) -> Change | None:
        """Learn the outcome of an attempt. Returns the change of state, if any."""
        if visit.period != self._period:
            return None
        if self.state is BreakerState.CLOSED:
            if outcome is Outcome.NEUTRAL:
                return None
            is_failure = outcome is Outcome.FAILURE
            self._counted.add(now, is_failure=is_failure)
            return self._become(BreakerState.OPEN, now) if is_failure and self._is_too_much() else None
        if not visit.is_probe:
            return None
        self._under_way -= 1
        if outcome is Outcome.FAILURE:
            return self._become(BreakerState.OPEN, now)
        if outcome is Outcome.SUCCESS:
            self._proved += 1
            if self._proved >= self._settings.probes:
                return self._become(BreakerState.CLOSED, now)
        return None

    def avoids(self, now: float) -> bool:
        """Whether operations that may use other servers should: this one would not serve as the goal of a probe."""
        if self.state is BreakerState.HALF_OPEN:
            return not self._has_place(now)
        return self.state is BreakerState.OPEN and now < self._half_open_at

    def retry_after(self, now: float) -> float:
        """The seconds until a refused attempt may pass; 0 while the breaker is closed."""
        if self.state is BreakerState.OPEN:
            return max(0.0, self._half_open_at - now)
        if self.state is BreakerState.HALF_OPEN:
            # When the probes end is unknown.
            return min(_SOON, self._settings.open_for)
        return 0.0

    def _has_place(self, now: float) -> bool:
        """Whether an attempt on a half-open server may be a probe."""
        return self._under_way < self._settings.probes or now >= self._next_probe_at

    def _is_too_much(self) -> bool:
        operations = self._counted.operations
        enough = operations >= self._settings.min_operations
        return enough and self._counted.failures >= self._settings.failure_rate * operations

    def _become(self, state: BreakerState, now: float) -> Change:
        if self.state is BreakerState.CLOSED:
            operations, failures = self._counted.operations, self._counted.failures
        else:
            failures = int(state is BreakerState.OPEN)
            operations = self._proved + failures
        self.state = state
        self._period += 1
        self._counted.clear()
        self._under_way = self._proved = 0
        if state is BreakerState.OPEN:
            self.opened += 1
            self._half_open_at = now + self._settings.open_for
        return Change(state, operations, failures, self._settings.open_for if state is BreakerState.OPEN else 0.0)
