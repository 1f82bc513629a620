"""Wait queues beside models: the configured ones of a pool, and the usual one with the pace that it goes by."""

from __future__ import annotations

from itertools import count
from math import inf, log2
from typing import TYPE_CHECKING, Any, Final, cast

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from motorlite._admission.concurrency_limit import AdaptiveLimit
from motorlite._admission.pace import Pace
from motorlite._admission.pool_queue import PoolQueue, Request, Ticket
from motorlite._pool.state import Abandon, Close, Establish, PoolState, Refuse
from motorlite.errors import (
    AdmissionError,
    AutoReconnect,
    CircuitBreakerOpenError,
    PoolFullError,
    WaitQueueFullError,
    WaitQueueMemoryError,
    WaitQueueTimeoutError,
)
from motorlite.overload import ConcurrencyLimit, WaitQueue
from tests.support.machine_bugs import cases, find
from tests.support.pool_state import ADDRESS, FakeConnection, FakeWaiter, pool_settings
from tests.support.sequences import Machine, run

if TYPE_CHECKING:
    from motorlite._admission.pool_queue import Establishment
    from motorlite._connection.connection import Connection
    from tests.support.planting import Bug

SIZE: Final = 2
DEPTH: Final = 3


class WatchedRequest(Request):
    """A request that remembers whether its own connection was being opened until it was served."""

    had_its_own = False

    def release(self) -> None:
        self.had_its_own = self.had_its_own or self.establishment is not None
        super().release()


class Caller:
    """An operation, and the waiter of its request."""

    def __init__(self, run: Fifo, number: int) -> None:
        self.number = number
        self.run = run
        self.request: WatchedRequest
        self.waits = True
        self.answer: Any = None

    def offer(self, value: object) -> bool:
        if not self.waits:
            return False
        self.waits = False
        self.answer = value
        self.run.offered(self, value)
        return True


class Model:
    """The queue as its documentation has it: a list, searched from end to end."""

    def __init__(self, options: WaitQueue) -> None:
        self.options = options
        self.callers: list[Caller] = []
        self.standing_since: float | None = None
        self.is_standing = False

    @property
    def memory(self) -> int:
        return sum(caller.request.size for caller in self.callers)

    def add(self, caller: Caller) -> None:
        if not self.callers:
            self.standing_since, self.is_standing = None, False
        self.callers.append(caller)

    def key(self, caller: Caller) -> tuple[float, ...]:
        request = caller.request
        if self.options.ordering == "priority":
            return request.entered * 100 / (float(self.options.timeout) / 2) - request.priority, caller.number
        is_new = request.entered == request.since
        return request.entered, is_new and self.options.ordering == "fifo", caller.number

    def next(self, now: float) -> Caller:
        """The caller to be served next; it leaves the queue."""
        oldest = min(self.callers, key=self.key)
        if self.options.ordering == "adaptive":
            if now - oldest.request.entered < float(self.options.adaptive_target):
                self.standing_since, self.is_standing = None, False
            elif self.standing_since is None:
                self.standing_since = now
            elif now - self.standing_since >= float(self.options.adaptive_interval):
                self.is_standing = True
        found = oldest
        if self.is_standing:
            interval = float(self.options.adaptive_interval)
            kept = [
                caller
                for caller in self.callers
                if caller.request.is_admitted and now - caller.request.entered > interval
            ]
            found = min(kept, key=self.key) if kept else max(self.callers, key=self.key)
        self.callers.remove(found)
        return found

    def victim(self, newcomer: Caller) -> Caller | None:
        """The caller that is dropped for another one."""
        droppable = [caller for caller in self.callers if not caller.request.is_admitted]
        if not droppable:
            return None
        lowest = min(caller.request.priority for caller in droppable)
        if self.options.ordering != "priority":
            same = droppable
        elif newcomer.request.priority < lowest:
            return None
        else:
            same = [caller for caller in droppable if caller.request.priority == lowest]
        return min(same, key=lambda caller: (caller.request.entered, self.key(caller)))

    def verdict(self, request: Request, in_use: int, connecting: int, most: int) -> type[Exception] | None:
        """The error of a request that must not wait, where `most` operations may run at once."""
        options, depth = self.options, len(self.callers) - max(most - in_use, 0)
        if depth < 0 or request.is_admitted:
            return None
        if options.strategy != "queue" and in_use + connecting >= most:
            return PoolFullError
        if options.memory_limit is not None and self.memory + request.size > int(options.memory_limit):
            return WaitQueueMemoryError
        return WaitQueueFullError if depth >= options.max_depth else None


class Fifo(Machine):
    """One pool, its callers and the model, first in first out."""

    ORDERING: Any = "fifo"

    @initialize(
        strategy=st.sampled_from(["queue", "queue", "queue", "reject"]),
        overflow=st.sampled_from(["drop_newest", "drop_oldest"]),
        memory_limit=st.sampled_from([None, 1_500]),
        is_limited=st.booleans(),
    )
    def make(self, strategy: Any, overflow: Any, memory_limit: int | None, is_limited: bool) -> None:
        """`is_limited`: a concurrency limit, which changes, is below maxPoolSize."""
        self.options = WaitQueue(strategy)
        if strategy == "queue":
            self.options = WaitQueue(strategy, DEPTH, 0.5, self.ORDERING, memory_limit, overflow)
        self.model = Model(self.options)
        self.state = PoolState(ADDRESS, pool_settings(max_size=SIZE, max_connecting=2, wait_queue=self.options))
        self.state.ready()
        self.limit: AdaptiveLimit | None = None
        if is_limited:
            assert self.state.bounded is not None
            self.limit = AdaptiveLimit(ConcurrencyLimit(initial=1, minimum=1))
            self.state.limit = self.state.bounded.limit = self.limit
        self.now = 0.0
        self.numbers = count()
        # The operation that asks now, and whether it is yet to join the queue.
        self.newcomer: Caller | None = None
        self.joins = False
        self.in_use: list[FakeConnection] = []
        # Cancelled, and the pool does not know yet.
        self.leaving: list[Caller] = []
        self.under_way: list[Establishment] = []

    # --- what the pool does ---

    def offered(self, caller: Caller, value: object) -> None:
        if not isinstance(value, WaitQueueFullError) or caller is self.newcomer:
            self.join()
        if isinstance(value, FakeConnection):
            self.check_turn(caller)
            assert self.may_use(), "more operations than the limit permits"
            assert self.now < caller.request.ends_at
            assert self.now < caller.request.leaves_at or caller.request.had_its_own, "its time is up"
            self.in_use.append(value)
        elif isinstance(value, WaitQueueTimeoutError) and "does not drain" in str(value):
            # As many as may run at once are never dropped.
            kept = SIZE if self.limit is None else self.limit.value
            oldest = sorted(self.model.callers, key=self.model.key)[: max(len(self.model.callers) - kept, 0)]
            assert self.model.is_standing
            assert caller in oldest
            assert not caller.request.is_admitted
            assert self.now - caller.request.entered > float(self.options.adaptive_interval)
            self.model.callers.remove(caller)
        elif isinstance(value, WaitQueueTimeoutError):
            assert caller.request.has_expired(self.now)
            assert self.now >= caller.request.ends_at or not caller.request.had_its_own
            self.check_turn(caller)
        elif isinstance(value, WaitQueueFullError) and caller is not self.newcomer:
            assert self.newcomer is not None
            assert caller is self.model.victim(self.newcomer)
            self.model.callers.remove(caller)
        elif isinstance(value, CircuitBreakerOpenError):
            assert caller.request.is_gated
            assert caller not in self.model.callers
        elif isinstance(value, AutoReconnect):
            self.model.callers.remove(caller)

    def may_use(self) -> bool:
        return self.limit is None or len(self.in_use) < self.limit.value

    def check_turn(self, caller: Caller) -> None:
        """It is the turn of `caller`, after those that stopped waiting and have not told the pool yet."""
        found = self.model.next(self.now)
        while found is not caller:
            assert not found.waits, "another one was next"
            found = self.model.next(self.now)

    def join(self) -> None:
        """The pool lets the newcomer wait, after it dropped another one for it."""
        if self.joins and self.newcomer is not None:
            self.joins = False
            self.model.add(self.newcomer)

    def perform(self) -> None:
        effects, self.state.effects = self.state.effects, []
        for effect in effects:
            if isinstance(effect, Establish):
                self.under_way.append(effect.establishment)
            elif isinstance(effect, Abandon):
                self.under_way.remove(effect.establishment)
            elif isinstance(effect, Refuse):
                for request in effect.requests:
                    request.deliver()
            else:
                assert isinstance(effect, Close)

    # --- what happens to it ---

    @rule(
        entered=st.sampled_from([0.0, 0.0, 0.0, 0.125, 0.75]),
        size=st.sampled_from([0, 50, 300]),
        limit=st.sampled_from([inf, inf, 0.25]),
        priority=st.sampled_from([0, 30, 50, 100]),
        kind=st.sampled_from(["ordinary", "ordinary", "gated", "admitted"]),
        number=st.sampled_from([1, 1, 1, 4]),
    )
    def ask(self, entered: float, size: int, limit: float, priority: int, kind: str, number: int) -> None:
        """Operations ask, which are retries if they asked `entered` seconds ago for the first time."""
        for _ in range(number):
            self.ask_once(entered, size, limit, priority, kind)
            self.same()

    @rule(
        kinds=st.lists(
            st.tuples(
                st.sampled_from([0.0, 0.0, 0.125]),
                st.sampled_from([50, 300]),
                st.sampled_from([inf, 0.25]),
                st.sampled_from([0, 30, 50, 100]),
                st.sampled_from(["ordinary", "ordinary", "gated", "admitted"]),
            ),
            min_size=2,
            max_size=6,
        ),
        pause=st.sampled_from([0.0, 0.03125, 0.0625]),
    )
    def crowd(self, kinds: list[Any], pause: float) -> None:
        """Operations of all kinds ask."""
        for kind in kinds:
            self.ask_once(*kind)
            self.same()
            self.pass_time(pause, fires=True)
            self.same()

    def ask_once(self, entered: float, size: int, limit: float, priority: int, kind: str) -> None:
        connection = cast("FakeConnection | None", self.state.take(self.now))
        if connection is not None:
            assert not self.model.callers
            assert self.may_use()
            self.in_use.append(connection)
            return
        caller = self.newcomer = Caller(self, next(self.numbers))
        request = caller.request = WatchedRequest(cast("Any", caller), self.now)
        bounded = self.state.bounded
        assert bounded is not None
        request.is_gated = kind == "gated"
        ticket = Ticket(self.now - entered, lambda: size, priority, 100, is_admitted=kind == "admitted")
        bounded.fill_in(request, ticket, self.now + limit)
        most = SIZE if self.limit is None else self.limit.value
        expected = self.model.verdict(request, len(self.in_use), len(self.under_way), most)
        if expected is WaitQueueFullError and self.options.overflow_strategy == "drop_oldest":
            expected = WaitQueueFullError if self.model.victim(caller) is None else None
        self.joins = expected is None
        self.state.enqueue(request, self.now)
        self.join()
        self.newcomer = None
        refusal = type(caller.answer) if isinstance(caller.answer, AdmissionError) else None
        if not isinstance(caller.answer, WaitQueueTimeoutError):
            assert refusal is expected
        self.perform()

    @precondition(lambda self: self.in_use)
    @rule(data=st.data(), breaks=st.sampled_from([False, False, False, True]), limit=st.integers(1, SIZE))
    def check_in(self, data: st.DataObject, breaks: bool, limit: int) -> None:
        connection = self.taken(data)
        connection.stream.is_closed = breaks
        if self.limit is not None:
            # It changes when an operation ends, before its connection is returned.
            self.limit.value = limit
        self.state.put(cast("Connection", connection), self.now)
        self.perform()

    @precondition(lambda self: self.in_use)
    @rule(data=st.data())
    def put_back(self, data: st.DataObject) -> None:
        """A caller is cancelled at the moment in which it got its connection."""
        self.state.put_back(cast("Connection", self.taken(data)), self.now)
        self.perform()

    def taken(self, data: st.DataObject) -> FakeConnection:
        return self.in_use.pop(data.draw(st.integers(0, len(self.in_use) - 1)))

    @precondition(lambda self: any(caller.waits for caller in self.model.callers))
    @rule(data=st.data(), at_once=st.booleans())
    def cancel(self, data: st.DataObject, at_once: bool) -> None:
        caller = data.draw(st.sampled_from([caller for caller in self.model.callers if caller.waits]))
        caller.waits = False
        self.leaving.append(caller)
        if at_once:
            self.depart(caller)

    @precondition(lambda self: self.leaving)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        self.depart(data.draw(st.sampled_from(self.leaving)))

    def depart(self, caller: Caller) -> None:
        self.leaving.remove(caller)
        if caller in self.model.callers:
            self.model.callers.remove(caller)
        self.state.give_up(caller.request, self.now)
        self.perform()

    @precondition(lambda self: self.under_way)
    @rule(works=st.sampled_from([True, True, True, False]))
    def establish(self, works: bool) -> None:
        establishment = self.under_way.pop(0)
        if works:
            self.state.established(establishment, cast("Connection", FakeConnection(establishment)), self.now)
        else:
            self.state.failed(establishment, AutoReconnect("refused"))
            self.state.serve(self.now)
        self.perform()

    @rule(seconds=st.sampled_from([0.03125, 0.125, 0.5]), fires=st.booleans())
    def pass_time(self, seconds: float, fires: bool) -> None:
        """Time passes; the timers of those whose time is up fire, or are late."""
        self.now += seconds
        for caller in list(self.model.callers) if fires else ():
            if caller.waits and caller.request.has_expired(self.now):
                caller.waits = False
                self.model.callers.remove(caller)
                self.state.expire(caller.request, self.now)
                self.state.serve(self.now)
        self.perform()

    @precondition(lambda self: self.model.callers)
    @rule()
    def open_breaker(self) -> None:
        gated = [caller for caller in self.model.callers if caller.request.is_gated]
        for caller in gated:  # those that were cancelled, too; the others get their errors later
            self.model.callers.remove(caller)
        waiting = [caller for caller in gated if caller.waits]
        assert self.state.refuse_gated(5.0, self.now) == len(gated)
        self.perform()
        assert all(isinstance(caller.answer, CircuitBreakerOpenError) for caller in waiting)

    @precondition(lambda self: len(self.model.callers) > 2)
    @rule()
    def clear(self) -> None:
        self.state.clear(None)
        self.perform()
        assert not any(caller.waits for caller in self.model.callers)
        self.model.callers.clear()
        self.state.ready()

    # --- what holds afterwards ---

    @invariant()
    def same(self) -> None:
        state, callers = self.state, self.model.callers
        while callers and not state.queue:
            # The last ones came to their turn after they had stopped waiting.
            assert not self.model.next(self.now).waits, "somebody was lost"
        if len(state.queue) < len(callers):
            # They were dropped, or their connection failed, after they had stopped waiting.
            left = set(state.queue)
            callers[:] = [caller for caller in callers if caller.waits or caller.request in left]
        assert len(state.queue) == len(callers)
        assert len(state.in_use) == len(self.in_use)
        assert state.total <= SIZE
        if callers:
            # No lost wake-up: every caller waits for something that will happen.
            assert not state.idle or not self.may_use()
            if any(caller.request.establishment is None for caller in callers) and not self.is_used_up():
                assert state.total == SIZE or len(state.connecting) == 2
                assert all(establishment.request is not None for establishment in self.under_way)
        if self.options.memory_limit is not None:
            assert self.queue_memory() == sum(caller.request.size for caller in callers)
        admitted = sum(caller.request.is_admitted for caller in callers)
        assert len(callers) <= SIZE + self.options.max_depth + admitted

    def is_used_up(self) -> bool:
        return self.limit is not None and len(self.in_use) + len(self.under_way) >= self.limit.value

    def queue_memory(self) -> int:
        assert self.state.bounded is not None
        return self.state.bounded.memory

    def teardown(self) -> None:
        """Everything that can happen happens; no caller may be left."""
        if not hasattr(self, "state"):
            return  # never began
        while self.leaving:
            self.depart(self.leaving[0])
        while self.in_use or self.under_way:
            if self.in_use:
                self.state.put(cast("Connection", self.in_use.pop()), self.now)
                self.perform()
            if self.under_way:
                self.establish(works=True)
            self.same()
        assert not self.model.callers
        assert self.queue_memory() == 0


class Priority(Fifo):
    """The same, by priority."""

    ORDERING = "priority"


class Standing(Fifo):
    """The same, in the order that depends on whether the queue stands."""

    ORDERING = "adaptive"


class FakePace(Pace):
    """Says what the test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.needs = 0.0
        self.patience_now = inf
        self.part_left = 1.0

    __slots__ = ("needs", "patience_now")

    def needed(self, now: float, its_urgency: int | None) -> float:
        return self.needs

    def patience(self, now: float) -> float:
        return self.patience_now


class Usual(Machine):
    """The usual queue: two lists, of those in order and of those that stepped aside."""

    def __init__(self) -> None:
        super().__init__()
        self.pace = FakePace()
        self.queue = PoolQueue(self.pace)
        self.now = 0.0
        self.line: list[Request] = []
        self.aside: list[Request] = []

    @rule(limit=st.sampled_from([inf, 0.25, 1.0, 4.0]), is_first=st.sampled_from([False, False, False, True]))
    def push(self, limit: float, is_first: bool) -> None:
        request = Request(FakeWaiter(), self.now, until=self.now + limit)
        (self.queue.push_first if is_first else self.queue.push)(request)
        self.line.insert(0 if is_first else len(self.line), request)

    @rule(needs=st.sampled_from([0.0, 0.125, 0.5, 2.0]), patience=st.sampled_from([inf, inf, 0.5, 2.0]))
    def change(self, needs: float, patience: float) -> None:
        self.pace.needs, self.pace.patience_now = needs, patience

    @rule(seconds=st.sampled_from([0.125, 0.25, 1.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.line or self.aside)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(self.line + self.aside))
        self.queue.discard(request)
        (self.line if request in self.line else self.aside).remove(request)

    @precondition(lambda self: self.line or self.aside)
    @rule()
    def serve(self) -> None:
        assert self.queue.pop(self.now) is self.next()

    def next(self) -> Request:
        """The request that outlived its limit before all, then the oldest with enough time, then the last aside."""
        if self.aside and self.has_outlived(self.aside[0]):
            return self.aside.pop(0)
        while self.line:
            request = self.line.pop(0)
            if self.time_left(request) >= self.pace.needs or self.is_patient(request):
                return request
            self.aside.append(request)
        return self.aside.pop()

    def time_left(self, request: Request) -> float:
        end = request.since + self.pace.patience_now if request.until == inf else request.until
        return end - self.now

    def is_patient(self, request: Request) -> bool:
        """Whether it has waited for a quarter longer than such callers usually do."""
        return request.until == inf and self.now - request.since > 1.25 * self.pace.patience_now

    def has_outlived(self, request: Request) -> bool:
        if request.until != inf:
            return self.now > request.until
        return self.pace.patience_now == inf or self.is_patient(request)

    @invariant()
    def same(self) -> None:
        assert list(self.queue) == self.line + self.aside
        assert len(self.queue) == self.queue.count == len(self.line) + len(self.aside)


class PaceOfAServer(Machine):
    """The pace: quantiles of lists. What it says may be as old as the third observation before the newest."""

    def __init__(self) -> None:
        super().__init__()
        self.pace = Pace()
        self.now = 0.0
        # The observations of each kind: (time, seconds), none after a pause of five seconds.
        self.seen: dict[Any, list[tuple[float, float]]] = {}
        self.part_left = 0.0

    def add(self, kind: object, seconds: float) -> None:
        seen = self.seen.setdefault(kind, [])
        if seen and self.now - seen[-1][0] > 5.0:
            seen.clear()
        seen.append((self.now, seconds))

    def quantiles(self, kind: object, part: float) -> set[float | None]:
        """What a quantile may be now."""
        seen = self.seen.get(kind)
        if not seen or self.now - seen[-1][0] > 5.0:
            return {None}
        newest = [seconds for _, seconds in seen]
        recent = [newest[: len(newest) - back][-31:] for back in range(min(4, len(newest)))]
        return {sorted(kept)[int(len(kept) * part)] for kept in recent}

    @rule(
        seconds=st.sampled_from([0.0, 0.25, 1.0, 3.0]),
        limit=st.sampled_from([inf, 0.5, 0.5625, 4.0]),
        is_late=st.booleans(),
        times=st.sampled_from([1, 1, 5, 40]),
    )
    def work(self, seconds: float, limit: float, is_late: bool, times: int) -> None:
        magnitude = None if limit == inf else round(2 * log2(limit))
        for _ in range(times):
            (self.pace.drained if is_late else self.pace.worked)(seconds, self.now, magnitude)
            self.add("all", seconds)
            self.add(magnitude, seconds)
            self.part_left *= 1.0 if is_late else 31 / 32

    @rule(seconds=st.sampled_from([0.25, 1.0, 3.0]), times=st.sampled_from([1, 2, 8]))
    def give_up(self, seconds: float, times: int) -> None:
        for _ in range(times):
            self.pace.left(seconds, self.now)
            self.add("patience", seconds)
            self.part_left += (1 - self.part_left) / 32

    @rule(seconds=st.sampled_from([0.25, 1.0]))
    def connect(self, seconds: float) -> None:
        self.pace.connected(seconds, self.now)
        self.add("connecting", seconds)

    @rule(seconds=st.sampled_from([0.5, 5.0, 5.5]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def same(self) -> None:
        for magnitude in (None, -2, 4):
            needs = {1.1 * (usual or 0.0) for usual in self.quantiles(magnitude, 0.75)}
            assert self.pace.needed(self.now, magnitude) in needs
        if abs(self.part_left - 0.05) > 1e-9:
            patience = {usual or inf for usual in self.quantiles("patience", 0.25)} if self.part_left > 0.05 else {inf}
            assert self.pace.patience(self.now) in patience
        handshakes = {usual or 0.0 for usual in self.quantiles("connecting", 0.5)}
        usual = self.quantiles("all", 0.9)
        overdue = {0.1} if None in usual else {2 * (each or 0.0) + more for each in usual for more in handshakes}
        assert self.pace.overdue_after(self.now) in overdue
        seen = self.seen.get("all", [])
        kept = [seconds for _, seconds in seen[-31:]] if seen and self.now - seen[-1][0] <= 5.0 else []
        assert self.pace.mean(self.now) == (sum(kept) / len(kept) if kept else 0.0)


@pytest.mark.parametrize("machine", [Fifo, Priority, Standing])
def test_no_wake_up_is_lost_and_nobody_overtakes(machine: type[Fifo]) -> None:
    run(machine)


def test_who_has_too_little_time_steps_aside() -> None:
    run(Usual)


def test_the_pace_is_that_of_lists() -> None:
    run(PaceOfAServer)


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "bug"), cases(Fifo, Priority, Standing, Usual, PaceOfAServer))
def test_planted_bugs_are_found(machine: type[Machine], bug: Bug) -> None:
    find(machine, bug)
