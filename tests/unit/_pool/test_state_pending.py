"""The pool as a pure object: connections whose late reply is awaited."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from motorlite._pool.state import MAX_PENDING, Close, Drain, Interrupt
from motorlite.errors import AutoReconnect
from motorlite.monitoring import ConnectionClosedReason
from tests.support.pool_state import Subject, answer

if TYPE_CHECKING:
    from motorlite._pool.connection import Connection


def abandon(subject: Subject, connection: Connection, window: float = 1.0) -> None:
    connection.owed = 7
    connection.owed_until = subject.now + window
    subject.state.put(connection, subject.now)


def pending(subject: Subject, count: int = 1) -> list[Connection]:
    found = subject.checked_out(count)
    for connection in found:
        abandon(subject, connection)
    assert subject.effects() == [Drain(connection) for connection in found]
    return found


def arrive(subject: Subject, connection: Connection) -> None:
    connection.owed = None
    subject.state.drained(connection, subject.now)


def test_it_is_neither_idle_nor_in_use_and_counts() -> None:
    subject = Subject()
    (connection,) = pending(subject)
    state = subject.state
    assert list(state.pending) == [connection]
    assert not state.idle
    assert not state.in_use
    assert state.total == 1
    assert state.take(0.0) is None


def test_it_is_idle_again_when_the_reply_has_arrived() -> None:
    subject = Subject()
    (connection,) = pending(subject)
    subject.now = 0.5
    arrive(subject, connection)
    assert subject.effects() == []
    assert subject.state.take(0.5) is connection
    assert connection.idle_since == 0.5
    assert not subject.state.pending


def test_who_waits_gets_it_then() -> None:
    subject = Subject(max_size=2, max_connecting=1)
    connection, other = subject.checked_out(2)
    abandon(subject, connection)
    subject.effects()
    first = subject.ask()
    assert [type(effect).__name__ for effect in subject.effects()] == ["Close", "Establish"]
    abandon(subject, other)
    second = subject.ask()
    # No second one may be established, so nothing is given up for it.
    assert subject.effects() == [Drain(other)]
    arrive(subject, other)
    assert answer(first) is other
    assert answer(second) is None


def test_it_is_closed_when_the_reply_does_not_come() -> None:
    subject = Subject(max_size=1)
    (connection,) = pending(subject)
    subject.state.drain_failed(connection, 1.0)
    assert subject.effects() == [Close(connection, ConnectionClosedReason.ERROR)]
    assert subject.state.total == 0


def test_what_is_not_worth_waiting_for_is_closed_at_once() -> None:
    subject = Subject()
    (connection,) = subject.checked_out()
    abandon(subject, connection, 0.0)
    assert subject.effects() == [Close(connection, ConnectionClosedReason.ERROR)]
    assert subject.state.total == 0


def test_a_connection_that_broke_is_closed_whatever_it_owes() -> None:
    subject = Subject()
    (connection,) = subject.checked_out()
    connection.stream.abort = None  # type: ignore[method-assign,assignment]  # a fake
    connection.stream.is_closed = True  # type: ignore[misc]  # a fake
    abandon(subject, connection)
    assert subject.effects() == [Close(connection, ConnectionClosedReason.ERROR)]


@pytest.mark.parametrize("max_size", [3, 0])
def test_whoever_needs_a_connection_evicts_the_oldest_when_the_pool_is_full(max_size: int) -> None:
    subject = Subject(max_size=max_size)
    oldest, *_ = pending(subject, 3)
    subject.ask()
    effects = subject.effects()
    if max_size:
        assert effects[0] == Close(oldest, ConnectionClosedReason.ERROR)
    assert [type(effect).__name__ for effect in effects] == (["Close", "Establish"] if max_size else ["Establish"])
    assert len(subject.state.pending) == (2 if max_size else 3)


def test_an_idle_connection_is_taken_rather_than_a_pending_one_evicted() -> None:
    subject = Subject(max_size=2)
    idle, owing = subject.checked_out(2)
    abandon(subject, owing)
    subject.state.put(idle, 0.0)
    assert subject.state.take(0.0) is idle
    assert list(subject.state.pending) == [owing]


def test_min_pool_size_evicts_nothing() -> None:
    subject = Subject(max_size=1, min_size=1)
    (connection,) = pending(subject)
    subject.state.populate()
    assert subject.effects() == []
    assert list(subject.state.pending) == [connection]


def test_there_is_a_bound() -> None:
    subject = Subject(max_size=0)
    oldest, *others = pending(subject, MAX_PENDING)
    (newest,) = subject.checked_out()
    abandon(subject, newest)
    assert subject.effects() == [Close(oldest, ConnectionClosedReason.ERROR), Drain(newest)]
    assert list(subject.state.pending) == [*others, newest]


def test_a_clear_lets_replies_arrive_and_closes_the_connection_then() -> None:
    subject = Subject()
    (connection,) = pending(subject)
    subject.state.clear(AutoReconnect("gone"))
    assert subject.effects() == []
    arrive(subject, connection)
    assert subject.effects() == [Close(connection, ConnectionClosedReason.STALE)]


def test_of_a_stale_connection_nothing_is_awaited() -> None:
    subject = Subject()
    (connection,) = subject.checked_out()
    subject.state.clear(None)
    abandon(subject, connection)
    assert subject.effects() == [Close(connection, ConnectionClosedReason.STALE)]


def test_a_clear_that_interrupts_ends_the_waiting() -> None:
    subject = Subject()
    in_use, owing = subject.checked_out(2)
    abandon(subject, owing)
    subject.effects()
    subject.state.clear(None, interrupt_in_use=True)
    assert subject.effects() == [Interrupt(in_use), Close(owing, ConnectionClosedReason.STALE)]
    assert not subject.state.pending


def test_closing_the_pool_ends_the_waiting() -> None:
    subject = Subject()
    (connection,) = pending(subject)
    subject.state.close()
    assert subject.effects() == [Close(connection, ConnectionClosedReason.POOL_CLOSED)]
    assert subject.state.total == 0
