"""When the application's strategy is asked, and what follows its answer; without a clock or an event loop."""

from __future__ import annotations

from math import inf
from typing import Any, Literal

import pytest

from motorlite._base.deadline import NO_DEADLINE, Deadline
from motorlite._base.values import Progress
from motorlite._operations.contract import CallOptions, Kind, Operation
from motorlite._retry.decision import Again, Ask, ExpireAfter, Raise, Retry, RetrySettings, StrategyFault
from motorlite.errors import (
    AutoReconnect,
    ExecutionTimeout,
    PyMongoError,
    RetryStrategyError,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
)
from motorlite.retry import (
    BestEffort,
    FailFast,
    OverloadRetry,
    RetryAction,
    RetryBudget,
    RetryReason,
    RetryRefusal,
    RetryRequest,
    RetryRule,
    RetryStrategy,
    SpecificationRetry,
)
from tests.support.operations import (
    Other,
    Read,
    Write,
    failed,
    network_error,
    other,
    overload,
    read,
    server_error,
    unsent,
    write,
)

NOW = 100.0
AT_ONCE, LATER, NO_RETRY = RetryAction.with_duration(0), RetryAction.with_duration(2), RetryAction.no_retry()


class Strategy(RetryStrategy):
    """Asked by the tests themselves."""

    def __init__(self, budget: Literal["client"] | None = "client") -> None:
        self._budget = budget

    @property
    def budget(self) -> Literal["client"] | None:
        return self._budget

    def retry_after(self, request: RetryRequest, reason: RetryReason) -> RetryAction:
        raise AssertionError("the pure part asks nothing")


class IdempotentRead(Read):
    """As find declares it."""

    is_idempotent = True


class Case:
    """One operation with a strategy."""

    def __init__(
        self,
        operation: Operation[Any] | None = None,
        *,
        strategy: RetryStrategy | None = None,
        budget: RetryBudget | None = None,
        deadline: Deadline = NO_DEADLINE,
        reads: bool = True,
        writes: bool = True,
        context: dict[str, Any] | None = None,
        policy: OverloadRetry | None = None,
    ) -> None:
        self.bucket = budget
        self.operation = operation or IdempotentRead("db")
        settings = RetrySettings(
            policy or OverloadRetry(max_retries=1), budget, lambda: 0.5, retry_reads=reads, retry_writes=writes
        )
        options = CallOptions(retry_strategy=strategy or Strategy(), context=context or {})
        self.retry = Retry(settings, self.operation, deadline, options, NOW - 7)

    def after(self, error: PyMongoError, now: float = NOW, **facts: Any) -> Again | Raise | Ask:
        closing = facts.pop("is_closing", False)
        sharded = facts.pop("is_sharded", False)
        return self.retry.after(failed(error, **facts), now, is_closing=closing, is_sharded=sharded)

    def ask(self, error: PyMongoError, now: float = NOW, **facts: Any) -> Ask:
        decision = self.after(error, now, **facts)
        assert isinstance(decision, Ask), vars(type(decision))
        return decision

    def refused(self, error: PyMongoError, now: float = NOW, **facts: Any) -> RetryRefusal | None:
        decision = self.after(error, now, **facts)
        assert isinstance(decision, Raise)
        return decision.refusal

    def spent(self) -> Case:
        """After the one retry that the specification permits."""
        decision = self.after(server_error(6, "RetryableWriteError"))
        assert isinstance(decision, Again)
        assert decision.rule is RetryRule.SPECIFICATION
        return self


def code_6() -> PyMongoError:
    return server_error(6, "RetryableWriteError")


# --- who is asked about what ---


def test_the_specifications_decide_first() -> None:
    case = Case()
    decision = case.after(code_6())
    assert isinstance(decision, Again)
    assert decision.rule is RetryRule.SPECIFICATION
    assert isinstance(case.after(code_6()), Ask)


def test_the_default_is_not_asked() -> None:
    case = Case(strategy=SpecificationRetry()).spent()
    assert case.refused(code_6()) is RetryRefusal.ATTEMPTS


def test_a_subclass_of_the_default_is_asked() -> None:
    class Mine(SpecificationRetry):
        pass

    assert isinstance(Case(strategy=Mine()).spent().after(code_6()), Ask)


@pytest.mark.parametrize("error", [server_error(2), server_error(11000), server_error(50), PyMongoError("x")])
@pytest.mark.parametrize("make", [read, write, other])
def test_unknown_errors_are_never_retried(make: Any, error: PyMongoError) -> None:
    assert Case(make()).refused(error) is None


@pytest.mark.parametrize("make", [Read, Write, Other, IdempotentRead])
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (AutoReconnect("x"), RetryReason.SERVER_NOT_AVAILABLE),
        (WaitQueueTimeoutError("x"), RetryReason.CONNECTION_NOT_AVAILABLE),
        (ServerSelectionTimeoutError("x"), RetryReason.NO_SUITABLE_SERVER),
        (unsent(), RetryReason.NO_SUITABLE_SERVER),
    ],
)
def test_what_was_not_sent_may_always_be_retried(make: Any, error: PyMongoError, reason: RetryReason) -> None:
    ask = Case(make("db")).ask(error, is_ordinary=False)
    assert ask.reason is reason
    assert ask.request.idempotent is (make is IdempotentRead)


@pytest.mark.parametrize("error", [network_error(), server_error(91), server_error(6)])
@pytest.mark.parametrize(
    ("make", "is_ordinary", "is_asked"),
    [
        (IdempotentRead, False, True),
        (Write, True, True),  # with a txnNumber
        (Write, False, False),
        (Read, False, False),  # getMore
        (Other, False, False),
    ],
)
def test_what_may_have_happened_is_retried_if_that_changes_nothing(
    error: PyMongoError, make: Any, is_ordinary: bool, is_asked: bool
) -> None:
    case = Case(make("db"))
    decision = case.after(error, is_ordinary=is_ordinary)
    if isinstance(decision, Again):
        decision = case.after(error, is_ordinary=is_ordinary)
    assert isinstance(decision, Ask) is is_asked
    if isinstance(decision, Ask):
        assert decision.request.idempotent
    else:
        assert decision.refusal is RetryRefusal.NOT_RETRYABLE


@pytest.mark.parametrize("label", ["RetryableError"])
def test_what_the_server_declares_as_retryable_may_be_retried_by_anything(label: str) -> None:
    case = Case(other(), policy=OverloadRetry(max_retries=0))
    assert case.ask(server_error(2, label), is_ordinary=False).reason is RetryReason.RETRYABLE_ERROR
    assert case.ask(overload(), is_ordinary=False).reason is RetryReason.OVERLOAD


def test_overload_that_the_server_does_not_declare_as_retryable_is_final() -> None:
    for policy in (OverloadRetry(), OverloadRetry.revision_2026_07()):
        case = Case(other(), policy=policy)
        assert case.refused(server_error(462, "SystemOverloadedError")) is RetryRefusal.NOT_RETRYABLE


@pytest.mark.parametrize(
    ("kind", "reads", "writes", "is_asked"),
    [
        (Kind.READ, True, False, True),
        (Kind.READ, False, True, False),
        (Kind.WRITE, False, True, True),
        (Kind.WRITE, True, False, False),
        (Kind.COMMAND, True, True, True),
        (Kind.COMMAND, True, False, False),
        (Kind.COMMAND, False, True, False),
    ],
)
def test_no_strategy_goes_beyond_the_options(kind: Kind, reads: bool, writes: bool, is_asked: bool) -> None:
    operation = {Kind.READ: read, Kind.WRITE: write, Kind.COMMAND: other}[kind]()
    decision = Case(operation, reads=reads, writes=writes).after(WaitQueueTimeoutError("x"), is_ordinary=False)
    assert isinstance(decision, Ask) is is_asked


def test_nothing_is_asked_while_the_client_closes() -> None:
    assert Case().spent().refused(code_6(), is_closing=True) is RetryRefusal.ATTEMPTS


@pytest.mark.parametrize("deadline", [Deadline(NOW, inf, 1), Deadline(inf, NOW)])
def test_nothing_is_asked_when_the_time_is_over(deadline: Deadline) -> None:
    """It passed between two attempts, of which the strategy might have permitted the second."""
    error = WaitQueueTimeoutError("x")
    decision = Case(deadline=deadline).after(error)
    assert isinstance(decision, Raise)
    assert (decision.rule, decision.refusal) == (RetryRule.STRATEGY, RetryRefusal.DEADLINE)
    # The end of a cancel scope is no timeout of the driver.
    assert decision.failure.phase == ("retry delay" if deadline.expires_at == NOW else None)


class Held:
    """The connection of a cursor (a `Pin`)."""

    def __init__(self, *, is_usable: bool) -> None:
        self.is_usable = is_usable

    def release(self) -> None:
        raise AssertionError("only its owner releases it")


@pytest.mark.parametrize("is_usable", [False, True])
def test_nothing_is_asked_about_a_cursor_whose_connection_is_lost(is_usable: bool) -> None:
    """No other connection reaches it, so that every further attempt would fail at once."""
    operation = read()
    operation.pin = Held(is_usable=is_usable)
    assert isinstance(Case(operation).after(AutoReconnect("lost"), is_ordinary=False), Ask) is is_usable


# --- the overload policy and the strategy ---


def test_the_strategy_continues_where_the_policy_has_no_retries_left() -> None:
    case = Case(budget=RetryBudget(3))
    assert isinstance(case.after(overload()), Again)
    case.ask(overload())
    decision = case.retry.conclude(LATER, NOW)
    assert isinstance(decision, Again)
    assert (decision.rule, decision.delay, decision.is_paid) == (RetryRule.STRATEGY, 2, True)
    assert case.bucket is not None
    assert case.bucket.tokens == 1


def test_an_empty_bucket_is_final() -> None:
    budget = RetryBudget(0)
    case = Case(budget=budget, policy=OverloadRetry(max_retries=5))
    assert case.refused(overload()) is RetryRefusal.TOKENS
    # What has no attempts left is refused in the same way, after the strategy has spoken.
    case = Case(budget=budget, policy=OverloadRetry(max_retries=0))
    case.ask(overload())
    decision = case.retry.conclude(AT_ONCE, NOW)
    assert isinstance(decision, Raise)
    assert (decision.rule, decision.refusal) == (RetryRule.STRATEGY, RetryRefusal.TOKENS)


def test_a_strategy_without_a_budget_needs_no_token() -> None:
    case = Case(budget=RetryBudget(0), strategy=Strategy(budget=None), policy=OverloadRetry(max_retries=5))
    for _ in range(20):
        case.ask(overload())
        decision = case.retry.conclude(AT_ONCE, NOW)
        assert isinstance(decision, Again)
        assert not decision.is_paid
    assert case.bucket is not None
    assert case.bucket.tokens == 0


def test_only_errors_with_the_label_cost_a_token() -> None:
    case = Case(budget=RetryBudget(10)).spent()
    case.ask(code_6())
    decision = case.retry.conclude(AT_ONCE, NOW)
    assert isinstance(decision, Again)
    assert not decision.is_paid


def test_after_an_overload_error_every_retry_costs_a_token() -> None:
    """One that is not sent returns its token. A free one after it would reach the overloaded server."""
    budget = RetryBudget(2)
    case = Case(budget=budget, policy=OverloadRetry(max_retries=0))
    case.ask(overload())
    assert isinstance(case.retry.conclude(AT_ONCE, NOW), Again)
    assert budget.tokens == 1
    case.ask(WaitQueueTimeoutError("x"))
    assert budget.tokens == 2
    decision = case.retry.conclude(AT_ONCE, NOW)
    assert isinstance(decision, Again)
    assert decision.is_paid
    assert budget.tokens == 1
    case.ask(overload())
    assert isinstance(case.retry.conclude(AT_ONCE, NOW), Again)
    case.ask(overload())
    decision = case.retry.conclude(AT_ONCE, NOW)
    assert isinstance(decision, Raise)
    assert decision.refusal is RetryRefusal.TOKENS
    # Without a budget, none costs anything.
    case = Case(budget=budget, strategy=Strategy(budget=None), policy=OverloadRetry(max_retries=0))
    for error in (overload(), WaitQueueTimeoutError("x"), overload()):
        case.ask(error)
        assert isinstance(case.retry.conclude(AT_ONCE, NOW), Again)
    assert budget.tokens == 0


def test_a_backoff_of_the_policy_that_does_not_fit_is_final() -> None:
    case = Case(deadline=Deadline(NOW + 0.04, inf, 1), policy=OverloadRetry())
    assert case.refused(overload()) is RetryRefusal.DEADLINE


def test_retries_of_a_strategy_bring_no_more_tokens_than_they_took() -> None:
    budget = RetryBudget(10)
    for _ in range(5):
        budget.take()
    case = Case(budget=budget).spent()
    # The failed retry of the specification brings one (rule 3); those of the strategy, which are free, do not.
    for _ in range(20):
        case.ask(code_6())
        assert isinstance(case.retry.conclude(AT_ONCE, NOW), Again)
        assert budget.tokens == 6
    case.retry.succeeded()
    assert budget.tokens == 6.1


def test_a_paid_retry_of_a_strategy_brings_its_token_back() -> None:
    budget = RetryBudget(10)
    for _ in range(5):
        budget.take()
    case = Case(budget=budget, policy=OverloadRetry(max_retries=0))
    case.ask(overload())
    case.retry.conclude(AT_ONCE, NOW)
    assert budget.tokens == 4
    case.retry.succeeded()
    assert budget.tokens == 5.1


def test_a_paid_retry_that_is_not_made_returns_its_token() -> None:
    budget = RetryBudget(10, per_server=3)
    case = Case(budget=budget, policy=OverloadRetry(max_retries=0))
    case.ask(overload(), address=("a", 1))
    case.retry.conclude(AT_ONCE, NOW)
    assert (budget.tokens, budget.tokens_for(("a", 1))) == (9, 2)
    case.retry.gave_up()
    assert budget.is_full


# --- what the strategy sees ---


def test_the_request() -> None:
    case = Case(deadline=Deadline(NOW + 60, NOW + 20, 60), context={"isRobotRequest": True})
    case.after(overload(), address=("a", 1))
    case.after(network_error(), address=("a", 1))
    request = case.ask(overload(baseBackoffMS=250), NOW + 1, address=("b", 2)).request
    assert request == RetryRequest(
        command_name="read",
        namespace="db",
        idempotent=True,
        retry_attempts=1,
        retry_reasons=frozenset({RetryReason.OVERLOAD}),
        elapsed=8.0,
        remaining=19.0,
        address=("b", 2),
        server_hint=0.25,
        error_labels=frozenset({"SystemOverloadedError", "RetryableError"}),
        jitter=0.5,
        context={"isRobotRequest": True},
    )


def test_reasons_and_attempts_add_up() -> None:
    case = Case().spent()
    for attempts, error in enumerate([code_6(), network_error(), server_error(91), overload()], 1):
        assert case.ask(error).request.retry_attempts == attempts
        assert isinstance(case.retry.conclude(AT_ONCE, NOW), Again)
    request = case.ask(code_6()).request
    assert request.retry_attempts == 5
    assert request.retry_reasons == {
        RetryReason.TEMPORARY_FAILURE,
        RetryReason.CONNECTION_LOST_IN_FLIGHT,
        RetryReason.FAILOVER,
        RetryReason.OVERLOAD,
    }


def test_without_a_limit() -> None:
    assert Case().spent().ask(code_6()).request.remaining is None


# --- what follows its answer ---


def concluded(answer: RetryAction | StrategyFault, deadline: Deadline = NO_DEADLINE, **arguments: Any) -> Any:
    case = Case(deadline=deadline)
    for _ in range(3):
        if isinstance(case.after(WaitQueueTimeoutError("x")), Ask):
            break
    now = arguments.pop("now", NOW)
    return case, case.retry.conclude(answer, now, **arguments)


def test_a_retry() -> None:
    case, decision = concluded(LATER)
    assert isinstance(decision, Again)
    assert (decision.reason, decision.rule) == (RetryReason.CONNECTION_NOT_AVAILABLE, RetryRule.STRATEGY)
    assert (decision.delay, decision.deprioritize, case.retry.attempts) == (2, False, 2)


def test_no_retry_keeps_the_refusal_of_the_specification() -> None:
    case = Case().spent()
    case.ask(code_6())
    decision = case.retry.conclude(NO_RETRY, NOW)
    assert isinstance(decision, Raise)
    assert (decision.rule, decision.refusal) == (RetryRule.STRATEGY, RetryRefusal.ATTEMPTS)


def test_no_retry_of_what_no_specification_covers() -> None:
    _, decision = concluded(NO_RETRY)
    assert (decision.refusal, type(decision.failure.error)) == (RetryRefusal.NOT_RETRYABLE, WaitQueueTimeoutError)


@pytest.mark.parametrize(("left", "expires_after"), [(2.0, 2.0), (0.5, 0.5), (1.999, 1.999), (0.0, 0.0), (-3.0, 0.0)])
def test_a_delay_that_does_not_fit_is_capped(left: float, expires_after: float) -> None:
    end = NOW + 10
    case, decision = concluded(LATER, Deadline(end, end, 10), now=end - left)
    assert isinstance(decision, ExpireAfter)
    assert decision.delay == pytest.approx(expires_after)
    assert (decision.rule, decision.refusal) == (RetryRule.STRATEGY, RetryRefusal.DEADLINE)
    error = decision.failure.annotate()
    assert isinstance(error, ExecutionTimeout)
    assert (error.timeout, error.phase, error.code) == (True, "retry delay", 50)
    assert case.retry.attempts == 1
    case.retry.describe(error)
    assert error.retry_refusal == "deadline"
    assert str(error) == (
        "the time limit of the operation passed before its next attempt "
        "(time used up in phase: retry delay; time limits: client 10 s, server none)"
    )


@pytest.mark.parametrize("limit", [inf, NOW + 11])
def test_the_end_of_a_cancel_scope_is_no_timeout_of_the_driver(limit: float) -> None:
    case, decision = concluded(LATER, Deadline(limit, NOW + 10, 11), now=NOW + 9)
    assert isinstance(decision, ExpireAfter)
    assert (decision.delay, decision.refusal) == (1.0, RetryRefusal.DEADLINE)
    error = decision.failure.annotate()
    # WaitQueueTimeoutError: what the attempt ended with.
    assert (type(error), error.phase, case.retry.attempts) == (WaitQueueTimeoutError, None, 1)


def test_a_delay_that_just_fits() -> None:
    _, decision = concluded(LATER, Deadline(NOW + 2.001, inf, 3))
    assert isinstance(decision, Again)


def test_a_capped_delay_takes_no_token() -> None:
    budget = RetryBudget(5)
    case = Case(budget=budget, deadline=Deadline(NOW + 1, inf, 1), policy=OverloadRetry(max_retries=0))
    case.ask(overload())
    assert isinstance(case.retry.conclude(LATER, NOW), ExpireAfter)
    assert budget.is_full


def test_a_reply_that_stands_is_not_lost_when_the_time_is_over() -> None:
    case = Case(write(), deadline=Deadline(NOW + 1, inf, 1), policy=OverloadRetry(max_retries=0))
    reply = {"ok": 1, "writeConcernError": {"code": 91}}
    case.ask(server_error(91, "RetryableError"), reply=reply, is_ordinary=False)
    decision = case.retry.conclude(LATER, NOW)
    assert isinstance(decision, ExpireAfter)
    assert decision.failure.reply is reply


def test_the_client_closed_while_the_strategy_thought() -> None:
    _, decision = concluded(LATER, is_closing=True)
    assert (decision.rule, decision.refusal) == (RetryRule.STRATEGY, RetryRefusal.CLOSED)


def test_a_strategy_that_failed() -> None:
    case, decision = concluded(StrategyFault("raised KeyError: 'x'", "Traceback ...\nKeyError: 'x'\n"))
    error = decision.failure.error
    assert isinstance(error, RetryStrategyError)
    text = "the operation failed, and its retry strategy Strategy raised KeyError: 'x'"
    assert str(error) == text
    assert error.__notes__ == ["The exception of the retry strategy:\nTraceback ...\nKeyError: 'x'\n"]
    assert (decision.rule, decision.refusal) == (RetryRule.STRATEGY, RetryRefusal.STRATEGY_FAILED)
    case.retry.describe(error)
    assert error.retry_refusal == "strategy failed"


def test_a_strategy_that_returned_nonsense_has_no_traceback() -> None:
    _, decision = concluded(StrategyFault("returned None instead of a RetryAction"))
    assert not hasattr(decision.failure.error, "__notes__")


def test_a_strategy_that_took_all_the_time() -> None:
    _, decision = concluded(StrategyFault("did not answer in time"), Deadline(NOW + 1, inf, 1), now=NOW + 1)
    assert isinstance(decision, ExpireAfter)
    assert decision.delay == 0


def test_a_mongos_that_failed_is_avoided_and_an_overloaded_server_too() -> None:
    case = Case()
    case.ask(WaitQueueTimeoutError("x"), is_sharded=True)
    decision = case.retry.conclude(AT_ONCE, NOW)
    assert isinstance(decision, Again)
    assert decision.deprioritize
    case = Case(policy=OverloadRetry(max_retries=0))
    case.ask(overload())
    decision = case.retry.conclude(AT_ONCE, NOW)
    assert isinstance(decision, Again)
    assert decision.deprioritize


# --- strategies that decide in place of the specifications ---


class Decider(Strategy):
    scope = "decides"


@pytest.mark.parametrize("make", [IdempotentRead, Write])
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (overload(), RetryReason.OVERLOAD),
        (server_error(2, "RetryableError"), RetryReason.RETRYABLE_ERROR),
        (code_6(), RetryReason.TEMPORARY_FAILURE),
        (server_error(91, "RetryableWriteError"), RetryReason.FAILOVER),
        (network_error(), RetryReason.CONNECTION_LOST_IN_FLIGHT),
        (AutoReconnect("x"), RetryReason.SERVER_NOT_AVAILABLE),
    ],
)
def test_a_strategy_that_decides_is_asked_first_and_its_refusal_is_final(
    make: Any, error: PyMongoError, reason: RetryReason
) -> None:
    case = Case(make("db"), strategy=Decider(), budget=RetryBudget(10), policy=OverloadRetry())
    ask = case.ask(error)
    assert (ask.reason, ask.request.retry_attempts) == (reason, 0)
    decision = case.retry.conclude(NO_RETRY, NOW)
    assert isinstance(decision, Raise)
    assert (decision.rule, decision.refusal) == (RetryRule.STRATEGY, RetryRefusal.NOT_RETRYABLE)
    assert decision.failure.error is error
    assert case.retry.attempts == 1


def test_nothing_but_its_answers_limits_a_strategy_that_decides() -> None:
    case = Case(strategy=Decider(), policy=OverloadRetry(max_retries=0))
    for _ in range(30):
        case.ask(code_6())
        decision = case.retry.conclude(LATER, NOW)
        assert isinstance(decision, Again)
        assert (decision.rule, decision.delay, decision.is_paid) == (RetryRule.STRATEGY, 2, False)


def test_tokens_of_a_strategy_that_decides() -> None:
    budget = RetryBudget(2)
    case = Case(strategy=Decider(), budget=budget)
    for tokens in (1, 0):
        case.ask(overload())
        assert isinstance(case.retry.conclude(AT_ONCE, NOW), Again)
        assert budget.tokens == tokens
    case.ask(overload())
    decision = case.retry.conclude(AT_ONCE, NOW)
    assert isinstance(decision, Raise)
    assert (decision.rule, decision.refusal) == (RetryRule.STRATEGY, RetryRefusal.TOKENS)
    case = Case(strategy=Decider(budget=None), budget=budget)
    case.ask(overload())
    assert isinstance(case.retry.conclude(AT_ONCE, NOW), Again)


@pytest.mark.parametrize("make", [Read, Write, Other])
@pytest.mark.parametrize("error", [network_error(), server_error(6)])
def test_a_strategy_that_decides_may_not_permit_what_does_harm(make: Any, error: PyMongoError) -> None:
    case = Case(make("db"), strategy=Decider())
    assert case.refused(error, is_ordinary=False) is RetryRefusal.NOT_RETRYABLE


@pytest.mark.parametrize(
    ("arguments", "facts", "refusal"),
    [
        ({"reads": False}, {}, RetryRefusal.DISABLED),
        ({}, {"is_closing": True}, RetryRefusal.CLOSED),
        ({"deadline": Deadline(NOW, inf, 1)}, {}, RetryRefusal.DEADLINE),
    ],
)
def test_where_a_strategy_that_decides_is_not_asked(
    arguments: dict[str, Any], facts: dict[str, Any], refusal: RetryRefusal
) -> None:
    decision = Case(strategy=Decider(), **arguments).after(overload(), **facts)
    assert isinstance(decision, Raise)
    assert (decision.rule, decision.refusal) == (RetryRule.STRATEGY, refusal)


def test_rule_4_and_unknown_errors_bind_a_strategy_that_decides() -> None:
    case = Case(strategy=Decider())
    assert case.refused(server_error(462, "SystemOverloadedError")) is RetryRefusal.NOT_RETRYABLE
    assert Case(strategy=Decider()).refused(server_error(2)) is None


def test_always_retried_under_a_strategy_that_decides() -> None:
    for strategy in (Decider(), FailFast()):
        decision = reauthenticated(Case(strategy=strategy))
        assert isinstance(decision, Again)
        assert decision.rule is RetryRule.ALWAYS


@pytest.mark.parametrize("error", [overload(), code_6(), network_error(), AutoReconnect("x")])
def test_fail_fast(error: PyMongoError) -> None:
    strategy = FailFast()
    case = Case(strategy=strategy, policy=OverloadRetry())
    ask = case.ask(error)
    assert isinstance(case.retry.conclude(strategy.retry_after(ask.request, ask.reason), NOW), Raise)


# --- the overload policy of a block ---


@pytest.mark.parametrize("retries", [0, 1, 9])
def test_an_overload_policy_as_a_strategy_takes_the_place_of_the_clients(retries: int) -> None:
    case = Case(strategy=OverloadRetry(max_retries=retries, base_backoff=1.0), policy=OverloadRetry())
    for number in range(retries):
        decision = case.after(overload())
        assert isinstance(decision, Again)
        assert (decision.rule, decision.delay) == (RetryRule.OVERLOAD_POLICY, 0.5 * min(10.0, 2.0**number))
        assert decision.deprioritize
    assert case.refused(overload()) is RetryRefusal.ATTEMPTS


def test_ordinary_retries_remain_beside_an_overload_policy_as_a_strategy() -> None:
    case = Case(strategy=OverloadRetry(max_retries=0))
    decision = case.after(code_6())
    assert isinstance(decision, Again)
    assert decision.rule is RetryRule.SPECIFICATION


def test_an_overload_policy_as_a_strategy_decides_about_the_budget_of_its_retries() -> None:
    budget = RetryBudget(10)
    case = Case(strategy=OverloadRetry(is_budgeted=False), policy=OverloadRetry(), budget=budget)
    assert budget.take()
    for error in (overload(), server_error(2, "RetryableError"), server_error(2, "RetryableError")):
        decision = case.after(error)
        assert isinstance(decision, Again)
        assert not decision.is_paid
    case.retry.succeeded()
    # What took no token brings none: this counts as the success of a first attempt.
    assert budget.tokens == 9.1


# --- codes of a strategy's own ---


class Names(Strategy):
    codes = frozenset({24, 112})


@pytest.mark.parametrize("strategy", [Names(), type("Both", (Names, Decider), {})()])
@pytest.mark.parametrize(
    ("make", "is_ordinary"), [(IdempotentRead, True), (Write, True), (Write, False), (Other, False)]
)
def test_codes_that_a_strategy_names(strategy: RetryStrategy, make: Any, is_ordinary: bool) -> None:
    case = Case(make("db"), strategy=strategy)
    decision = case.after(server_error(112), is_ordinary=is_ordinary)
    assert isinstance(decision, Ask) is is_ordinary
    if isinstance(decision, Ask):
        assert decision.reason is RetryReason.NAMED_CODE
        again = case.retry.conclude(LATER, NOW)
        assert isinstance(again, Again)
        assert (again.rule, again.is_paid) == (RetryRule.STRATEGY, False)
        # Others are no business of the strategy.
        assert case.refused(server_error(11000)) is RetryRefusal.NOT_RETRYABLE


def test_a_code_in_a_transaction_is_not_asked_about() -> None:
    case = Case(strategy=Names())
    assert case.refused(server_error(112), is_transactional=True) is None


def test_a_named_code_before_the_command_was_sent_is_not_its_answer() -> None:
    case = Case(strategy=Names())
    assert case.refused(server_error(24), progress=Progress.NOT_SENT) is None


# --- always retried ---


def reauthenticated(case: Case, connection: int = 1, now: float = NOW) -> Again | Raise | Ask:
    facts = {"progress": Progress.ANSWERED, "reauthenticated": (("a", 1), connection)}
    return case.after(server_error(391), now, **facts)


@pytest.mark.parametrize("make", [read, write, other])
def test_always_retried_with_a_controlled_backoff_and_a_hard_limit(make: Any) -> None:
    case = Case(make(), reads=False, writes=False, budget=RetryBudget(0))
    for number, delay in enumerate([0.001, 0.01, 0.05, 0.1, 0.5, 1.0], 1):
        decision = reauthenticated(case, number)
        assert isinstance(decision, Again)
        assert (decision.reason, decision.rule) == (RetryReason.REAUTHENTICATION_REQUIRED, RetryRule.ALWAYS)
        assert (decision.delay, decision.deprioritize, decision.is_paid) == (delay, False, False)
        assert case.retry.attempts == number + 1
        assert case.retry.has_reauthenticated((("a", 1), number))
    assert not case.retry.has_reauthenticated((("a", 1), 7))
    decision = reauthenticated(case, 7)
    assert isinstance(decision, Raise)
    assert (decision.rule, decision.refusal) == (RetryRule.ALWAYS, RetryRefusal.ATTEMPTS)


def test_always_retried_is_no_ordinary_retry() -> None:
    case = Case(strategy=SpecificationRetry(), policy=OverloadRetry(), budget=RetryBudget(100))
    assert case.bucket is not None
    case.bucket.take()
    reauthenticated(case)
    assert case.retry.retries == 0
    decision = case.after(overload())
    assert isinstance(decision, Again)
    assert decision.delay == 0.05, "the first step of the backoff"
    reauthenticated(case, 2)
    assert case.bucket.tokens == 99, "one taken, one returned by the retry that failed otherwise"
    case.retry.succeeded()
    assert case.bucket.tokens == 99.1
    assert case.retry.attempts == 4


def test_a_strategy_is_told_of_it() -> None:
    case = Case().spent()
    reauthenticated(case)
    request = case.ask(code_6()).request
    assert request.retry_attempts == 2
    assert RetryReason.REAUTHENTICATION_REQUIRED in request.retry_reasons


def test_always_retried_while_there_is_time_also_while_closing() -> None:
    case = Case(deadline=Deadline(NOW + 0.001, inf, 1))
    decision = reauthenticated(case)
    assert isinstance(decision, Raise)
    assert (decision.refusal, decision.failure.phase) == (RetryRefusal.DEADLINE, "backoff")
    assert isinstance(case.after(server_error(391), reauthenticated=(("a", 1), 1), now=NOW - 1, is_closing=True), Again)


def test_a_reauthentication_that_was_not_possible_is_an_error_like_others() -> None:
    assert Case().refused(server_error(391)) is None


# --- amplification ---


@pytest.mark.parametrize("make", [IdempotentRead, Write, Other])
def test_every_shipped_strategy_stops_without_a_limit_of_its_own(make: Any) -> None:
    for strategy in (SpecificationRetry(), BestEffort(), OverloadRetry(), OverloadRetry.revision_2026_07()):
        case = Case(make("db"), strategy=strategy, budget=RetryBudget(10), policy=OverloadRetry(max_retries=2))
        now, sent = NOW, 0
        while sent < 1000:
            sent += 1
            decision = case.after(overload(), now)
            if isinstance(decision, Ask):
                answer = strategy.retry_after(decision.request, decision.reason)
                if not isinstance(answer, RetryAction):
                    with pytest.raises(StopIteration) as caught:
                        answer.send(None)
                    answer = caught.value.value
                decision = case.retry.conclude(answer, now)
            if isinstance(decision, Raise):
                break
            now += decision.delay
        # The policy's two retries, and with a strategy as many as it permits or as there are tokens.
        expected = {SpecificationRetry: 3, BestEffort: 11, OverloadRetry: 6}[type(strategy)]
        if strategy == OverloadRetry.revision_2026_07():
            expected = 3
        assert sent == expected, strategy
