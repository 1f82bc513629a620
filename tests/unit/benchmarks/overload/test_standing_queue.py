"""The simulation of a standing queue, for a few virtual seconds."""

from __future__ import annotations

import pytest

from benchmarks.overload.standing_queue import Outcome, measure, render

# Callers that give up after 200 ms, at twice the capacity.
CASE = {"load": 2.0, "patience": 0.2, "seconds": 2.0}


@pytest.mark.slow
@pytest.mark.parametrize("is_seen", [True, False])
def test_an_adaptive_queue_works_for_callers_that_still_wait(is_seen: bool) -> None:
    strict, fifo, adaptive = (
        measure(order, is_seen=is_seen, **CASE) for order in ("first in, first out", "fifo", "adaptive")
    )
    assert strict.goodput < 0.3
    assert 0.6 < fifo.goodput < 0.95
    assert adaptive.goodput > 0.9
    assert adaptive.median < 0.05 < 0.1 < fifo.median <= strict.median
    assert adaptive.dropped > 0.3
    assert fifo.dropped == 0.0


def test_below_the_capacity_all_orders_are_alike() -> None:
    for order in ("first in, first out", "no option", "fifo", "adaptive"):
        outcome = measure(order, 0.7, 1.0, is_seen=True, seconds=1.0)
        assert 0.5 < outcome.goodput < 0.9
        assert outcome.dropped == 0.0


@pytest.mark.parametrize("load", [0.5, 0.7, 0.9])
def test_below_the_capacity_a_queue_adds_no_latency(load: float) -> None:
    """The same callers at the same times, with and without the option."""
    plain, *orders = (
        measure(order, load, 1.0, is_seen=True, seconds=1.0) for order in ("no option", "fifo", "adaptive")
    )
    for outcome in orders:
        assert outcome.median <= plain.median
        assert outcome.slowest <= plain.slowest * 1.2
        assert outcome.goodput >= plain.goodput * 0.99


def test_the_table() -> None:
    outcomes = [
        Outcome(order, 2.0, 0.2, is_seen=True, goodput=0.5, dropped=0.1, median=0.1, slowest=0.2) for order in "ab"
    ]
    assert render(outcomes).splitlines() == [
        "limit  load  gives up after            a            b",
        "seen      2          200 ms  50%, 100 ms  50%, 100 ms",
    ]
