"""Pure: when the requests of an open loop are due, by seed: the same for every arm, on sockets and in simulations."""

from __future__ import annotations

from math import inf
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.storm.scenario import Load, Scenario

UNLIMITED: Final = 0.1
"""Seconds within which a request without patience is cancelled."""


class Arrival(NamedTuple):
    """A request of the application."""

    # Seconds after the start of the run.
    due: float
    # The number of its client.
    client: int
    # Seconds after which the application cancels it; infinity: it does not.
    cancelled_after: float


def load_at(scenario: Scenario, now: float) -> float:
    """Return the factor of the load at a time of the run."""
    factor = 1.0
    for change in scenario.changes:
        if change.start <= now < change.end:
            factor *= change.load
    return factor


def arrivals(scenario: Scenario, seed: int) -> Iterator[Arrival]:
    """Yield the requests of an open loop, in the order in which they are due.

    A Poisson process: the gaps of a process of rate 1 are stretched by the rate of the moment, so that the requests
    before a change of the load do not depend on it.
    """
    load = scenario.load
    assert load.rate is not None, "closed loops have no arrivals"
    dice, choices = Random(f"arrivals {seed}"), Random(f"choices {seed}")
    changes = scenario.changes
    times = sorted({0.0, scenario.seconds, *(at for change in changes for at in (change.start, change.end))})
    now, left = 0.0, dice.expovariate(1.0)
    for end in times[1:]:
        end = min(end, scenario.seconds)
        rate = load.rate * load_at(scenario, now)
        while rate and now + left / rate < end:
            now += left / rate
            left = dice.expovariate(1.0)
            yield Arrival(now, choices.randrange(load.clients), cancelled_after(load, choices))
        left -= (end - now) * rate
        now = end


def cancelled_after(load: Load, dice: Random) -> float:
    """Return after how many seconds the application cancels its next request; infinity: it does not."""
    if not load.cancelled or dice.random() >= load.cancelled:
        return inf
    return dice.random() * (UNLIMITED if load.patience is None else load.patience)
