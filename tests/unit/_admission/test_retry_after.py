"""The estimate of when a refused operation may be tried again, and the backoff of callers that return."""

from __future__ import annotations

import pytest

from motorlite._admission.pace import Advice, next_turn


@pytest.mark.parametrize(("ahead", "expected"), [(0, 0.2), (9, 0.2), (10, 0.4), (19, 0.4), (20, 0.6)])
def test_operations_that_have_just_begun_take_the_mean_duration(ahead: int, expected: float) -> None:
    assert next_turn([0.0] * 10, 0.2, ahead, 10) == pytest.approx(expected)
    assert next_turn([], 0.2, ahead, 10) == pytest.approx(expected)


@pytest.mark.parametrize("capacity", [1, 0])
def test_a_single_connection_and_a_pool_without_a_limit(capacity: int) -> None:
    assert [next_turn([0.0], 0.2, ahead, capacity) for ahead in range(3)] == pytest.approx([0.2, 0.4, 0.6])


def test_what_has_run_for_long_is_expected_to_run_as_long_again() -> None:
    assert next_turn([2.5] * 10, 0.00008, 0, 10) == 2.5
    assert next_turn([2.5], 0.00008, 3, 1) == 10.0


def test_the_next_connection_is_that_of_the_youngest_operation() -> None:
    """A report of an hour on one of the connections says nothing about the others."""
    ages = [3600.0, 0.001, 0.002, 0.1]
    assert next_turn(ages, 0.01, 0, 4) == 0.01
    assert next_turn(ages, 0.01, 2, 4) == 0.1
    assert next_turn(ages, 0.01, 4, 4) == pytest.approx(0.01 + 0.1)


def test_callers_ahead_of_connections_that_are_being_opened() -> None:
    assert next_turn([0.5, 0.5], 0.1, 5, 10) == 0.5


def test_an_estimate_ends_at_a_minute_unless_operations_take_longer() -> None:
    assert next_turn([3600.0], 0.1, 0, 1) == 60.0
    assert next_turn([0.0], 120.0, 5, 1) == 120.0


# --- advice ---


def test_the_first_callers_are_told_the_estimate() -> None:
    advice = Advice()
    assert [advice.give(0.1, now) for now in (0.0, 0.0, 0.05, 0.099)] == [0.1] * 4


def test_a_client_that_returns_in_time_has_to_wait_twice_as_long() -> None:
    advice, now, told = Advice(), 0.0, []
    for _ in range(6):
        told.append(advice.give(0.1, now))
        assert advice.give(0.1, now + told[-1] / 2) == told[-1], "as others meanwhile"
        now += told[-1]
    assert told == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2])


def test_it_doubles_up_to_half_a_minute() -> None:
    advice, now = Advice(), 0.0
    for _ in range(20):
        now += advice.give(0.1, now)
    assert advice.give(0.1, now) == 30.0
    assert advice.give(50.0, now + 30.0) == 50.0


def test_a_higher_estimate_counts() -> None:
    advice = Advice()
    assert advice.give(0.1, 0.0) == 0.1
    assert advice.give(5.0, 0.1) == 5.0
    assert advice.give(0.1, 5.1) == 10.0


def test_it_begins_anew_when_nobody_was_refused_for_as_long_again() -> None:
    advice = Advice()
    advice.give(0.1, 0.0)
    assert advice.give(0.1, 0.1) == 0.2
    assert advice.give(0.1, 0.3 + 0.21) == 0.1
    assert advice.give(0.1, 0.62) == 0.2


def test_callers_of_one_step_are_told_more_and_more() -> None:
    advice = Advice()
    assert [advice.give(0.1, 0.0, pace=0.02) for _ in range(4)] == pytest.approx([0.1, 0.12, 0.14, 0.16])
    assert [advice.give(0.1, 0.1, pace=0.02) for _ in range(3)] == pytest.approx([0.2, 0.22, 0.24])
    assert [advice.give(5.0, 0.2, pace=0.02) for _ in range(2)] == pytest.approx([5.06, 5.08])


def test_but_no_more_than_a_minute_unless_the_estimate_is_longer() -> None:
    advice = Advice()
    assert [advice.give(0.1, 0.0, pace=50.0) for _ in range(3)] == pytest.approx([0.1, 50.1, 60.0])
    assert advice.give(70.0, 0.0, pace=50.0) == 70.0


def test_a_caller_that_always_obeys_is_seldom_refused() -> None:
    """Behind an operation of 2.5 s on a server that usually takes 0.08 ms."""
    advice, now, refusals = Advice(), 0.00001, 0
    while now < 2.5:
        now += advice.give(next_turn([now], 0.00008, 0, 1), now)
        refusals += 1
    assert refusals < 20
    assert now < 7.5
