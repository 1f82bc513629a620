"""The pool as a pure object: what holds after any sequence of events."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, cast

import pytest
from bson import ObjectId
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from motorlite._admission.concurrency_limit import AdaptiveLimit
from motorlite._admission.pool_queue import Request
from motorlite._pool.state import Abandon, Close, Drain, Establish, Phase, PoolState, Refuse
from motorlite.errors import AutoReconnect, PyMongoError
from motorlite.overload import ConcurrencyLimit
from tests.support.machine_bugs import cases, find
from tests.support.pool_state import ADDRESS, FakeConnection, FakeStream, FakeWaiter, answer, pool_settings
from tests.support.sequences import Machine, run

if TYPE_CHECKING:
    from motorlite._admission.pool_queue import Establishment
    from motorlite._connection.connection import Connection
    from tests.support.planting import Bug


class Pool(Machine):
    """Whatever operations, servers and the topology do to a pool, in any order."""

    MAX_SIZE = 3
    MAX_CONNECTING = 2
    MIN_SIZE = 2
    # Behind a load balancer; without one there are none.
    SERVICES: tuple[ObjectId, ...] = ()
    # How long callers wait, as far as the driver can see; seconds.
    LIMITS: tuple[float, ...] = (inf,)
    # Whether no request may overtake another.
    IN_ORDER = True
    # Whether a concurrency limit, which changes, is below maxPoolSize.
    IS_LIMITED = False

    def __init__(self) -> None:
        super().__init__()
        options = pool_settings(
            max_size=self.MAX_SIZE, max_connecting=self.MAX_CONNECTING, min_size=self.MIN_SIZE, max_idle_time=10.0
        )
        self.state = PoolState(ADDRESS, options)
        self.limit = AdaptiveLimit(ConcurrencyLimit(initial=2, minimum=1)) if self.IS_LIMITED else None
        self.state.limit = self.limit
        self.state.ready()
        self.now = 0.0
        # In the order in which they asked; `waits` tells who still does.
        self.requests: list[Request] = []
        # Cancelled, and the pool does not know yet.
        self.leaving: list[Request] = []
        # Refused, and not told yet.
        self.refused: list[Request] = []
        self.in_use: list[FakeConnection] = []
        self.under_way: list[Establishment] = []
        # Their late reply is awaited, the oldest first.
        self.pending: list[FakeConnection] = []
        # Those of them that take so long that their operation seems to have ended.
        self.overdue_ones: set[FakeConnection] = set()
        self.closed: list[FakeConnection] = []
        # All connections that ever were, and those whose service was cleared since.
        self.made: list[FakeConnection] = []
        self.stale: set[FakeConnection] = set()

    # What the shell would do.

    def perform(self) -> None:
        for effect in self.state.effects:
            if isinstance(effect, Establish):
                assert effect.establishment in self.state.connecting or self._is_abandoned(effect.establishment)
                self.under_way.append(effect.establishment)
                if self.limit is not None and effect.establishment.request is not None:
                    sponsored = sum(item.request is not None for item in self.state.connecting)
                    assert self.running + sponsored <= self.limit.value, "opened for an operation that may not run"
            elif isinstance(effect, Abandon):
                assert effect.establishment not in self.state.connecting
                self.under_way.remove(effect.establishment)
            elif isinstance(effect, Close):
                connection = cast("FakeConnection", effect.connection)
                assert connection not in self.closed
                assert effect.connection not in self.state.idle
                assert effect.connection not in self.state.in_use
                assert effect.connection not in self.state.pending
                if connection in self.pending:
                    self.pending.remove(connection)
                connection.stream.is_closed = True
                self.closed.append(connection)
            elif isinstance(effect, Drain):
                self.pending.append(cast("FakeConnection", effect.connection))
            elif isinstance(effect, Refuse):
                assert not set(effect.requests) & (set(self.state.queue) | set(self.refused))
                self.refused += effect.requests
            else:
                assert effect.connection in self.state.in_use
                cast("FakeConnection", effect.connection).stream.is_closed = True
        self.state.effects = []

    def _is_abandoned(self, establishment: Establishment) -> bool:
        return any(isinstance(item, Abandon) and item.establishment is establishment for item in self.state.effects)

    @property
    def running(self) -> int:
        """How many operations the server seems to work on."""
        return len(self.in_use) + sum(connection not in self.overdue_ones for connection in self.pending)

    def may_use(self) -> bool:
        return self.limit is None or self.running < self.limit.value

    def waiting(self) -> list[Request]:
        return [request for request in self.listening() if request.refusal is None]

    def listening(self) -> list[Request]:
        """Those that wait, and those that were refused and do not know."""
        return [request for request in self.requests if cast("FakeWaiter", request.waiter).waits]

    def received(self, number: int, connection: object) -> None:
        """Request `number` is about to be given something."""
        if isinstance(connection, FakeConnection):
            self.check_usable(connection)
            earlier = [request for request in self.waiting() if self.requests.index(request) < number]
            assert not (earlier and self.IN_ORDER), "overtaken"
            self.in_use.append(connection)

    def check_usable(self, connection: FakeConnection) -> None:
        assert self.state.phase is Phase.READY
        assert self.may_use(), "more operations than the limit permits"
        assert self.SERVICES or connection.generation == self.state.generation
        assert connection not in self.stale
        assert not connection.stream.is_closed
        assert connection not in self.closed
        assert connection not in self.in_use
        assert connection not in self.pending
        assert connection.owed is None
        assert self.now - connection.idle_since <= 10.0
        assert connection.stream.is_sound or self.now - connection.idle_since <= 1.0

    def is_past_use(self, connection: FakeConnection) -> bool:
        """Whether an idle connection has broken, or been idle for too long. Stale ones are closed at once."""
        return not connection.stream.is_healthy() or self.now - connection.idle_since > 10.0

    # What happens to a pool.

    @rule(data=st.data(), times=st.sampled_from([1, 1, 2, 4]))
    def ask(self, data: st.DataObject, times: int) -> None:
        for _ in range(times):
            self.ask_once(data)

    def ask_once(self, data: st.DataObject) -> None:
        idle = cast("list[FakeConnection]", list(self.state.idle))
        connection = cast("FakeConnection | None", self.state.take(self.now))
        if connection is not None:
            self.check_usable(connection)
            assert not self.waiting()
            # Those that were used later than the one that is taken could not be used.
            assert all(self.is_past_use(other) for other in idle[idle.index(connection) + 1 :])
            self.in_use.append(connection)
        else:
            number = len(self.requests)
            until = self.now + data.draw(st.sampled_from(self.LIMITS))
            request = Request(FakeWaiter(lambda value: self.received(number, value)), self.now, until=until)
            self.requests.append(request)
            self.state.enqueue(request, self.now)
        self.perform()

    @precondition(lambda self: self.listening())
    @rule(data=st.data(), at_once=st.booleans())
    def cancel(self, data: st.DataObject, at_once: bool) -> None:
        request = data.draw(st.sampled_from(self.listening()))
        cast("FakeWaiter", request.waiter).waits = False
        self.leaving.append(request)
        if at_once:
            self.leave(data)

    @precondition(lambda self: self.refused)
    @rule()
    def tell(self) -> None:
        request = self.refused.pop(0)
        is_listening = request in self.listening()
        assert request.deliver() == is_listening
        assert not is_listening or isinstance(answer(request), PyMongoError)

    @precondition(lambda self: self.refused)
    @rule(data=st.data())
    def stay(self, data: st.DataObject) -> None:
        """Its time in the queue is up, and it has a new waiter: it gets the error at once, and not again."""
        request = data.draw(st.sampled_from(self.refused))
        if request in self.leaving or request not in self.listening():
            return
        request.waiter = FakeWaiter()
        self.state.stay(request, self.now)
        assert isinstance(answer(request), PyMongoError)
        assert not request.deliver()

    @precondition(lambda self: self.leaving)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(self.leaving))
        self.leaving.remove(request)
        if not self.IN_ORDER and request.until == inf:
            self.state.pace.left(self.now - request.since, self.now)
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

    @precondition(lambda self: self.in_use)
    @rule(data=st.data(), window=st.sampled_from([0.0, 1.0, 1.0]), times=st.sampled_from([1, 1, MAX_SIZE]))
    def abandon(self, data: st.DataObject, window: float, times: int) -> None:
        for _ in range(min(times, len(self.in_use))):
            connection = data.draw(st.sampled_from(self.in_use))
            self.in_use.remove(connection)
            connection.owed = 1
            connection.owed_until = self.now + window
            self.state.put(cast("Connection", connection), self.now)
            self.perform()

    @precondition(lambda self: self.pending)
    @rule(data=st.data(), arrives=st.booleans())
    def late_reply(self, data: st.DataObject, arrives: bool) -> None:
        connection = data.draw(st.sampled_from(self.pending))
        self.pending.remove(connection)
        self.overdue_ones.discard(connection)
        if arrives:
            connection.owed = None
            self.state.drained(cast("Connection", connection), self.now)
        else:
            self.state.drain_failed(cast("Connection", connection), self.now)
        self.perform()

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def overdue(self, data: st.DataObject) -> None:
        connection = data.draw(st.sampled_from(self.pending))
        self.overdue_ones.add(connection)
        self.state.overdue(cast("Connection", connection), self.now)
        self.perform()

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), broken=st.booleans())
    def established(self, data: st.DataObject, broken: bool) -> None:
        self.establish(data, data.draw(st.sampled_from(self.under_way)), broken)

    def establish(self, data: st.DataObject, establishment: Establishment, broken: bool) -> None:
        self.under_way.remove(establishment)
        connection = FakeConnection(establishment)
        connection.stream.is_closed = broken
        if self.SERVICES:
            connection.service_id = data.draw(st.sampled_from(self.SERVICES))
            connection.generation = self.state.services.join(connection.service_id)
        self.made.append(connection)
        self.state.established(establishment, cast("Connection", connection), self.now)
        self.perform()
        assert self.state.total >= self.MIN_SIZE or self.state.phase is not Phase.READY, "too few until maintenance"

    @rule(data=st.data(), most=st.integers(1, MAX_SIZE))
    def calm_down(self, data: st.DataObject, most: int) -> None:
        """All connections are established, and some operations end."""
        for establishment in list(self.under_way):
            if establishment in self.under_way:
                self.establish(data, establishment, broken=False)
        for connection in self.in_use[:most]:
            self.in_use.remove(connection)
            self.state.put(cast("Connection", connection), self.now)
            self.perform()

    @precondition(lambda self: self.SERVICES)
    @rule(data=st.data())
    def clear_service(self, data: st.DataObject) -> None:
        service_id = data.draw(st.sampled_from(self.SERVICES))
        waiting, under_way, phase = self.waiting(), list(self.under_way), self.state.phase
        self.state.clear_service(service_id)
        self.stale |= {connection for connection in self.made if connection.service_id == service_id}
        self.perform()
        assert (self.waiting(), self.under_way, self.state.phase) == (waiting, under_way, phase)

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
        if clears and not self.SERVICES:
            self.state.clear(error)
        self.state.serve(self.now)
        self.perform()

    @precondition(lambda self: self.state.idle)
    @rule(data=st.data(), seen=st.booleans())
    def server_closes(self, data: st.DataObject, seen: bool) -> None:
        stream = cast("FakeStream", data.draw(st.sampled_from(list(self.state.idle))).stream)
        stream.is_sound = False
        stream.is_closed = seen

    @precondition(lambda self: self.limit)
    @rule(value=st.integers(1, 4))
    def change_limit(self, value: int) -> None:
        assert self.limit is not None
        self.limit.value = value
        self.state.serve(self.now)  # as the check-in does that follows
        self.perform()

    @rule(seconds=st.sampled_from([0.5, 2.0, 11.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def maintain(self) -> None:
        self.state.prune(self.now)
        self.state.populate()
        self.perform()
        if self.state.phase is Phase.READY:
            assert self.state.total >= self.MIN_SIZE

    @precondition(lambda self: not self.SERVICES)
    @rule(interrupt=st.booleans(), will=st.sampled_from([True, False, False]))
    def clear(self, interrupt: bool, will: bool) -> None:
        if not will:  # too often, and nothing else would ever happen to a pool
            return
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
    @precondition(lambda self: len(self.requests) > 5)
    def close(self) -> None:
        self.state.close()
        self.perform()

    # What holds afterwards.

    @invariant()
    def each_connection_is_in_one_place(self) -> None:
        state = self.state
        idle = cast("list[FakeConnection]", list(state.idle))
        assert len(set(idle)) == len(idle)
        assert cast("set[FakeConnection]", state.in_use) == set(self.in_use)
        assert len(set(self.in_use)) == len(self.in_use)
        assert not set(idle) & set(self.in_use)
        assert not (set(idle) | set(self.in_use)) & set(self.closed)
        assert list(state.connecting) == self.under_way
        assert cast("list[FakeConnection]", list(state.pending)) == self.pending
        assert not set(self.pending) & (set(idle) | set(self.in_use) | set(self.closed))

    @invariant()
    def services_with_connections_are_known(self) -> None:
        alive = {connection.service_id for connection in self.made if connection not in self.closed}
        assert len(self.state.services) == len(alive - {None})
        assert not self.stale & set(cast("list[FakeConnection]", list(self.state.idle)))

    @invariant()
    def limits_are_kept(self) -> None:
        elsewhere = len(self.in_use) + len(self.pending) + len(self.under_way)
        assert self.state.total == len(self.state.idle) + elsewhere
        # Connections that were in use when the pool was cleared or closed still count.
        assert self.state.total <= self.MAX_SIZE
        assert len(self.under_way) <= self.MAX_CONNECTING

    @invariant()
    def nobody_waits_in_vain(self) -> None:
        state = self.state
        waiting = list(state.queue)
        still = [request for request in waiting if request in self.waiting()]
        assert still == self.waiting() or (not self.IN_ORDER and set(still) == set(self.waiting()))
        if not waiting:
            return
        assert not state.idle or not self.may_use()
        assert state.phase is Phase.READY
        without = [request for request in waiting if request.establishment is None]
        if without:
            is_full = state.total == self.MAX_SIZE and not any(state.pending.values())
            is_full |= self.limit is not None and self.running + len(self.under_way) >= self.limit.value
            assert len(self.under_way) == self.MAX_CONNECTING or is_full
            # Above the limit, what minPoolSize needs is for nobody.
            assert self.limit is not None or all(item.request is not None for item in self.under_way)
            if self.IN_ORDER and self.limit is None:
                assert waiting[-len(without) :] == without, "a younger one has a connection under way"

    @invariant()
    def sponsors_match(self) -> None:
        for establishment in self.under_way:
            request = establishment.request
            assert request is None or (request.establishment is establishment and request in self.state.queue)
        for request in self.requests:
            sponsored = request.establishment
            assert sponsored is None or (sponsored.request is request and request in self.state.queue)

    @invariant()
    def everything_ends(self) -> None:
        if self.state.phase is Phase.CLOSED:
            assert not self.state.idle
            assert not self.under_way
            assert not self.pending
            assert not self.waiting()
        assert all(request in self.refused for request in self.listening() if request.refusal is not None)
        assert self.state.effects == []


class BalancedPool(Pool):
    """The same behind a load balancer."""

    SERVICES = (ObjectId(), ObjectId())


class ImpatientPool(Pool):
    """The same with callers that have limits, and that give up."""

    LIMITS = (0.5, 2.0, 11.0, inf)
    IN_ORDER = False


class LimitedPool(Pool):
    """The same with a limit of how many operations run at once."""

    IS_LIMITED = True


@pytest.mark.parametrize("machine", [Pool, BalancedPool, ImpatientPool, LimitedPool])
def test_each_connection_is_in_one_place_and_nobody_waits_in_vain(machine: type[Pool]) -> None:
    run(machine)


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "bug"), cases(Pool, BalancedPool, ImpatientPool, LimitedPool))
def test_planted_bugs_are_found(machine: type[Machine], bug: Bug) -> None:
    find(machine, bug)
