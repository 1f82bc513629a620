"""The pool as a pure object: connections whose late reply is awaited."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, cast

import pytest

from motorlite._admission.pace import urgency
from motorlite._connection.handshake import Purpose
from motorlite._pool.state import Close, Drain, Interrupt
from motorlite.errors import AutoReconnect
from motorlite.monitoring import ConnectionClosedReason
from tests.support.pool_state import FakeWaiter, StateDriver, answer

if TYPE_CHECKING:
    from motorlite._connection.connection import Connection


def abandon(subject: StateDriver, connection: Connection, window: float = 1.0) -> None:
    connection.owed = 7
    connection.owed_until = subject.now + window
    subject.state.put(connection, subject.now)


def pending(subject: StateDriver, count: int = 1) -> list[Connection]:
    found = subject.checked_out(count)
    for connection in found:
        abandon(subject, connection)
    assert subject.effects() == [Drain(connection, subject.now + 0.1) for connection in found]
    return found


def arrive(subject: StateDriver, connection: Connection) -> None:
    connection.owed = None
    subject.state.drained(connection, subject.now)


def test_the_error_of_a_request_that_waits_in_vain_counts_it() -> None:
    subject = StateDriver(max_size=1)
    (connection,) = pending(subject)
    request, late = subject.ask(), subject.ask()
    subject.now = 0.5
    text = str(subject.state.expire(request, 0.5))
    assert "idle: 0" in text
    assert "waiting for the reply to an abandoned operation: 1, waited for db.example:27017: 0.500 s (" in text
    # The reply comes when the other one's time is up, but it has not left the queue yet.
    cast("FakeWaiter", late.waiter).waits = False
    arrive(subject, connection)
    assert answer(late) is None
    text = str(subject.state.expire(late, 0.5))
    assert "idle: 1" in text
    assert "abandoned" not in text
    assert "0.500 s; a connection became free at the moment when the time was up (" in text
    assert subject.state.take(0.5) is connection


def test_it_is_idle_again_when_the_reply_has_arrived() -> None:
    subject = StateDriver()
    (connection,) = pending(subject)
    subject.now = 0.5
    arrive(subject, connection)
    assert subject.effects() == []
    assert subject.state.take(0.5) is connection
    assert connection.idle_since == 0.5
    assert not subject.state.pending


def test_who_waits_gets_it_then() -> None:
    subject = StateDriver(max_size=2, max_connecting=1)
    connection, other = subject.checked_out(2)
    abandon(subject, connection)
    subject.effects()
    first = subject.ask()
    subject.state.overdue(connection, 0.2)
    assert [type(effect).__name__ for effect in subject.effects()] == ["Close", "Establish"]
    abandon(subject, other)
    second = subject.ask()
    assert subject.effects() == [Drain(other, 0.1)]
    subject.state.overdue(other, 0.2)
    # No second one may be established, so nothing is given up for it.
    assert subject.effects() == []
    arrive(subject, other)
    assert answer(first) is other
    assert answer(second) is None


def test_a_connection_replaces_one_whose_reply_does_not_come() -> None:
    subject = StateDriver(max_size=1)
    (connection,) = pending(subject)
    request = subject.ask()
    subject.state.drain_failed(connection, 1.0)
    close, establish = subject.effects()
    assert close == Close(connection, ConnectionClosedReason.ERROR)
    assert establish.establishment.request is request


@pytest.mark.parametrize("problem", ["broken", "not worth waiting for"])
def test_a_reply_that_will_not_be_awaited_closes_the_connection_at_once(problem: str) -> None:
    subject = StateDriver()
    (connection,) = subject.checked_out()
    connection.stream.is_closed = problem == "broken"  # type: ignore[misc]  # a fake
    abandon(subject, connection, 1.0 if problem == "broken" else 0.0)
    assert subject.effects() == [Close(connection, ConnectionClosedReason.ERROR)]
    assert subject.state.total == 0


@pytest.mark.parametrize("max_size", [3, 0])
@pytest.mark.parametrize("overdue_first", [False, True])
def test_an_overdue_reply_is_given_up_for_a_request_when_the_pool_is_full(max_size: int, overdue_first: bool) -> None:
    subject = StateDriver(max_size=max_size)
    _, middle, newest = pending(subject, 3)
    if overdue_first:
        subject.state.overdue(newest, 0.1)
        subject.state.overdue(middle, 0.1)
        assert subject.effects() == []
        subject.ask()
    else:
        subject.ask()
        assert [type(effect).__name__ for effect in subject.effects()] == ([] if max_size else ["Establish"])
        subject.state.overdue(middle, 0.1)
    effects = subject.effects()
    if max_size:
        assert effects[0] == Close(middle, ConnectionClosedReason.ERROR), "the oldest that is overdue"
        assert [type(effect).__name__ for effect in effects] == ["Close", "Establish"]
    assert len(subject.state.pending) == (2 if max_size else 3)


def test_a_reply_is_overdue_by_the_pace_of_the_server() -> None:
    subject = StateDriver(max_size=2)
    connection, other = subject.checked_out(2)
    subject.ask()
    subject.now = 0.5
    subject.state.put(other, subject.now)
    assert subject.effects() == []
    subject.now = 0.6
    abandon(subject, connection)
    assert subject.effects() == [Drain(connection, 1.0)], "twice the half second, counted from its check-out"


def test_the_pace_is_learned_from_late_replies_too() -> None:
    subject = StateDriver(max_size=1)
    subject.now = 10.0
    (connection,) = subject.checked_out()
    abandon(subject, connection)
    subject.now = 10.5
    arrive(subject, connection)
    assert subject.state.pace.overdue_after(subject.now) == pytest.approx(1.0)


@pytest.mark.parametrize("purpose", Purpose)
def test_the_pace_is_learned_from_operations_while_a_reply_is_pending(purpose: Purpose) -> None:
    subject = StateDriver(max_size=2)
    owing, connection = subject.checked_out(2)
    connection.purpose = purpose
    abandon(subject, owing)
    subject.now = 0.5
    subject.state.put(connection, subject.now)
    learned = subject.state.pace.overdue_after(subject.now)
    assert learned == (1.0 if purpose is Purpose.OTHER else 0.1), "a cursor keeps its connection between its batches"


def test_an_operation_that_need_not_wait_has_no_limit() -> None:
    subject = StateDriver(max_size=1)
    (connection,) = subject.checked_out()
    connection.urgency = urgency(0.5)
    subject.state.put(connection, 0.0)
    assert subject.state.take(0.0) is connection
    subject.ask()
    subject.state.put(connection, 0.1)
    assert subject.state.pace.needed(0.1, None) == pytest.approx(0.11)
    assert subject.state.pace.needed(0.1, urgency(0.5)) == 0.0


def test_a_reply_is_never_overdue_later_than_it_is_given_up() -> None:
    subject = StateDriver(max_size=2)
    (connection,) = subject.checked_out()
    abandon(subject, connection, 0.01)
    assert subject.effects() == [Drain(connection, 0.01)]


@pytest.mark.parametrize("purpose", Purpose)
def test_impatience_is_learned_from_operations_while_others_wait(purpose: Purpose) -> None:
    subject = StateDriver(max_size=1)
    (connection,) = subject.checked_out()
    connection.purpose = purpose
    state = subject.state
    subject.now = 0.05
    for _ in range(4):
        state.caller_left(connection, subject.now)
    assert state.pace.patience(subject.now) == inf, "its own cancellation is not the queue's matter"
    subject.ask()
    for _ in range(4):
        state.caller_left(connection, subject.now)
    assert state.pace.patience(subject.now) == (0.05 if purpose is Purpose.OTHER else inf)


def test_the_time_of_a_request_counts_from_its_beginning() -> None:
    subject = StateDriver(max_size=1)
    (connection,) = subject.checked_out()
    subject.ask()
    subject.ask()
    subject.now = 0.03
    subject.state.put(connection, subject.now)
    subject.now = 0.05
    for _ in range(4):
        subject.state.caller_left(connection, subject.now)
    assert subject.state.pace.patience(subject.now) == 0.05
    subject.state.put(connection, subject.now)
    assert subject.state.pace.needed(subject.now, None) == pytest.approx(1.1 * 0.03), "the longer of 30 and 20 ms"


@pytest.mark.parametrize("min_size", [1, 2])
def test_min_pool_size_evicts_nothing(min_size: int) -> None:
    subject = StateDriver(max_size=1, min_size=min_size)
    (connection,) = pending(subject)
    subject.state.overdue(connection, 0.2)
    subject.state.populate()
    assert subject.effects() == []
    assert list(subject.state.pending) == [connection]


def test_there_is_a_bound() -> None:
    subject = StateDriver(max_size=0)
    oldest, *others = pending(subject, 100)
    (newest,) = subject.checked_out()
    abandon(subject, newest)
    assert subject.effects() == [Close(oldest, ConnectionClosedReason.ERROR), Drain(newest, 0.1)]
    assert list(subject.state.pending) == [*others, newest]


def test_a_clear_lets_replies_arrive_and_closes_the_connection_then() -> None:
    subject = StateDriver()
    (connection,) = pending(subject)
    subject.state.clear(AutoReconnect("gone"))
    assert subject.effects() == []
    arrive(subject, connection)
    assert subject.effects() == [Close(connection, ConnectionClosedReason.STALE)]


def test_a_clear_that_interrupts_ends_the_waiting() -> None:
    subject = StateDriver()
    in_use, owing = subject.checked_out(2)
    abandon(subject, owing)
    subject.effects()
    subject.state.clear(None, interrupt_in_use=True)
    assert subject.effects() == [Interrupt(in_use), Close(owing, ConnectionClosedReason.STALE)]
    assert not subject.state.pending


def test_an_operation_that_never_began_says_nothing_of_the_pace() -> None:
    subject = StateDriver(max_size=1)
    (connection,) = subject.checked_out()
    requests = [subject.ask() for _ in range(10)]
    subject.now = 0.03
    subject.state.put(connection, subject.now)
    for request in requests[:-1]:
        assert answer(request) is connection
        subject.state.put_back(connection, subject.now)
    assert answer(requests[-1]) is connection
    assert subject.state.in_use == {connection}
    assert subject.state.pace.needed(subject.now, None) == pytest.approx(0.033)
