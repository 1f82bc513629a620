"""The decisions after failed attempts beside the tables of docs/retries.md, for operations that share a budget."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from motorlite._base.deadline import NO_DEADLINE, Deadline
from motorlite._operations.contract import Kind
from motorlite._retry.decision import Again, Raise, Retry, RetrySettings
from motorlite.retry import OverloadRetry, RetryBudget, RetryRefusal, RetryRule
from tests.support.machine_bugs import cases, find
from tests.support.operations import failed, network_error, other, overload, read, server_error, write
from tests.support.sequences import Machine, run

if TYPE_CHECKING:
    from motorlite._retry.failure import Failure
    from motorlite.errors import PyMongoError
    from tests.support.planting import Bug

POLICY, ORDINARY, ALWAYS = RetryRule.OVERLOAD_POLICY, RetryRule.SPECIFICATION, RetryRule.ALWAYS
OVERLOADED, RETRYABLE, UNWRITTEN = "SystemOverloadedError", "RetryableError", "NoWritesPerformed"
JITTER: Final = 0.5
# Seconds before each further ordinary retry, and before each one after a reauthentication; the last one repeats.
STEPS: Final = (0.001, 0.01, 0.05, 0.1, 0.5, 1.0)


class Cause(NamedTuple):
    """A kind of error: what makes it, and what the documentation says of it."""

    error: Any
    # Whether the ordinary rule retries reads and writes after it.
    is_ordinary: bool
    reached_server: bool = True

    @property
    def labels(self) -> frozenset[str]:
        return frozenset(self.error().error_labels)


def refused() -> PyMongoError:
    """A connection that could not be opened."""
    error = network_error(OVERLOADED, RETRYABLE)
    error.reached_server = False
    return error


CAUSES: Final = {
    "overloaded": Cause(overload, False),
    "overloaded, with a hint": Cause(lambda: overload(baseBackoffMS=50), False),
    "overloaded, a failover": Cause(lambda: server_error(91, OVERLOADED, RETRYABLE, "RetryableWriteError"), True),
    "overloaded for good": Cause(lambda: server_error(462, OVERLOADED), False),
    "overloaded for good, a failover": Cause(lambda: server_error(91, OVERLOADED, "RetryableWriteError"), True),
    "retryable": Cause(lambda: server_error(2, RETRYABLE), False),
    "retryable, a failover": Cause(lambda: server_error(10107, RETRYABLE, "RetryableWriteError"), True),
    "failover": Cause(lambda: server_error(10107, "RetryableWriteError"), True),
    "nothing written": Cause(lambda: server_error(10107, "RetryableWriteError", UNWRITTEN), True),
    "lost": Cause(network_error, True),
    "refused": Cause(refused, True, reached_server=False),
    "duplicate key": Cause(lambda: server_error(11000), False),
}


class Operation:
    """One operation, and what the documentation counts of it."""

    def __init__(self, settings: RetrySettings, kind: Kind, is_ordinary: bool, until: float | None, now: float) -> None:
        self.kind = kind
        self.is_ordinary = is_ordinary and kind is not Kind.COMMAND
        self.until = until
        deadline = NO_DEADLINE if until is None else Deadline(until, timeout=until - now)
        made: Any = {Kind.READ: read, Kind.WRITE: write, Kind.COMMAND: other}[kind]()
        self.retry = Retry(settings, made, deadline)
        self.by_rule = {POLICY: 0, ORDINARY: 0, ALWAYS: 0}
        self.newest: Again | None = None
        self.was_overloaded = False
        self.failures: list[tuple[Cause, Failure]] = []

    @property
    def retries(self) -> int:
        return self.by_rule[POLICY] + self.by_rule[ORDINARY]

    @property
    def is_credited(self) -> bool:
        """Whether the end of its newest attempt returns a token: a paid retry, or an ordinary one."""
        return self.newest is not None and (self.newest.is_paid or self.newest.rule is ORDINARY)

    def rules(self, cause: Cause, *, is_later: bool) -> list[RetryRule]:
        """The table "Which rule decides"; `is_later`: of the later revision, where one label alone permits nothing."""
        ordinary = [ORDINARY] if self.is_ordinary and cause.is_ordinary else []
        if OVERLOADED in cause.labels:
            return [POLICY] if RETRYABLE in cause.labels else ordinary if is_later else []
        return [POLICY, *ordinary] if RETRYABLE in cause.labels and not is_later else ordinary

    def has_attempts_left(self, rule_: RetryRule, limit: int) -> bool:
        if rule_ is POLICY or self.was_overloaded:
            return self.retries < limit
        if self.by_rule[POLICY] and self.retries >= limit:
            return False
        return self.until is not None or self.by_rule[ORDINARY] < 1

    def to_raise(self) -> Failure:
        """The newest error that reached a server and may have written something, or else the first."""
        for cause, failure in self.failures[::-1]:
            if cause.reached_server and (self.kind is Kind.READ or UNWRITTEN not in cause.labels):
                return failure
        return self.failures[0][1]


class Decisions(Machine):
    """A client's operations fail, are retried, cancelled and succeed."""

    @initialize(
        reads=st.sampled_from([True, True, False]),
        writes=st.sampled_from([True, True, False]),
        limit=st.sampled_from([0, 1, 2, 5]),
        tokens=st.sampled_from([None, 0, 1, 3, 3]),
        is_later=st.sampled_from([False, False, True]),
        retargets=st.booleans(),
    )
    def make(self, reads: bool, writes: bool, limit: int, tokens: int | None, is_later: bool, retargets: bool) -> None:
        policy = OverloadRetry.revision_2026_07() if is_later else OverloadRetry(max_retries=limit, retargets=retargets)
        self.is_later, self.limit, self.retargets = is_later, policy.max_retries, policy.retargets
        self.capacity = tokens or 0
        self.tokens = None if tokens is None else Fraction(tokens)
        self.bucket = None if tokens is None else RetryBudget(tokens)
        self.settings = RetrySettings(policy, self.bucket, lambda: JITTER, retry_reads=reads, retry_writes=writes)
        self.enabled = {Kind.READ: reads, Kind.WRITE: writes, Kind.COMMAND: reads and writes}
        self.now = 100.0
        self.operations: list[Operation] = []

    def deposit(self, amount: str) -> None:
        if self.tokens is not None:
            self.tokens = min(Fraction(self.capacity), self.tokens + Fraction(amount))

    @rule(
        kind=st.sampled_from(Kind),
        is_ordinary=st.sampled_from([True, True, False]),
        # Exact in binary, like all times, so that some deadlines are met exactly.
        limit=st.sampled_from([None, None, 0.125, 3.0]),
    )
    def begin(self, kind: Kind, is_ordinary: bool, limit: float | None) -> None:
        until = None if limit is None else self.now + limit
        self.operations.append(Operation(self.settings, kind, is_ordinary, until, self.now))

    @precondition(lambda self: self.operations)
    @rule(
        data=st.data(),
        names=st.lists(st.sampled_from([*sorted(CAUSES), "lost", "failover"]), min_size=1, max_size=4),
        is_sharded=st.booleans(),
        is_closing=st.sampled_from([False] * 7 + [True]),
    )
    def fail(self, data: st.DataObject, names: list[str], is_sharded: bool, is_closing: bool) -> None:
        """Attempts of an operation fail, one after the other, as long as it is retried."""
        operation = data.draw(st.sampled_from(self.operations))
        for name in names:
            if operation in self.operations:
                self.fail_once(operation, CAUSES[name], is_sharded, is_closing)

    def fail_once(self, operation: Operation, cause: Cause, is_sharded: bool, is_closing: bool) -> None:
        failure = failed(cause.error(), is_ordinary=operation.is_ordinary)
        is_overload = OVERLOADED in cause.labels
        rules = operation.rules(cause, is_later=self.is_later)
        may_repeat = ORDINARY in rules and operation.has_attempts_left(ORDINARY, self.limit)
        is_series = operation.newest is not None and operation.newest.rule is ORDINARY and may_repeat
        if operation.is_credited and not is_overload and not is_series:
            self.deposit("1")
        operation.failures.append((cause, failure))
        operation.was_overloaded |= is_overload
        expected = self.expect(operation, cause, rules, is_closing=is_closing)
        decision = operation.retry.after(failure, self.now, is_sharded=is_sharded, is_closing=is_closing)
        if isinstance(expected, tuple):
            assert isinstance(decision, Again)
            assert (decision.rule, decision.delay, decision.is_paid) == expected
            assert decision.deprioritize is (is_sharded or (is_overload and self.retargets))
            self.again(operation, decision)
        else:
            assert isinstance(decision, Raise)
            assert decision.refusal is expected
            assert decision.failure.error is operation.to_raise().error
            self.operations.remove(operation)

    def expect(
        self, operation: Operation, cause: Cause, rules: list[RetryRule], *, is_closing: bool
    ) -> tuple[RetryRule, float, bool] | RetryRefusal | None:
        """The retry, as (rule, delay, whether it takes a token), or why there is none: the first check that fails."""
        is_candidate = cause.is_ordinary or cause.labels & {OVERLOADED, RETRYABLE}
        if not rules:
            return RetryRefusal.NOT_RETRYABLE if operation.retries or is_candidate else None
        if not self.enabled[operation.kind]:
            return RetryRefusal.DISABLED
        left = [each for each in rules if operation.has_attempts_left(each, self.limit)]
        if not left:
            return RetryRefusal.ATTEMPTS
        for rule_ in left:
            delay = self.delay(operation, cause, rule_)
            if operation.until is not None and self.now + delay >= operation.until:
                return RetryRefusal.DEADLINE
            if is_closing:
                return RetryRefusal.CLOSED
            is_paid = self.tokens is not None and (rule_ is POLICY or operation.by_rule[ORDINARY] > 0)
            if not is_paid:
                return rule_, delay, False
            assert self.tokens is not None
            if self.tokens >= 1:
                self.tokens -= 1
                return rule_, delay, True
        return RetryRefusal.TOKENS

    def delay(self, operation: Operation, cause: Cause, rule_: RetryRule) -> float:
        if OVERLOADED in cause.labels:
            base = 0.05 if cause is CAUSES["overloaded, with a hint"] else 0.1
            return JITTER * min(10.0, base * 2.0 ** int(operation.retries + self.is_later))
        if rule_ is POLICY or not operation.by_rule[ORDINARY]:
            return 0.0
        return JITTER * STEPS[min(operation.by_rule[ORDINARY], len(STEPS)) - 1]

    def again(self, operation: Operation, decision: Again) -> None:
        operation.by_rule[decision.rule] += 1
        operation.newest = decision
        assert operation.retry.attempts == 1 + sum(operation.by_rule.values())

    @precondition(lambda self: self.operations)
    @rule(data=st.data(), key=st.integers(0, 3))
    def reauthenticate(self, data: st.DataObject, key: int) -> None:
        """The server asked to authenticate the connection again, and the driver did: a retry of every operation."""
        operation = data.draw(st.sampled_from(self.operations))
        cause = Cause(lambda: server_error(391), False)
        failure = failed(cause.error(), is_ordinary=operation.is_ordinary, reauthenticated=(("a", 1), key))
        if operation.is_credited:
            self.deposit("1")
        done = operation.by_rule[ALWAYS]
        delay = STEPS[min(done, len(STEPS) - 1)]
        decision = operation.retry.after(failure, self.now)
        if done < len(STEPS) and (operation.until is None or self.now + delay < operation.until):
            assert isinstance(decision, Again)
            assert (decision.rule, decision.delay, decision.is_paid) == (ALWAYS, delay, False)
            assert not decision.deprioritize
            assert operation.retry.has_reauthenticated((("a", 1), key))
            self.again(operation, decision)
            return
        assert isinstance(decision, Raise)
        assert decision.refusal is (RetryRefusal.ATTEMPTS if done == len(STEPS) else RetryRefusal.DEADLINE)
        if operation.failures:
            assert decision.failure.error is operation.to_raise().error
        self.operations.remove(operation)

    @precondition(lambda self: any(operation.newest for operation in self.operations))
    @rule(data=st.data())
    def succeed(self, data: st.DataObject) -> None:
        operation = data.draw(st.sampled_from([each for each in self.operations if each.newest]))
        self.deposit("1.1" if operation.is_credited else "0.1")
        operation.retry.succeeded()
        self.operations.remove(operation)

    @precondition(lambda self: any(operation.newest for operation in self.operations))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        """The caller leaves during the backoff: the retry was never sent."""
        operation = data.draw(st.sampled_from([each for each in self.operations if each.newest]))
        assert operation.newest is not None
        if operation.newest.is_paid:
            self.deposit("1")
        operation.retry.gave_up()
        assert operation.retry.attempts == sum(operation.by_rule.values())
        self.operations.remove(operation)

    @rule(seconds=st.sampled_from([0.0625, 0.125, 1.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def tokens_are_conserved(self) -> None:
        if self.bucket is not None:
            assert self.tokens is not None
            assert self.bucket.tokens == float(self.tokens)


def test_decisions_are_those_of_the_documentation() -> None:
    run(Decisions)


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "bug"), cases(Decisions))
def test_planted_bugs_are_found(machine: type[Machine], bug: Bug) -> None:
    find(machine, bug)
