from __future__ import annotations

import pytest

from motorlite._topology.monitor import RoundTripTimes


def test_the_average_and_the_minimum_of_the_last_ten() -> None:
    times = RoundTripTimes()
    assert (times.average, times.minimum) == (None, 0.0)
    # A later sample has a weight of one fifth; the minimum needs two.
    for sample, average, minimum in ((1.0, 1.0, 0.0), (2.0, 1.2, 1.0), (0.2, 1.0, 0.2)):
        times.add(sample)
        assert times.average == pytest.approx(average)
        assert times.minimum == minimum
    for _ in range(9):
        assert times.minimum == 0.2
        times.add(0.3)
    times.add(0.3)
    assert times.minimum == 0.3
    times.reset()
    assert (times.average, times.minimum) == (None, 0.0)
    times.add(3.0)
    assert (times.average, times.minimum) == (3.0, 0.0)
