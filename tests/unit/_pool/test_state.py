"""The pool as a pure object: every transition, and its effects in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from motorlite._admission.concurrency_limit import AdaptiveLimit
from motorlite._admission.pool_queue import PoolQueue
from motorlite._pool.state import Abandon, Close, Phase, Refuse
from motorlite.errors import AutoReconnect, InvalidOperation, PoolClearedError
from motorlite.overload import ConcurrencyLimit
from tests.support.pool_state import (
    FakeConnection,
    FakeStream,
    FakeWaiter,
    StateDriver,
    answer,
    give_up,
)

if TYPE_CHECKING:
    from motorlite._connection.connection import Connection

# --- check-out ---


def test_a_pool_begins_paused_and_refuses() -> None:
    subject = StateDriver(ready=False, min_size=3)
    state = subject.state
    assert state.phase is Phase.PAUSED
    assert state.take(0.0) is None
    refusal = answer(subject.ask())
    assert isinstance(refusal, PoolClearedError)
    assert str(refusal) == "the connection pool of db.example:27017 was cleared"
    state.populate()
    assert subject.effects() == []
    assert state.total == 0


def test_the_first_request_starts_a_connection_and_gets_it() -> None:
    subject = StateDriver()
    assert subject.state.take(0.0) is None
    request = subject.ask()
    (establishment,) = subject.started()
    assert (establishment.connection_id, establishment.generation) == (1, 0)
    assert establishment.request is request
    assert request.establishment is establishment
    assert subject.state.total == 1
    subject.now = 3.0
    connection = subject.finish(establishment)
    assert answer(request) is connection
    assert connection.idle_since == 3.0
    assert request.establishment is None
    assert subject.state.in_use == {connection}
    assert not subject.state.connecting
    assert subject.effects() == []


def test_the_newest_idle_connection_is_taken_first() -> None:
    subject = StateDriver()
    one, two = subject.idle(2)
    assert subject.state.take(0.0) is two
    assert subject.state.take(0.0) is one
    assert subject.state.take(0.0) is None
    assert subject.state.in_use == {one, two}


def test_who_comes_later_does_not_overtake() -> None:
    subject = StateDriver(max_size=1)
    (connection,) = subject.checked_out()
    waiting = subject.ask()
    assert subject.state.take(0.0) is None
    subject.state.put(connection, 0.0)
    assert answer(waiting) is connection
    assert subject.state.take(0.0) is None, "the connection was given to the one who waited"


def test_no_more_than_max_connecting_are_started() -> None:
    subject = StateDriver(max_connecting=2)
    requests = [subject.ask() for _ in range(4)]
    one, two = subject.started()
    subject.finish(two)
    assert answer(requests[0]) is not None, "the oldest gets the first that is done, even one made for another request"
    # The second takes over what was begun for the first; the third has one of its own now.
    assert one.request is requests[1]
    (three,) = subject.started()
    assert three.request is requests[2]
    assert requests[3].establishment is None


def test_no_more_than_max_size() -> None:
    subject = StateDriver(max_size=3, max_connecting=10)
    subject.checked_out(2)
    requests = [subject.ask() for _ in range(2)]
    assert [item.connection_id for item in subject.started()] == [3]
    assert [request.establishment is not None for request in requests] == [True, False]
    assert subject.state.total == 3


def test_a_returned_connection_goes_straight_to_the_first_that_waits() -> None:
    subject = StateDriver(max_size=1)
    (connection,) = subject.checked_out()
    first, second = subject.ask(), subject.ask()
    subject.now = 5.0
    subject.state.put(connection, subject.now)
    assert answer(first) is connection
    assert answer(second) is None
    assert (subject.state.in_use, len(subject.state.idle), len(subject.state.queue)) == ({connection}, 0, 1)
    assert (connection.asked_for_at, connection.in_use_since) == (0.0, 5.0)
    assert subject.effects() == []


def test_a_returned_connection_that_no_waiter_accepts_is_idle_from_now_on() -> None:
    subject = StateDriver(max_size=1, max_idle_time=1.0)
    (connection,) = subject.checked_out()
    cast("FakeWaiter", subject.ask().waiter).waits = False
    subject.now = 5.0
    subject.state.put(connection, subject.now)
    assert list(subject.state.idle) == [connection]
    assert connection.idle_since == 5.0
    assert subject.state.take(5.5) is connection


@pytest.mark.parametrize("problem", ["stale", "broken", "owed", "closed pool"])
def test_a_returned_connection_that_is_unusable_is_not_handed_over(problem: str) -> None:
    subject = StateDriver(max_size=2)
    one, other = subject.checked_out(2)
    if problem == "stale":
        subject.state.clear(None)
        subject.state.ready()
    waits = subject.ask()
    if problem == "broken":
        cast("FakeStream", one.stream).is_closed = True
    elif problem == "owed":
        one.owed, one.owed_until = 7, 100.0
    elif problem == "closed pool":
        subject.state.close()
    subject.state.put(one, 1.0)
    assert answer(waits) is not one
    assert one not in subject.state.in_use
    assert not subject.state.idle
    assert other in subject.state.in_use


def test_a_full_pool_does_not_look_at_its_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands may wait in it."""
    subject = StateDriver(max_size=2)
    connections = subject.checked_out(2)
    with monkeypatch.context() as patch:
        patch.setattr(PoolQueue, "__iter__", lambda _: pytest.fail("it looks for requests without a connection"))
        requests = [subject.ask() for _ in range(3)]
        for connection in connections:
            subject.state.put(connection, 1.0)
    assert [answer(request) for request in requests] == [*connections, None]


def test_a_pool_that_opens_as_many_connections_as_it_may_does_not_look_at_its_queue_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    subject = StateDriver(max_size=10)
    first, second = subject.ask(), subject.ask()
    monkeypatch.setattr(PoolQueue, "__iter__", lambda _: pytest.fail("it looks for requests without a connection"))
    third = subject.ask()
    assert [request.establishment is None for request in (first, second, third)] == [False, False, True]


def test_a_request_that_is_served_otherwise_leaves_its_connection_to_the_next() -> None:
    subject = StateDriver(max_size=2)
    (connection,) = subject.checked_out()
    first = subject.ask()
    (establishment,) = subject.started()
    second = subject.ask()
    subject.state.put(connection, 1.0)
    assert answer(first) is connection
    assert establishment.request is second
    assert second.establishment is establishment
    assert subject.effects() == []


# --- who gives up ---


def test_what_is_under_way_goes_to_the_next_one() -> None:
    subject = StateDriver(max_connecting=1)
    first, second = subject.ask(), subject.ask()
    (establishment,) = subject.started()
    give_up(subject, first)
    assert subject.effects() == []
    assert establishment.request is second
    connection = subject.finish(establishment)
    assert answer(first) is None
    assert answer(second) is connection


def test_of_several_under_way_the_oldest_is_taken_over() -> None:
    subject = StateDriver()
    requests = [subject.ask(), subject.ask()]
    older, newer = subject.started()
    for request in requests:
        give_up(subject, request)
    first = subject.ask()
    assert (older.request, newer.request) == (first, None)
    connection = subject.finish(newer)
    assert answer(first) is connection, "the first one that is done"
    spare = subject.finish(older)
    assert list(subject.state.idle) == [spare], "nobody wants it any more"


def test_a_request_that_is_no_longer_waited_for_is_passed_over() -> None:
    # Its caller was cancelled and has not run yet.
    subject = StateDriver(max_size=1)
    (connection,) = subject.checked_out()
    gone, waiting = subject.ask(), subject.ask()
    cast("FakeWaiter", gone.waiter).waits = False
    subject.state.put(connection, 0.0)
    assert answer(waiting) is connection
    give_up(subject, gone)  # when it runs at last
    assert not subject.state.queue
    assert subject.state.in_use == {connection}


# --- check-in ---


def test_only_what_was_checked_out_is_taken_back() -> None:
    subject, other = StateDriver(), StateDriver()
    (connection,) = subject.checked_out()
    with pytest.raises(InvalidOperation, match="connection 1 was not checked out of this pool"):
        other.state.put(connection, 0.0)
    subject.state.put(connection, 0.0)
    with pytest.raises(InvalidOperation):
        subject.state.put(connection, 0.0)


def test_a_broken_connection_is_closed_and_replaced_for_who_waits() -> None:
    subject = StateDriver(max_size=1)
    (connection,) = subject.checked_out()
    waiting = subject.ask()
    cast("FakeStream", connection.stream).is_closed = True
    subject.state.put(connection, 0.0)
    close, establish = subject.effects()
    assert close == Close(connection, "error")
    assert establish.establishment.request is waiting


# --- connections that perished while they were idle ---


def test_idle_for_too_long() -> None:
    subject = StateDriver(max_idle_time=10.0)
    old, closed, fresh = subject.checked_out(3)
    for connection, now in ((old, 99.0), (closed, 100.0), (fresh, 100.0)):
        subject.state.put(connection, now)
    cast("FakeStream", closed.stream).is_closed = True
    assert subject.state.take(110.0) is fresh, "exactly the limit is allowed, from the last check-in on"
    assert subject.state.take(110.0) is None
    assert subject.effects() == [Close(closed, "error"), Close(old, "idle")]


def test_the_socket_is_asked_after_a_second_only() -> None:
    subject = StateDriver()
    (connection,) = subject.idle()
    cast("FakeStream", connection.stream).is_sound = False
    assert subject.state.take(1.0) is connection, "asking costs a system call"
    subject.state.put(connection, 1.0)
    assert subject.state.take(2.1) is None
    assert subject.effects() == [Close(connection, "error")]


def test_a_socket_that_tells_nothing_by_itself_is_asked_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeStream, "ask_after", 0.0)
    subject = StateDriver()
    (connection,) = subject.idle()
    stream = cast("FakeStream", connection.stream)
    assert subject.state.take(0.001) is connection
    subject.state.put(connection, 0.002)
    stream.is_sound = False
    assert subject.state.take(0.003) is None
    assert subject.effects() == [Close(connection, "error")]


def test_prune() -> None:
    subject = StateDriver(max_idle_time=10.0)
    old, broken, good = subject.idle(3)
    old.idle_since, broken.idle_since, good.idle_since = -5.0, 3.0, 4.0
    cast("FakeStream", broken.stream).is_closed = True
    subject.state.prune(8.0)
    assert subject.effects() == [Close(old, "idle"), Close(broken, "error")]
    assert list(subject.state.idle) == [good]
    subject.state.prune(8.0)
    assert subject.effects() == []


# --- establishing ---


def test_nothing_is_started_before_the_error_was_judged() -> None:
    subject = StateDriver(max_connecting=1)
    subject.ask()
    second = subject.ask()
    (establishment,) = subject.started()
    subject.state.failed(establishment, AutoReconnect("refused"))
    assert subject.effects() == []
    subject.state.clear(None)
    subject.state.serve(0.0)
    assert subject.effects() == [Refuse([second])]
    assert second.deliver()
    assert isinstance(answer(second), PoolClearedError)


def test_a_connection_that_is_closed_when_it_is_done() -> None:
    subject = StateDriver()
    request = subject.ask()
    (establishment,) = subject.started()
    connection = FakeConnection(establishment)
    connection.stream.is_closed = True
    subject.state.established(establishment, cast("Connection", connection), 0.0)
    close, again = subject.effects()
    assert close == Close(cast("Connection", connection), "error")
    assert again.establishment.request is request


def test_populate() -> None:
    subject = StateDriver(min_size=3, max_connecting=2)
    subject.state.populate()
    one, two = subject.started()
    assert one.request is None
    subject.state.populate()
    assert subject.effects() == []
    subject.finish(one)
    (three,) = subject.started()
    subject.finish(two)
    subject.finish(three)
    assert subject.effects() == []
    assert len(subject.state.idle) == 3


def test_populate_never_exceeds_max_size() -> None:
    subject = StateDriver(min_size=3, max_size=1, max_connecting=5)
    subject.state.populate()
    assert len(subject.started()) == 1


# --- clear and close ---


def test_clear() -> None:
    subject = StateDriver()
    idle, in_use = subject.checked_out(2)
    served = subject.ask()
    (under_way,) = subject.started()
    subject.state.put(idle, 0.0)
    assert answer(served) is idle
    subject.state.put(idle, 0.0)
    because = AutoReconnect("it is gone")
    assert subject.state.clear(because)
    assert subject.state.generation == 1
    assert subject.state.phase is Phase.PAUSED
    assert subject.effects() == [Close(idle, "stale"), Abandon(under_way, "stale")]
    assert subject.state.total == 1
    refusal = answer(subject.ask())
    assert isinstance(refusal, PoolClearedError)
    assert str(refusal) == "the connection pool of db.example:27017 was cleared: it is gone"
    subject.state.put(in_use, 0.0)
    assert subject.effects() == [Close(in_use, "stale")]


def test_a_refusal_repeats_little_of_the_reason_for_a_clear() -> None:
    long = "x" * 1000
    for because, text in ((None, ""), (AutoReconnect(long), f": {long}"), (AutoReconnect(f"{long}y"), f": {long}...")):
        subject = StateDriver()
        subject.state.clear(because)
        assert str(answer(subject.ask())) == f"the connection pool of db.example:27017 was cleared{text}"


def test_clear_keeps_what_is_to_be_done_already() -> None:
    subject = StateDriver(max_idle_time=10.0)
    old, good = subject.idle(2)
    old.idle_since = -5.0
    subject.state.prune(8.0)
    subject.state.clear(None)
    assert subject.effects() == [Close(old, "idle"), Close(good, "stale")]


def test_a_second_clear_is_not_told_and_still_counts() -> None:
    subject = StateDriver()
    assert subject.state.clear(None)
    assert not subject.state.clear(None)
    assert subject.state.generation == 2


def test_after_clear_and_close_a_connection_is_stale() -> None:
    subject = StateDriver()
    (connection,) = subject.checked_out()
    subject.state.clear(None)
    subject.state.close()
    subject.state.put(connection, 0.0)
    assert subject.effects() == [Close(connection, "stale")]


# --- a concurrency limit below maxPoolSize: requests above it wait in the same queue ---


def limited(value: int = 2, **options: Any) -> StateDriver:
    subject = StateDriver(**{"max_size": 10, "max_connecting": 10, **options})
    subject.state.limit = AdaptiveLimit(ConcurrencyLimit(initial=value, minimum=1))
    return subject


def set_limit(subject: StateDriver, value: int) -> None:
    assert subject.state.limit is not None
    subject.state.limit.value = value


def test_requests_above_the_limit_wait() -> None:
    subject = limited()
    used = subject.checked_out(2)
    assert subject.state.take(0) is None
    request = subject.ask()
    # Not even a connection is established for it.
    assert subject.started() == []
    subject.state.put(used[0], 0)
    assert answer(request) is used[0]


def test_idle_connections_above_the_limit_stay_idle() -> None:
    subject = limited(4)
    subject.idle(4)
    set_limit(subject, 2)
    assert [subject.state.take(0) is not None for _ in range(3)] == [True, True, False]
    request = subject.ask()
    assert answer(request) is None
    assert len(subject.state.idle) == 2


def test_the_error_of_a_request_that_waits_in_vain_names_the_limit() -> None:
    subject = limited(2)
    subject.checked_out(2)
    request = subject.ask()
    error = subject.state.expire(request, 1.5)
    assert str(error).startswith("Timeout waiting for connection")
    assert "1.500 s; the concurrency limit allows 2 operations at once, and 2 are running (" in str(error)


def test_a_higher_limit_serves_several_with_the_next_check_in() -> None:
    subject = limited(4)
    subject.idle(4)
    set_limit(subject, 1)
    connection = subject.state.take(0)
    assert connection is not None
    requests = [subject.ask() for _ in range(4)]
    set_limit(subject, 3)
    subject.state.put(connection, 0)
    assert [answer(request) is not None for request in requests] == [True, True, True, False]


def test_min_pool_size_is_not_limited() -> None:
    subject = limited(1, min_size=4)
    subject.state.populate()
    assert len(subject.started()) == 4


def test_pending_replies_count_until_they_are_overdue() -> None:
    subject = limited(1)
    (used,) = subject.checked_out()
    used.owed, used.owed_until = 7, 100.0
    subject.state.put(used, 0)
    subject.effects()
    assert subject.state.running == 1
    request = subject.ask()
    assert subject.started() == []
    subject.state.overdue(used, 1.0)
    assert subject.state.running == 0
    (establishment,) = subject.started()
    assert subject.finish(establishment) is answer(request)
