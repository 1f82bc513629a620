"""A rate limit and the line for its tokens beside a model, in any sequence of operations, timers and cancellations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from motorlite._admission.rate_limiter import RateBucket, Waiting
from motorlite.errors import AdmissionError
from motorlite.overload import RateLimit, WaitQueue
from tests.support.machine_bugs import cases, find
from tests.support.pool_state import FakeWaiter
from tests.support.sequences import Machine, run

if TYPE_CHECKING:
    from tests.support.planting import Bug

# Tokens per second. All times are exact in binary, so that the model's sums are those of the bucket.
RATE: Final = 4.0


class Operation:
    """An operation that waits, as the shell has it (`_execution.admission`)."""

    def __init__(self, waiting: Waiting, until: float, number: int) -> None:
        self.waiting = waiting
        self.until = until
        self.number = number
        self.wakes_at = until

    @property
    def is_awake(self) -> bool:
        turn: Any = self.waiting.turn
        return turn.answer is not None


class Rate(Machine):
    """The model: a number of tokens that grows with time, and a list of operations."""

    @initialize(
        burst=st.integers(1, 3),
        depth=st.integers(1, 4),
        ordering=st.sampled_from(["fifo", "priority"]),
        overflow=st.sampled_from(["drop_newest", "drop_oldest"]),
    )
    def make(self, burst: int, depth: int, ordering: Any, overflow: Any) -> None:
        self.queue = WaitQueue("queue", depth, 2.0, ordering, overflow_strategy=overflow)
        self.bucket = RateBucket("*", RateLimit(rate=RATE, burst=burst, strategy="queue", queue=self.queue))
        self.burst, self.tokens, self.now = burst, float(burst), 0.0
        self.waiting: list[Operation] = []
        self.arrived = 0

    # --- the model ---

    def pass_time(self, until: float) -> None:
        self.tokens = min(self.burst, self.tokens + RATE * (until - self.now))
        self.now = until

    def key(self, operation: Operation) -> tuple[float, int]:
        since, number = operation.waiting.since, operation.number
        if self.queue.ordering == "fifo":
            return since, number
        # A hundred priorities for half of the timeout.
        return since * 100 / (float(self.queue.timeout) / 2) - operation.waiting.priority, number

    def victim(self, newcomer: Operation) -> Operation | None:
        if self.queue.ordering == "fifo":
            return min(self.waiting, key=lambda each: (each.waiting.since, each.number))
        lowest = min(each.waiting.priority for each in self.waiting)
        if newcomer.waiting.priority < lowest:
            return None
        return min((each for each in self.waiting if each.waiting.priority == lowest), key=lambda each: each.number)

    def starts_at(self, newcomer: Operation, others: list[Operation]) -> float:
        """When the newcomer gets its token, if no other one comes."""
        ahead = sum(self.key(other) < self.key(newcomer) for other in others)
        return self.now + max(0.0, 1 - self.tokens) / RATE + ahead / RATE

    # --- what happens ---

    @rule(priority=st.sampled_from([0, 50, 100]), limit=st.sampled_from([0.25, 0.5, 0.75, 1.0, 5.0]))
    def arrive(self, priority: int, limit: float) -> None:
        now, bucket = self.now, self.bucket
        if not bucket.wait(now):
            assert self.tokens >= 1
            assert not self.waiting
            bucket.take(now)
            self.tokens -= 1
            return
        assert self.tokens < 1 or self.waiting
        until = min(now + float(self.queue.timeout), now + limit)
        self.arrived += 1
        newcomer = Operation(Waiting(now, FakeWaiter(), priority, 0), until, self.arrived)
        is_full = len(self.waiting) >= self.queue.max_depth
        victim = None
        if is_full and self.queue.overflow_strategy == "drop_oldest":
            victim = self.victim(newcomer)
        others = [each for each in self.waiting if each is not victim]
        is_admitted = self.starts_at(newcomer, others) <= until and not (is_full and victim is None)
        error = bucket.join(newcomer.waiting, until, now)
        assert (error is None) is is_admitted
        assert is_admitted or all(each.waiting.error is None for each in self.waiting), "dropped for nothing"
        if is_admitted:
            assert victim is None or isinstance(victim.waiting.error, AdmissionError)
            self.waiting.append(newcomer)
            newcomer.wakes_at = bucket.wakes_at(newcomer.waiting, until)
        self.settle()

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        operation = data.draw(st.sampled_from(self.waiting))
        self.waiting.remove(operation)
        self.bucket.quit(operation.waiting)
        self.settle()

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def cancel_with_token(self, data: st.DataObject) -> None:
        """The next token is there, and its operation is cancelled before it runs again."""
        due = self.now + max(0.0, 1 - self.tokens) / RATE
        first = min(self.waiting, key=self.key)
        self.run_until(due - 0.0625)
        if first not in self.waiting or due <= self.now:
            return
        self.pass_time(due)
        self.bucket.serve(due)
        if first.waiting.has_token:
            self.waiting.remove(first)
            self.bucket.give_back(due)
            self.bucket.quit(first.waiting)
        self.settle()

    @rule(times=st.sampled_from([1, 1, 2, 9]))
    def charge(self, times: int) -> None:
        """Admitted work takes tokens without asking."""
        for _ in range(times):
            self.bucket.charge(self.now)
            self.tokens = min(self.tokens, max(self.tokens - 1, -float(self.burst)))

    @rule()
    def give_back(self) -> None:
        """An operation did not start after all, because another limit refused it."""
        if self.tokens <= self.burst - 1:
            self.tokens += 1
            self.bucket.give_back(self.now)
            self.settle()

    @rule(seconds=st.sampled_from([0.0625, 0.25, 0.5, 2.0]), is_late=st.booleans())
    def wait(self, seconds: float, is_late: bool) -> None:
        if is_late:  # the loop was busy, and all timers fire at once
            self.pass_time(self.now + seconds)
            self.settle()
        else:
            self.run_until(self.now + seconds)

    def run_until(self, end: float) -> None:
        while self.waiting and (soonest := min(each.wakes_at for each in self.waiting)) <= end:
            self.pass_time(max(self.now, soonest))
            self.settle()
        self.pass_time(max(self.now, end))

    def settle(self) -> None:
        """Let the shell of every operation run that is awake or whose timer has fired."""
        self.collect()
        while ready := [each for each in self.waiting if each.is_awake or each.wakes_at <= self.now]:
            operation = ready[0]
            operation.waiting.turn = FakeWaiter()
            self.bucket.serve(self.now)
            self.collect()
            if operation in self.waiting:
                if self.now >= operation.until or self.bucket.due_at() > operation.until:
                    assert self.now + max(0.0, 1 - self.tokens) / RATE >= operation.until
                    self.waiting.remove(operation)
                    self.bucket.quit(operation.waiting)
                else:
                    operation.wakes_at = self.bucket.wakes_at(operation.waiting, operation.until)

    def collect(self) -> None:
        """Learn who has a token, or was refused for another one."""
        served = sorted((each for each in self.waiting if each.waiting.has_token), key=self.key)
        refused = [each for each in self.waiting if each.waiting.error is not None]
        for operation in served:
            assert operation is min(self.waiting, key=self.key), "another one was next"
            assert self.tokens >= 1, "a token from nowhere"
            self.tokens -= 1
            self.waiting.remove(operation)
        for operation in refused:
            self.waiting.remove(operation)
        for operation in (*served, *refused):
            self.bucket.quit(operation.waiting)

    @invariant()
    def same(self) -> None:
        assert self.bucket.tokens(self.now) == self.tokens
        assert list(self.bucket) == [each.waiting for each in sorted(self.waiting, key=self.key)]
        assert not (self.waiting and self.tokens >= 1), "a token lies idle"
        if self.waiting:
            assert len(self.waiting) <= self.queue.max_depth
            assert all(self.now < each.until for each in self.waiting)
            # Somebody wakes up for the next token.
            due = self.now + (1 - self.tokens) / RATE
            assert min(each.wakes_at for each in self.waiting) <= due or any(each.is_awake for each in self.waiting)


def test_no_token_is_lost_and_no_operation_waits_beside_one() -> None:
    run(Rate)


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "bug"), cases(Rate))
def test_planted_bugs_are_found(machine: type[Machine], bug: Bug) -> None:
    find(machine, bug)
