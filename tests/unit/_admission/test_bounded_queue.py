"""The state of a pool with a configured wait queue."""

from __future__ import annotations

import sys
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from motorlite._admission.bounded_queue import OVERHEAD
from motorlite._admission.concurrency_limit import AdaptiveLimit
from motorlite._admission.pool_queue import Request, Ticket
from motorlite.errors import (
    AutoReconnect,
    PoolClearedError,
    PoolFullError,
    WaitQueueFullError,
    WaitQueueMemoryError,
    WaitQueueTimeoutError,
)
from motorlite.overload import ConcurrencyLimit, WaitQueue
from tests.support.pool_state import FakeWaiter, StateDriver, answer, give_up

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from motorlite._admission.bounded_queue import BoundedQueue
    from motorlite.stats import QueueStats

INF = float("inf")


class QueueDriver(StateDriver):
    """A pool state with a configured queue."""

    def __init__(
        self, strategy: Any = "queue", *, max_size: int = 2, max_connecting: int = 2, min_size: int = 0, **options: Any
    ) -> None:
        queue = WaitQueue(strategy, **options)
        super().__init__(max_size=max_size, max_connecting=max_connecting, min_size=min_size, wait_queue=queue)

    def ask(
        self, *, priority: int | None = None, entered: float | None = None, size: int = 0, ends_at: float = INF
    ) -> Request:
        request = Request(FakeWaiter(), self.now)
        ticket = Ticket(
            self.now if entered is None else entered, lambda: size, 50 if priority is None else priority, priority
        )
        self.bounded.fill_in(request, ticket, ends_at)
        self.state.enqueue(request, self.now)
        return request

    def full(self) -> list[Any]:
        """All connections, in use."""
        return self.checked_out(2)

    @property
    def bounded(self) -> BoundedQueue:
        assert self.state.bounded is not None
        return self.state.bounded

    @property
    def stats(self) -> QueueStats:
        return self.bounded.stats()


def served(subject: QueueDriver, connections: list[Any], requests: list[Request]) -> str:
    """The order in which `requests` get the connections, by their letters."""
    found, spare = "", connections[0]
    while any(answer(request) is None for request in requests):
        subject.state.put(spare, subject.now)
        (request,) = (each for each in requests if answer(each) is spare)
        found += "abcdefghij"[requests.index(request)]
        request.waiter.answer = "served"  # type: ignore[attr-defined]
    return found


# --- who may wait ---


@pytest.mark.parametrize("strategy", ["reject", "degrade"])
def test_a_full_pool_rejects_at_once(strategy: str) -> None:
    subject = QueueDriver(strategy)
    connections = subject.full()
    error = answer(subject.ask())
    assert isinstance(error, PoolFullError)
    # After a second, while nothing is known of how long operations take.
    assert (error.depth, error.limit, error.address, error.retry_after) == (2, 2, subject.state.address, 1.0)
    assert str(error) == "all connections of the pool are taken (2/2), try again later (server db.example:27017)"
    assert not error.timeout
    assert not error.error_labels
    assert not error.reached_server
    assert not subject.state.queue
    subject.state.put(connections[0], subject.now)
    assert subject.state.take(subject.now) is connections[0]


@pytest.mark.parametrize("strategy", ["reject", "degrade", "queue"])
def test_a_cold_pool_rejects_nobody(strategy: str) -> None:
    subject = QueueDriver(strategy, max_size=5, max_connecting=2)
    requests = [subject.ask() for _ in range(50)]
    assert [answer(request) for request in requests] == [None] * 50
    while pending := subject.started():
        for establishment in pending:
            subject.finish(establishment)
    connection = answer(requests[0])
    for request in requests[5:]:
        subject.state.put(connection, subject.now)
        assert answer(request) is connection
    assert subject.stats.rejected == {}


@pytest.mark.parametrize("strategy", ["reject", "degrade"])
def test_a_pool_is_full_when_its_last_connections_are_being_established(strategy: str) -> None:
    """In use plus pending plus being established equals maxPoolSize, with nothing idle."""
    subject = QueueDriver(strategy, max_size=4, max_connecting=2)
    used, owing = list[Any](subject.checked_out(2))
    owing.owed, owing.owed_until = 1, 9.0
    subject.state.put(owing, subject.now)
    waiting = [subject.ask(), subject.ask()]
    subject.effects()
    assert (len(subject.state.in_use), len(subject.state.pending), len(subject.state.connecting)) == (1, 1, 2)
    assert [answer(request) for request in waiting] == [None] * 2
    assert isinstance(answer(subject.ask()), PoolFullError)
    # A connection that breaks leaves room for another one.
    used.stream.is_closed = True
    subject.state.put(used, subject.now)
    assert answer(subject.ask()) is None


def test_a_connection_that_is_established_for_no_operation_is_free() -> None:
    subject = QueueDriver("reject", max_size=2, min_size=2)
    subject.state.populate()
    requests = [subject.ask() for _ in range(3)]
    assert [type(answer(request)) for request in requests] == [type(None)] * 2 + [PoolFullError]
    assert len(subject.started()) == 2


@pytest.mark.parametrize("strategy", ["reject", "degrade", "queue"])
def test_a_pool_after_a_failover_does_not_let_any_number_wait(strategy: str) -> None:
    """The server accepts connections slowly, so the pool stays cold while operations arrive."""
    subject = QueueDriver(strategy, max_size=5, max_connecting=2)
    subject.checked_out(5)
    subject.state.clear(AutoReconnect("gone"))
    for connection in list(subject.state.in_use):
        subject.state.put(connection, subject.now)
    subject.state.ready()
    requests = [subject.ask() for _ in range(1000)]
    assert len(subject.state.queue) == 5 + 100
    assert isinstance(answer(requests[105]), WaitQueueFullError)
    # And those that wait without a connection to come do so for a limited time.
    assert {request.leaves_at for request in requests[5:105]} == {5.0}


@pytest.mark.parametrize("strategy", ["reject", "degrade"])
def test_only_those_beyond_the_connections_must_leave_after_a_time(strategy: str) -> None:
    subject = QueueDriver(strategy, max_size=3, max_connecting=1)
    requests = [subject.ask() for _ in range(5)]
    assert [request.has_expired(4.9) for request in requests] == [False] * 5
    assert [request.has_expired(5.0) for request in requests] == [False] * 3 + [True] * 2


@pytest.mark.parametrize("strategy", ["reject", "queue"])
def test_a_pool_without_a_limit_is_never_full(strategy: str) -> None:
    subject = QueueDriver(strategy, max_size=0)
    assert [answer(subject.ask(size=10**6)) for _ in range(1000)] == [None] * 1000


def test_a_pool_without_a_limit_drops_nobody() -> None:
    subject = QueueDriver(max_size=0, ordering="adaptive")
    requests = [subject.ask() for _ in range(50)]
    subject.started()
    while subject.now < 1.0:
        subject.now += 0.06
        subject.finish(next(iter(subject.state.connecting)))
        subject.started()
    assert subject.stats.is_standing
    assert not any(isinstance(answer(request), WaitQueueTimeoutError) for request in requests)


# --- beside an adaptive limit of concurrency ---


def limited(subject: QueueDriver, value: int) -> None:
    assert subject.state.bounded is not None
    if subject.state.limit is None:
        subject.state.limit = AdaptiveLimit(ConcurrencyLimit(initial=value, minimum=1))
        subject.state.bounded.limit = subject.state.limit
    subject.state.limit.value = value


@pytest.mark.parametrize("ordering", ["fifo", "priority", "adaptive"])
@pytest.mark.parametrize("overflow", ["drop_newest", "drop_oldest"])
def test_operations_above_a_limit_that_fell_do_not_count_as_waiting(ordering: str, overflow: str) -> None:
    subject = QueueDriver(max_size=10, max_depth=2, ordering=ordering, overflow_strategy=overflow)
    limited(subject, 8)
    connections = subject.checked_out(8)
    limited(subject, 2)
    waiting = [subject.ask(), subject.ask()]
    assert [answer(request) for request in waiting] == [None] * 2
    third = subject.ask()
    error = answer(third if overflow == "drop_newest" else waiting[0])
    assert isinstance(error, WaitQueueFullError)
    assert (error.depth, error.limit) == (2, 2)
    for connection in connections:
        subject.state.put(connection, subject.now)
    assert answer(waiting[1]) is not None


def test_a_limit_above_the_size_of_the_pool_changes_nothing() -> None:
    subject = QueueDriver("reject")
    limited(subject, 10)
    subject.full()
    error = answer(subject.ask())
    assert isinstance(error, PoolFullError)
    assert (error.depth, error.limit) == (2, 2)


def test_an_overdue_reply_does_not_count_against_the_limit() -> None:
    subject = QueueDriver("reject", max_size=10)
    limited(subject, 1)
    (connection,) = subject.checked_out()
    connection.owed, connection.owed_until = 1, 9.0
    subject.state.put(connection, subject.now)
    assert isinstance(answer(subject.ask()), PoolFullError)
    subject.state.overdue(connection, 1.0)
    assert answer(subject.ask()) is None


def test_an_adaptive_queue_keeps_as_many_as_may_run_at_once() -> None:
    subject = QueueDriver(max_size=50, ordering="adaptive")
    limited(subject, 2)
    connection, _ = subject.checked_out(2)
    for _ in range(50):
        subject.ask()
    while not subject.stats.is_standing:
        subject.now += 0.02
        subject.state.put(connection, subject.now)
    assert len(subject.state.queue) == 2


@pytest.mark.parametrize("overflow", ["drop_newest", "reject"])
def test_the_depth_counts_those_beyond_the_connections(overflow: str) -> None:
    subject = QueueDriver(max_depth=3, overflow_strategy=overflow)
    connections = subject.full()
    waiting = [subject.ask() for _ in range(3)]
    refused = answer(subject.ask())
    assert isinstance(refused, WaitQueueFullError)
    assert (refused.depth, refused.limit, refused.retry_after) == (3, 3, 1.0)
    assert str(refused) == "the wait queue is full (3/3), try again later (server db.example:27017)"
    assert served(subject, connections, waiting) == "abc"


def test_memory() -> None:
    subject = QueueDriver(memory_limit=1000)
    connections = subject.full()
    first, second = subject.ask(size=300), subject.ask(size=300 - OVERHEAD)
    assert subject.stats.memory == 300 + OVERHEAD + 300
    refused = answer(subject.ask(size=1))
    assert isinstance(refused, WaitQueueMemoryError)
    assert (refused.depth, refused.limit) == (800, 1000)
    assert answer(subject.ask()) is None
    assert subject.stats.memory == 1000
    give_up(subject, second)
    assert subject.stats.memory == 700
    subject.state.put(connections[0], subject.now)
    assert answer(first) is connections[0]
    assert subject.stats.memory == 200
    subject.state.clear(None)
    assert subject.stats.memory == 0


def test_memory_is_checked_before_the_depth() -> None:
    subject = QueueDriver(max_depth=1, memory_limit=1000)
    subject.full()
    subject.ask(size=500)
    error = answer(subject.ask(size=101))
    assert isinstance(error, WaitQueueMemoryError)
    assert (error.depth, error.limit, error.retry_after) == (700, 1000, 1.0)
    assert str(error) == (
        "the operations that wait for a connection use 700 of 1000 bytes, and this one needs 301, try again later "
        "(server db.example:27017)"
    )
    assert isinstance(answer(subject.ask(size=100)), WaitQueueFullError)


def test_a_size_is_only_asked_for_where_it_counts() -> None:
    def refuse() -> int:
        raise AssertionError("asked")

    assert QueueDriver(memory_limit=None).bounded.size_of(refuse) == 0
    assert QueueDriver().bounded.size_of(lambda: 50) == 50 + OVERHEAD


def test_one_too_large_to_wait_may_run_at_once() -> None:
    subject = QueueDriver(memory_limit=1000)
    request = subject.ask(size=10**9)
    for establishment in subject.started():
        subject.finish(establishment)
    assert answer(request) in subject.state.in_use


# --- overflow ---


def test_drop_oldest() -> None:
    subject = QueueDriver(max_depth=2, overflow_strategy="drop_oldest")
    connections = subject.full()
    first, second = subject.ask(), subject.ask()
    subject.now = 0.5
    third = subject.ask()
    error = answer(first)
    assert isinstance(error, WaitQueueFullError)
    assert (error.depth, error.limit, error.wait_time) == (2, 2, 0.5)
    assert served(subject, connections, [second, third]) == "ab"
    assert subject.stats.rejected == {"queue_full": 1}


def test_what_was_being_opened_for_the_dropped_one_goes_to_the_next() -> None:
    subject = QueueDriver(max_size=2, max_depth=1, overflow_strategy="drop_oldest")
    connection = subject.checked_out()[0]
    first = subject.ask()
    (establishment,) = subject.started()
    assert establishment.request is first
    second, third = subject.ask(), subject.ask()
    error = answer(first)
    assert isinstance(error, WaitQueueFullError)
    # One of the two that waited did so for the connection that is being opened.
    assert (error.depth, error.limit) == (1, 1)
    assert establishment.request is second
    assert subject.started() == []
    made = subject.finish(establishment)
    assert answer(second) is made
    subject.state.put(connection, subject.now)
    assert answer(third) is connection


def test_with_priorities_the_oldest_of_the_lowest_is_dropped() -> None:
    subject = QueueDriver(max_depth=3, ordering="priority", overflow_strategy="drop_oldest")
    connections = subject.full()
    requests = [subject.ask(priority=priority) for priority in (60, 10, 10)]
    newcomer = subject.ask(priority=30)
    assert isinstance(answer(requests[1]), WaitQueueFullError)
    lowest = subject.ask(priority=5)
    assert isinstance(answer(lowest), WaitQueueFullError)
    assert served(subject, connections, [requests[0], requests[2], newcomer]) == "acb"
    # Two more waited for the connections to be opened.
    assert subject.stats.priorities == {50: 2, 60: 1, 10: 2, 30: 1}


def test_one_dropped_at_the_moment_in_which_it_gives_up_is_not_missed() -> None:
    subject = QueueDriver(max_depth=1, overflow_strategy="drop_oldest")
    connections = subject.full()
    first = subject.ask()
    first.waiter.waits = False  # type: ignore[attr-defined]  # its timer has fired, and its task has not run yet
    second = subject.ask()
    give_up(subject, first)
    assert served(subject, connections, [second]) == "a"
    assert subject.stats.depth == 0


# --- order ---


def test_first_in_first_out() -> None:
    subject = QueueDriver()
    connections = subject.full()
    requests = [subject.ask() for _ in range(10)]
    assert served(subject, connections, requests) == "abcdefghij"


def test_by_priority() -> None:
    subject = QueueDriver(ordering="priority")
    connections = subject.full()
    requests = [subject.ask(priority=priority) for priority in (50, 0, 100, 51, 50)]
    assert served(subject, connections, requests) == "cdaeb"


def test_the_priority_that_counts() -> None:
    free = QueueDriver(ordering="priority", default_priority=40, max_priority=90, allow_priority_override=True).bounded
    assert [free.priority_of(*each) for each in [(50, None), (70, 20), (100, 20), (0, 0)]] == [40, 70, 90, 0]
    # The outermost block assigns it: the code that knows the user, and not the code that it calls.
    strict = QueueDriver(ordering="priority", max_priority=90).bounded
    assert [strict.priority_of(*each) for each in [(50, None), (100, 20), (30, 80), (100, 100)]] == [50, 20, 30, 90]


@pytest.mark.parametrize("ordering", ["fifo", "priority", "adaptive"])
def test_a_retry_keeps_the_age_of_its_operation(ordering: str) -> None:
    subject = QueueDriver(ordering=ordering)
    connections = subject.full()
    clock = count(1)
    requests = []
    for entered in (None, None, 0.5, 0.2, 2.5):
        subject.now = next(clock) / 100 + 1.0
        requests.append(subject.ask(entered=None if entered is None else entered - 1.5 if entered == 2.5 else entered))
    # Those that entered at 0.2, 0.5 and 1.0 before those of 1.01 and 1.02.
    assert served(subject, connections, requests) == "dceab"


def test_one_that_stepped_aside_is_dropped_first() -> None:
    subject = QueueDriver(max_depth=2, overflow_strategy="drop_oldest")
    connection, _ = subject.full()
    patient = Request(FakeWaiter(), 0.0)
    hasty = Request(FakeWaiter(), 0.0, until=0.3)
    for _ in range(8):
        subject.state.pace.drained(1.0, 0.0, hasty.urgency)
    subject.state.enqueue(hasty, 0.0)
    subject.state.enqueue(patient, 0.0)
    subject.now = 0.1
    subject.state.put(connection, subject.now)
    assert answer(patient) is connection
    assert answer(hasty) is None
    later = [subject.ask(), subject.ask()]
    assert isinstance(answer(hasty), WaitQueueFullError)
    assert [answer(request) for request in later] == [None, None]


def test_an_adaptive_queue_drops_those_that_stand_for_too_long() -> None:
    subject = QueueDriver(ordering="adaptive")
    connection, _ = subject.full()
    old = [subject.ask() for _ in range(50)]
    while not subject.stats.is_standing:
        subject.now += 0.02
        subject.state.put(connection, subject.now)
    dropped = [answer(request) for request in old if isinstance(answer(request), WaitQueueTimeoutError)]
    # All but two, as many as there are connections.
    assert len(subject.state.queue) == 2
    assert subject.stats.rejected == {"standing_queue": len(dropped)}
    error = dropped[0]
    assert (error.phase, error.limit, error.timeout) == ("queue", 100, True)
    assert error.wait_time == pytest.approx(subject.now)
    assert "does not drain" in str(error)


# --- time ---


def test_one_whose_time_is_up_gets_no_connection() -> None:
    subject = QueueDriver(timeout=5.0)
    connection, _ = subject.full()
    late, limited, other = subject.ask(), subject.ask(ends_at=2.0), None
    subject.now = 3.0
    other = subject.ask()
    subject.now = 5.0
    subject.bounded.hinted(1.0, subject.now)
    # Its timer is late: the event loop was busy.
    subject.state.put(connection, subject.now)
    for request in (late, limited):
        error = answer(request)
        assert isinstance(error, WaitQueueTimeoutError)
        assert (error.phase, error.wait_time, error.limit, error.timeout) == ("queue", 5.0, 100, True)
        # It should not expect a connection sooner than it has just waited for one.
        assert error.retry_after == 5.0
    assert answer(other) is connection
    assert subject.stats.timeouts == 2


def test_if_all_have_timed_out_the_connection_is_idle() -> None:
    subject = QueueDriver(timeout=0.5)
    connection, _ = subject.full()
    subject.ask()
    subject.now = 1.0
    subject.state.put(connection, subject.now)
    assert list(subject.state.idle) == [connection]
    assert subject.state.take(subject.now) is connection


def test_one_whose_own_connection_is_being_opened_has_passed_the_queue() -> None:
    subject = QueueDriver(timeout=0.5)
    request = subject.ask()
    limited = subject.ask(ends_at=0.7)
    first, second = subject.started()
    subject.now = 0.6
    assert answer(request) is None
    subject.now = 0.7
    made = subject.finish(first)
    assert answer(request) is made
    subject.finish(second)
    error = answer(limited)
    assert isinstance(error, WaitQueueTimeoutError)


# --- the rest of a pool's life ---


def test_a_paused_pool_refuses_as_ever() -> None:
    subject = QueueDriver("reject")
    subject.full()
    subject.state.clear(AutoReconnect("gone"))
    assert isinstance(answer(subject.ask()), PoolClearedError)
    assert subject.stats.rejected == {}


def test_the_duration_of_operations_is_learned_and_what_is_refused_is_counted() -> None:
    subject = QueueDriver(max_depth=1, memory_limit=1000)
    connections = subject.full()
    subject.now = 0.4
    for connection in connections:
        subject.state.put(connection, subject.now)
    connections = subject.full()
    waiting = subject.ask(size=500)
    # Callers that are refused together should not return together.
    for size, seconds in ((0, 0.4), (500, 0.6)):
        assert answer(subject.ask(size=size)).retry_after == pytest.approx(seconds)
    subject.now = 0.5
    subject.state.put(connections[0], subject.now)
    assert answer(waiting) is connections[0]
    late = subject.ask()
    subject.now = 60.0
    assert subject.state.expire(late, subject.now).retry_after == 59.5
    stats = subject.stats
    assert (stats.strategy, stats.depth, stats.memory, stats.timeouts, stats.is_standing) == ("queue", 0, 0, 1, False)
    assert (stats.rejected, stats.priorities) == ({"memory_limit": 1, "queue_full": 1, "timeout": 1}, {})
    # Four of them got their connections at once.
    assert stats.waits.count == 5
    assert stats.waits.total == pytest.approx(0.1)
    assert [stats.waits.buckets[bound] for bound in (0.001, 0.05, 0.25, 60.0)] == [4, 4, 5, 5]
    assert (stats.retry_after.count, stats.retry_after.buckets[0.5], stats.retry_after.buckets[60.0]) == (3, 1, 3)


def test_the_mean_duration_follows_the_newest_operations() -> None:
    subject = QueueDriver("reject", max_size=1)
    for seconds in (0.2, 0.4):
        for _ in range(500):
            (connection,) = [subject.state.take(subject.now)] if subject.state.idle else subject.checked_out()
            assert connection is not None
            subject.now += seconds
            subject.state.put(connection, subject.now)
        assert subject.state.retry_after(subject.now) == pytest.approx(seconds)


def test_the_hint_of_the_server_comes_first_for_a_while() -> None:
    subject = QueueDriver("reject")
    connections = subject.full()
    subject.now = 1.0
    for connection in connections:
        subject.state.put(connection, subject.now)
    subject.full()
    subject.bounded.hinted(3.0, subject.now)
    subject.now = 10.9
    assert [answer(subject.ask()).retry_after for _ in range(2)] == [3.0, 3.0]
    subject.now = 11.0
    assert answer(subject.ask()).retry_after == 10.0, "as long as the operations have been running"


# --- what a queue costs ---


def lines_of(act: Callable[[], None]) -> int:
    """The number of lines that `act` runs: time without a clock."""
    executed = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal executed
        executed += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return executed


@pytest.mark.parametrize("ordering", ["fifo", "priority", "adaptive"])
def test_a_place_in_a_long_queue_costs_no_more_work_than_one_in_a_short_one(ordering: str) -> None:
    """One operation joins the queue and one leaves it, with 10 and with 5,000 others in it."""
    found = {}
    for depth in (10, 5_000):
        subject = QueueDriver(ordering=ordering, max_depth=10_000, timeout="60s")
        (connection, _) = subject.full()
        for number in range(depth):
            subject.ask(priority=number % 101)

        def one(subject: QueueDriver = subject, connection: Any = connection) -> None:
            subject.ask(priority=50)
            subject.state.put(connection, subject.now)

        one()
        found[depth] = lines_of(one)
        assert len(subject.state.queue) == depth
    # A binary search runs nine steps more.
    assert 20 < found[10] <= found[5_000] <= found[10] + 60


def test_a_queue_that_is_not_needed_costs_nothing() -> None:
    """An idle connection is taken as without the option."""
    taken = []
    for subject in (StateDriver(max_size=2), QueueDriver()):
        (connection, _) = subject.checked_out(2)

        def one(subject: StateDriver = subject, connection: Any = connection) -> None:
            subject.state.put(connection, subject.now)
            assert subject.state.take(subject.now) is connection

        one()
        taken.append(lines_of(one))
    plain, bounded = taken
    # `worked` measures how long operations take, for `retry_after`.
    assert bounded - plain < 25
