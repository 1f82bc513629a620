"""Who may wait, with which error the others go, and what is counted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from motorlite._admission.pace import Pace
from motorlite._admission.waiting_line import BoundedQueue
from motorlite._connection.handshake import Purpose
from motorlite.errors import (
    AdmissionError,
    PoolFullError,
    WaitQueueFullError,
    WaitQueueMemoryError,
    WaitQueueTimeoutError,
)
from motorlite.overload import WaitQueue

if TYPE_CHECKING:
    from motorlite._connection.connection import Connection

ADDRESS = ("db.example", 27017)


def admission(
    strategy: Any = "queue", *, max_size: int = 10, since: list[float] | None = None, **options: Any
) -> BoundedQueue:
    """`since`: the loop times since which operations have been running."""
    return BoundedQueue(
        WaitQueue(strategy, **options), ADDRESS, max_size, Pace(), lambda now: [now - began for began in since or ()]
    )


def worked(subject: BoundedQueue, seconds: float) -> None:
    """Let an operation end that had a connection for so long."""
    subject.worked(cast("Connection", SimpleNamespace(purpose=Purpose.OTHER, in_use_since=0.0)), seconds)


def facts(error: AdmissionError | None) -> tuple[Any, ...]:
    assert error is not None
    return type(error), error.depth, error.limit, error.retry_after


@pytest.mark.parametrize("strategy", ["reject", "degrade"])
def test_without_a_queue_a_full_pool_refuses_at_once(strategy: str) -> None:
    error = admission(strategy).refusal(0, 0, 0.0, is_full=True)
    assert facts(error) == (PoolFullError, 10, 10, 1.0)
    assert str(error) == ("all connections of the pool are taken (10/10), try again later (server db.example:27017)")
    assert error is not None
    assert not error.timeout
    assert not error.error_labels
    assert not error.reached_server


@pytest.mark.parametrize("strategy", ["reject", "degrade"])
def test_without_a_queue_some_may_wait_while_connections_are_missing(strategy: str) -> None:
    subject = admission(strategy)
    assert subject.refusal(99, 0, 0.0, is_full=False) is None
    assert facts(subject.refusal(100, 0, 0.0, is_full=False)) == (WaitQueueFullError, 100, 100, 1.0)


@pytest.mark.parametrize("is_full", [True, False])
def test_the_queue_is_full_at_its_depth(is_full: bool) -> None:
    subject = admission(max_depth=3)
    assert [subject.refusal(depth, 0, 0.0, is_full=is_full) for depth in (0, 1, 2)] == [None] * 3
    error = subject.refusal(3, 0, 0.0, is_full=is_full)
    assert facts(error) == (WaitQueueFullError, 3, 3, 1.0)
    assert str(error) == "the wait queue is full (3/3), try again later (server db.example:27017)"


def test_memory_is_checked_before_the_depth() -> None:
    subject = admission(max_depth=1, memory_limit=1000)
    subject.let_in(50, 900)
    assert subject.refusal(0, 100, 0.0, is_full=True) is None
    error = subject.refusal(1, 101, 0.0, is_full=True)
    assert facts(error) == (WaitQueueMemoryError, 900, 1000, 1.0)
    assert str(error) == (
        "the operations that wait for a connection use 900 of 1000 bytes, and this one needs 101, try again later "
        "(server db.example:27017)"
    )
    assert facts(subject.refusal(1, 100, 0.0, is_full=True))[0] is WaitQueueFullError


def test_a_size_is_only_asked_for_where_it_counts() -> None:
    def refuse() -> int:
        raise AssertionError("asked")

    assert admission(memory_limit=None).size_of(refuse) == 0
    assert admission().size_of(lambda: 50) == 250


def test_without_a_limit_of_memory_any_size_may_wait() -> None:
    subject = admission(memory_limit=None)
    assert subject.refusal(99, 10**12, 0.0, is_full=True) is None
    assert isinstance(subject.refusal(100, 0, 0.0, is_full=True), WaitQueueFullError)


@pytest.mark.parametrize(("overflow", "refuses"), [("drop_newest", True), ("reject", True), ("drop_oldest", False)])
def test_overflow(overflow: str, refuses: bool) -> None:
    subject = admission(max_depth=5, overflow_strategy=overflow)
    assert (subject.refusal(5, 0, 0.0, is_full=True) is not None) is refuses
    assert subject.must_drop(5) is not refuses
    assert not subject.must_drop(4)


def test_the_priority_that_counts() -> None:
    free = admission(ordering="priority", default_priority=40, max_priority=90, allow_priority_override=True)
    assert [free.priority_of(*each) for each in [(50, None), (70, 20), (100, 20), (0, 0)]] == [40, 70, 90, 0]
    # The outermost block assigns it: the code that knows the user, and not the code that it calls.
    strict = admission(ordering="priority", max_priority=90)
    assert [strict.priority_of(*each) for each in [(50, None), (100, 20), (30, 80), (100, 100)]] == [50, 20, 30, 90]


def test_accepted_priorities_are_counted() -> None:
    subject = admission(ordering="priority")
    for priority in (0, 100, 100):
        subject.let_in(priority, 0)
    assert subject.stats().priorities == {0: 1, 100: 2}
    other = admission()
    other.let_in(50, 0)
    assert other.stats().priorities == {}


# --- retry_after ---


def test_retry_after_is_a_second_while_nothing_is_known() -> None:
    assert admission().retry_after(500, 0.0) == 1.0


def test_retry_after_is_the_mean_duration_for_each_round() -> None:
    subject = admission()
    for _ in range(500):
        worked(subject, 0.2)
    assert subject.retry_after(0, 0.0) == pytest.approx(0.2)
    assert subject.retry_after(9, 0.0) == pytest.approx(0.2)
    assert subject.retry_after(10, 0.0) == pytest.approx(0.4)
    for _ in range(500):
        worked(subject, 0.4)
    assert subject.retry_after(0, 0.0) == pytest.approx(0.4)


@pytest.mark.parametrize("max_size", [1, 0])
def test_retry_after_of_a_single_connection_and_of_a_pool_without_a_limit(max_size: int) -> None:
    subject = admission(max_size=max_size)
    worked(subject, 0.2)
    assert [subject.retry_after(waiting, 0.0) for waiting in (0, 1, 2)] == pytest.approx([0.2, 0.4, 0.6])


def test_nothing_is_counted_at_first() -> None:
    stats = admission().stats()
    assert (stats.timeouts, stats.rejected, stats.waits.count, stats.retry_after.count) == (0, {}, 0, 0)


def test_the_hint_of_the_server_comes_first_for_a_while() -> None:
    subject = admission()
    worked(subject, 0.2)
    subject.hinted(3.0, 100.0)
    assert subject.retry_after(500, 109.9) == 3.0
    assert subject.retry_after(0, 110.0) == pytest.approx(0.2)


# --- statistics ---


def test_what_is_counted() -> None:
    subject = admission(max_depth=1, memory_limit=1000)
    worked(subject, 0.1)
    subject.let_in(50, 700)
    subject.refusal(0, 700, 0.0, is_full=True)
    subject.refusal(1, 0, 0.0, is_full=True)
    subject.timed_out(WaitQueueTimeoutError("late"), 0, 5.2, 0.0)
    subject.standing(0, 0.2, 0.0)
    subject.served(0.003)
    subject.served(70.0)
    stats = subject.stats()
    assert (stats.strategy, stats.depth, stats.memory, stats.timeouts, stats.is_standing) == ("queue", 0, 700, 1, False)
    assert stats.rejected == {"memory_limit": 1, "queue_full": 1, "timeout": 1, "standing_queue": 1}
    assert (stats.waits.count, stats.waits.total) == (2, 70.003)
    assert [stats.waits.buckets[bound] for bound in (0.001, 0.0025, 0.005, 60.0)] == [0, 0, 1, 1]
    # One of them had waited for 5.2 s.
    assert (stats.retry_after.count, stats.retry_after.buckets[0.25], stats.retry_after.buckets[10.0]) == (4, 3, 4)


def test_a_timeout_says_how_long_it_waited() -> None:
    error = admission(max_depth=7).timed_out(WaitQueueTimeoutError("late"), 4, 5.2, 0.0)
    # It should not expect a connection sooner than it has just waited for one.
    assert facts(error) == (WaitQueueTimeoutError, 4, 7, 5.2)
    assert error.wait_time == 5.2
    assert error.timeout
