"""Pure: the rows of the options about overload: retries, budgets, breakers, limits and the wait queue."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any, Final

from motorlite._options.row import Option, Unusable, Values, boolean, instance_of, integer, keyword_option, suggestion
from motorlite.retry import BestEffort, FailFast, OverloadRetry, RetryBudget, SpecificationRetry
from motorlite.retry.strategy import as_retry_strategy

# Values with several settings in one text: ``queue,maxDepth:500,timeout:5s``. Connection strings need this form, and
# keyword arguments may use it. The names are the attributes of the class, in the spelling of connection strings or of
# Python.

_WORDS: Final = {"true": True, "false": False, "none": None}
# Compiled on demand, since few clients need them.
_INTEGER: Final = r"[+-]?[0-9]+"
_FRACTION: Final = r"[+-]?[0-9]+\.[0-9]+"
_DURATION: Final = r"([0-9]+(?:\.[0-9]+)?)(ms|s|m)"
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0}


def _scalar(text: str) -> Any:
    """Return a boolean, None, a number, a duration in seconds, or the text itself."""
    if text in _WORDS:
        return _WORDS[text]
    if re.fullmatch(_INTEGER, text):
        return int(text)
    if re.fullmatch(_FRACTION, text):
        return float(text)
    if found := re.fullmatch(_DURATION, text):
        return float(found[1]) * _SECONDS[found[2]]
    return text


def _settings(text: str, names: Iterable[str], first: str | None = None) -> dict[str, Any]:
    """Return the settings in `text` by their names in Python.

    Args:
        text: ``name:value`` pairs, separated by commas.
        names: The names that may occur, in Python's spelling.
        first: The name of a first value that has none.

    Raises:
        Unusable: A setting is unknown, occurs twice, or has no name or no value.
    """
    known = {_plain(name): name for name in names}
    found: dict[str, Any] = {}
    for position, part in enumerate(text.split(",")):
        name, colon, item = (word.strip() for word in part.partition(":"))
        if not colon and first is not None and not position:
            name, item = first, name
        elif not colon or not item:
            raise Unusable(f"has {part.strip()!r}, which is not a setting of the form name:value")
        key = known.get(_plain(name))
        if key is None:
            like = suggestion(_plain(name), {plain: _camel(right) for plain, right in known.items()})
            raise Unusable(f"has the unknown setting {name!r}{like or ';'} known are {', '.join(map(_camel, names))}")
        if key in found:
            raise Unusable(f"has the setting {_camel(key)} twice")
        found[key] = _scalar(item)
    return found


def _composed(make: Callable[..., Any], text: str, first: str | None = None, names: Iterable[str] = ()) -> Any:
    """Call `make` with the settings in `text`, and return the result.

    Args:
        make: A dataclass, or a function with parameters of `names`.
        text: The settings.
        first: The name of a first value that has none.
        names: The parameters; those of a dataclass by default.

    Raises:
        Unusable: A setting is unknown, or its value is wrong.
    """
    allowed = [*names] or [field.name for field in fields(make) if field.init]  # type: ignore[arg-type]
    return _checked(make, **_settings(text, allowed, first))


def _checked(make: Callable[..., Any], **arguments: Any) -> Any:
    """Return ``make(**arguments)``, and blame the option for its errors.

    Raises:
        Unusable: An argument is wrong.
    """
    try:
        return make(**arguments)
    except (TypeError, ValueError) as error:
        raise Unusable(f"is wrong: {error}") from None


def _camel(name: str) -> str:
    """Return the spelling of connection strings: ``max_depth`` is ``maxDepth``."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


# The rows. Few clients have one of these options, so their classes are imported with the first value.

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


def _option(name: str, values: Values, meaning: str, default: object = None) -> Option:
    """Return an option that has both spellings, and a field of its own."""
    return Option(name, values, meaning, default, name, if_none="default", aliases=(_camel(name),))


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
        SpecificationRetry(),
    ),
    _option(
        "circuit_breaker",
        Values(
            _circuit_breaker,
            'True, settings such as "failureRate:0.2,openFor:5s", or a motorlite.overload.CircuitBreaker',
        ),
        "Stops all operations, or only retries, on a server that keeps failing ([Breakers and limits](limits.md)).",
    ),
    _option(
        "rate_limit",
        Values(
            _rate_limits,
            'a number per second, settings such as "rate:500,burst:50" or "500,strategy:queue,maxDepth:50", a '
            "motorlite.overload.RateLimit, or a mapping from namespaces to these",
        ),
        "How many operations may start per second, in all or by database and collection.",
    ),
    _option(
        "concurrency_limit",
        Values(
            _concurrency_limit,
            'True, settings such as "initial:20,minimum:4", or a motorlite.overload.ConcurrencyLimit',
        ),
        "Adapts the number of operations that run on a server at once to its capacity.",
    ),
    _option(
        "wait_queue",
        Values(
            _wait_queue,
            "'reject', 'queue' or 'degrade', perhaps with settings (\"queue,maxDepth:500,timeout:5s\"), or a "
            "motorlite.overload.WaitQueue",
        ),
        "What becomes of operations that find all connections taken. By default they wait, however many they are.",
    ),
)
