"""The pool as a pure object behind a load balancer: one generation for each service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
from bson import ObjectId

from motorlite._connection.handshake import Purpose
from motorlite._pool.state import Close, Drain, Phase
from motorlite.monitoring import ConnectionClosedReason
from tests.support.pool_state import FakeConnection, StateDriver, answer

if TYPE_CHECKING:
    from motorlite._connection.connection import Connection

ONE, OTHER = ObjectId(), ObjectId()
STALE = ConnectionClosedReason.STALE


def put(subject: StateDriver, *connections: Connection) -> None:
    for connection in connections:
        subject.state.put(connection, subject.now)


def test_clearing_a_service_closes_its_connections_only() -> None:
    subject = StateDriver()
    one, other, idle = subject.reach(ONE), subject.reach(OTHER), subject.reach(ONE)
    put(subject, idle, other)
    assert subject.state.clear_service(ONE)
    assert subject.effects() == [Close(idle, STALE)]
    assert subject.state.take(subject.now) is other
    newer = subject.reach(ONE)
    assert (one.generation, newer.generation) == (0, 1)
    put(subject, one, other, newer)
    assert subject.effects() == [Close(one, STALE)], "when it comes back"
    assert set(subject.state.idle) == {other, newer}
    assert subject.state.generation == 0
    assert len(subject.state.services) == 2
    subject.state.close()
    assert not subject.state.clear_service(OTHER)
    assert len(subject.state.services) == 0, "a service without connections is forgotten"
    assert [effect.reason for effect in subject.effects()] == [ConnectionClosedReason.POOL_CLOSED] * 2


def test_the_pool_stays_ready_and_those_who_wait_go_on_waiting() -> None:
    subject = StateDriver(max_size=2, max_connecting=1)
    one = subject.reach(ONE)
    first, second = subject.ask(), subject.ask()
    (establishment,) = subject.started()
    subject.state.clear_service(ONE)
    assert subject.state.phase is Phase.READY
    assert subject.effects() == [], "what is under way may lead to another service"
    assert answer(first) is None
    subject.finish(establishment)
    put(subject, one)
    assert isinstance(answer(second), type(None))
    effects = subject.effects()
    assert effects[0] == Close(one, STALE)
    (replacement,) = (effect.establishment for effect in effects[1:])
    assert answer(second) is None
    assert subject.finish(replacement) is answer(second)


def test_a_service_whose_last_connection_has_gone_is_forgotten() -> None:
    subject = StateDriver()
    one = subject.reach(ONE)
    subject.state.clear_service(ONE)
    put(subject, one)
    assert subject.effects() == [Close(one, STALE)]
    assert len(subject.state.services) == 0
    subject.state.clear_service(OTHER)
    assert [subject.reach(service).generation for service in (ONE, OTHER)] == [0, 0]


@pytest.mark.parametrize("cleared_first", [False, True])
def test_a_late_reply_of_a_service_that_was_cleared(cleared_first: bool) -> None:
    subject = StateDriver()
    one, other = subject.reach(ONE), subject.reach(OTHER)
    for connection in (one, other):
        connection.owed, connection.owed_until = 7, subject.now + 1
    if cleared_first:
        subject.state.clear_service(ONE)
        put(subject, one, other)
        assert subject.effects() == [Close(one, STALE), Drain(other, 0.1)], "nothing is awaited of a stale connection"
    else:
        put(subject, one, other)
        subject.state.clear_service(ONE)
        assert subject.effects() == [Drain(one, 0.1), Drain(other, 0.1)], "the server may end its work in peace"
        one.owed = None
        subject.state.drained(one, subject.now)
        assert subject.effects() == [Close(one, STALE)]
    other.owed = None
    subject.state.drained(other, subject.now)
    assert subject.effects() == []
    assert list(subject.state.idle) == [other]
    assert len(subject.state.services) == 1


@pytest.mark.parametrize("end", ["given up", "failed", "overdue", "closed", "idle for too long"])
def test_every_end_of_a_connection_is_counted(end: str) -> None:
    subject = StateDriver(max_size=1, max_idle_time=10.0)
    one: Any = subject.reach(ONE)
    if end == "given up":
        one.owed, one.owed_until = 7, subject.now
        put(subject, one)
    elif end == "idle for too long":
        put(subject, one)
        subject.now = 11.0
        subject.state.prune(subject.now)
    else:
        one.owed, one.owed_until = 7, subject.now + 1
        put(subject, one)
        if end == "failed":
            subject.state.drain_failed(one, subject.now)
        elif end == "overdue":
            subject.ask()
            subject.state.overdue(one, subject.now)
        else:
            subject.state.close()
    assert len(subject.state.services) == 0


def test_a_paused_pool_hands_out_nothing_even_if_a_connection_came_back() -> None:
    subject = StateDriver()
    connection = subject.reach(ONE)
    subject.state.clear(None)
    put(subject, connection)
    assert list(subject.state.idle) == [connection], "a clear of all others does not concern its service"
    assert subject.state.take(0.0) is None
    subject.state.ready()
    assert subject.state.take(0.0) is connection


def test_what_connections_are_in_use_for() -> None:
    subject = StateDriver()
    for purpose in (Purpose.CURSOR, Purpose.CURSOR, Purpose.TRANSACTION, Purpose.OTHER):
        subject.reach(ONE).purpose = purpose
    put(subject, subject.reach(ONE))
    assert [subject.state.count(purpose) for purpose in Purpose] == [2, 1, 1]


def test_a_service_that_is_cleared_while_a_connection_to_it_authenticates() -> None:
    subject = StateDriver()
    subject.reach(ONE)
    request = subject.ask()
    (establishment,) = subject.started()
    late = FakeConnection(establishment)
    late.service_id, late.generation = ONE, subject.state.services.join(ONE)
    subject.state.clear_service(ONE)
    subject.state.give_up(request, subject.now)
    subject.state.established(establishment, cast("Connection", late), subject.now)
    assert subject.effects() == [Close(cast("Connection", late), STALE)]
    assert subject.state.take(subject.now) is None
