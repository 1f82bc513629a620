from __future__ import annotations

import math

import pytest

from benchmarks.demo.tally import Counts, Tally, share_range


def test_seconds_add_up_to_the_total() -> None:
    tally = Tally()
    for served, failed, attempts in ((3, 1, 9), (5, 0, 5)):
        tally.now.served += served
        tally.now.failed += failed
        tally.now.attempts += attempts
        tally.now.retries += 1
        tally.now.latencies += [0.1] * served
        assert tally.end_second().served == served
    total = tally.total
    assert (total.requests, total.served, total.attempts, total.retries) == (9, 8, 14, 2)
    assert total.error_share == pytest.approx(1 / 9)
    assert total.amplification == pytest.approx(14 / 9)
    assert tally.peak_attempts == 9
    assert tally.now == Counts()


def test_latencies_need_no_order() -> None:
    counts = Counts(latencies=[3.0, 1.0, 2.0])
    assert (counts.latency(0.5), counts.latency(0.99)) == (2.0, 3.0)


def test_nothing_served_is_no_latency_and_no_share() -> None:
    counts = Counts()
    assert math.isnan(counts.latency(0.5))
    assert (counts.error_share, counts.amplification) == (0.0, 0.0)


def test_seconds_of_an_overload_are_counted_apart() -> None:
    tally = Tally()
    for served, is_overloaded in ((3, False), (5, True), (7, True)):
        tally.now.served += served
        tally.end_second(is_overloaded=is_overloaded)
    assert (tally.total.served, tally.overloaded.served) == (15, 12)


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    # Wilson's interval, as Newcombe (1998) has it for 81 of 263 and 0 of 20.
    [(81, 263, 0.2553, 0.3662), (0, 20, 0.0, 0.1611), (20, 20, 0.8389, 1.0)],
)
def test_the_range_of_a_share(successes: int, trials: int, low: float, high: float) -> None:
    assert list(share_range(successes, trials)) == pytest.approx([low, high], abs=1e-4)
