"""The circuit breaker as a pure machine: times in, visits and changes out."""

from __future__ import annotations

from typing import Any

import pytest

from motorlite._admission.circuit_breaker import Breaker, Change, CountedAttempts, Outcome, Visit
from motorlite.overload import BreakerState, CircuitBreaker

CLOSED, OPEN, HALF_OPEN = BreakerState
SUCCESS, FAILURE, NEUTRAL = Outcome


def make(**fields: Any) -> Breaker:
    return Breaker(CircuitBreaker(**{"min_operations": 4, "gates_first_attempts": True, **fields}))


def enter(breaker: Breaker, now: float = 0.0, *, is_retry: bool = False) -> Visit:
    visit, _ = breaker.enter(now, is_retry=is_retry)
    assert visit is not None
    return visit


def attempt(breaker: Breaker, outcome: Outcome, now: float = 0.0) -> Change | None:
    return breaker.leave(enter(breaker, now), outcome, now)


def opened(now: float = 0.0, **fields: Any) -> Breaker:
    breaker = make(**fields)
    assert (breaker.retry_after(now), breaker.avoids(now)) == (0.0, False)
    assert not enter(breaker, now, is_retry=True).is_probe, "closed, it refuses nothing"
    for _ in range(4):
        attempt(breaker, FAILURE, now)
    assert breaker.state is OPEN
    return breaker


# --- closed ---


def test_it_opens_at_the_failure_rate() -> None:
    breaker = make()
    assert [attempt(breaker, outcome) for outcome in (SUCCESS, SUCCESS, FAILURE)] == [None] * 3
    assert attempt(breaker, FAILURE) == Change(OPEN, operations=4, failures=2, retry_after=5.0)
    assert (breaker.state, breaker.opened) == (OPEN, 1)


def test_it_stays_closed_below_the_failure_rate() -> None:
    breaker = make()
    for _ in range(100):
        for outcome in (SUCCESS, SUCCESS, FAILURE):
            assert attempt(breaker, outcome) is None
    assert breaker.counts(0) == (300, 100)


def test_few_attempts_do_not_open_it() -> None:
    breaker = make(min_operations=5)
    for _ in range(4):
        assert attempt(breaker, FAILURE) is None
    assert attempt(breaker, NEUTRAL) is None
    assert breaker.state is CLOSED
    assert attempt(breaker, FAILURE) is not None


def test_only_a_failure_opens_it() -> None:
    # The rate was already reached, but with too few attempts.
    breaker = make()
    for outcome in (FAILURE, FAILURE, FAILURE, SUCCESS):
        assert attempt(breaker, outcome) is None
    assert attempt(breaker, FAILURE) is not None


def test_old_attempts_are_forgotten() -> None:
    breaker = make(window=10.0)
    for _ in range(3):
        attempt(breaker, FAILURE, 0.5)
    assert breaker.counts(9.9) == (3, 3)
    assert breaker.counts(10.0) == (0, 0)
    assert attempt(breaker, FAILURE, 10.0) is None


def test_to_ask_for_the_counts_changes_nothing() -> None:
    """Exporters ask in threads of their own, while the event loop counts."""
    breaker = make(window=10.0, min_operations=5)
    for _ in range(4):
        attempt(breaker, FAILURE, 0.5)
    assert breaker.counts(30.0) == (0, 0)
    assert breaker.counts(9.9) == (4, 4)
    assert attempt(breaker, FAILURE, 9.9) is not None


# --- open ---


def test_open_it_refuses() -> None:
    breaker = opened()
    assert breaker.enter(1.0, is_retry=True) == (None, None)
    assert breaker.enter(4.999, is_retry=False) == (None, None)
    assert breaker.refused == 2
    assert breaker.retry_after(1.5) == 3.5
    assert breaker.avoids(4.999)


def test_by_default_first_attempts_pass_and_do_not_count() -> None:
    breaker = opened(gates_first_attempts=False)
    assert breaker.enter(1.0, is_retry=True) == (None, None)
    visit = enter(breaker, 1.0)
    assert not visit.is_probe
    assert breaker.leave(visit, SUCCESS, 2.0) is None
    assert breaker.state is OPEN


def test_attempts_from_before_do_not_count() -> None:
    breaker = make()
    early = enter(breaker)
    for _ in range(4):
        attempt(breaker, FAILURE)
    assert breaker.leave(early, SUCCESS, 1.0) is None
    assert breaker.state is OPEN
    probe = enter(breaker, 5.0)
    late = Visit(1, is_probe=False)
    assert breaker.leave(late, FAILURE, 5.1) is None
    assert breaker.leave(probe, SUCCESS, 5.2) == Change(CLOSED, 1, 0, 0.0)
    assert breaker.counts(5.2) == (0, 0)


# --- half-open ---


def test_a_probe_closes_it() -> None:
    breaker = opened()
    visit, change = breaker.enter(5.0, is_retry=False)
    assert change == Change(HALF_OPEN, 0, 0, 0.0)
    assert visit is not None
    assert visit.is_probe
    assert breaker.leave(visit, SUCCESS, 6.0) == Change(CLOSED, 1, 0, 0.0)
    assert breaker.state is CLOSED


def test_a_failed_probe_opens_it_for_the_same_time() -> None:
    breaker = opened()
    assert breaker.leave(enter(breaker, 5.0), FAILURE, 6.0) == Change(OPEN, 1, 1, 5.0)
    assert breaker.retry_after(6.0) == 5.0
    assert breaker.opened == 2


def test_as_many_probes_at_once_as_configured() -> None:
    breaker = opened(probes=2)
    one, other = enter(breaker, 5.0), enter(breaker, 5.0)
    assert breaker.enter(5.0, is_retry=False) == (None, None)
    assert breaker.avoids(5.0)
    assert breaker.retry_after(5.0) == 1.0
    assert breaker.leave(one, SUCCESS, 5.1) is None
    # The place is free, and one more success is needed.
    third = enter(breaker, 5.2)
    assert third.is_probe
    assert breaker.leave(other, SUCCESS, 5.3) == Change(CLOSED, 2, 0, 0.0)
    # It began before the breaker closed.
    assert breaker.leave(third, FAILURE, 5.4) is None
    assert breaker.counts(5.4) == (0, 0)


def test_a_cancelled_probe_gives_its_place_back() -> None:
    breaker = opened()
    for _ in range(3):
        assert breaker.leave(enter(breaker, 5.0), NEUTRAL, 5.1) is None
    assert breaker.state is HALF_OPEN
    assert enter(breaker, 5.2).is_probe


def test_a_probe_that_takes_for_ever_does_not_block_the_server() -> None:
    breaker = opened(open_for=3.0)
    stuck = enter(breaker, 3.0)
    assert breaker.enter(5.9, is_retry=False) == (None, None)
    assert breaker.avoids(5.9)
    assert not breaker.avoids(6.0)
    second = enter(breaker, 6.0)
    assert second.is_probe
    # One more for each `open_for`, not for each caller.
    assert breaker.enter(8.9, is_retry=False) == (None, None)
    third = enter(breaker, 9.0)
    assert breaker.leave(stuck, NEUTRAL, 9.5) is None
    assert breaker.leave(second, NEUTRAL, 9.5) is None
    assert breaker.enter(9.5, is_retry=False) == (None, None)
    assert breaker.leave(third, SUCCESS, 9.5) == Change(CLOSED, 1, 0, 0.0)


def test_a_probe_of_an_earlier_period_does_not_delay_those_of_the_next() -> None:
    breaker = opened(open_for=3.0, probes=2)
    enter(breaker, 3.0)
    breaker.leave(enter(breaker, 5.0), FAILURE, 5.0)
    assert enter(breaker, 8.0).is_probe
    assert enter(breaker, 8.0).is_probe
    assert breaker.enter(8.0, is_retry=False) == (None, None)


def test_first_attempts_are_probes_too_if_there_is_a_place() -> None:
    breaker = opened(gates_first_attempts=False)
    probe, other = enter(breaker, 5.0), enter(breaker, 5.0)
    assert (probe.is_probe, other.is_probe) == (True, False)
    assert breaker.enter(5.0, is_retry=True) == (None, None)
    assert breaker.leave(other, FAILURE, 5.1) is None
    assert breaker.leave(probe, SUCCESS, 5.2) == Change(CLOSED, 1, 0, 0.0)


def test_the_hint_of_a_half_open_breaker_is_not_longer_than_it_opens_for() -> None:
    breaker = opened(open_for=0.25)
    enter(breaker, 1.0)
    assert breaker.retry_after(1.0) == 0.25


@pytest.mark.parametrize("now", [0.0, 1e-9, 1e9])
def test_an_open_breaker_that_is_due_is_not_avoided(now: float) -> None:
    breaker = opened(now)
    assert breaker.retry_after(now) == pytest.approx(5.0)
    assert not breaker.avoids(now + 5.0)
    assert breaker.retry_after(now + 7.0) == 0.0
    assert enter(breaker, now + 5.0).is_probe


# --- counting ---


def test_memory_does_not_grow_with_the_load() -> None:
    counted = CountedAttempts(10.0)
    for number in range(100_000):
        counted.add(number / 1000, is_failure=False)
    assert len(counted._slices) <= 10
