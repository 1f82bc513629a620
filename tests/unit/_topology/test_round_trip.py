from __future__ import annotations

import pytest

from motorlite._topology.monitor import RoundTripTimes


def test_without_samples_nothing_is_known() -> None:
    times = RoundTripTimes()
    assert times.average is None
    assert times.minimum == 0.0


def test_first_sample_is_the_average_but_not_yet_the_minimum() -> None:
    times = RoundTripTimes()
    times.add(0.5)
    assert times.average == 0.5
    assert times.minimum == 0.0


def test_later_samples_have_a_weight_of_one_fifth() -> None:
    times = RoundTripTimes()
    times.add(1.0)
    times.add(2.0)
    assert times.average == pytest.approx(1.2)
    assert times.minimum == 1.0
    times.add(0.2)
    assert times.average == pytest.approx(1.0)
    assert times.minimum == 0.2


def test_minimum_forgets_all_but_ten_samples() -> None:
    times = RoundTripTimes()
    times.add(0.1)
    for _ in range(9):
        times.add(0.3)
    assert times.minimum == 0.1
    times.add(0.3)
    assert times.minimum == 0.3


def test_reset_forgets_everything() -> None:
    times = RoundTripTimes()
    times.add(1.0)
    times.add(1.0)
    times.reset()
    assert (times.average, times.minimum) == (None, 0.0)
    times.add(3.0)
    assert (times.average, times.minimum) == (3.0, 0.0)


def test_negative_sample_is_refused() -> None:
    times = RoundTripTimes()
    with pytest.raises(ValueError, match=r"negative: -0\.1"):
        times.add(-0.1)
    assert times.average is None
