"""Token buckets as pure machines: times in, waits out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motorlite._admission.rate_limiter import RateBucket, RateLimiter, Waiting
from motorlite.errors import RateLimitError
from motorlite.overload import RateLimit, WaitQueue
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


def test_a_token_given_back_does_not_exceed_the_burst() -> None:
    subject = bucket(burst=2)
    take(subject, 0)
    subject.give_back(0)
    subject.give_back(0)
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


def line_of(subject: RateBucket, number: int, **fields: Any) -> list[Waiting]:
    """Let so many operations wait for 100 s."""
    found = [Waiting(0.0, FakeWaiter(), fields.get("priority", 50), fields.get("size", 0)) for _ in range(number)]
    for waiting in found:
        assert subject.join(waiting, 100.0, 0.0) is None
    return found


WAIT: dict[str, Any] = {"burst": 1, "strategy": "queue"}


def test_only_the_watcher_wakes_up_for_a_token() -> None:
    subject = bucket(**WAIT)
    take(subject, 0)
    one, two = line_of(subject, 2)
    assert subject.wakes_at(one, 50.0) == pytest.approx(0.1)
    assert subject.wakes_at(two, 50.0) == 50.0
    assert subject.wakes_at(one, 0.05) == 0.05


def test_a_token_goes_to_the_one_whose_turn_it_is() -> None:
    subject = bucket(**WAIT)
    take(subject, 0)
    one, two = line_of(subject, 2)
    subject.serve(0.05)
    assert not one.has_token
    subject.serve(0.1)
    assert one.has_token
    assert one.turn.answer
    assert not two.has_token
    subject.serve(0.2)
    assert two.has_token
    stats = subject.stats()
    assert (stats.depth, stats.waits.count, stats.waits.total) == (0, 2, pytest.approx(0.3))


def test_a_token_given_back_goes_to_the_next() -> None:
    subject = bucket(**WAIT)
    take(subject, 0)
    one, two = line_of(subject, 2)
    subject.serve(0.1)
    assert (one.has_token, two.has_token) == (True, False)
    subject.give_back(0.1)
    assert two.has_token


def test_a_token_given_back_early_wakes_the_watcher() -> None:
    """Otherwise the next token would lie idle until the time at which the watcher expected its own."""
    subject = bucket(**WAIT)
    subject.charge(0)
    subject.charge(0)
    (one,) = line_of(subject, 1)
    assert subject.wakes_at(one, 50.0) == pytest.approx(0.2)
    subject.give_back(0)
    assert not one.has_token
    assert one.turn.answer  # type: ignore[attr-defined]  # a FakeWaiter
    assert subject.wakes_at(one, 50.0) == pytest.approx(0.1)


def test_a_watcher_that_leaves_is_replaced() -> None:
    subject = bucket(**WAIT)
    take(subject, 0)
    one, two, three = line_of(subject, 3)
    for waiting in (one, two, three):
        subject.wakes_at(waiting, 50.0)
    subject.quit(two)
    assert not three.turn.answer  # type: ignore[attr-defined]  # a FakeWaiter
    subject.quit(one)
    assert three.turn.answer  # type: ignore[attr-defined]  # a FakeWaiter
    assert subject.wakes_at(three, 50.0) == pytest.approx(0.1)
    subject.quit(three)
    assert not subject


def test_one_whose_turn_would_come_too_late_is_refused_at_once() -> None:
    subject = bucket(**WAIT)
    take(subject, 0)
    line_of(subject, 3)
    error = subject.join(Waiting(0.0, FakeWaiter(), 50, 0), 0.35, 0.0)
    assert isinstance(error, RateLimitError)
    assert (error.depth, error.limit, error.wait_time) == (3, 1, 0.0)
    assert error.retry_after == pytest.approx(0.4)
    assert len(subject) == 3
    assert subject.stats().rejected == {"rate_limit": 1}


@pytest.mark.parametrize(("queue", "depth"), [(WaitQueue("queue", max_depth=2), 2), (None, 100)])
def test_no_more_than_its_depth_wait(queue: WaitQueue | None, depth: int) -> None:
    """By default a hundred."""
    subject = bucket(**WAIT) if queue is None else bucket(**WAIT, queue=queue)
    take(subject, 0)
    line_of(subject, depth)
    assert subject.due_at() == pytest.approx(0.1)
    assert subject.wait(0) == pytest.approx(0.1 * (depth + 1)), "a queue makes the wait longer"
    error = subject.join(Waiting(0.0, FakeWaiter(), 50, 0), 100.0, 0.0)
    assert isinstance(error, RateLimitError)
    assert (error.depth, error.limit) == (depth, depth)
    assert error.retry_after == pytest.approx(0.1 * (depth + 1))
    assert str(error) == (
        f"the client may start 10 operations per second (burst 1), and its wait queue is full ({depth}/{depth}), "
        "try again later"
    )
    assert subject.stats().rejected == {"queue_full": 1}


def test_their_memory_is_limited() -> None:
    subject = bucket(**WAIT, queue=WaitQueue("queue", memory_limit=1000))
    take(subject, 0)
    one, _ = line_of(subject, 2, size=450)
    error = subject.join(Waiting(0.0, FakeWaiter(), 50, 450), 100.0, 0.0)
    assert isinstance(error, RateLimitError)
    assert str(error) == (
        "the operations that wait for a token of the client use 900 of 1000 bytes, and this one needs 450, "
        "try again later"
    )
    subject.quit(one)
    assert subject.stats().memory == 450
    line_of(subject, 1, size=450)


def test_the_oldest_can_be_dropped_instead() -> None:
    subject = bucket(**WAIT, queue=WaitQueue("queue", max_depth=2, overflow_strategy="drop_oldest"))
    take(subject, 0)
    one, two = line_of(subject, 2)
    newest = Waiting(0.5, FakeWaiter(), 50, 0)
    assert subject.join(newest, 100.0, 0.5) is None
    assert isinstance(one.error, RateLimitError)
    assert one.error.wait_time == 0.5
    assert list(subject) == [two, newest]


@pytest.mark.parametrize("ordering", ["fifo", "priority", "adaptive"])
def test_none_is_dropped_for_one_that_would_come_too_late(ordering: Any) -> None:
    queue = WaitQueue("queue", max_depth=2, overflow_strategy="drop_oldest", ordering=ordering)
    subject = bucket(**WAIT, queue=queue)
    take(subject, 0)
    one, two = line_of(subject, 2)
    error = subject.join(Waiting(0.0, FakeWaiter(), 50, 0), 0.15, 0.0)
    assert isinstance(error, RateLimitError)
    assert (one.error, two.error) == (None, None)
    assert list(subject) == [one, two]
    assert sum(subject.stats().priorities.values()) == (2 if ordering == "priority" else 0), "it was not let in"
    # In the place of the first one, it would be served second.
    assert subject.join(Waiting(0.0, FakeWaiter(), 50, 0), 0.2, 0.0) is None
    assert one.error is not None


def test_higher_priorities_overtake() -> None:
    subject = bucket(**WAIT, queue=WaitQueue("queue", ordering="priority"))
    take(subject, 0)
    (low,) = line_of(subject, 1, priority=10)
    (high,) = line_of(subject, 1, priority=90)
    # It is the first one, so its turn comes in time; one with a lower priority would come too late.
    assert subject.join(Waiting(0.0, FakeWaiter(), 100, 0), 0.15, 0.0) is None
    assert subject.join(Waiting(0.0, FakeWaiter(), 0, 0), 0.15, 0.0) is not None
    subject.serve(0.1)
    subject.serve(0.2)
    assert (high.has_token, low.has_token) == (True, False)
    subject.serve(0.3)
    assert low.has_token


def test_an_adaptive_order_drops_what_is_not_worth_waiting_for() -> None:
    queue = WaitQueue("queue", ordering="adaptive", adaptive_target=0.005, adaptive_interval=0.1, timeout=60)
    subject = bucket(rate=20, **WAIT, queue=queue)
    take(subject, 0)
    waiting = line_of(subject, 50)
    now = 0.0
    for _ in range(10):
        now += 0.05
        subject.serve(now)
    assert len(subject) == 0
    served = [number for number, each in enumerate(waiting) if each.has_token]
    # In order, until the queue stood for the interval; then the newest one, and those two that get a token within the
    # interval and are never dropped.
    assert served == [0, 1, 47, 48, 49]
    assert subject.stats().rejected == {"standing_queue": 45}


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
