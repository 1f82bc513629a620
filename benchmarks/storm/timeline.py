"""Pure: rates that change at known times, and what the changes of a scenario mean for its servers."""

from __future__ import annotations

from bisect import bisect_right
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.storm.scenario import Change, Scenario

ELECTION: Final = 1.0
"""Seconds without a primary after it has gone down."""


class Timeline:
    """A rate that is constant between known times, and its integral."""

    __slots__ = ("_here", "_rates", "_times", "_totals")

    def __init__(self, times: Sequence[float], rates: Sequence[float]) -> None:
        # The first time is 0; each rate holds from the time at the same index to the next one.
        self._times = (*times, inf)
        self._rates = tuple(rates)
        totals = [0.0]
        for begin, end, rate in zip(times, times[1:], rates, strict=False):
            totals.append(totals[-1] + (end - begin) * rate)
        self._totals = (*totals, inf if rates[-1] else totals[-1])
        # The index of the latest time that was asked about: mostly, time goes on.
        self._here = 0

    def rate(self, now: float) -> float:
        """Return the rate at a time."""
        return self._rates[self._index(now)]

    def total(self, now: float) -> float:
        """Return the integral from 0 to `now`."""
        here = self._index(now)
        return self._totals[here] + (now - self._times[here]) * self._rates[here]

    def when(self, total: float) -> float:
        """Return the time at which the integral reaches `total`; infinity if it never does."""
        here, totals = self._here, self._totals
        if total < totals[here]:
            here = 0
        last = len(self._rates) - 1
        while here < last and total > totals[here + 1]:
            here += 1
        rate = self._rates[here]
        if rate == 0:
            return self._times[here] if total <= totals[here] else inf
        return self._times[here] + (total - totals[here]) / rate

    def _index(self, now: float) -> int:
        here, times = self._here, self._times
        if not times[here] <= now < times[here + 1]:
            here = self._here = max(0, bisect_right(times, now) - 1)
        return here


class Condition(NamedTuple):
    """What is different about a server at a time."""

    # Multiplies its work and its admission rate.
    capacity: float
    failure_rate: float
    is_down: bool
    # Whether it answers every request with "host unreachable".
    is_unreachable: bool


def times_of(scenario: Scenario) -> list[float]:
    """Return 0 and the times at which something changes, in order."""
    return sorted({0.0, *(at for change in scenario.changes for at in (change.start, change.end))})


def condition(scenario: Scenario, server: int, now: float) -> Condition:
    """Return what is different about a server, by its index, at a time."""
    capacity, failure_rate, is_down, is_unreachable = 1.0, scenario.servers[server].failure_rate, False, False
    for change in scenario.changes:
        if _concerns(change, server) and change.start <= now < change.end:
            capacity *= change.capacity
            failure_rate = failure_rate if change.failure_rate is None else change.failure_rate
            is_down = is_down or change.down
            is_unreachable = is_unreachable or change.unreachable
    return Condition(capacity, failure_rate, is_down, is_unreachable)


def _concerns(change: Change, server: int) -> bool:
    return not change.servers or server in change.servers


def elections(scenario: Scenario) -> list[tuple[float, int | None]]:
    """Return who is the primary from when on: (time, index of the server or None), beginning with the first at 0.

    When the primary goes down, the first member that is up replaces it `ELECTION` seconds later, and keeps the office.
    """
    found: list[tuple[float, int | None]] = [(0.0, 0)]
    if len(scenario.servers) == 1:
        return found
    for change in sorted(scenario.changes, key=lambda change: change.start):
        primary = found[-1][1]
        if change.down and primary is not None and _concerns(change, primary):
            found.append((change.start, None))
            elected_at = change.start + ELECTION
            up = (each for each in range(len(scenario.servers)) if not condition(scenario, each, elected_at).is_down)
            found.append((elected_at, next(up, primary)))
    return found


def readers(read_preference: str, count: int, primary: int | None) -> tuple[int, ...]:
    """Return the servers, by index, that requests with a read preference may use while all of them are up."""
    secondaries = tuple(index for index in range(count) if index != primary)
    at_primary = () if primary is None else (primary,)
    if count == 1 or read_preference == "nearest":
        return tuple(range(count))
    if read_preference == "primary":
        return at_primary
    if read_preference == "primaryPreferred":
        return at_primary or secondaries
    return secondaries if read_preference == "secondary" else secondaries or at_primary


def capacity_at(scenario: Scenario, now: float) -> float:
    """Return how many requests per second the servers that requests may use can answer."""
    primary = [who for since, who in elections(scenario) if since <= now][-1]
    total = 0.0
    for index in readers(scenario.read_preference, len(scenario.servers), primary):
        state = condition(scenario, index, now)
        total += 0.0 if state.is_down else scenario.servers[index].capacity * state.capacity
    return total
