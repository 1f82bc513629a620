"""The decision after a failed attempt, without a clock, a server or an event loop."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from motorlite._base.deadline import NO_DEADLINE, Deadline
from motorlite._operations.contract import Kind
from motorlite._retry.decision import Again, Ask, Raise, Retry, RetrySettings
from motorlite.errors import NetworkTimeout, PyMongoError, ServerSelectionTimeoutError
from motorlite.retry import OverloadRetry, RetryBudget, RetryReason, RetryRefusal, RetryRule
from tests.support.operations import failed, network_error, other, overload, read, server_error, unsent, write

if TYPE_CHECKING:
    from motorlite._operations.contract import Operation

NOW = 100.0
LATER = OverloadRetry.revision_2026_07()


class Case:
    """One operation's retries with settings of its own."""

    def __init__(
        self,
        operation: Operation[Any] | None = None,
        *,
        policy: OverloadRetry | None = None,
        tokens: float | None = 10,
        capacity: float = 1000,
        jitter: float = 1.0,
        reads: bool = True,
        writes: bool = True,
    ) -> None:
        self.bucket = None if tokens is None else RetryBudget(capacity)
        while self.bucket is not None and tokens is not None and self.bucket.tokens > tokens:
            self.bucket.take()
        self.jitters = 0
        self.jitter = jitter
        settings = RetrySettings(
            policy or OverloadRetry(), self.bucket, self.next_jitter, retry_reads=reads, retry_writes=writes
        )
        self.settings, self.operation = settings, operation or read()
        self.retry = Retry(settings, self.operation, NO_DEADLINE)

    def next_jitter(self) -> float:
        self.jitters += 1
        return self.jitter

    @property
    def tokens(self) -> float:
        assert self.bucket is not None
        return self.bucket.tokens

    def after(self, error: PyMongoError, deadline: Deadline = NO_DEADLINE, **arguments: Any) -> Again | Raise:
        ordinary = arguments.pop("ordinary", True)
        self.retry._deadline = deadline  # one deadline for each operation, but these tests try several
        decision = self.retry.after(failed(error, is_ordinary=ordinary), NOW, **arguments)
        assert not isinstance(decision, Ask)
        if isinstance(decision, Raise):
            # As the executor does.
            self.retry.newest.annotate()
            self.retry.describe(decision.failure.annotate())
        return decision

    def again(self, error: PyMongoError, deadline: Deadline = NO_DEADLINE, **arguments: Any) -> Again:
        decision = self.after(error, deadline, **arguments)
        assert isinstance(decision, Again), decision.refusal
        return decision

    def refused(self, error: PyMongoError, deadline: Deadline = NO_DEADLINE, **arguments: Any) -> RetryRefusal | None:
        decision = self.after(error, deadline, **arguments)
        assert isinstance(decision, Raise)
        return decision.refusal


def retryable() -> PyMongoError:
    return server_error(2, "RetryableError")


def host_unreachable() -> PyMongoError:
    return server_error(6, "RetryableWriteError")


def both() -> PyMongoError:
    """The label permits a retry, and so does the ordinary rule."""
    return server_error(6, "RetryableError", "RetryableWriteError")


# --- the reason of a refusal ---


@pytest.mark.parametrize(
    ("refusal", "settings", "arguments", "retries"),
    [
        (RetryRefusal.DISABLED, {"reads": False}, {}, 0),
        (RetryRefusal.ATTEMPTS, {"policy": OverloadRetry(max_retries=0)}, {}, 1),
        (RetryRefusal.DEADLINE, {}, {"deadline": Deadline(NOW)}, 0),
        (RetryRefusal.CLOSED, {}, {"is_closing": True}, 0),
    ],
)
def test_the_preferred_rule_is_the_one_that_was_refused(
    refusal: RetryRefusal, settings: dict[str, Any], arguments: dict[str, Any], retries: int
) -> None:
    case = Case(**settings)
    for _ in range(retries):
        case.again(both())
    decision = case.after(both(), **arguments)
    assert isinstance(decision, Raise)
    assert (decision.rule, decision.refusal) == (RetryRule.OVERLOAD_POLICY, refusal)


def test_only_writes_get_the_label_of_writes() -> None:
    for operation, expected in ((read(), False), (write(), True)):
        case = Case(operation)
        case.after(network_error())
        assert case.retry.newest.annotate().has_error_label("RetryableWriteError") is expected


# --- which options apply ---


@pytest.mark.parametrize(
    ("kind", "reads", "writes", "allowed"),
    [
        (Kind.READ, True, False, True),
        (Kind.READ, False, True, False),
        (Kind.WRITE, True, False, False),
        (Kind.WRITE, False, True, True),
        (Kind.COMMAND, True, True, True),
        (Kind.COMMAND, True, False, False),
        (Kind.COMMAND, False, True, False),
        (Kind.COMMAND, False, False, False),
    ],
)
def test_options(kind: Kind, reads: bool, writes: bool, allowed: bool) -> None:
    settings = RetrySettings(OverloadRetry(), None, lambda: 1.0, retry_reads=reads, retry_writes=writes)
    assert settings.allows(kind) is allowed
    operation = {Kind.READ: read, Kind.WRITE: write, Kind.COMMAND: other}[kind]()
    for error in (overload(), retryable()):
        case = Case(operation, reads=reads, writes=writes)
        decision = case.after(error)
        assert isinstance(decision, Again) is allowed
        assert decision.refusal is (None if allowed else RetryRefusal.DISABLED)
        assert case.tokens == (9 if allowed else 10)


# --- delays and tokens ---


@pytest.mark.parametrize("make", [read, write, other])
def test_five_overload_retries(make: Any) -> None:
    case = Case(make())
    for number, delay in enumerate([0.1, 0.2, 0.4, 0.8, 1.6]):
        decision = case.again(overload())
        assert (decision.reason, decision.delay, decision.deprioritize) == (RetryReason.OVERLOAD, delay, True)
        assert case.tokens == 9 - number
        assert case.retry.retries == number + 1
    assert case.refused(overload()) is RetryRefusal.ATTEMPTS
    assert case.tokens == 5
    # Jitter is asked for once for each delay, not for a retry that is not made.
    assert case.jitters == 5


@pytest.mark.parametrize("make", [read, write, other])
def test_five_retries_by_the_label_alone(make: Any) -> None:
    case = Case(make())
    for _ in range(5):
        decision = case.again(retryable())
        assert (decision.reason, decision.delay, decision.deprioritize) == (RetryReason.RETRYABLE_ERROR, 0, False)
        # Each failed retry brings back what it cost.
        assert case.tokens == 9
    assert case.refused(retryable()) is RetryRefusal.ATTEMPTS
    assert case.jitters == 0


@pytest.mark.parametrize("make", [read, write])
def test_one_ordinary_retry(make: Any) -> None:
    case = Case(make())
    decision = case.again(host_unreachable())
    assert (decision.delay, decision.deprioritize) == (0, False)
    assert case.tokens == 10
    assert case.refused(host_unreachable()) is RetryRefusal.ATTEMPTS
    assert case.tokens == 11


LADDER = [0.001, 0.01, 0.05, 0.1, 0.5, 1.0, 1.0, 1.0]
LIMITED = Deadline(NOW + 60, inf, 60)


@pytest.mark.parametrize("make", [read, write])
def test_further_ordinary_retries_back_off_and_take_a_token_each(make: Any) -> None:
    case = Case(make(), tokens=8)
    decision = case.again(host_unreachable(), LIMITED)
    assert (decision.rule, decision.delay, decision.is_paid) == (RetryRule.SPECIFICATION, 0, False)
    for number, delay in enumerate(LADDER, 1):
        decision = case.again(host_unreachable(), LIMITED)
        assert (decision.rule, decision.delay, decision.is_paid) == (RetryRule.SPECIFICATION, delay, True)
        # What failed before brings nothing back: the series would pay for itself.
        assert case.tokens == 8 - number
    error = host_unreachable()
    refused = case.after(error, LIMITED)
    assert (refused.rule, refused.refusal) == (RetryRule.SPECIFICATION, RetryRefusal.TOKENS)
    assert (error.attempts, error.timeout, case.tokens, case.jitters) == (10, False, 0, len(LADDER) + 1)


def test_twenty_tokens_are_twenty_two_attempts() -> None:
    case = Case(tokens=20, capacity=20)
    while isinstance(case.after(host_unreachable(), Deadline(inf, inf, inf, is_set=True)), Again):
        pass
    assert case.retry.attempts == 22


def test_operations_share_the_tokens_of_their_series() -> None:
    budget = RetryBudget(20)
    settings = RetrySettings(OverloadRetry(), budget, lambda: 1.0, retry_reads=True, retry_writes=True)
    running = [Retry(settings, read(), LIMITED) for _ in range(50)]
    attempts = 0
    while running:
        attempts += len(running)
        error = host_unreachable()
        running = [retry for retry in running if isinstance(retry.after(failed(error), NOW), Again)]
    assert (attempts, budget.tokens) == (50 + 50 + 20, 0)


def test_a_series_without_a_bucket_only_backs_off() -> None:
    case = Case(tokens=None)
    decisions = [case.again(host_unreachable(), LIMITED) for _ in range(100)]
    assert [decision.delay for decision in decisions[:9]] == [0, *LADDER]
    assert not any(decision.is_paid for decision in decisions)


def test_the_delays_of_a_series_are_jittered() -> None:
    case = Case(jitter=0.5)
    assert [case.again(host_unreachable(), LIMITED).delay for _ in range(4)] == [0, 0.0005, 0.005, 0.025]


@pytest.mark.parametrize(("left", "fits"), [(0.01, False), (0.0101, True)])
@pytest.mark.parametrize("is_scope", [False, True])
def test_a_delay_of_a_series_that_does_not_fit_ends_it(left: float, fits: bool, is_scope: bool) -> None:
    case = Case(tokens=5)
    for _ in range(2):
        case.again(host_unreachable(), LIMITED)
    error = host_unreachable()
    deadline = Deadline(NOW + 60, NOW + left, 60) if is_scope else Deadline(NOW + left, inf, 1)
    assert isinstance(case.after(error, deadline), Again) is fits
    assert case.tokens == (3 if fits else 4)
    if not fits:
        # Its time limit ended the operation ("Retryability"); that of a scope is not the driver's.
        assert (error.timeout, error.retry_refusal) == (not is_scope, "deadline")
        assert error.phase == (None if is_scope else "retry delay")


def test_a_series_that_succeeds_or_ends_otherwise_gets_its_newest_token_back() -> None:
    for outcome, tokens in ((None, 8.1 + 1), (server_error(), 9)):
        case = Case(tokens=10)
        for _ in range(3):
            case.again(host_unreachable(), LIMITED)
        assert case.tokens == 8
        if outcome is None:
            case.retry.succeeded()
        else:
            case.after(outcome, LIMITED)
        assert case.tokens == tokens


def test_a_paid_retry_of_a_series_that_is_not_made_returns_its_token() -> None:
    case = Case(tokens=10)
    for _ in range(2):
        case.again(host_unreachable(), LIMITED)
    case.retry.gave_up()
    assert case.tokens == 10


@pytest.mark.parametrize("deadline", [NO_DEADLINE, LIMITED])
def test_ordinary_retries_after_overload_are_a_series_too(deadline: Deadline) -> None:
    case = Case(tokens=10)
    assert case.again(overload(), deadline).delay == 0.1
    # The retry by the label returns its token, and the first ordinary retry is free.
    found = []
    for _ in range(4):
        decision = case.again(host_unreachable(), deadline)
        found.append((decision.delay, decision.is_paid, case.tokens))
    assert found == [(0, False, 10), (0.001, True, 9), (0.01, True, 8), (0.05, True, 7)]


def test_the_series_of_the_later_revision_keeps_the_longer_backoff() -> None:
    case = Case(write(), policy=replace(LATER, max_retries=5))
    error = server_error(6, "SystemOverloadedError", "RetryableWriteError")
    assert [case.again(error).delay for _ in range(3)] == [0.2, 0.4, 0.8]
    assert case.tokens == 8


def test_a_scope_is_no_deadline_in_that_respect() -> None:
    case = Case()
    deadline = Deadline(inf, NOW + 1)
    case.again(host_unreachable(), deadline)
    assert case.refused(host_unreachable(), deadline) is RetryRefusal.ATTEMPTS


@pytest.mark.parametrize("deadline", [NO_DEADLINE, Deadline(NOW + 60, inf, 60), Deadline(inf, NOW + 60)])
@pytest.mark.parametrize(
    "sequence",
    [
        "O" * 6,
        "OhOhOh",
        "Ohhhhh",
        "Orrrrr",
        "rrrrrr",
        "rrrrrO",
        "hOhhhh",
        "hOOOOO",
        "hrrrrr",
        "rhOOOO",
        "rrrrrh",
        "rrrrrb",
        "bbbbbb",
        "bbbbbh",
        "hbbbbr",
    ],
)
def test_five_retries_together_once_overload_or_a_label_was_among_them(deadline: Deadline, sequence: str) -> None:
    # O: overload, r: RetryableError alone, h: an ordinary error, b: an ordinary error with RetryableError.
    kinds = {"O": overload, "r": retryable, "h": host_unreachable, "b": both}
    case = Case(write())
    for kind in sequence[:-1]:
        case.again(kinds[kind](), deadline)
    assert case.refused(kinds[sequence[-1]](), deadline) is RetryRefusal.ATTEMPTS
    assert case.retry.retries == 5


def test_labels_do_not_lift_the_limit_of_ordinary_retries() -> None:
    case = Case()
    case.again(retryable())
    case.again(host_unreachable())
    case.again(retryable())
    assert case.refused(host_unreachable()) is RetryRefusal.ATTEMPTS


@pytest.mark.parametrize("first", [retryable, both])
def test_a_retry_by_the_label_ends_the_endless_retries_of_timeout_ms(first: Any) -> None:
    case = Case(write())
    deadline = Deadline(NOW + 60, inf, 60)
    case.again(first(), deadline)
    for _ in range(4):
        assert case.again(host_unreachable(), deadline).rule is RetryRule.SPECIFICATION
    assert case.refused(host_unreachable(), deadline) is RetryRefusal.ATTEMPTS
    assert case.retry.retries == 5


def test_one_label_retry_is_all_that_a_maximum_of_one_leaves() -> None:
    case = Case(policy=OverloadRetry(max_retries=1))
    case.again(retryable())
    assert case.refused(host_unreachable()) is RetryRefusal.ATTEMPTS


# --- the ordinary rule as the fallback of the label's ---


@pytest.mark.parametrize("make", [read, write])
@pytest.mark.parametrize(("retries", "tokens"), [(5, 0), (0, 10), (0, 0)])
def test_a_label_makes_no_error_less_retryable(make: Any, retries: int, tokens: float) -> None:
    for error in (host_unreachable(), both()):
        case = Case(make(), policy=OverloadRetry(max_retries=retries), tokens=tokens)
        before = case.tokens
        decision = case.again(error)
        assert (decision.rule, decision.delay, decision.deprioritize) == (RetryRule.SPECIFICATION, 0, False)
        assert case.tokens == before


def test_the_label_comes_first() -> None:
    case = Case()
    assert case.again(both()).rule is RetryRule.OVERLOAD_POLICY
    assert case.tokens == 9


@pytest.mark.parametrize("make", [read, write])
def test_the_fallback_has_the_limit_of_the_ordinary_rule(make: Any) -> None:
    case = Case(make(), policy=OverloadRetry(max_retries=0))
    case.again(both())
    assert case.refused(both()) is RetryRefusal.ATTEMPTS
    assert case.retry.retries == 1


def test_the_fallback_goes_on_until_the_deadline() -> None:
    case = Case(policy=OverloadRetry(max_retries=0), tokens=100)
    for _ in range(50):
        assert case.again(both(), LIMITED).rule is RetryRule.SPECIFICATION
    assert (case.retry.retries, case.tokens) == (50, 51)


def test_the_fallback_does_not_bring_the_cap() -> None:
    # No label has permitted a retry of this operation when the ordinary rule does.
    case = Case(tokens=0)
    deadline = Deadline(NOW + 1, inf, 1)
    case.again(both(), deadline)
    assert case.bucket is not None
    for _ in range(3):
        case.bucket.retry_succeeded()  # of other operations
    # Now there is a token, so the label permits the next one; from here on five are all.
    assert case.again(both(), deadline).rule is RetryRule.OVERLOAD_POLICY
    assert [case.again(host_unreachable(), deadline).rule for _ in range(3)] == [RetryRule.SPECIFICATION] * 3
    assert case.refused(host_unreachable(), deadline) is RetryRefusal.ATTEMPTS


def test_the_fallback_needs_the_ordinary_rule_to_apply() -> None:
    for operation, applies in ((other(), True), (write(), False)):
        case = Case(operation, tokens=0)
        decision = case.after(both(), ordinary=applies)
        assert (decision.rule, decision.refusal) == (RetryRule.OVERLOAD_POLICY, RetryRefusal.TOKENS)


def test_the_fallback_has_been_used_up_when_the_bucket_is_empty() -> None:
    # A deposit of one for the failed retry would refill the bucket; one of no capacity stays empty.
    case = Case(capacity=0)
    case.again(both())
    decision = case.after(both())
    assert (decision.rule, decision.refusal) == (RetryRule.OVERLOAD_POLICY, RetryRefusal.TOKENS)


@pytest.mark.parametrize("left", [0, -1])
def test_the_fallback_needs_time(left: float) -> None:
    case = Case(tokens=0)
    assert case.refused(both(), Deadline(NOW + left, inf, 1)) is RetryRefusal.DEADLINE


def test_an_option_switches_the_fallback_off_too() -> None:
    assert Case(reads=False).refused(both()) is RetryRefusal.DISABLED


@pytest.mark.parametrize("deadline", [NO_DEADLINE, Deadline(NOW + 60, inf, 60)])
@pytest.mark.parametrize(
    ("policy", "tokens", "refusal"),
    [
        (OverloadRetry(), 0, RetryRefusal.TOKENS),
        (OverloadRetry(max_retries=0), 10, RetryRefusal.ATTEMPTS),
    ],
)
def test_an_overload_error_has_no_fallback(
    policy: OverloadRetry, tokens: float, refusal: RetryRefusal, deadline: Deadline
) -> None:
    # Neither one that a server answered nor a connection that was refused.
    labels = ("SystemOverloadedError", "RetryableError", "RetryableWriteError")
    for make in (read, write):
        for error in (server_error(6, *labels), network_error(*labels)):
            case = Case(make(), policy=policy, tokens=tokens)
            assert case.refused(error, deadline) is refusal
            assert case.tokens == tokens


def test_more_ordinary_retries_than_the_limit_before_the_first_overload() -> None:
    case = Case()
    deadline = Deadline(NOW + 60, inf, 60)
    for _ in range(9):
        case.again(host_unreachable(), deadline)
    assert case.refused(overload(), deadline) is RetryRefusal.ATTEMPTS
    assert case.refused(host_unreachable(), deadline) is RetryRefusal.ATTEMPTS


def test_the_exponent_counts_all_retries() -> None:
    case = Case()
    case.again(host_unreachable())
    assert case.again(overload()).delay == 0.2
    assert case.again(retryable()).delay == 0
    assert case.again(overload(baseBackoffMS=10)).delay == 0.08


def test_jitter() -> None:
    case = Case(jitter=0.5)
    assert case.again(overload()).delay == 0.05


@pytest.mark.parametrize("retries", [0, 1, 2, 9])
def test_max_adaptive_retries(retries: int) -> None:
    case = Case(policy=OverloadRetry(max_retries=retries))
    for _ in range(retries):
        case.again(overload())
    assert case.refused(overload()) is RetryRefusal.ATTEMPTS
    # An ordinary retry of its own is not forbidden by zero.
    assert isinstance(Case(policy=OverloadRetry(max_retries=0)).after(host_unreachable()), Again)


def test_without_a_bucket() -> None:
    case = Case(tokens=None)
    for _ in range(5):
        case.again(overload())
    assert case.refused(server_error()) is RetryRefusal.NOT_RETRYABLE
    case.retry.succeeded()


# --- the bucket ---


@pytest.mark.parametrize("tokens", [10, 1000])
def test_a_retry_that_is_not_made_costs_nothing(tokens: float) -> None:
    case = Case(tokens=tokens)
    error = overload()
    case.again(error)
    decision = case.retry.gave_up()
    case.retry.describe(error)
    assert case.tokens == tokens
    assert (decision.failure.error, decision.refusal) == (error, None)
    assert (error.attempts, error.retry_reasons, error.retry_refusal) == (1, (), None)


def test_what_cost_nothing_brings_nothing_when_it_is_not_made() -> None:
    # By the later revision an ordinary retry may wait, and takes no token.
    case = Case(write(), policy=LATER)
    assert case.again(server_error(6, "SystemOverloadedError", "RetryableWriteError")).delay
    case.retry.gave_up()
    assert case.tokens == 10
    without = Case(tokens=None)
    without.again(overload())
    without.retry.gave_up()


def test_the_newest_retry_is_the_one_that_is_not_made() -> None:
    case = Case()
    case.again(host_unreachable())
    case.again(overload())
    case.retry.gave_up()
    error = case.retry.describe(overload())
    assert (error.attempts, error.retry_reasons) == (2, ("temporary failure",))


def test_success_of_a_retry() -> None:
    case = Case()
    case.again(overload())
    case.retry.succeeded()
    assert case.tokens == 10.1


@pytest.mark.parametrize(
    ("error", "tokens"),
    [
        (server_error(), 10),
        (network_error(), 10),
        (unsent(), 10),
        (retryable(), 9),  # one comes in, one goes out for the next retry
        (overload(), 8),
        (server_error(462, "SystemOverloadedError"), 9),
    ],
)
def test_what_a_failed_retry_brings(error: PyMongoError, tokens: float) -> None:
    case = Case(other())
    case.again(overload())
    case.after(error, ordinary=False)
    assert case.tokens == tokens


@pytest.mark.parametrize(
    ("error", "refusal"),
    [
        (server_error(), None),
        (network_error(), RetryRefusal.NOT_RETRYABLE),
        (unsent(), RetryRefusal.DEADLINE),
        (server_error(462, "SystemOverloadedError"), RetryRefusal.NOT_RETRYABLE),
    ],
)
def test_a_failed_first_attempt_brings_nothing(error: PyMongoError, refusal: RetryRefusal | None) -> None:
    case = Case(other())
    assert case.refused(error, ordinary=False) is refusal
    assert case.tokens == 10


@pytest.mark.parametrize("error", [overload(), retryable()])
def test_an_empty_bucket(error: PyMongoError) -> None:
    case = Case(tokens=0)
    assert case.refused(error) is RetryRefusal.TOKENS
    assert case.tokens == 0
    assert case.retry.retries == 0
    assert isinstance(case.after(host_unreachable()), Again), "an ordinary retry costs nothing"


# --- deadlines ---


@pytest.mark.parametrize(
    ("left", "fits"), [(0.05, False), (0.1, False), (0.100001, True), (0.2, True), (0, False), (-1, False)]
)
@pytest.mark.parametrize("is_scope", [False, True])
def test_a_delay_must_end_before_the_deadline(left: float, fits: bool, is_scope: bool) -> None:
    deadline = Deadline(inf, NOW + left) if is_scope else Deadline(NOW + left, inf, 1)
    case = Case()
    error = overload()
    decision = case.after(error, deadline)
    assert isinstance(decision, Again) is fits
    assert case.tokens == (9 if fits else 10)
    if not fits:
        assert decision.refusal is RetryRefusal.DEADLINE
        # The time of a scope is not the driver's: no phase.
        assert error.phase == (None if is_scope else "backoff" if left > 0 else "retry delay")


def test_the_earlier_of_deadline_and_scope() -> None:
    error = overload()
    assert Case().refused(error, Deadline(NOW + 5, NOW + 0.05, 5)) is RetryRefusal.DEADLINE
    assert error.phase is None
    assert Case().refused(error, Deadline(NOW + 0.05, NOW + 5, 5)) is RetryRefusal.DEADLINE
    assert error.phase == "backoff"


@pytest.mark.parametrize("make", [retryable, host_unreachable])
@pytest.mark.parametrize(("left", "fits"), [(0, False), (-1, False), (0.001, True)])
def test_without_a_delay_some_time_must_be_left(make: Any, left: float, fits: bool) -> None:
    for deadline, phase in ((Deadline(NOW + left, inf, 1), "retry delay"), (Deadline(inf, NOW + left), None)):
        error = make()
        assert isinstance(Case().after(error, deadline), Again) is fits
        # The time limit passed between two attempts. That of a scope is not the driver's.
        assert (error.phase, error.timeout) == ((None, False) if fits else (phase, phase is not None))


def test_a_deadline_that_has_passed_is_no_backoff_that_does_not_fit() -> None:
    error = overload()
    assert Case().refused(error, Deadline(NOW, inf, 1)) is RetryRefusal.DEADLINE
    assert (error.phase, error.timeout) == ("retry delay", True)


def test_the_phase_that_is_known_already_is_kept() -> None:
    for error in (network_error(), overload()):
        error.phase = "reply"
        assert Case().refused(error, Deadline(NOW, inf, 1)) is RetryRefusal.DEADLINE
        assert error.phase == "reply"


def test_the_phase_of_an_earlier_error_is_not_that_of_the_newest() -> None:
    case = Case()
    first = host_unreachable()
    first.phase = "reply"
    case.again(first)
    newest = overload()
    assert case.refused(newest, Deadline(NOW + 0.05, inf, 1)) is RetryRefusal.DEADLINE
    assert (first.phase, newest.phase) == ("reply", "backoff")


# --- the order of the checks ---


@pytest.mark.parametrize(
    ("error", "reads", "retries", "left", "tokens", "expected"),
    [
        (server_error(6), False, 0, 0, 0, RetryRefusal.NOT_RETRYABLE),
        (overload(), False, 0, 0, 0, RetryRefusal.DISABLED),
        (overload(), True, 0, 0, 0, RetryRefusal.ATTEMPTS),
        (overload(), True, 5, 0, 0, RetryRefusal.DEADLINE),
        (overload(), True, 5, 60, 0, RetryRefusal.TOKENS),
        (overload(), True, 5, 60, 1, None),
    ],
)
def test_order(
    error: PyMongoError, reads: bool, retries: int, left: float, tokens: float, expected: RetryRefusal | None
) -> None:
    case = Case(policy=OverloadRetry(max_retries=retries), reads=reads, tokens=tokens)
    decision = case.after(error, Deadline(NOW + left, inf, left), ordinary=False)
    assert decision.refusal is expected
    assert case.tokens == (0 if expected is None else tokens)
    assert case.jitters == (expected in (RetryRefusal.DEADLINE, RetryRefusal.TOKENS, None))


# --- servers to avoid ---


@pytest.mark.parametrize(
    ("error", "retargets", "is_sharded", "expected"),
    [
        (overload, True, False, True),
        (overload, False, False, False),
        (overload, False, True, True),
        (retryable, True, False, False),
        (retryable, True, True, True),
        (host_unreachable, True, False, False),
        (host_unreachable, False, True, True),
    ],
)
def test_deprioritize(error: Any, retargets: bool, is_sharded: bool, expected: bool) -> None:
    case = Case(policy=OverloadRetry(retargets=retargets))
    assert case.again(error(), is_sharded=is_sharded).deprioritize is expected


# --- the preset of the later revision ---


def test_later_revision() -> None:
    case = Case(policy=LATER, tokens=None)
    assert [case.again(overload()).delay for _ in range(2)] == [0.2, 0.4]
    assert case.refused(overload()) is RetryRefusal.ATTEMPTS
    assert Case(policy=LATER).refused(retryable()) is RetryRefusal.NOT_RETRYABLE
    assert Case(policy=LATER).refused(server_error(2, "SystemOverloadedError")) is RetryRefusal.NOT_RETRYABLE


def test_later_revision_delays_an_ordinary_retry_of_an_overloaded_server() -> None:
    case = Case(write(), policy=LATER)
    error = server_error(6, "SystemOverloadedError", "RetryableWriteError")
    decision = case.again(error)
    assert (decision.rule, decision.delay, decision.deprioritize) == (RetryRule.SPECIFICATION, 0.2, False)
    assert case.tokens == 10
    decision = case.again(error)
    # A second ordinary retry takes a token.
    assert (decision.delay, case.tokens) == (0.4, 9)
    assert case.refused(error) is RetryRefusal.ATTEMPTS


# --- what the error says ---


def test_the_error_tells_what_was_tried() -> None:
    case = Case(write())
    case.again(overload())
    case.again(host_unreachable())
    case.again(retryable())
    last = server_error()
    decision = case.after(last)
    assert isinstance(decision, Raise)
    assert decision.failure.error is last
    assert (decision.rule, decision.refusal) == (None, RetryRefusal.NOT_RETRYABLE)
    assert (decision.delay, decision.deprioritize) == (0, False)
    assert last.attempts == 4
    assert last.retry_reasons == ("overload", "temporary failure", "retryable error")
    assert last.retry_refusal == "not retryable"
    assert all(type(reason) is str for reason in last.retry_reasons)


def selection() -> PyMongoError:
    return unsent()


def socket_timeout() -> PyMongoError:
    return NetworkTimeout("no")


@pytest.mark.parametrize(
    ("first", "last", "settings", "deadline", "text"),
    [
        # The first attempt.
        (None, server_error, {}, NO_DEADLINE, "no"),
        (None, network_error, {"ordinary": False}, NO_DEADLINE, "closed"),
        (None, overload, {"tokens": 0}, NO_DEADLINE, "no (not retried: tokens)"),
        (None, overload, {"reads": False}, NO_DEADLINE, "no (not retried: disabled)"),
        (None, socket_timeout, {"reads": False}, NO_DEADLINE, "no (not retried: disabled)"),
        (None, selection, {"ordinary": False}, NO_DEADLINE, "none (time used up in phase: selection)"),
        (
            None,
            overload,
            {},
            Deadline(NOW + 0.1, inf, 1),
            "no (too little time left for the backoff; not retried: deadline)",
        ),
        (None, overload, {}, Deadline(inf, NOW + 0.1), "no (not retried: deadline)"),
        # A retry.
        (
            overload,
            server_error,
            {},
            NO_DEADLINE,
            "2 attempts, retried for: overload; not retried again: not retryable",
        ),
        (
            overload,
            overload,
            {"tokens": 1},
            NO_DEADLINE,
            "2 attempts, retried for: overload; not retried again: tokens",
        ),
        (
            host_unreachable,
            host_unreachable,
            {},
            NO_DEADLINE,
            "2 attempts, retried for: temporary failure; not retried again: attempts",
        ),
        (
            overload,
            selection,
            {"ordinary": False},
            NO_DEADLINE,
            "time used up in phase: selection; 2 attempts, retried for: overload; not retried again: deadline",
        ),
    ],
)
def test_texts(first: Any, last: Any, settings: dict[str, Any], deadline: Deadline, text: str) -> None:
    arguments = {"ordinary": settings.get("ordinary", True)}
    case = Case(**{name: value for name, value in settings.items() if name != "ordinary"})
    if first is not None:
        case.again(first())
        text = f"no ({text})"
    decision = case.after(last(), deadline, **arguments)
    assert isinstance(decision, Raise)
    # An OperationFailure adds what the server answered.
    assert str(decision.failure.error).partition(", full error")[0] == text


def test_an_earlier_error_tells_what_happened_to_the_retry() -> None:
    case = Case()
    first = overload()
    case.again(first)
    last = unsent()
    last.phase = "selection"
    decision = case.after(last)
    assert isinstance(decision, Raise)
    assert decision.failure.error is first
    assert (first.attempts, first.retry_reasons, first.phase) == (2, ("overload",), "selection")


def test_an_earlier_error_keeps_its_phase_when_the_newest_has_none() -> None:
    case = Case()
    first = overload()
    first.phase = "reply"
    case.again(first)
    decision = case.after(PyMongoError("before anything was sent"))
    assert isinstance(decision, Raise)
    assert first.phase == "reply"


def test_nothing_written_by_the_retry() -> None:
    for make, raised in ((read, 1), (write, 0), (other, 0)):
        errors = [overload(), server_error(2, "NoWritesPerformed")]
        case = Case(make())
        case.again(errors[0])
        decision = case.after(errors[1])
        assert isinstance(decision, Raise)
        assert decision.failure.error is errors[raised]


def test_few_failures_are_kept() -> None:
    # With timeoutMS there may be very many retries.
    case = Case(tokens=None)
    for _ in range(20):
        case.again(host_unreachable(), Deadline(NOW + 60))
    assert len(case.retry._failures) == 3


def test_an_error_in_a_reply_that_says_ok() -> None:
    case = Case()
    case.again(overload())
    case.retry.succeeded()
    error = server_error()
    case.retry.describe(error)
    assert (error.attempts, error.retry_reasons, error.retry_refusal) == (2, ("overload",), None)


@pytest.mark.parametrize("phase", ["selection", "queue", "connecting", "reply"])
@pytest.mark.parametrize("is_retry", [False, True])
def test_the_deadline_ended_what_was_out_of_time(phase: str, is_retry: bool) -> None:
    case = Case(other())
    if is_retry:
        case.again(overload())
    error = ServerSelectionTimeoutError("none")
    error.phase = phase
    decision = case.after(error, ordinary=False)
    assert isinstance(decision, Raise)
    assert (decision.rule, decision.refusal) == (None, RetryRefusal.DEADLINE)
    assert (decision.failure.error.attempts, decision.failure.error.retry_refusal) == (1 + is_retry, "deadline")


@pytest.mark.parametrize("make", [read, write, other])
@pytest.mark.parametrize("error", [server_error(26), server_error(11000), server_error(462), PyMongoError("x")])
def test_nothing_is_refused_where_no_rule_is_about_the_error(make: Any, error: PyMongoError) -> None:
    case = Case(make())
    decision = case.after(error)
    assert isinstance(decision, Raise)
    assert (decision.failure.error, decision.refusal) == (error, None)
    assert (error.attempts, error.retry_refusal) == (1, None)
    # After a retry it is the answer to the question why there is not another.
    case = Case(make())
    case.again(overload())
    assert case.refused(error) is RetryRefusal.NOT_RETRYABLE
