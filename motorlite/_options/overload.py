"""Pure: the rows of the options about overload: retries, budgets, breakers, limits and the wait queue."""

from __future__ import annotations

from typing import Final

from motorlite._options.option import Option, Values, keyword_option
from motorlite._options.values import boolean, instance_of, integer
from motorlite.retry import OverloadRetry, RetryBudget, SpecificationRetry
from motorlite.retry.strategy import as_retry_strategy

# Few clients have one of these options, so their classes are imported with the first value.


def _circuit_breaker(value: object) -> object:
    from motorlite.overload.breaker import CircuitBreaker

    return instance_of(CircuitBreaker)(value)


def _concurrency_limit(value: object) -> object:
    from motorlite.overload.concurrency import ConcurrencyLimit

    return instance_of(ConcurrencyLimit)(value)


def _rate_limits(value: object) -> object:
    from motorlite.overload.rate_limit import as_rate_limits

    return as_rate_limits(value)


def _wait_queue(value: object) -> object:
    from motorlite.overload.wait_queue import WaitQueue

    return instance_of(WaitQueue)(value)


_BOOLEAN = Values(boolean, "True or False")
_NUMBER = Values(integer(0), "a non-negative integer")
# The class has the defaults of the options that change the policy.
_POLICY = OverloadRetry()

OVERLOAD: Final[tuple[Option, ...]] = (
    Option(
        "maxAdaptiveRetries",
        _NUMBER,
        "Retries of one operation after an overload error. 0 also disables the retry after a refused connection.",
        _POLICY.max_retries,
        aliases=("max_adaptive_retries",),
    ),
    Option(
        "adaptiveRetries",
        _BOOLEAN,
        "Whether retries that a label permits take tokens from the client's budget.",
        _POLICY.is_budgeted,
        aliases=("adaptive_retries",),
    ),
    Option(
        "enableOverloadRetargeting",
        _BOOLEAN,
        "Whether a retry avoids the overloaded server. With primaryPreferred it may then read from a secondary.",
        _POLICY.retargets,
        aliases=("enable_overload_retargeting",),
    ),
    keyword_option(
        "overload_policy",
        Values(instance_of(OverloadRetry), "a motorlite.retry.OverloadRetry"),
        "The preset, which the three options above change where they are set.",
        _POLICY,
    ),
    keyword_option(
        "retry_strategy",
        Values(as_retry_strategy, "a motorlite.retry.RetryStrategy (with the budget 'client' or None)"),
        "Decides about retries that the specifications refuse.",
        SpecificationRetry(),
        "retry_strategy",
    ),
    keyword_option(
        "retry_budget",
        Values(instance_of(RetryBudget), "a motorlite.retry.RetryBudget"),
        "Replaces the client's own budget: with another capacity, with limits for each server, or shared.",
        None,
        "retry_budget",
    ),
    keyword_option(
        "circuit_breaker",
        Values(_circuit_breaker, "a motorlite.overload.CircuitBreaker"),
        "Stops all operations, or only retries, on a server that keeps failing ([Breakers and limits](limits.md)).",
        None,
        "circuit_breaker",
    ),
    keyword_option(
        "rate_limit",
        Values(_rate_limits, "a motorlite.overload.RateLimit, or a mapping from namespaces to RateLimits"),
        "How many operations may start per second, in all or by database and collection.",
        None,
        "rate_limit",
    ),
    keyword_option(
        "concurrency_limit",
        Values(_concurrency_limit, "a motorlite.overload.ConcurrencyLimit"),
        "Adapts the number of operations that run on a server at once to its capacity.",
        None,
        "concurrency_limit",
    ),
    keyword_option(
        "wait_queue",
        Values(_wait_queue, "a motorlite.overload.WaitQueue"),
        "What becomes of operations that find all connections taken. By default they wait, however many they are.",
        None,
        "wait_queue",
    ),
)
