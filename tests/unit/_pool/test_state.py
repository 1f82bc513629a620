"""The pool as a pure object: every transition, the effects in their order, and what holds after any sequence of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from motorlite._pool.state import (
    Abandon,
    Close,
    Establish,
    Interrupt,
    Phase,
    PoolClosedError,
    PoolOptions,
    PoolState,
    Request,
)
from motorlite.errors import AutoReconnect, InvalidOperation, PoolClearedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._pool.connection import Connection
    from motorlite._pool.state import Establishment

ADDRESS = ("db.example", 27017)


class FakeStream:
    def __init__(self) -> None:
        self.is_closed = False
        self.is_sound = True

    def is_healthy(self) -> bool:
        return self.is_sound and not self.is_closed


class FakeConnection:
    """As much of a connection as the state looks at."""

    def __init__(self, establishment: Establishment) -> None:
        self.id = establishment.connection_id
        self.generation = establishment.generation
        self.idle_since = -1.0
        self.stream = FakeStream()

    def __repr__(self) -> str:
        return f"<connection {self.id}>"


class FakeWaiter:
    """Takes one offer, while it waits."""

    def __init__(self, on_offer: Callable[[object], None] = lambda _: None) -> None:
        self.answer: Any = None
        self.waits = True
        self._on_offer = on_offer

    def offer(self, value: object) -> bool:
        if not self.waits:
            return False
        self._on_offer(value)
        self.waits = False
        self.answer = value
        return True


class Subject:
    """A state, with short words for what a shell does to it."""

    def __init__(self, *, ready: bool = True, **options: Any) -> None:
        self.state = PoolState(ADDRESS, PoolOptions(**options))
        self.now = 0.0
        if ready:
            self.state.ready()

    def ask(self) -> Request:
        request = Request(FakeWaiter())
        self.state.enqueue(request, self.now)
        return request

    def effects(self) -> list[Any]:
        effects, self.state.effects = self.state.effects, []
        return effects

    def started(self) -> list[Establishment]:
        """What has to be established now; nothing else may have to be done."""
        effects = self.effects()
        assert all(isinstance(effect, Establish) for effect in effects), effects
        return [effect.establishment for effect in effects]

    def finish(self, establishment: Establishment) -> Connection:
        connection = cast("Connection", FakeConnection(establishment))
        self.state.established(establishment, connection, self.now)
        return connection

    def fail(self, establishment: Establishment, error: Exception) -> None:
        self.state.failed(establishment, cast("Any", error))
        self.state.serve(self.now)

    def checked_out(self, count: int = 1) -> list[Connection]:
        found = []
        for _ in range(count):
            request = self.ask()
            for establishment in self.started():
                self.finish(establishment)
            found.append(answer(request))
        return found

    def idle(self, count: int = 1) -> list[Connection]:
        """Connections that lie idle; the last one is taken first."""
        found = self.checked_out(count)
        for connection in found:
            self.state.put(connection, self.now)
        return found


def answer(request: Request) -> Any:
    return cast("FakeWaiter", request.waiter).answer


def give_up(subject: Subject, request: Request) -> None:
    cast("FakeWaiter", request.waiter).waits = False
    subject.state.give_up(request, subject.now)


# --- check-out ---


def test_a_pool_begins_paused_and_refuses() -> None:
    subject = Subject(ready=False, min_size=3)
    state = subject.state
    assert state.phase is Phase.PAUSED
    assert state.take(0.0) is None
    refusal = answer(subject.ask())
    assert isinstance(refusal, PoolClearedError)
    assert str(refusal) == "the connection pool of db.example:27017 was cleared"
    state.populate()
    assert subject.effects() == []
    assert state.total == 0


def test_ready_is_told_once() -> None:
    state = PoolState(ADDRESS, PoolOptions())
    assert state.ready()
    assert not state.ready()
    assert state.phase is Phase.READY


def test_the_first_request_starts_a_connection_and_gets_it() -> None:
    subject = Subject()
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
    subject = Subject()
    one, two = subject.idle(2)
    assert subject.state.take(0.0) is two
    assert subject.state.take(0.0) is one
    assert subject.state.take(0.0) is None
    assert subject.state.in_use == {one, two}


def test_who_comes_later_does_not_overtake() -> None:
    subject = Subject(max_size=1)
    (connection,) = subject.checked_out()
    waiting = subject.ask()
    assert subject.state.take(0.0) is None
    subject.state.put(connection, 0.0)
    assert answer(waiting) is connection
    assert subject.state.take(0.0) is None, "the connection was given to the one who waited"


def test_requests_are_served_in_their_order() -> None:
    subject = Subject(max_size=1)
    (connection,) = subject.checked_out()
    requests = [subject.ask() for _ in range(3)]
    for request in requests:
        assert answer(request) is None
        subject.state.put(connection, 0.0)
        assert answer(request) is connection
    subject.state.put(connection, 0.0)
    assert list(subject.state.idle) == [connection]


def test_no_more_than_max_connecting_are_started() -> None:
    subject = Subject(max_connecting=2)
    requests = [subject.ask() for _ in range(4)]
    one, two = subject.started()
    subject.finish(two)
    assert answer(requests[0]) is not None, "the oldest gets the first that is done, whoever asked for it"
    # The second takes over what was begun for the first; the third has one of its own now.
    assert one.request is requests[1]
    (three,) = subject.started()
    assert three.request is requests[2]
    assert requests[3].establishment is None


def test_no_more_than_max_size() -> None:
    subject = Subject(max_size=3, max_connecting=10)
    subject.checked_out(2)
    requests = [subject.ask() for _ in range(2)]
    assert [item.connection_id for item in subject.started()] == [3]
    assert [request.establishment is not None for request in requests] == [True, False]
    assert subject.state.total == 3


def test_no_limit() -> None:
    subject = Subject(max_size=0, max_connecting=1000)
    for _ in range(150):
        subject.ask()
    assert len(subject.started()) == 150
    assert subject.state.created == 150


# --- who gives up ---


def test_what_is_under_way_goes_to_the_next_one() -> None:
    subject = Subject(max_connecting=1)
    first, second = subject.ask(), subject.ask()
    (establishment,) = subject.started()
    give_up(subject, first)
    assert subject.effects() == []
    assert establishment.request is second
    connection = subject.finish(establishment)
    assert answer(first) is None
    assert answer(second) is connection


def test_a_connection_that_nobody_wants_any_more_becomes_idle() -> None:
    subject = Subject()
    request = subject.ask()
    (establishment,) = subject.started()
    give_up(subject, request)
    connection = subject.finish(establishment)
    assert list(subject.state.idle) == [connection]


def test_who_asks_next_takes_over_what_is_under_way() -> None:
    subject = Subject()
    request = subject.ask()
    (establishment,) = subject.started()
    give_up(subject, request)
    second, third = subject.ask(), subject.ask()
    assert establishment.request is second
    (another,) = subject.started()
    assert another.request is third


def test_a_request_that_is_no_longer_waited_for_is_passed_over() -> None:
    # Its caller was cancelled and has not run yet.
    subject = Subject(max_size=1)
    (connection,) = subject.checked_out()
    gone, waiting = subject.ask(), subject.ask()
    cast("FakeWaiter", gone.waiter).waits = False
    subject.state.put(connection, 0.0)
    assert answer(waiting) is connection
    give_up(subject, gone)  # when it runs at last
    assert not subject.state.queue
    assert subject.state.in_use == {connection}


def test_nobody_is_left_who_waits() -> None:
    subject = Subject(max_size=1)
    (connection,) = subject.checked_out()
    gone = subject.ask()
    cast("FakeWaiter", gone.waiter).waits = False
    subject.state.put(connection, 0.0)
    assert not subject.state.in_use
    assert list(subject.state.idle) == [connection]


# --- check-in ---


def test_only_what_was_checked_out_is_taken_back() -> None:
    subject, other = Subject(), Subject()
    (connection,) = subject.checked_out()
    with pytest.raises(InvalidOperation, match="connection 1 was not checked out of this pool"):
        other.state.put(connection, 0.0)
    subject.state.put(connection, 0.0)
    with pytest.raises(InvalidOperation):
        subject.state.put(connection, 0.0)


def test_a_broken_connection_is_closed_and_replaced_for_who_waits() -> None:
    subject = Subject(max_size=1)
    (connection,) = subject.checked_out()
    waiting = subject.ask()
    cast("FakeStream", connection.stream).is_closed = True
    subject.state.put(connection, 0.0)
    close, establish = subject.effects()
    assert close == Close(connection, "error")
    assert establish.establishment.request is waiting


def test_a_stale_connection_is_closed() -> None:
    subject = Subject()
    (connection,) = subject.checked_out()
    subject.state.clear(None)
    subject.state.ready()
    subject.state.put(connection, 0.0)
    assert subject.effects() == [Close(connection, "stale")]
    assert subject.state.total == 0


# --- connections that perished while they were idle ---


def test_idle_for_too_long() -> None:
    subject = Subject(max_idle_time=10.0)
    one, two = subject.idle(2)
    one.idle_since = 5.0
    assert subject.state.take(12.0) is one
    assert subject.effects() == [Close(two, "idle")]


def test_exactly_the_limit_is_allowed() -> None:
    subject = Subject(max_idle_time=10.0)
    (connection,) = subject.idle()
    assert subject.state.take(10.0) is connection


def test_closed_by_the_server() -> None:
    subject = Subject()
    one, two = subject.idle(2)
    cast("FakeStream", two.stream).is_closed = True
    assert subject.state.take(0.0) is one
    assert subject.effects() == [Close(two, "error")]


def test_the_socket_is_asked_after_a_second_only() -> None:
    subject = Subject()
    (connection,) = subject.idle()
    cast("FakeStream", connection.stream).is_sound = False
    assert subject.state.take(1.0) is connection, "asking costs a system call"
    subject.state.put(connection, 1.0)
    assert subject.state.take(2.1) is None
    assert subject.effects() == [Close(connection, "error")]


def test_prune() -> None:
    subject = Subject(max_idle_time=10.0)
    old, broken, good = subject.idle(3)
    old.idle_since, broken.idle_since, good.idle_since = -5.0, 3.0, 4.0
    cast("FakeStream", broken.stream).is_closed = True
    subject.state.prune(8.0)
    assert subject.effects() == [Close(old, "idle"), Close(broken, "error")]
    assert list(subject.state.idle) == [good]
    subject.state.prune(8.0)
    assert subject.effects() == []


# --- establishing ---


def test_the_sponsor_alone_gets_the_error() -> None:
    subject = Subject(max_connecting=1)
    first, second = subject.ask(), subject.ask()
    (establishment,) = subject.started()
    error = AutoReconnect("refused")
    subject.fail(establishment, error)
    assert answer(first) is error
    assert answer(second) is None
    (next_one,) = subject.started()
    assert next_one.request is second


def test_nothing_is_started_before_the_error_was_judged() -> None:
    subject = Subject(max_connecting=1)
    subject.ask()
    second = subject.ask()
    (establishment,) = subject.started()
    subject.state.failed(establishment, AutoReconnect("refused"))
    assert subject.effects() == []
    subject.state.clear(None)
    subject.state.serve(0.0)
    assert subject.effects() == []
    assert isinstance(answer(second), PoolClearedError)


def test_an_error_that_concerns_nobody() -> None:
    subject = Subject()
    request = subject.ask()
    (establishment,) = subject.started()
    give_up(subject, request)
    subject.fail(establishment, AutoReconnect("refused"))
    assert answer(request) is None
    assert subject.state.total == 0


def test_a_connection_that_is_closed_when_it_is_done() -> None:
    subject = Subject()
    request = subject.ask()
    (establishment,) = subject.started()
    connection = FakeConnection(establishment)
    connection.stream.is_closed = True
    subject.state.established(establishment, cast("Connection", connection), 0.0)
    close, again = subject.effects()
    assert close == Close(cast("Connection", connection), "error")
    assert again.establishment.request is request


def test_populate() -> None:
    subject = Subject(min_size=3, max_connecting=2)
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
    subject = Subject(min_size=3, max_size=1, max_connecting=5)
    subject.state.populate()
    assert len(subject.started()) == 1


# --- clear and close ---


def test_clear() -> None:
    subject = Subject()
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


def test_clear_refuses_those_who_wait_each_with_an_error_of_its_own() -> None:
    subject = Subject(max_size=1)
    subject.checked_out()
    one, two = subject.ask(), subject.ask()
    subject.state.clear(None)
    assert isinstance(answer(one), PoolClearedError)
    assert isinstance(answer(two), PoolClearedError)
    assert answer(one) is not answer(two)
    assert not subject.state.queue


def test_a_second_clear_is_not_told_and_still_counts() -> None:
    subject = Subject()
    assert subject.state.clear(None)
    assert not subject.state.clear(None)
    assert subject.state.generation == 2


def test_clear_with_interruption() -> None:
    subject = Subject()
    stale, current = subject.checked_out(2)
    subject.state.clear(None, interrupt_in_use=True)
    effects = subject.effects()
    assert set(effects) == {Interrupt(stale), Interrupt(current)}
    assert subject.state.in_use == {stale, current}, "they come back by check-in"


def test_what_was_under_way_before_a_clear_delays_nobody_after_it() -> None:
    subject = Subject(max_connecting=1, max_size=1)
    subject.ask()
    (old,) = subject.started()
    subject.state.clear(None)
    assert subject.effects() == [Abandon(old, "stale")]
    subject.state.ready()
    request = subject.ask()
    (new,) = subject.started()
    assert new.generation == 1
    assert new.request is request


def test_close() -> None:
    subject = Subject(max_size=2, max_connecting=1)
    (in_use,) = subject.checked_out()
    sponsor, waiting = subject.ask(), subject.ask()
    (under_way,) = subject.started()
    assert subject.state.close()
    assert subject.effects() == [Abandon(under_way, "poolClosed")]
    for request in (sponsor, waiting, subject.ask()):
        assert isinstance(answer(request), PoolClosedError)
        assert str(answer(request)) == "the connection pool of db.example:27017 is closed"
    subject.state.put(in_use, 0.0)
    assert subject.effects() == [Close(in_use, "poolClosed")]
    assert subject.state.total == 0
    assert not subject.state.close()
    assert not subject.state.clear(None)
    assert not subject.state.ready()
    assert subject.state.phase is Phase.CLOSED


def test_close_with_idle_connections() -> None:
    subject = Subject()
    one, two = subject.idle(2)
    subject.state.close()
    assert subject.effects() == [Close(one, "poolClosed"), Close(two, "poolClosed")]


def test_after_clear_and_close_a_connection_is_stale() -> None:
    subject = Subject()
    (connection,) = subject.checked_out()
    subject.state.clear(None)
    subject.state.close()
    subject.state.put(connection, 0.0)
    assert subject.effects() == [Close(connection, "stale")]


# --- any sequence ---


class Machine(RuleBasedStateMachine):
    """Whatever operations, servers and the topology do to a pool, in any order."""

    MAX_SIZE = 3
    MAX_CONNECTING = 2

    def __init__(self) -> None:
        super().__init__()
        options = PoolOptions(
            max_size=self.MAX_SIZE, max_connecting=self.MAX_CONNECTING, min_size=1, max_idle_time=10.0
        )
        self.state = PoolState(ADDRESS, options)
        self.now = 0.0
        # In the order in which they asked; `waits` tells who still does.
        self.requests: list[Request] = []
        # Cancelled, and the pool does not know yet.
        self.leaving: list[Request] = []
        self.in_use: list[FakeConnection] = []
        self.under_way: list[Establishment] = []
        self.closed: list[FakeConnection] = []

    # What the shell would do.

    def perform(self) -> None:
        for effect in self.state.effects:
            if isinstance(effect, Establish):
                assert effect.establishment in self.state.connecting or self._is_abandoned(effect.establishment)
                self.under_way.append(effect.establishment)
            elif isinstance(effect, Abandon):
                assert effect.establishment not in self.state.connecting
                self.under_way.remove(effect.establishment)
            elif isinstance(effect, Close):
                connection = cast("FakeConnection", effect.connection)
                assert connection not in self.closed
                assert effect.connection not in self.state.idle
                assert effect.connection not in self.state.in_use
                connection.stream.is_closed = True
                self.closed.append(connection)
            else:
                assert effect.connection in self.state.in_use
                cast("FakeConnection", effect.connection).stream.is_closed = True
        self.state.effects = []

    def _is_abandoned(self, establishment: Establishment) -> bool:
        return any(isinstance(item, Abandon) and item.establishment is establishment for item in self.state.effects)

    def waiting(self) -> list[Request]:
        return [request for request in self.requests if cast("FakeWaiter", request.waiter).waits]

    def received(self, number: int, connection: object) -> None:
        """Request `number` is about to be given something."""
        if isinstance(connection, FakeConnection):
            self.check_usable(connection)
            assert [r for r in self.waiting() if self.requests.index(r) < number] == [], "overtaken"
            self.in_use.append(connection)

    def check_usable(self, connection: FakeConnection) -> None:
        assert self.state.phase is Phase.READY
        assert connection.generation == self.state.generation
        assert not connection.stream.is_closed
        assert connection not in self.closed
        assert connection not in self.in_use
        assert self.now - connection.idle_since <= 10.0
        assert connection.stream.is_sound or self.now - connection.idle_since <= 1.0

    # What happens to a pool.

    @rule()
    def ask(self) -> None:
        connection = cast("FakeConnection | None", self.state.take(self.now))
        if connection is not None:
            self.check_usable(connection)
            assert not self.waiting()
            self.in_use.append(connection)
        else:
            number = len(self.requests)
            request = Request(FakeWaiter(lambda value: self.received(number, value)))
            self.requests.append(request)
            self.state.enqueue(request, self.now)
        self.perform()

    @precondition(lambda self: self.waiting())
    @rule(data=st.data(), at_once=st.booleans())
    def cancel(self, data: st.DataObject, at_once: bool) -> None:
        request = data.draw(st.sampled_from(self.waiting()))
        cast("FakeWaiter", request.waiter).waits = False
        self.leaving.append(request)
        if at_once:
            self.leave(data)

    @precondition(lambda self: self.leaving)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(self.leaving))
        self.leaving.remove(request)
        self.state.give_up(request, self.now)
        self.perform()

    @precondition(lambda self: self.in_use)
    @rule(data=st.data(), broken=st.booleans())
    def check_in(self, data: st.DataObject, broken: bool) -> None:
        connection = data.draw(st.sampled_from(self.in_use))
        self.in_use.remove(connection)
        if broken:
            connection.stream.is_closed = True
        self.state.put(cast("Connection", connection), self.now)
        self.perform()

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), broken=st.booleans())
    def established(self, data: st.DataObject, broken: bool) -> None:
        establishment = data.draw(st.sampled_from(self.under_way))
        self.under_way.remove(establishment)
        connection = FakeConnection(establishment)
        connection.stream.is_closed = broken
        self.state.established(establishment, cast("Connection", connection), self.now)
        self.perform()

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), clears=st.booleans())
    def not_established(self, data: st.DataObject, clears: bool) -> None:
        establishment = data.draw(st.sampled_from(self.under_way))
        self.under_way.remove(establishment)
        sponsor = establishment.request
        others = [request for request in self.waiting() if request is not sponsor]
        error = AutoReconnect("refused")
        self.state.failed(establishment, error)
        assert sponsor is None or answer(sponsor) is error or sponsor in self.leaving
        assert all(cast("FakeWaiter", request.waiter).waits for request in others)
        if clears:
            self.state.clear(error)
        self.state.serve(self.now)
        self.perform()

    @precondition(lambda self: self.state.idle)
    @rule(data=st.data(), seen=st.booleans())
    def server_closes(self, data: st.DataObject, seen: bool) -> None:
        stream = cast("FakeStream", data.draw(st.sampled_from(list(self.state.idle))).stream)
        stream.is_sound = False
        stream.is_closed = seen

    @rule(seconds=st.sampled_from([0.5, 2.0, 11.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def maintain(self) -> None:
        self.state.prune(self.now)
        self.state.populate()
        self.perform()
        if self.state.phase is Phase.READY:
            assert self.state.total >= 1

    @rule(interrupt=st.booleans())
    def clear(self, interrupt: bool) -> None:
        self.state.clear(AutoReconnect("gone"), interrupt_in_use=interrupt)
        assert not self.state.idle
        assert not self.waiting()
        self.perform()
        assert not self.under_way

    @rule()
    def ready(self) -> None:
        self.state.ready()
        self.perform()

    @rule()
    @precondition(lambda self: len(self.requests) > 10)
    def close(self) -> None:
        self.state.close()
        self.perform()

    # What holds afterwards.

    @invariant()
    def each_connection_is_in_one_place(self) -> None:
        state = self.state
        idle = cast("list[FakeConnection]", list(state.idle))
        assert len(set(idle)) == len(idle)
        assert state.in_use == set(self.in_use)
        assert len(set(self.in_use)) == len(self.in_use)
        assert not set(idle) & set(self.in_use)
        assert not (set(idle) | set(self.in_use)) & set(self.closed)
        assert list(state.connecting) == self.under_way

    @invariant()
    def limits_are_kept(self) -> None:
        assert self.state.total == len(self.state.idle) + len(self.in_use) + len(self.under_way)
        # Connections that were in use when the pool was cleared or closed still count.
        assert self.state.total <= self.MAX_SIZE
        assert len(self.under_way) <= self.MAX_CONNECTING

    @invariant()
    def nobody_waits_in_vain(self) -> None:
        state = self.state
        waiting = list(state.queue)
        assert [request for request in waiting if request in self.waiting()] == self.waiting()
        if not waiting:
            return
        assert not state.idle
        assert state.phase is Phase.READY
        without = [request for request in waiting if request.establishment is None]
        if without:
            assert len(self.under_way) == self.MAX_CONNECTING or state.total == self.MAX_SIZE
            assert all(establishment.request is not None for establishment in self.under_way)
            assert waiting[-len(without) :] == without, "a younger one has a connection under way"

    @invariant()
    def sponsors_match(self) -> None:
        for establishment in self.under_way:
            request = establishment.request
            assert request is None or (request.establishment is establishment and request in self.state.queue)
        for request in self.state.queue:
            assert request.establishment is None or request.establishment.request is request

    @invariant()
    def everything_ends(self) -> None:
        if self.state.phase is Phase.CLOSED:
            assert not self.state.idle
            assert not self.under_way
            assert not self.waiting()
        assert self.state.effects == []


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
