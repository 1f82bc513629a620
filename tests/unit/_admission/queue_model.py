"""A pool with a configured wait queue, driven at random in virtual time and held against a simple model of the queue.

``python -m tests.unit._admission.queue_model [STEPS]`` makes a million steps for each configuration.
"""

from __future__ import annotations

import random
import sys
import time
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, Final, cast

from motorlite._admission.concurrency_limit import AdaptiveLimit
from motorlite._admission.pool_queue import Request, Ticket
from motorlite._pool.state import Abandon, Close, Establish, PoolState
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
from tests.support.pool_state import ADDRESS, FakeConnection, pool_settings

if TYPE_CHECKING:
    from motorlite._admission.pool_queue import Establishment
    from motorlite._connection.connection import Connection

SIZE: Final = 5
CONFIGURATIONS: Final = {
    "fifo": WaitQueue("queue", 20, 0.5, memory_limit=8_000),
    "fifo, drop_oldest": WaitQueue("queue", 20, 0.5, overflow_strategy="drop_oldest"),
    "priority": WaitQueue("queue", 20, 0.5, "priority", 8_000),
    "priority, drop_oldest": WaitQueue("queue", 20, 0.5, "priority", overflow_strategy="drop_oldest"),
    "adaptive": WaitQueue("queue", 20, 0.5, "adaptive", 8_000),
    "adaptive, drop_oldest": WaitQueue("queue", 20, 0.5, "adaptive", overflow_strategy="drop_oldest"),
    "reject": WaitQueue("reject"),
    "fifo, limited": WaitQueue("queue", 20, 0.5, memory_limit=8_000),
    "priority, drop_oldest, limited": WaitQueue("queue", 20, 0.5, "priority", overflow_strategy="drop_oldest"),
    "reject, limited": WaitQueue("reject"),
}


class WatchedRequest(Request):
    """A request that remembers whether its own connection was being opened until it was served."""

    had_its_own = False

    def release(self) -> None:
        self.had_its_own = self.had_its_own or self.establishment is not None
        super().release()


class Caller:
    """An operation, and the waiter of its request."""

    def __init__(self, run: Run, number: int) -> None:
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


class Run:
    """One pool, its callers and the model."""

    def __init__(self, options: WaitQueue, seed: int, *, is_limited: bool = False) -> None:
        self.random = random.Random(seed)
        self.options = options
        self.model = Model(options)
        self.state = PoolState(ADDRESS, pool_settings(max_size=SIZE, max_connecting=2, wait_queue=options))
        self.state.ready()
        self.limit: AdaptiveLimit | None = None
        if is_limited:
            assert self.state.bounded is not None
            self.limit = AdaptiveLimit(ConcurrencyLimit(initial=3, minimum=1))
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
        self.outcomes: dict[str, int] = {}

    # --- what the pool does ---

    def offered(self, caller: Caller, value: object) -> None:
        self.count(type(value).__name__)
        if not isinstance(value, WaitQueueFullError) or caller is self.newcomer:
            self.join()
        if isinstance(value, FakeConnection):
            self.check_turn(caller)
            assert self.now < caller.request.ends_at
            assert self.now < caller.request.leaves_at or caller.request.had_its_own, "its time is up"
            self.in_use.append(value)
        elif isinstance(value, WaitQueueTimeoutError) and "does not drain" in str(value):
            oldest = sorted(self.model.callers, key=self.model.key)[: max(len(self.model.callers) - SIZE, 0)]
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
            self.model.callers.remove(caller)
        elif isinstance(value, AutoReconnect):
            self.model.callers.remove(caller)

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
            else:
                assert isinstance(effect, Close)

    def count(self, name: str) -> None:
        self.outcomes[name] = self.outcomes.get(name, 0) + 1

    # --- what happens to it ---

    def ask(self) -> None:
        connection = cast("FakeConnection | None", self.state.take(self.now))
        if connection is not None:
            assert not self.model.callers
            self.in_use.append(connection)
            return
        choose = self.random.random
        caller = self.newcomer = Caller(self, next(self.numbers))
        request = caller.request = WatchedRequest(cast("Any", caller), self.now)
        # A tenth are retries.
        entered = self.now - choose() if choose() < 0.1 else self.now
        size = self.random.choice((0, 50, 300))
        until = self.now + 0.3 if choose() < 0.2 else inf
        bounded = self.state.bounded
        assert bounded is not None
        # A tenth continue what was admitted. A third of the others are stopped when the server's breaker opens.
        is_admitted = choose() < 0.1
        request.is_gated = not is_admitted and choose() < 0.3
        ticket = Ticket(entered, lambda: size, self.random.choice((0, 30, 50, 100)), 0, is_admitted=is_admitted)
        bounded.fill_in(request, ticket, until)
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

    def check_in(self) -> None:
        if self.in_use:
            connection = self.taken()
            connection.stream.is_closed = self.random.random() < 0.02
            if self.limit is not None and self.random.random() < 0.1:
                # It changes when an operation ends, before its connection is returned.
                self.limit.value = self.random.randint(1, SIZE)
            self.state.put(cast("Connection", connection), self.now)

    def put_back(self) -> None:
        """A caller is cancelled at the moment in which it got its connection."""
        if self.in_use:
            self.state.put_back(cast("Connection", self.taken()), self.now)

    def taken(self) -> FakeConnection:
        return self.in_use.pop(self.random.randrange(len(self.in_use)))

    def cancel(self) -> None:
        waiting = [caller for caller in self.model.callers if caller.waits]
        if waiting:
            caller = self.random.choice(waiting)
            caller.waits = False
            self.leaving.append(caller)

    def leave(self) -> None:
        if self.leaving:
            caller = self.leaving.pop(self.random.randrange(len(self.leaving)))
            if caller in self.model.callers:
                self.model.callers.remove(caller)
            self.state.give_up(caller.request, self.now)

    def establish(self) -> None:
        if self.under_way:
            establishment = self.under_way.pop(0)
            if self.random.random() < 0.1:
                self.state.failed(establishment, AutoReconnect("refused"))
                self.state.serve(self.now)
            else:
                self.state.established(establishment, cast("Connection", FakeConnection(establishment)), self.now)

    def pass_time(self) -> None:
        """Time passes; the timers of those whose time is up fire, but for a few that are late."""
        self.now += self.random.expovariate(20)
        for caller in list(self.model.callers):
            if caller.waits and caller.request.has_expired(self.now) and self.random.random() < 0.7:
                caller.waits = False
                self.count("timer")
                self.model.callers.remove(caller)
                self.state.expire(caller.request, self.now)
                self.state.serve(self.now)

    def open_breaker(self) -> None:
        if self.random.random() < 0.05:
            gated = [caller for caller in self.model.callers if caller.request.is_gated and not caller.waits]
            for caller in gated:  # cancelled, and taken out of the queue nevertheless
                self.model.callers.remove(caller)
            self.state.refuse_gated(5.0, self.now)
            assert not any(caller.request.is_gated for caller in self.model.callers)

    def clear(self) -> None:
        if self.random.random() < 0.01:
            self.state.clear(None)
            assert not self.model.callers or not any(caller.waits for caller in self.model.callers)
            self.model.callers.clear()
            self.perform()
            self.state.ready()

    # --- the test ---

    def step(self) -> None:
        (act,) = self.random.choices(ACTIONS, WEIGHTS)
        act(self)
        self.perform()
        self.check()

    def check(self) -> None:
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
            # No lost wake-up: whoever waits, waits for something that will happen.
            assert not state.idle or not state.may_use()
            if any(caller.request.establishment is None for caller in callers) and not self.is_used_up():
                assert state.total == SIZE or len(state.connecting) == 2
            assert self.options.memory_limit is None or self.queue_memory() == sum(
                caller.request.size for caller in callers
            )
        admitted = sum(caller.request.is_admitted for caller in callers)
        assert len(callers) <= SIZE + self.options.max_depth + admitted

    def is_used_up(self) -> bool:
        return self.limit is not None and len(self.in_use) + len(self.under_way) >= self.limit.value

    def queue_memory(self) -> int:
        assert self.state.bounded is not None
        return self.state.bounded.memory

    def end(self) -> None:
        """Everything that can happen happens; nobody may be left."""
        while self.leaving:
            self.leave()
        while self.in_use or self.under_way:
            self.check_in()
            self.establish()
            self.perform()
            self.check()
        assert not self.model.callers
        assert self.queue_memory() == 0


ACTIONS: Final = (
    Run.ask,
    Run.check_in,
    Run.put_back,
    Run.cancel,
    Run.leave,
    Run.establish,
    Run.pass_time,
    Run.open_breaker,
    Run.clear,
)
WEIGHTS: Final = (50, 28, 2, 4, 4, 6, 6, 1, 1)


def check(name: str, steps: int, seed: int = 1) -> dict[str, int]:
    """Make `steps` random steps; return how often callers got what."""
    run = Run(CONFIGURATIONS[name], seed, is_limited=name.endswith("limited"))
    for _ in range(steps):
        run.step()
    run.end()
    return run.outcomes


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    for name in CONFIGURATIONS:
        began = time.process_time()
        outcomes = check(name, steps)
        shown = ", ".join(f"{outcome} {number:,}" for outcome, number in sorted(outcomes.items()))
        print(f"{name}: {steps:,} steps in {time.process_time() - began:.0f} s of CPU: {shown}", flush=True)


if __name__ == "__main__":
    main()
