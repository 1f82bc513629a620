"""Pure: what happens when: the requests of a run by seed, and what changes mean for the load and the servers."""

from __future__ import annotations

from math import inf
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.storm.scenario import Change, Scenario

UNLIMITED: Final = 0.1
"""Seconds within which a request without patience is cancelled."""
ELECTION: Final = 1.0
"""Seconds without a primary after it has gone down."""


class Arrival(NamedTuple):
    """A request of the application: seconds after the start of the run, and the number of its client."""

    due: float
    client: int
    # Seconds after which the application cancels it; infinity: it does not.
    cancelled_after: float


def load_at(scenario: Scenario, now: float) -> float:
    factor = 1.0
    for change in scenario.changes:
        if change.start <= now < change.end:
            factor *= change.load
    return factor


def arrivals(scenario: Scenario, seed: int) -> Iterator[Arrival]:
    """Yield the requests, in the order in which they are due.

    A Poisson process: the gaps of a process of rate 1 are stretched by the rate of the moment, so that the requests
    before a change of the load do not depend on it.
    """
    load = scenario.load
    dice, choices = Random(f"arrivals {seed}"), Random(f"choices {seed}")
    patience = UNLIMITED if load.patience is None else load.patience
    now, left = 0.0, dice.expovariate(1.0)
    for end in sorted({*times_of(scenario), scenario.seconds})[1:]:
        end = min(end, scenario.seconds)
        rate = load.rate * load_at(scenario, now)
        while rate and now + left / rate < end:
            now += left / rate
            left = dice.expovariate(1.0)
            client = choices.randrange(load.clients)
            is_cancelled = load.cancelled and choices.random() < load.cancelled
            yield Arrival(now, client, choices.random() * patience if is_cancelled else inf)
        left -= (end - now) * rate
        now = end


class Condition(NamedTuple):
    """What is different about a server at a time."""

    # Multiplies its work and its admission rate.
    capacity: float
    failure_rate: float
    is_down: bool
    # Whether it answers every request with "host unreachable".
    is_unreachable: bool


def times_of(scenario: Scenario) -> list[float]:
    """0 and the times at which something changes, in order."""
    return sorted({0.0, *(at for change in scenario.changes for at in (change.start, change.end))})


def condition(scenario: Scenario, server: int, now: float) -> Condition:
    """What is different about a server, by its index, at a time."""
    changes = [one for one in scenario.changes if _concerns(one, server) and one.start <= now < one.end]
    capacity, failure_rate = 1.0, scenario.servers[server].failure_rate
    for change in changes:
        capacity *= change.capacity
        failure_rate = failure_rate if change.failure_rate is None else change.failure_rate
    return Condition(capacity, failure_rate, any(one.down for one in changes), any(one.unreachable for one in changes))


def _concerns(change: Change, server: int) -> bool:
    return not change.servers or server in change.servers


def elections(scenario: Scenario) -> list[tuple[float, int | None]]:
    """Who is the primary from when on: (time, index of the server or None), beginning with the first at 0.

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
    """The servers, by index, that requests with a read preference may use while all of them are up."""
    secondaries = tuple(index for index in range(count) if index != primary)
    at_primary = () if primary is None else (primary,)
    if count == 1:
        return (0,)
    return {
        "primary": at_primary,
        "primaryPreferred": at_primary or secondaries,
        "secondary": secondaries,
        "secondaryPreferred": secondaries or at_primary,
        "nearest": tuple(range(count)),
    }[read_preference]


def capacity_at(scenario: Scenario, now: float) -> float:
    """How many requests per second the servers that requests may use can answer."""
    primary = [who for since, who in elections(scenario) if since <= now][-1]
    total = 0.0
    for index in readers(scenario.read_preference, len(scenario.servers), primary):
        state = condition(scenario, index, now)
        total += 0.0 if state.is_down else scenario.servers[index].capacity * state.capacity
    return total
