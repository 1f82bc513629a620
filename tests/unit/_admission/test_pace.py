"""What a pool learns of its server's pace and of its callers' patience."""

from __future__ import annotations

from math import inf

import pytest

from motorlite._admission.pace import Pace, RecentTimes, urgency


def test_quantiles_are_those_of_the_last_31_observations() -> None:
    times = RecentTimes()
    assert times.quantile(0.5, 0.0) is None
    times.add(3.0, 0.0)
    assert times.quantile(0.0, 0.0) == times.quantile(0.99, 0.0) == 3.0
    times = RecentTimes()
    for seconds in range(32):
        times.add(float(seconds), 0.0)
    assert times.quantile(0.0, 0.0) == 1.0
    for seconds in range(32, 100):
        times.add(float(seconds), 0.0)
    for part, seconds in ((0.0, 69), (0.5, 84), (0.99, 99)):
        assert times.quantile(part, 0.0) == pytest.approx(seconds, abs=4)


def test_old_observations_say_nothing() -> None:
    times = RecentTimes()
    for _ in range(8):
        times.add(1.0, 10.0)
    assert times.quantile(0.5, 15.0) == 1.0
    assert times.quantile(0.5, 15.1) is None
    times.add(2.0, 15.1)
    assert times.quantile(0.0, 15.1) == 2.0, "those from before do not come back"


def test_an_observation_counts_for_five_seconds_after_the_one_before() -> None:
    times = RecentTimes()
    times.add(1.0, 10.0)
    times.add(2.0, 15.0)
    assert times.quantile(0.0, 15.0) == 1.0
    times.add(3.0, 20.5)
    assert times.quantile(0.0, 20.5) == 3.0
    early = RecentTimes()
    early.add(1.0, 1.0)
    early.add(2.0, 5.5)
    assert early.quantile(0.0, 5.5) == 1.0


def test_observations_are_sorted_every_fourth_time() -> None:
    times = RecentTimes()
    for _ in range(4):
        times.add(1.0, 0.0)
    assert times.quantile(0.99, 0.0) == 1.0
    for number in range(1, 10):
        times.add(9.0, 0.0)
        assert times.quantile(0.99, 0.0) == (9.0 if number >= 4 else 1.0)
        assert times.quantile(0.4, 0.0) == (9.0 if number >= 8 else 1.0)


def test_nothing_is_needed_while_nothing_is_known() -> None:
    pace = Pace()
    assert pace.needed(0.0, None) == 0.0
    assert pace.patience(0.0) == inf
    assert pace.overdue_after(0.0) == 0.1


def test_what_a_waiter_needs_is_what_most_operations_take() -> None:
    pace = Pace()
    for seconds in (0.1, 0.2, 0.3, 0.4) * 4:
        pace.worked(seconds, 0.0, None)
    assert pace.needed(0.0, None) == pytest.approx(0.44)
    for _ in range(31):
        pace.drained(0.05, 0.0, None)
    assert pace.needed(0.0, None) == pytest.approx(0.055)


def test_what_a_waiter_needs_is_learned_from_those_with_such_a_limit() -> None:
    pace = Pace()
    pace.worked(0.2, 0.0, urgency(0.5))
    pace.drained(2.0, 0.0, urgency(5.0))
    assert pace.needed(0.0, urgency(0.45)) == pytest.approx(0.22)
    assert pace.needed(0.0, urgency(6.0)) == pytest.approx(2.2)
    assert pace.needed(0.0, urgency(1.0)) == pace.needed(0.0, None) == 0.0
    assert pace.needed(6.0, urgency(0.5)) == 0.0, "that was long ago: it may try"
    assert pace.overdue_after(0.0) == pytest.approx(4.0), "that of every operation"


def test_limits_that_are_over_and_none_have_a_magnitude() -> None:
    assert urgency(inf) is None
    assert urgency(0.0) == urgency(-inf) == urgency(0.001)
    assert urgency(1.0) == urgency(0.9) != urgency(1.9)


def test_a_reply_is_overdue_after_twice_the_usual_time_and_a_handshake() -> None:
    pace = Pace()
    for _ in range(4):
        pace.worked(0.03, 0.0, None)
    assert pace.overdue_after(0.0) == pytest.approx(0.06)
    for seconds in (0.01, 0.02, 0.9):
        pace.connected(seconds, 0.0)
    assert pace.overdue_after(0.0) == pytest.approx(0.08), "a handshake takes the median"


def test_patience_is_that_of_the_impatient_quarter() -> None:
    pace = Pace()
    for seconds in (0.9, 0.05):
        pace.left(seconds, 0.0)
    assert pace.patience(0.0) == 0.05


def test_callers_who_gave_up_are_forgotten_soon_however_many_there_were() -> None:
    pace = Pace()
    for _ in range(1000):
        pace.left(0.05, 0.0)
    for _ in range(94):
        pace.worked(0.03, 0.0, None)
    assert pace.patience(0.0) == 0.05
    pace.worked(0.03, 0.0, None)
    assert pace.patience(0.0) == inf


def test_the_mean_of_recent_durations() -> None:
    pace = Pace()
    assert pace.mean(0.0) == 0.0
    for seconds in (1.0, 2.0, 3.0):
        pace.worked(seconds, 10.0, None)
    assert pace.mean(15.0) == 2.0
    assert pace.mean(15.1) == 0.0


def test_patience_is_known_only_while_many_callers_give_up() -> None:
    pace = Pace()
    pace.left(0.05, 0.0)
    assert pace.patience(0.0) == inf, "one is not many"
    pace.left(0.05, 0.0)
    assert pace.patience(0.0) == 0.05
    for _ in range(10):
        pace.worked(0.03, 0.0, None)
    assert pace.patience(0.0) == inf, "the others are served"
    for _ in range(10):
        pace.left(0.05, 0.0)
    assert pace.patience(0.0) == 0.05
    assert pace.patience(6.0) == inf, "that was long ago"
