"""What strategies are asked and may answer; the strategies that are shipped."""

from __future__ import annotations

import inspect
import math
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

import motorlite.retry
from motorlite.retry import (
    BestEffort,
    FailFast,
    OverloadRetry,
    RetryAction,
    RetryReason,
    RetryRequest,
    RetryStrategy,
    SpecificationRetry,
    exponential_backoff,
)
from motorlite.retry.strategy import as_retry_strategy

REQUEST = RetryRequest(
    command_name="find",
    namespace="db.coll",
    idempotent=False,
    retry_attempts=0,
    retry_reasons=frozenset(),
    elapsed=0.0,
    remaining=None,
    address=("a", 1),
    server_hint=None,
    error_labels=frozenset(),
    jitter=0.5,
    context={},
)
NO_RETRY = RetryAction.no_retry()
BOTH = frozenset({"SystemOverloadedError", "RetryableError"})


def run(answer: Any) -> RetryAction:
    """What an async strategy that never waits returns."""
    if not inspect.iscoroutine(answer):
        assert isinstance(answer, RetryAction)
        return answer
    with pytest.raises(StopIteration) as caught:
        answer.send(None)
    action = caught.value.value
    assert isinstance(action, RetryAction)
    return action


def ask(strategy: RetryStrategy, reason: RetryReason = RetryReason.OVERLOAD, **changes: Any) -> RetryAction:
    return run(strategy.retry_after(replace(REQUEST, **changes), reason))


# --- actions ---


def test_durations() -> None:
    for seconds in (0, 0.0, 0.001, 1, 2.5, 2**53):
        assert RetryAction.with_duration(seconds).duration == RetryAction(seconds).duration == seconds
    assert NO_RETRY.duration is None


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (TypeError, ["1", True, False, [1], 1j, object()]),
        (ValueError, [-1, -0.001, math.nan, math.inf, -math.inf, 2**53 + 1]),
    ],
)
def test_wrong_durations(kind: type[Exception], values: list[Any]) -> None:
    for value in values:
        with pytest.raises(kind, match=r"^seconds must be a non-negative number of seconds, (not|at most) "):
            RetryAction.with_duration(value)
        with pytest.raises(kind, match=r"^duration must be a non-negative number of seconds, (not|at most) "):
            RetryAction(value)
    with pytest.raises(TypeError, match=r"^seconds must be"):
        RetryAction.with_duration(None)  # type: ignore[arg-type]  # what is refused


def test_actions_and_requests_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        NO_RETRY.duration = 1.0  # type: ignore[misc]  # what is refused
    with pytest.raises(FrozenInstanceError):
        REQUEST.retry_attempts = 3  # type: ignore[misc]  # what is refused


# --- strategies of one's own ---


def test_a_strategy_must_decide() -> None:
    with pytest.raises(TypeError, match="retry_after"):
        RetryStrategy()  # type: ignore[abstract]  # what is refused


@pytest.mark.parametrize("reason", RetryReason)
def test_fail_fast_permits_nothing_and_leaves_nothing_to_others(reason: RetryReason) -> None:
    """The RFC leaves it to applications; but one that only adds retries cannot fail fast."""
    assert ask(FailFast(), reason, idempotent=True) == NO_RETRY
    assert (FailFast().scope, repr(FailFast())) == ("decides", "FailFast()")
    assert motorlite.retry.FailFast is FailFast


@pytest.mark.parametrize(
    ("name", "value", "error", "text"),
    [
        ("scope", "add", ValueError, "retry_strategy.scope must be 'adds' or 'decides', not 'add'"),
        ("scope", None, TypeError, "retry_strategy.scope must be 'adds' or 'decides', not None"),
        ("codes", 112, TypeError, "retry_strategy.codes must be a frozenset of integers, not 112"),
        ("codes", {"112"}, TypeError, "retry_strategy.codes must be a frozenset of integers, not {'112'}"),
    ],
)
def test_wrong_attributes_are_found_where_the_strategy_is_set(
    name: str, value: Any, error: type[Exception], text: str
) -> None:
    strategy = BestEffort()
    setattr(strategy, name, value)
    with pytest.raises(error, match=f"^{text}"):
        as_retry_strategy(strategy)


def test_the_others_leave_the_rest_to_the_specifications() -> None:
    for strategy in (SpecificationRetry(), BestEffort(), OverloadRetry()):
        assert (strategy.scope, strategy.codes, strategy.budget) == ("adds", frozenset(), "client")
    assert BestEffort(budget=None).budget is OverloadRetry.revision_2026_07().budget is None


# --- best effort ---


@pytest.mark.parametrize("hint", [None, 5.0])
def test_best_effort_backs_off(hint: float | None) -> None:
    """From 1 to 500 ms. The server's own numbers are for the overload policy: a strategy has its own."""
    expected = [0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.5, 0.5, 0.5]
    assert [ask(BestEffort(), retry_attempts=number, server_hint=hint).duration for number in range(12)] == expected
    assert [exponential_backoff(number) for number in range(12)] == expected
    assert ask(BestEffort(), retry_attempts=10**9, server_hint=hint).duration == 0.5
    # Or as one wants.
    mine = BestEffort(lambda attempts: attempts * 0.25)
    assert ask(mine, retry_attempts=3, server_hint=hint) == RetryAction.with_duration(0.75)


@pytest.mark.parametrize("reason", RetryReason)
@pytest.mark.parametrize("idempotent", [False, True])
def test_best_effort_retries_what_is_safe(reason: RetryReason, idempotent: bool) -> None:
    action = ask(BestEffort(), reason, idempotent=idempotent)
    assert (action != NO_RETRY) is (idempotent or reason.allows_non_idempotent_retry)


def test_best_effort_gives_up_where_nothing_else_limits_the_time() -> None:
    for elapsed, remaining, retries in ((29.9, None, True), (30, None, False), (900, 0.5, True)):
        assert (ask(BestEffort(), elapsed=elapsed, remaining=remaining) != NO_RETRY) is retries
    assert ask(BestEffort(give_up_after=2), elapsed=2) == NO_RETRY
    assert ask(BestEffort(give_up_after=0)) == NO_RETRY
    assert ask(BestEffort(give_up_after=None), elapsed=10**6) != NO_RETRY


def test_best_effort_can_be_extended() -> None:
    class Twice(BestEffort):
        async def retry_after(self, request: RetryRequest, reason: RetryReason) -> RetryAction:
            if request.retry_attempts == 2:
                return RetryAction.no_retry()
            return await super().retry_after(request, reason)

    assert [ask(Twice(), retry_attempts=attempts).duration for attempts in range(3)] == [0.001, 0.002, None]


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"backoff": 0.5}, TypeError, "backoff must be a function of the number of retries, not 0.5"),
        ({"give_up_after": "30"}, TypeError, "give_up_after must be a non-negative number of seconds"),
        ({"give_up_after": True}, TypeError, "give_up_after must be a non-negative number of seconds"),
        ({"give_up_after": -1}, ValueError, "give_up_after must be a non-negative number of seconds"),
        ({"give_up_after": math.nan}, ValueError, "give_up_after must be a non-negative number of seconds"),
        ({"budget": "server"}, ValueError, "budget must be 'client' or None, not 'server'"),
        ({"budget": 100}, TypeError, "budget must be 'client' or None, not 100"),
    ],
)
def test_wrong_arguments(arguments: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=f"^{text}"):
        BestEffort(**arguments)


# --- the specifications ---


@pytest.mark.parametrize("reason", RetryReason)
def test_the_specifications_add_nothing_to_themselves(reason: RetryReason) -> None:
    assert ask(SpecificationRetry(), reason, idempotent=True) == NO_RETRY
    assert SpecificationRetry() == SpecificationRetry()


# --- the overload policy as a strategy ---

ONE_LABEL = [frozenset({"RetryableError"}), frozenset({"SystemOverloadedError"}), frozenset()]


@pytest.mark.parametrize(
    ("policy", "delays", "alone"),
    [
        (OverloadRetry(), [0.1, 0.2, 0.4, 0.8, 1.6, None], [0, None, None]),
        (OverloadRetry.revision_2026_07(), [0.2, 0.4, None], [None, None, None]),
    ],
)
def test_the_overload_policy_goes_by_labels(
    policy: OverloadRetry, delays: list[float | None], alone: list[float | None]
) -> None:
    """It backs off after both."""
    found = [
        ask(policy, retry_attempts=number, error_labels=BOTH, jitter=1.0).duration for number in range(len(delays))
    ]
    assert found == delays
    assert ask(policy, error_labels=BOTH).duration == (delays[0] or 0) * 0.5
    assert [
        ask(policy, RetryReason.FAILOVER, idempotent=True, error_labels=labels).duration for labels in ONE_LABEL
    ] == alone
    hinted = ask(policy, error_labels=BOTH, jitter=1.0, server_hint=0.02).duration
    assert hinted == pytest.approx(0.02 * (delays[0] or 0) / 0.1)


def test_the_overload_policy_as_a_strategy_has_no_tokens_of_its_own() -> None:
    with pytest.raises(ValueError, match=r"token_capacity=5 has no effect .* as a strategy.*retry_budget"):
        as_retry_strategy(OverloadRetry(token_capacity=5))
    for policy in (OverloadRetry(max_retries=0), OverloadRetry.revision_2026_07()):
        assert as_retry_strategy(policy) is policy
