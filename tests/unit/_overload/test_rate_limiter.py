"""Token buckets as pure machines: times in, waits out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motorlite._overload.rate_limiter import RateBucket, RateLimiter
from motorlite.overload import RateLimit
from tests.support.pool_state import FakeWaiter


def bucket(rate: float = 10, burst: int = 3, **fields: Any) -> RateBucket:
    return RateBucket("*", RateLimit(rate=rate, burst=burst, **fields))


def take(subject: RateBucket, now: float) -> bool:
    """Take a token if one is due."""
    if subject.wait(now):
        return False
    subject.take(now)
    return True


def test_a_burst_and_then_the_rate() -> None:
    subject = bucket()
    assert subject.tokens(0) == 3
    assert [take(subject, 0) for _ in range(4)] == [True, True, True, False]
    assert subject.tokens(0) == 0
    assert subject.wait(0) == pytest.approx(0.1)
    assert subject.wait(0.06) == pytest.approx(0.04)
    assert take(subject, 0.1)
    assert not take(subject, 0.15)


def test_a_pause_fills_it_to_the_burst_and_no_further() -> None:
    subject = bucket()
    for _ in range(3):
        take(subject, 0)
    assert subject.tokens(100) == 3
    assert [take(subject, 100) for _ in range(4)] == [True, True, True, False]


def test_a_token_given_back_can_be_taken() -> None:
    subject = bucket(burst=1)
    assert take(subject, 0)
    subject.give_back()
    assert take(subject, 0)
    assert not take(subject, 0)


def test_a_token_given_back_does_not_exceed_the_burst() -> None:
    subject = bucket(burst=2)
    take(subject, 0)
    subject.give_back()
    subject.give_back()
    assert subject.tokens(0) == 2
    assert [take(subject, 0) for _ in range(3)] == [True, True, False]


def test_what_is_not_asked_for_makes_a_debt_of_one_burst_at_most() -> None:
    subject = bucket()
    for _ in range(5):
        subject.charge(0)
    assert subject.tokens(0) == pytest.approx(-2)
    assert subject.wait(0) == pytest.approx(0.3)
    for _ in range(1000):
        subject.charge(0)
    assert subject.tokens(0) == pytest.approx(-3)
    assert subject.wait(0) == pytest.approx(0.4)


def test_a_charge_never_forgives_a_debt() -> None:
    subject = bucket()
    for _ in range(20):
        subject.take(0)  # for operations that waited
    before = subject.wait(0)
    subject.charge(0)
    assert subject.wait(0) == before


def test_a_queue_makes_the_wait_longer() -> None:
    subject = bucket(burst=1)
    take(subject, 0)
    places = [FakeWaiter() for _ in range(3)]
    assert [subject.join(place) for place in places] == [True, False, False]
    assert subject.due_at() == pytest.approx(0.1)
    assert subject.wait(0) == pytest.approx(0.4)


def test_the_first_one_hands_its_place_on() -> None:
    subject = bucket(burst=1)
    one, two, three = places = [FakeWaiter() for _ in range(3)]
    for place in places:
        subject.join(place)
    subject.quit(two)
    assert not three.answer
    subject.quit(one)
    assert three.answer
    subject.quit(three)
    assert not subject.queue


def test_one_that_gave_up_hands_its_place_on_when_it_leaves() -> None:
    subject = bucket(burst=1)
    one, two, three = places = [FakeWaiter() for _ in range(3)]
    for place in places:
        subject.join(place)
    two.waits = False
    subject.quit(one)
    assert not three.answer
    subject.quit(two)
    assert three.answer


def test_the_limits_of_an_operation_from_narrow_to_wide() -> None:
    limiter = RateLimiter({name: RateLimit(rate=1) for name in ("*", "shop", "shop.orders", "other")})
    assert [each.name for each in limiter.concerning("shop", "orders")] == ["shop.orders", "shop", "*"]
    assert [each.name for each in limiter.concerning("shop", None)] == ["shop", "*"]
    assert [each.name for each in limiter.concerning("sho", "p.orders")] == ["*"]
    assert RateLimiter({}).concerning("shop", "orders") == []


@given(
    st.lists(st.floats(0, 1, allow_subnormal=False), min_size=1, max_size=300), st.floats(0.5, 1000), st.integers(1, 20)
)
def test_never_more_than_the_burst_and_the_rate(pauses: list[float], rate: float, burst: int) -> None:
    subject, now, taken = bucket(rate, burst), 0.0, list[float]()
    for pause in pauses:
        now += pause
        while take(subject, now):
            taken.append(now)
    for first in range(0, len(taken), max(1, len(taken) // 20)):
        for last in range(first, len(taken), max(1, len(taken) // 20)):
            count, seconds = last - first + 1, taken[last] - taken[first]
            assert count <= burst + rate * seconds + 1e-6 * count


@given(st.lists(st.floats(0, 0.5), max_size=100), st.floats(0.5, 100), st.integers(1, 5))
def test_a_token_is_due_after_the_wait(pauses: list[float], rate: float, burst: int) -> None:
    subject, now = bucket(rate, burst), 0.0
    for pause in pauses:
        now += pause + subject.wait(now)
        assert subject.wait(now) < 1e-9
        subject.take(now)
        assert subject.tokens(now) < burst
