"""What a pool learns of its server's pace and of its callers' patience."""

from __future__ import annotations

from math import inf

import pytest

from motorlite._pool.pace import Pace, RecentTimes, haste


def test_quantiles_are_those_of_the_last_observations() -> None:
    times = RecentTimes()
    assert times.quantile(0.5, 0.0) is None
    times.add(3.0, 0.0)
    assert times.quantile(0.0, 0.0) == times.quantile(0.99, 0.0) == 3.0
    for seconds in range(100):
        times.add(float(seconds), 0.0)
    assert times.quantile(0.0, 0.0) == pytest.approx(69, abs=4)
    assert times.quantile(0.5, 0.0) == pytest.approx(84, abs=4)
    assert times.quantile(0.99, 0.0) == pytest.approx(99, abs=4)


def test_old_observations_say_nothing() -> None:
    times = RecentTimes()
    for _ in range(8):
        times.add(1.0, 10.0)
    assert times.quantile(0.5, 15.0) == 1.0
    assert times.quantile(0.5, 15.1) is None
    times.add(2.0, 15.1)
    assert times.quantile(0.0, 15.1) == 2.0, "those from before do not come back"


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
    pace.worked(0.2, 0.0, haste(0.5))
    pace.drained(2.0, 0.0, haste(5.0))
    assert pace.needed(0.0, haste(0.45)) == pytest.approx(0.22)
    assert pace.needed(0.0, haste(6.0)) == pytest.approx(2.2)
    assert pace.needed(0.0, haste(1.0)) == pace.needed(0.0, None) == 0.0
    assert pace.needed(6.0, haste(0.5)) == 0.0, "that was long ago: it may try"
    assert pace.overdue_after(0.0) == pytest.approx(4.0), "that of every operation"


def test_limits_that_are_over_and_none_have_a_magnitude() -> None:
    assert haste(inf) is None
    assert haste(0.0) == haste(-inf) == haste(0.001)
    assert haste(1.0) == haste(0.9) != haste(1.9)


def test_a_reply_is_overdue_after_twice_the_usual_time_and_a_handshake() -> None:
    pace = Pace()
    for _ in range(4):
        pace.worked(0.03, 0.0, None)
    assert pace.overdue_after(0.0) == pytest.approx(0.06)
    pace.connected(0.02, 0.0)
    assert pace.overdue_after(0.0) == pytest.approx(0.08)


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
