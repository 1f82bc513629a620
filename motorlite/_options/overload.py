"""Pure: the rows of the options about overload: retries, budgets, breakers, limits and the wait queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final

from motorlite._options.option import Option, Values, keyword_option
from motorlite._options.values import Unusable, boolean, instance_of, integer
from motorlite.retry import BestEffort, FailFast, OverloadRetry, RetryBudget, SpecificationRetry
from motorlite.retry.strategy import as_retry_strategy

# Few clients have one of these options, so their classes, and the parser of text, are imported with the first value.


def _composed(make: Callable[..., object], text: str, first: str | None = None, names: tuple[str, ...] = ()) -> object:
    from motorlite._options.composed import composed

    return composed(make, text, first, names)


def _checked(make: Callable[..., object], **arguments: object) -> object:
    from motorlite._options.composed import checked

    return checked(make, arguments)


# In lower case: they may be written in any case, as "bestEffort" or "BestEffort".
_STRATEGIES: Final = {"specification": SpecificationRetry, "failfast": FailFast, "besteffort": BestEffort}


def _retry_strategy(value: object) -> object:
    if isinstance(value, OverloadRetry):
        return _checked(as_retry_strategy, value=value)  # with the reason why one of its fields is refused
    if not isinstance(value, str):
        return as_retry_strategy(value)
    name, comma, rest = value.partition(",")
    kind = _STRATEGIES.get(name.lower())
    if kind is None or (comma and kind is not BestEffort):
        raise ValueError
    return _composed(BestEffort, rest, None, ("give_up_after",)) if comma else kind()


def _retry_budget(value: object) -> object:
    """Return a budget, True for one that the client makes, or False for none."""
    if isinstance(value, bool) or value in ("true", "false"):
        return boolean(value)
    if isinstance(value, int | float):
        return _checked(RetryBudget, capacity=value)
    if isinstance(value, str):
        return _composed(RetryBudget, value, "capacity", ("capacity", "per_server"))
    return instance_of(RetryBudget)(value)


def _circuit_breaker(value: object) -> object:
    from motorlite.overload.breaker import CircuitBreaker

    return _switched(CircuitBreaker, value)


def _concurrency_limit(value: object) -> object:
    from motorlite.overload.concurrency import ConcurrencyLimit

    return _switched(ConcurrencyLimit, value)


def _switched(kind: type[object], value: object) -> object:
    """Return an object of `kind`, made from True or from settings, or the value itself; None for False."""
    if isinstance(value, bool) or value in ("true", "false"):
        return kind() if boolean(value) else None
    return _composed(kind, value) if isinstance(value, str) else instance_of(kind)(value)


def _rate_limits(value: object) -> object:
    from motorlite.overload.rate_limit import as_rate_limits

    if isinstance(value, Mapping):
        try:
            return as_rate_limits({name: _rate_limit(limit) for name, limit in value.items()})
        except Unusable:
            raise
        except ValueError as error:
            raise Unusable(f"has a wrong key: {error}") from None
    return as_rate_limits(_rate_limit(value))


def _rate_limit(value: object) -> object:
    from motorlite.overload.rate_limit import RateLimit

    if isinstance(value, int | float) and not isinstance(value, bool):
        return _checked(RateLimit, rate=value)
    return _composed(_limit_with_queue, value, "rate", _names_of_limit()) if isinstance(value, str) else value


def _names_of_limit() -> tuple[str, ...]:
    """Return the settings of a rate limit and of its queue, which share a timeout."""
    from motorlite.overload.rate_limit import RateLimit
    from motorlite.overload.wait_queue import WaitQueue

    names = [field.name for kind in (RateLimit, WaitQueue) for field in fields(kind) if field.name != "queue"]
    return tuple(dict.fromkeys(names))


def _limit_with_queue(**settings: Any) -> object:
    from motorlite.overload.rate_limit import RateLimit
    from motorlite.overload.wait_queue import WaitQueue

    own = {field.name: settings.pop(field.name) for field in fields(RateLimit) if field.name in settings}
    if settings:
        timeout = {"timeout": own.pop("timeout")} if "timeout" in own else {}
        own["queue"] = WaitQueue("queue", **timeout, **settings)
    return RateLimit(**own)


def _wait_queue(value: object) -> object:
    from motorlite.overload.wait_queue import WaitQueue

    return _composed(WaitQueue, value, "strategy") if isinstance(value, str) else instance_of(WaitQueue)(value)


_BOOLEAN = Values(boolean, "True or False")
_NUMBER = Values(integer(0), "a non-negative integer")
# The class has the defaults of the options that change the policy.
_POLICY = OverloadRetry()


def _option(name: str, values: Values, meaning: str, alias: str, field: str = "", default: object = None) -> Option:
    return Option(name, values, meaning, default, field, if_none="default", aliases=(alias,))


OVERLOAD: Final[tuple[Option, ...]] = (
    Option(
        "maxAdaptiveRetries",
        _NUMBER,
        "Retries of one operation after an overload error. 0 also disables the retry after a refused connection.",
        _POLICY.max_retries,
        aliases=("max_adaptive_retries",),
    ),
    Option(
        "retry_budget",
        Values(
            _retry_budget,
            'a number of tokens, False for no budget, settings such as "capacity:1000,perServer:200", or a '
            "motorlite.retry.RetryBudget",
        ),
        "The tokens of retries that a label permits; an object may be shared by clients. By default 1000 for the "
        "client.",
        if_none="default",
        aliases=("retryBudget",),
        renamed=("adaptiveRetries", "adaptive_retries"),
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
        "The preset, which `maxAdaptiveRetries` and `enableOverloadRetargeting` change where they are set.",
        _POLICY,
    ),
    _option(
        "retry_strategy",
        Values(
            _retry_strategy,
            "'specification', 'failFast' or 'bestEffort' (which takes a setting: \"bestEffort,giveUpAfter:10s\"), or a "
            "motorlite.retry.RetryStrategy (with the budget 'client' or None)",
        ),
        "Decides about retries ([Retry strategies](retry-strategies.md)).",
        "retryStrategy",
        "retry_strategy",
        SpecificationRetry(),
    ),
    _option(
        "circuit_breaker",
        Values(
            _circuit_breaker,
            'True, settings such as "failureRate:0.2,openFor:5s", or a motorlite.overload.CircuitBreaker',
        ),
        "Stops all operations, or only retries, on a server that keeps failing ([Breakers and limits](limits.md)).",
        "circuitBreaker",
        "circuit_breaker",
    ),
    _option(
        "rate_limit",
        Values(
            _rate_limits,
            'a number per second, settings such as "rate:500,burst:50" or "500,strategy:queue,maxDepth:50", a '
            "motorlite.overload.RateLimit, or a mapping from namespaces to these",
        ),
        "How many operations may start per second, in all or by database and collection.",
        "rateLimit",
        "rate_limit",
    ),
    _option(
        "concurrency_limit",
        Values(
            _concurrency_limit,
            'True, settings such as "initial:20,minimum:4", or a motorlite.overload.ConcurrencyLimit',
        ),
        "Adapts the number of operations that run on a server at once to its capacity.",
        "concurrencyLimit",
        "concurrency_limit",
    ),
    _option(
        "wait_queue",
        Values(
            _wait_queue,
            "'reject', 'queue' or 'degrade', perhaps with settings (\"queue,maxDepth:500,timeout:5s\"), or a "
            "motorlite.overload.WaitQueue",
        ),
        "What becomes of operations that find all connections taken. By default they wait, however many they are.",
        "waitQueue",
        "wait_queue",
    ),
)
