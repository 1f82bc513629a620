"""Circuit breakers, the gates of servers and adaptive limits beside models, in any sequence of events."""

from __future__ import annotations

from math import inf, sqrt
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from motorlite._admission.circuit_breaker import Breaker, Change, Outcome, Visit
from motorlite._admission.concurrency_limit import AdaptiveLimit
from motorlite._admission.gate import Gate, Gates
from motorlite.overload import BreakerState, CircuitBreaker, ConcurrencyLimit
from tests.support.machine_bugs import cases, find
from tests.support.sequences import Machine, run

if TYPE_CHECKING:
    from tests.support.planting import Bug

CLOSED, OPEN, HALF_OPEN = BreakerState
SUCCESS, FAILURE, NEUTRAL = Outcome
# Exact in binary, so that the model's sums are the breaker's.
PAUSES: Final = st.sampled_from([0.125, 0.5, 1.0, 1.875, 2.0, 9.0])


class Attempt:
    """An attempt that the model let pass."""

    def __init__(self, visit: Visit, period: int, *, is_probe: bool) -> None:
        self.visit = visit
        self.period = period
        self.is_probe = is_probe


class OneBreaker(Machine):
    """The breaker as its documentation has it: lists of attempts, and the time of each."""

    WINDOW, OPEN_FOR, LEAST = 10.0, 2.0, 3

    @initialize(probes=st.integers(1, 3), gates=st.booleans(), rate=st.sampled_from([0.5, 1.0]))
    def make(self, probes: int, gates: bool, rate: float) -> None:
        self.settings = CircuitBreaker(
            failure_rate=rate,
            min_operations=self.LEAST,
            window=self.WINDOW,
            open_for=self.OPEN_FOR,
            probes=probes,
            gates_first_attempts=gates,
        )
        self.breaker = Breaker(self.settings)
        self.now = 0.0
        self.state = CLOSED
        # How often the state changed.
        self.period = 0
        self.since = 0.0
        # The outcomes since the state changed: (time, whether it is a failure). Half-open: the successes.
        self.outcomes: list[tuple[float, bool]] = []
        self.newest_probe: float | None = None
        self.running: list[Attempt] = []
        self.opened = self.refused = 0

    # --- the model ---

    def become(self, state: BreakerState) -> None:
        self.state, self.period, self.since = state, self.period + 1, self.now
        self.outcomes, self.newest_probe = [], None
        self.opened += state is OPEN

    def counted(self) -> list[bool]:
        """The outcomes in the window, which consists of the current tenth and the nine before."""
        tenth = self.WINDOW / 10
        return [failed for at, failed in self.outcomes if self.now // tenth - at // tenth < 10]

    def has_place(self) -> bool:
        under_way = sum(one.is_probe and one.period == self.period for one in self.running)
        is_stuck = self.newest_probe is None or self.now - self.newest_probe >= self.OPEN_FOR
        return under_way < self.settings.probes or is_stuck

    @property
    def may_probe(self) -> bool:
        if self.state is OPEN:
            return self.now - self.since >= self.OPEN_FOR
        return self.state is HALF_OPEN and self.has_place()

    def advice(self) -> float:
        if self.state is OPEN:
            return max(0.0, self.since + self.OPEN_FOR - self.now)
        return 1.0 if self.state is HALF_OPEN else 0.0

    # --- what happens ---

    @rule(is_retry=st.booleans(), is_admitted=st.sampled_from([False, False, True]))
    def enter(self, is_retry: bool, is_admitted: bool) -> None:
        visit, change = self.breaker.enter(self.now, is_retry=is_retry, is_admitted=is_admitted)
        is_due = self.state is OPEN and self.may_probe
        if is_due:
            self.become(HALF_OPEN)
        assert change == (Change(HALF_OPEN, 0, 0, 0.0) if is_due else None)
        if self.may_probe:
            self.newest_probe = self.now
            assert visit is not None
            assert visit.is_probe
        elif self.state is CLOSED or is_admitted or not (is_retry or self.settings.gates_first_attempts):
            assert visit is not None
            assert not visit.is_probe
        else:
            self.refused += 1
            assert visit is None
        if visit is not None:
            self.running.append(Attempt(visit, self.period, is_probe=visit.is_probe))

    @rule(outcome=st.sampled_from([SUCCESS, FAILURE]), number=st.integers(1, 4))
    def attempt(self, outcome: Outcome, number: int) -> None:
        for _ in range(number):
            before = len(self.running)
            self.enter(is_retry=False, is_admitted=False)
            if len(self.running) > before:
                self.end(self.running[-1], outcome)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), outcome=st.sampled_from(Outcome))
    def leave(self, data: st.DataObject, outcome: Outcome) -> None:
        self.end(data.draw(st.sampled_from(self.running)), outcome)

    def end(self, attempt: Attempt, outcome: Outcome) -> None:
        self.running.remove(attempt)
        change = self.breaker.leave(attempt.visit, outcome, self.now)
        expected = None
        if attempt.period == self.period and outcome is not NEUTRAL:
            expected = self.learn(attempt, outcome)
        assert change == expected

    def learn(self, attempt: Attempt, outcome: Outcome) -> Change | None:
        if self.state is CLOSED:
            self.outcomes.append((self.now, outcome is FAILURE))
            counted = self.counted()
            is_enough = len(counted) >= self.LEAST and sum(counted) / len(counted) >= self.settings.failure_rate
            if outcome is SUCCESS or not is_enough:
                return None
            self.become(OPEN)
            return Change(OPEN, len(counted), sum(counted), self.OPEN_FOR)
        if not attempt.is_probe:
            return None
        self.outcomes.append((self.now, outcome is FAILURE))
        proved = sum(not failed for _, failed in self.outcomes)
        if outcome is FAILURE:
            self.become(OPEN)
            return Change(OPEN, proved + 1, 1, self.OPEN_FOR)
        if proved < self.settings.probes:
            return None
        self.become(CLOSED)
        return Change(CLOSED, proved, 0, 0.0)

    @rule(seconds=PAUSES)
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def same(self) -> None:
        breaker, counted = self.breaker, self.counted() if self.state is CLOSED else []
        assert breaker.state is self.state
        assert breaker.counts(self.now) == (len(counted), sum(counted))
        assert (breaker.opened, breaker.refused) == (self.opened, self.refused)
        assert breaker.retry_after(self.now) == self.advice()
        assert breaker.avoids(self.now) is (self.state is not CLOSED and not self.may_probe)


class ManyGates(Machine):
    """Servers that come, fail, go and return, with operations that outlive their server's membership."""

    @initialize(has_limit=st.booleans())
    def make(self, has_limit: bool) -> None:
        # One failure opens a breaker, one second later one success closes it.
        breaker = CircuitBreaker(min_operations=1, failure_rate=1.0, open_for=1.0)
        self.has_limit = has_limit
        self.changes: list[tuple[Any, BreakerState]] = []
        limit = ConcurrencyLimit() if has_limit else None
        self.gates = Gates(breaker, limit, lambda address, change: self.changes.append((address, change.state)))
        self.now = 0.0
        self.members: dict[Any, Gate] = {}
        # Gates of servers that left, and have returned meanwhile.
        self.departing: list[Gate] = []
        # Of every gate that ever was: its state, when it changed, and its visits. Operations waiting at it.
        self.states: dict[Gate, BreakerState] = {}
        self.since: dict[Gate, float] = {}
        self.visits: list[tuple[Gate, Visit, int]] = []
        self.periods: dict[Gate, int] = {}
        self.refused: dict[Gate, int] = {}
        self.waiting: dict[Gate, int] = {}
        self.expected: list[tuple[Any, BreakerState]] = []

    def become(self, gate: Gate, state: BreakerState) -> None:
        self.states[gate], self.since[gate] = state, self.now
        self.periods[gate] += 1
        if self.members.get(gate.address) is gate:  # one that has left concerns nothing any more
            self.expected.append((gate.address, state))

    @rule(address=st.sampled_from([("a", 1), ("b", 1)]))
    def join(self, address: Any) -> None:
        if address in self.members:  # the server returns before its last operations have left
            self.departing.append(self.members[address])
        gate = self.gates.make(address)
        assert gate is not None
        assert (gate.limit is not None) is self.has_limit
        gate.refuse_waiting = lambda retry_after: self.refuse(gate, retry_after)
        self.members[address] = gate
        self.states[gate], self.since[gate], self.periods[gate], self.refused[gate] = CLOSED, self.now, 0, 0
        self.waiting[gate] = 0

    def refuse(self, gate: Gate, retry_after: float) -> int:
        assert retry_after == 1.0
        number, self.waiting[gate] = self.waiting[gate], 0
        self.refused[gate] += number
        return number

    @precondition(lambda self: self.members or self.departing)
    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        gate = data.draw(st.sampled_from([*self.members.values(), *self.departing]))
        if gate in self.departing:
            self.departing.remove(gate)
        else:
            del self.members[gate.address]
        gate.gone()

    @precondition(lambda self: self.states)
    @rule(data=st.data())
    def enter(self, data: st.DataObject) -> None:
        gate = data.draw(st.sampled_from(list(self.states)))
        assert gate.breaker is not None
        visit = gate.enter(gate.breaker, self.now, is_retry=False)
        state = self.states[gate]
        is_due = state is OPEN and self.now - self.since[gate] >= 1.0
        if is_due:
            self.become(gate, HALF_OPEN)
        if visit is None:
            assert state is not CLOSED
            assert not is_due
            self.refused[gate] += 1
        else:
            self.visits.append((gate, visit, self.periods[gate]))

    @precondition(lambda self: self.states)
    @rule(data=st.data())
    def queue(self, data: st.DataObject) -> None:
        """An operation that the breaker would stop waits for a connection."""
        gate = data.draw(st.sampled_from(list(self.states)))
        assert gate.stops(is_retry=False, is_admitted=False)
        assert not gate.stops(is_retry=True, is_admitted=True)
        advice = gate.refuse_now(self.now)
        assert (advice is None) is (self.states[gate] is not OPEN)
        if advice is None:
            self.waiting[gate] += 1
        else:
            self.refused[gate] += 1
            assert advice == max(0.0, self.since[gate] + 1.0 - self.now)

    @precondition(lambda self: self.visits)
    @rule(data=st.data(), outcome=st.sampled_from(Outcome))
    def leave(self, data: st.DataObject, outcome: Outcome) -> None:
        gate, visit, period = data.draw(st.sampled_from(self.visits))
        self.visits.remove((gate, visit, period))
        state = self.states[gate]
        if period == self.periods[gate]:
            if outcome is FAILURE and state in (CLOSED, HALF_OPEN):
                # A success in the window keeps it closed.
                if state is HALF_OPEN or not self.has_succeeded(gate):
                    self.become(gate, OPEN)
            elif outcome is SUCCESS and state is HALF_OPEN:
                self.become(gate, CLOSED)
        gate.leave(visit, outcome, self.now)

    def has_succeeded(self, gate: Gate) -> bool:
        assert gate.breaker is not None
        operations, failures = gate.breaker.counts(self.now)
        return operations > failures

    @rule(seconds=PAUSES)
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def same(self) -> None:
        broken = {address: gate for address, gate in self.members.items() if self.states[gate] is not CLOSED}
        assert self.gates.broken == {address: gate.breaker for address, gate in broken.items()}
        assert self.changes == self.expected
        for gate, state in self.states.items():
            assert gate.breaker is not None
            assert gate.breaker.state is state
            assert gate.breaker.refused == self.refused[gate]
            assert not (state is OPEN and self.waiting[gate]), "nothing waits at an open breaker"
        avoided = self.gates.avoided(self.now)
        assert set(avoided) <= set(broken)
        due = {each for each, gate in broken.items() if self.states[gate] is OPEN and self.now - self.since[gate] >= 1}
        assert not due & set(avoided), "without traffic it would never be probed"


class Limit(Machine):
    """The limit as the theory of operation computes it, from lists of durations."""

    @initialize(initial=st.integers(1, 30), minimum=st.integers(1, 5))
    def make(self, initial: int, minimum: int) -> None:
        self.settings = ConcurrencyLimit(initial=max(initial, minimum), minimum=minimum, probe_interval=5.0)
        self.limit = AdaptiveLimit(self.settings)
        self.now = 0.0
        self.exact = float(self.settings.initial)
        self.current = self.settings.initial
        self.base: float | None = None
        self.group: list[float] = []
        self.most_at_once = 0
        self.changed_at = -inf
        self.is_probing = False
        self.probe_at: float | None = None
        self.cut_until = 0.0
        self.awaiting: set[int] = set()

    @rule(
        seconds=st.sampled_from([0.0, 0.0625, 0.125, 0.25, 1.0, 4.0]),
        load=st.sampled_from([0.5, 1.0, 1.0, 1.0]),
        number=st.sampled_from([1, 30, 70]),
        pause=st.sampled_from([0.0, 0.03125]),
    )
    def succeed(self, seconds: float, load: float, number: int, pause: float) -> None:
        """Operations end one after the other while `load` of the permitted number are running."""
        for _ in range(number):
            self.now += pause
            at_once = max(1, int(load * self.current)) + len(self.awaiting)
            self.limit.succeeded(seconds, at_once, self.now)
            if self.probe_at is None:
                self.probe_at = self.now + 5.0
            if self.now - seconds < self.changed_at:
                continue  # began before the limit changed
            self.group.append(seconds)
            self.most_at_once = max(self.most_at_once, at_once - len(self.awaiting))
            if len(self.group) >= max(50, min(200, 2 * self.current)):
                self.evaluate()
                self.group, self.most_at_once, self.changed_at = [], 0, self.now

    def evaluate(self) -> None:
        middle, is_used_up, minimum = median(self.group), self.most_at_once >= self.current, self.settings.minimum
        if self.is_probing:
            self.is_probing = False
            self.base = middle if self.base is None else (self.base + middle) / 2
            self.probe_at = self.now + 5.0
            self.current = int(self.exact)
            return
        if self.base is None:
            self.base = middle
        elif middle < self.base:
            self.base += (middle - self.base) * 0.1
        factor = min(1.0, 2.0 * self.base / middle) if middle else 1.0
        if factor < 1.0 or is_used_up:
            aim = self.exact * max(0.5, factor) + sqrt(self.exact)
            self.exact = max(float(minimum), self.exact + (aim - self.exact) * 0.3)
        self.current = int(self.exact)
        assert self.probe_at is not None
        if is_used_up and self.now >= self.probe_at and self.current > minimum:
            self.is_probing = True
            able = self.exact * min(1.0, self.base / middle) if middle else self.exact
            self.current = max(minimum, int(able / 2))

    @rule(seconds=st.sampled_from([0.125, 1.0]))
    def fail(self, seconds: float) -> None:
        self.limit.failed(seconds, self.now)
        if self.now >= self.cut_until:
            self.cut_until = self.now + (seconds if self.base is None else self.base)
            self.exact = max(float(self.settings.minimum), self.exact * 0.9)
            self.current = min(self.current, int(self.exact)) if self.is_probing else int(self.exact)

    @rule(operation=st.integers(0, 3), begins=st.booleans())
    def wait_for_data(self, operation: int, begins: bool) -> None:
        (self.limit.awaits_data if begins else self.limit.awaits_no_longer)(operation)
        (self.awaiting.add if begins else self.awaiting.discard)(operation)

    @rule(seconds=PAUSES)
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def same(self) -> None:
        assert self.limit.base == self.base
        assert self.limit.own == self.current >= self.settings.minimum
        assert self.limit.value == self.current + len(self.awaiting)


def test_a_breaker_is_its_model() -> None:
    run(OneBreaker)


def test_gates_follow_their_servers() -> None:
    run(ManyGates)


def test_a_limit_is_what_its_theory_computes() -> None:
    run(Limit)


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "bug"), cases(OneBreaker, ManyGates, Limit))
def test_planted_bugs_are_found(machine: type[Machine], bug: Bug) -> None:
    find(machine, bug)
