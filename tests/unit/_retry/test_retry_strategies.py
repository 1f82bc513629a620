"""When the application's strategy is asked, and what follows its answer; without a clock or an event loop."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Final, Literal

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

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = 100.0
AT_ONCE, LATER, NO_RETRY = RetryAction.with_duration(0), RetryAction.with_duration(2), RetryAction.no_retry()
ATTEMPTS, TOKENS, NOT_RETRYABLE = RetryRefusal.ATTEMPTS, RetryRefusal.TOKENS, RetryRefusal.NOT_RETRYABLE
REVISION = OverloadRetry.revision_2026_07()


class Strategy(RetryStrategy):
    """Asked by the tests themselves."""

    def __init__(self, budget: Literal["client"] | None = "client") -> None:
        self._budget = budget

    @property
    def budget(self) -> Literal["client"] | None:
        return self._budget

    def retry_after(self, request: RetryRequest, reason: RetryReason) -> RetryAction:
        raise AssertionError("the pure part asks nothing")


class Decider(Strategy):
    scope = "decides"


class Names(Strategy):
    codes = frozenset({24, 112})


class NamesAndDecides(Names, Decider):
    pass


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
        policy: OverloadRetry | int = 1,
    ) -> None:
        """`policy`: if a number, that of the retries that the overload policy permits."""
        policy = OverloadRetry(max_retries=policy) if isinstance(policy, int) else policy
        settings = RetrySettings(policy, budget, lambda: 0.5, retry_reads=reads, retry_writes=writes)
        options = CallOptions(retry_strategy=strategy or Strategy(), context=context or {})
        self.retry = Retry(settings, operation or IdempotentRead("db"), deadline, options, NOW - 7)

    def after(self, error: PyMongoError, now: float = NOW, **facts: Any) -> Again | Raise | Ask:
        given = {name: facts.pop(name, False) for name in ("is_closing", "is_sharded")}
        return self.retry.after(failed(error, **facts), now, **given)

    def finally_after(self, error: PyMongoError, **facts: Any) -> Raise | Ask:
        """What follows once the specifications permit no more retries."""
        while isinstance(decision := self.after(error, **facts), Again):
            assert decision.rule is not RetryRule.STRATEGY
        return decision

    def again(self, error: PyMongoError, now: float = NOW, **facts: Any) -> Again:
        decision = self.after(error, now, **facts)
        assert isinstance(decision, Again)
        return decision

    def ask(self, error: PyMongoError, now: float = NOW, **facts: Any) -> Ask:
        decision = self.after(error, now, **facts)
        assert isinstance(decision, Ask), vars(type(decision))
        return decision

    def refused(self, error: PyMongoError, now: float = NOW, **facts: Any) -> RetryRefusal | None:
        decision = self.after(error, now, **facts)
        assert isinstance(decision, Raise)
        return decision.refusal

    def concluded(self, error: PyMongoError, answer: RetryAction | StrategyFault, **facts: Any) -> Again | Raise:
        """The decision after the strategy's answer."""
        self.ask(error, **facts)
        return self.retry.conclude(answer, NOW)

    def spent(self) -> Case:
        """After the one retry that the specification permits."""
        assert self.again(code_6()).rule is RetryRule.SPECIFICATION
        return self


def code_6() -> PyMongoError:
    return server_error(6, "RetryableWriteError")


def no_connection() -> PyMongoError:
    return WaitQueueTimeoutError("x")


def code_112() -> PyMongoError:
    return server_error(112)


# --- who is asked about what ---

LOST: Final = RetryReason.CONNECTION_LOST_IN_FLIGHT
READ, NUMBERED = (IdempotentRead, True), (Write, True)
SENT: Final[list[tuple[PyMongoError, RetryReason]]] = [
    (network_error(), LOST),
    (server_error(91), RetryReason.FAILOVER),
    (server_error(6), RetryReason.TEMPORARY_FAILURE),
]
UNSENT: Final[list[tuple[PyMongoError, RetryReason]]] = [
    (AutoReconnect("x"), RetryReason.SERVER_NOT_AVAILABLE),
    (WaitQueueTimeoutError("x"), RetryReason.CONNECTION_NOT_AVAILABLE),
    (ServerSelectionTimeoutError("x"), RetryReason.NO_SUITABLE_SERVER),
    (unsent(), RetryReason.NO_SUITABLE_SERVER),
]
DECLARED: Final[list[tuple[PyMongoError, RetryReason]]] = [
    (server_error(2, "RetryableError"), RetryReason.RETRYABLE_ERROR),
    (overload(), RetryReason.OVERLOAD),
]
UNKNOWN: Final = [server_error(2), server_error(11000), server_error(50), server_error(391), PyMongoError("x")]
OPERATIONS: Final = [READ, NUMBERED, (IdempotentRead, False), (Write, False), (Read, False), (Other, False)]


@pytest.mark.parametrize("strategy", [Strategy(), Decider(), FailFast(), type("Mine", (SpecificationRetry,), {})()])
@pytest.mark.parametrize("policy", [OverloadRetry(max_retries=1), REVISION])
@pytest.mark.parametrize(("make", "is_ordinary"), OPERATIONS)
def test_who_is_asked_about_what(make: Any, is_ordinary: bool, policy: OverloadRetry, strategy: RetryStrategy) -> None:
    def follows(error: PyMongoError) -> RetryReason | RetryRefusal | None:
        case = Case(make("db"), strategy=strategy, policy=policy)
        decision = case.finally_after(error, is_ordinary=is_ordinary)
        if isinstance(decision, Raise):
            return decision.refusal
        assert decision.request.retry_attempts == 0 or strategy.scope == "adds"
        assert decision.request.idempotent is is_safe
        return decision.reason

    # A repetition changes nothing: the operation is idempotent, or the server recognises the transaction number.
    is_safe = make is IdempotentRead or (make is Write and is_ordinary)
    # What was not sent may always be retried, and so may what the server declares as retryable.
    for error, reason in UNSENT + DECLARED:
        assert follows(error) is reason
    # What may have happened only if that changes nothing.
    for error, reason in SENT:
        assert follows(error) is (reason if is_safe else NOT_RETRYABLE)
    # Unknown errors never are. An authentication that was not repeated is one of them.
    for error in UNKNOWN:
        assert follows(error) is None
    # Rule 4: the server does not declare such overload as retryable.
    assert follows(server_error(462, "SystemOverloadedError")) is NOT_RETRYABLE


def test_the_specifications_decide_first() -> None:
    case = Case().spent()
    assert case.ask(code_6()).request.retry_attempts == 1


def test_the_default_is_not_asked() -> None:
    assert Case(strategy=SpecificationRetry()).spent().refused(code_6()) is ATTEMPTS


@pytest.mark.parametrize("strategy", [Strategy(), Decider()])
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
def test_no_strategy_goes_beyond_the_options(
    kind: Kind, reads: bool, writes: bool, is_asked: bool, strategy: RetryStrategy
) -> None:
    operation = {Kind.READ: read, Kind.WRITE: write, Kind.COMMAND: other}[kind]()
    decision = Case(operation, reads=reads, writes=writes, strategy=strategy).after(no_connection(), is_ordinary=False)
    assert isinstance(decision, Ask if is_asked else Raise)
    if isinstance(decision, Raise):
        assert decision.refusal is (RetryRefusal.DISABLED if strategy.scope == "decides" else None)


def test_nothing_is_asked_while_the_client_closes() -> None:
    assert Case().spent().refused(code_6(), is_closing=True) is ATTEMPTS
    decision = Case(strategy=Decider()).after(overload(), is_closing=True)
    assert isinstance(decision, Raise)
    assert (decision.rule, decision.refusal) == (RetryRule.STRATEGY, RetryRefusal.CLOSED)


@pytest.mark.parametrize("strategy", [Strategy(), Decider()])
@pytest.mark.parametrize("deadline", [Deadline(NOW, inf, 1), Deadline(inf, NOW)])
def test_nothing_is_asked_when_the_time_is_over(deadline: Deadline, strategy: RetryStrategy) -> None:
    """It passed between two attempts, of which the strategy might have permitted the second."""
    decision = Case(deadline=deadline, strategy=strategy).after(no_connection())
    assert isinstance(decision, Raise)
    assert (decision.rule, decision.refusal) == (RetryRule.STRATEGY, RetryRefusal.DEADLINE)
    # The end of a cancel scope is no timeout of the driver.
    assert decision.failure.phase == ("retry delay" if deadline.expires_at == NOW else None)


class Held:
    """The connection of a cursor (a `Pin`)."""

    def __init__(self, *, is_usable: bool) -> None:
        self.is_usable = is_usable
        self.is_lost = not is_usable

    def release(self) -> None:
        raise AssertionError("only its owner releases it")


@pytest.mark.parametrize("is_usable", [False, True])
def test_nothing_is_asked_about_a_cursor_whose_connection_is_lost(is_usable: bool) -> None:
    """No other connection reaches it, so that every further attempt would fail at once."""
    operation = read()
    operation.pin = Held(is_usable=is_usable)
    assert isinstance(Case(operation).after(AutoReconnect("lost"), is_ordinary=False), Ask) is is_usable


# --- codes of a strategy's own ---


@pytest.mark.parametrize("strategy", [Names(), NamesAndDecides()])
@pytest.mark.parametrize(("make", "is_ordinary"), [READ, NUMBERED, (Write, False), (Other, False)])
def test_codes_that_a_strategy_names(strategy: RetryStrategy, make: Any, is_ordinary: bool) -> None:
    case = Case(make("db"), strategy=strategy)
    decision = case.after(code_112(), is_ordinary=is_ordinary)
    assert isinstance(decision, Ask) is is_ordinary
    if isinstance(decision, Ask):
        assert decision.reason is RetryReason.NAMED_CODE
        again = case.retry.conclude(LATER, NOW)
        assert isinstance(again, Again)
        assert (again.rule, again.is_paid) == (RetryRule.STRATEGY, False)
        # Others are no business of the strategy.
        assert case.refused(server_error(11000)) is NOT_RETRYABLE


def test_where_a_code_is_not_asked_about() -> None:
    assert Case(strategy=Names()).refused(code_112(), is_transactional=True) is None
    # Before the command was sent, it is not its answer.
    assert Case(strategy=Names()).refused(server_error(24), progress=Progress.NOT_SENT) is None


# --- tokens ---

ERRORS: Final[dict[str, Callable[[], PyMongoError]]] = {"O": overload, "h": code_6, "w": no_connection}


@pytest.mark.parametrize(
    ("strategy", "capacity", "taken", "retries", "errors", "tokens", "outcome"),
    [
        # The strategy continues where the policy has no retries left.
        (Strategy(), 3, 0, 1, "OO", [2, 1], 2.1),
        # What has no attempts left is refused without a token after the strategy has spoken.
        (Strategy(), 0, 0, 0, "O", [], TOKENS),
        # A strategy without a budget needs no token.
        (Strategy(None), 0, 0, 5, "O" * 20, [0] * 20, 0),
        (Strategy(None), 0, 0, 0, "OwO", [0] * 3, 0),
        (Decider(None), 0, 0, 1, "O", [0], 0),
        # Only errors with the label cost one. Of the failed retries, that of the specification brings one (rule 3);
        # those of the strategy, which are free, do not.
        (Strategy(), 10, 0, 1, "hh", [10, 10], 10),
        (Strategy(), 10, 5, 1, "h" * 20, [5] + [6] * 19, 6.1),
        # After an overload error every retry costs one. One that is not sent returns its token, so that a free one
        # after it would reach the overloaded server.
        (Strategy(), 2, 0, 0, "OwOO", [1, 1, 0], TOKENS),
        # A paid retry brings its token back.
        (Strategy(), 10, 5, 0, "O", [4], 5.1),
        (Decider(), 2, 0, 1, "OOO", [1, 0], TOKENS),
        # Nothing but its answers limits a strategy that decides.
        (Decider(), 10, 0, 0, "h" * 30, [10] * 30, 10),
        # An overload policy as a strategy decides about the budget of its retries; what took no token brings none.
        (OverloadRetry(is_budgeted=False), 10, 1, 5, "OO", [9, 9], 9.1),
    ],
)
def test_tokens(
    strategy: RetryStrategy,
    capacity: int,
    taken: int,
    retries: int,
    errors: str,
    tokens: list[float],
    outcome: RetryRefusal | float,
) -> None:
    """`outcome`: the refusal of a retry after the last error, or what is left once the last retry has succeeded."""
    budget = RetryBudget(capacity)
    for _ in range(taken):
        budget.take()
    case = Case(strategy=strategy, budget=budget, policy=retries)
    found, decision = list[float](), None
    for letter in errors:
        decision = case.after(ERRORS[letter]())
        if isinstance(decision, Ask):
            decision = case.retry.conclude(AT_ONCE, NOW)
        if isinstance(decision, Again):
            found.append(budget.tokens)
    assert found == tokens
    if isinstance(outcome, RetryRefusal):
        assert isinstance(decision, Raise)
        assert decision.refusal is outcome
    else:
        case.retry.succeeded()
        assert budget.tokens == pytest.approx(outcome)


def test_an_empty_bucket_is_final() -> None:
    assert Case(budget=RetryBudget(0), policy=5).refused(overload()) is TOKENS


def test_a_backoff_of_the_policy_that_does_not_fit_is_final() -> None:
    case = Case(deadline=Deadline(NOW + 0.04, inf, 1), policy=5)
    assert case.refused(overload()) is RetryRefusal.DEADLINE


def test_a_paid_retry_that_is_not_made_returns_its_token() -> None:
    budget = RetryBudget(10, per_server=3)
    case = Case(budget=budget, policy=0)
    case.concluded(overload(), AT_ONCE, address=("a", 1))
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
    assert Case().spent().ask(code_6()).request.remaining is None


def test_reasons_and_attempts_add_up() -> None:
    case = Case().spent()
    reauthenticated(case)
    for attempts, error in enumerate([code_6(), network_error(), server_error(91), overload()], 2):
        assert case.ask(error).request.retry_attempts == attempts
        assert isinstance(case.retry.conclude(AT_ONCE, NOW), Again)
    request = case.ask(code_6()).request
    assert request.retry_attempts == 6
    assert request.retry_reasons == {
        RetryReason.REAUTHENTICATION_REQUIRED,
        RetryReason.TEMPORARY_FAILURE,
        RetryReason.CONNECTION_LOST_IN_FLIGHT,
        RetryReason.FAILOVER,
        RetryReason.OVERLOAD,
    }


# --- what follows its answer ---


def concluded(answer: RetryAction | StrategyFault, deadline: Deadline = NO_DEADLINE, **arguments: Any) -> Any:
    case = Case(deadline=deadline)
    case.ask(no_connection())
    now = arguments.pop("now", NOW)
    return case, case.retry.conclude(answer, now, **arguments)


@pytest.mark.parametrize("deadline", [NO_DEADLINE, Deadline(NOW + 2.001, inf, 3)])
def test_a_retry(deadline: Deadline) -> None:
    case, decision = concluded(LATER, deadline)
    assert isinstance(decision, Again)
    assert (decision.reason, decision.rule) == (RetryReason.CONNECTION_NOT_AVAILABLE, RetryRule.STRATEGY)
    assert (decision.delay, decision.deprioritize, case.retry.attempts) == (2, False, 2)


def test_no_retry_keeps_the_refusal_of_the_specification() -> None:
    decision = Case().spent().concluded(code_6(), NO_RETRY)
    assert (decision.rule, decision.refusal) == (RetryRule.STRATEGY, ATTEMPTS)


def test_no_retry_of_what_no_specification_covers() -> None:
    _, decision = concluded(NO_RETRY)
    assert (decision.refusal, type(decision.failure.error)) == (NOT_RETRYABLE, WaitQueueTimeoutError)


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


def test_a_capped_delay_takes_no_token() -> None:
    budget = RetryBudget(5)
    case = Case(budget=budget, deadline=Deadline(NOW + 1, inf, 1), policy=0)
    assert isinstance(case.concluded(overload(), LATER), ExpireAfter)
    assert budget.is_full


def test_a_reply_that_stands_is_not_lost_when_the_time_is_over() -> None:
    case = Case(write(), deadline=Deadline(NOW + 1, inf, 1), policy=0)
    reply = {"ok": 1, "writeConcernError": {"code": 91}}
    decision = case.concluded(server_error(91, "RetryableError"), LATER, reply=reply, is_ordinary=False)
    assert isinstance(decision, ExpireAfter)
    assert decision.failure.reply is reply


def test_the_client_closed_while_the_strategy_thought() -> None:
    _, decision = concluded(LATER, is_closing=True)
    assert (decision.rule, decision.refusal) == (RetryRule.STRATEGY, RetryRefusal.CLOSED)


def test_a_strategy_that_failed() -> None:
    case, decision = concluded(StrategyFault("raised KeyError: 'x'", "Traceback ...\nKeyError: 'x'\n"))
    error = decision.failure.error
    assert isinstance(error, RetryStrategyError)
    assert str(error) == "the operation failed, and its retry strategy Strategy raised KeyError: 'x'"
    assert error.__notes__ == ["The exception of the retry strategy:\nTraceback ...\nKeyError: 'x'\n"]
    assert (decision.rule, decision.refusal) == (RetryRule.STRATEGY, RetryRefusal.STRATEGY_FAILED)
    case.retry.describe(error)
    assert error.retry_refusal == "strategy failed"
    # One that returned nonsense has no traceback.
    _, decision = concluded(StrategyFault("returned None instead of a RetryAction"))
    assert not hasattr(decision.failure.error, "__notes__")


def test_a_strategy_that_took_all_the_time() -> None:
    _, decision = concluded(StrategyFault("did not answer in time"), Deadline(NOW + 1, inf, 1), now=NOW + 1)
    assert isinstance(decision, ExpireAfter)
    assert decision.delay == 0


def test_a_mongos_that_failed_is_avoided_and_an_overloaded_server_too() -> None:
    for error, is_sharded in ((no_connection(), True), (overload(), False)):
        assert Case(policy=0).concluded(error, AT_ONCE, is_sharded=is_sharded).deprioritize


# --- strategies that decide in place of the specifications ---


@pytest.mark.parametrize("strategy", [Decider(), FailFast()])
@pytest.mark.parametrize("make", [IdempotentRead, Write])
@pytest.mark.parametrize("error", [overload(), server_error(2, "RetryableError"), code_6(), network_error()])
def test_the_refusal_of_a_strategy_that_decides_is_final(
    make: Any, error: PyMongoError, strategy: RetryStrategy
) -> None:
    case = Case(make("db"), strategy=strategy, budget=RetryBudget(10), policy=5)
    ask = case.ask(error)
    answer = strategy.retry_after(ask.request, ask.reason) if isinstance(strategy, FailFast) else NO_RETRY
    assert isinstance(answer, RetryAction)
    decision = case.retry.conclude(answer, NOW)
    assert isinstance(decision, Raise)
    assert (decision.rule, decision.refusal) == (RetryRule.STRATEGY, NOT_RETRYABLE)
    assert decision.failure.error is error
    assert case.retry.attempts == 1


# --- the overload policy of a block ---


@pytest.mark.parametrize("retries", [0, 1, 9])
def test_an_overload_policy_as_a_strategy_takes_the_place_of_the_clients(retries: int) -> None:
    case = Case(strategy=OverloadRetry(max_retries=retries, base_backoff=1.0), policy=5)
    for number in range(retries):
        decision = case.again(overload())
        assert (decision.rule, decision.delay) == (RetryRule.OVERLOAD_POLICY, 0.5 * min(10.0, 2.0**number))
        assert decision.deprioritize
    assert case.refused(overload()) is ATTEMPTS
    # Ordinary retries remain beside it.
    Case(strategy=OverloadRetry(max_retries=retries)).spent()


# --- always retried ---


def reauthenticated(case: Case, connection: int = 1, now: float = NOW) -> Again | Raise | Ask:
    facts = {"progress": Progress.ANSWERED, "reauthenticated": (("a", 1), connection)}
    return case.after(server_error(391), now, **facts)


@pytest.mark.parametrize("make", [read, write, other])
@pytest.mark.parametrize("strategy", [Strategy(), Decider(), FailFast()])
def test_always_retried_with_a_controlled_backoff_and_a_hard_limit(make: Any, strategy: RetryStrategy) -> None:
    case = Case(make(), reads=False, writes=False, budget=RetryBudget(0), strategy=strategy)
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
    assert (decision.rule, decision.refusal) == (RetryRule.ALWAYS, ATTEMPTS)


def test_always_retried_is_no_ordinary_retry() -> None:
    budget = RetryBudget(100)
    case = Case(strategy=SpecificationRetry(), policy=5, budget=budget)
    budget.take()
    reauthenticated(case)
    assert case.retry.retries == 0
    assert case.again(overload()).delay == 0.05, "the first step of the backoff"
    reauthenticated(case, 2)
    assert budget.tokens == 99, "one taken, one returned by the retry that failed otherwise"
    case.retry.succeeded()
    assert budget.tokens == 99.1
    assert case.retry.attempts == 4


def test_always_retried_while_there_is_time_also_while_closing() -> None:
    case = Case(deadline=Deadline(NOW + 0.001, inf, 1))
    decision = reauthenticated(case)
    assert isinstance(decision, Raise)
    assert (decision.refusal, decision.failure.phase) == (RetryRefusal.DEADLINE, "backoff")
    assert isinstance(case.after(server_error(391), reauthenticated=(("a", 1), 1), now=NOW - 1, is_closing=True), Again)


# --- amplification ---


@pytest.mark.parametrize("make", [IdempotentRead, Write, Other])
@pytest.mark.parametrize(
    ("strategy", "attempts"),
    # The policy's two retries, and with a strategy as many as it permits or as there are tokens.
    [(SpecificationRetry(), 3), (BestEffort(), 11), (OverloadRetry(), 6), (REVISION, 3)],
)
def test_every_shipped_strategy_stops_without_a_limit_of_its_own(make: Any, strategy: Any, attempts: int) -> None:
    case = Case(make("db"), strategy=strategy, budget=RetryBudget(10), policy=2)
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
    assert sent == attempts
