"""Pure: the compared policies and the peers, and each policy as the options of a motorlite client."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin, get_type_hints

from motorlite.overload import CircuitBreaker, ConcurrencyLimit, WaitQueue
from motorlite.retry import OverloadRetry, RetryBudget

if TYPE_CHECKING:
    from motorlite._base.values import Address

PER_SERVER: Final = 200.0
"""Tokens for each server in the arms with a budget per server."""
FIXED: Final = 0.1
"""Seconds before each retry in the arms with a fixed backoff."""
YES_OR_NO: Final = {"yes": True, "no": False}


class WrongPolicyError(Exception):
    """A policy on the command line is none."""


@dataclass(frozen=True, slots=True)
class Arm:
    """A driver with a policy.

    Attributes:
        name: As on the command line and in the tables.
        about: One clause for the legend.
        driver: "motorlite", or the peer, each as its users run it.
        retries: The most retries of one request (`maxAdaptiveRetries`).
        backoff: "seed": random() * min(10 s, 100 ms * 2^i); "revision": that of the 2026-07 revision; "fixed": 100 ms
            each time; "none": at once.
        budget: Whose tokens a retry costs: the client's, a server's in addition, one of all clients in the process, or
            none. "published": the client's, but a retry that succeeds does not get its token back, as in the
            published comparison of token buckets.
        tokens: The capacity of the budget.
        breaker: A circuit breaker that gates first attempts too.
        retry_breaker: A circuit breaker that opens at 10 % failures and gates retries alone.
        queue: The wait queue of `motorlite.overload.WaitQueue`, in which at most 100 operations wait for at most 5 s.
        newest_first: The queue serves the newest operations first while it does not drain.
        adaptive_limit: The adaptive concurrency limit.
        retargets: A retry avoids the server that rejected it.
        max_pool_size: Connections of one client to one server.
    """

    name: str
    about: str
    driver: Literal["motorlite", "pymongo", "motor", "mongojet"] = "motorlite"
    retries: int = 5
    backoff: Literal["seed", "revision", "fixed", "none"] = "seed"
    budget: Literal["client", "server", "shared", "published", "none"] = "client"
    tokens: float = 1000.0
    breaker: bool = False
    retry_breaker: bool = False
    queue: bool = False
    newest_first: bool = False
    adaptive_limit: bool = False
    retargets: bool = True
    max_pool_size: int = 100


ARMS = {
    arm.name: arm
    for arm in (
        Arm("no-retry", "no retries", retries=0),
        Arm("immediate", "five immediate retries without budget", backoff="none", budget="none"),
        Arm("fixed", "five retries after 100 ms each, without budget", backoff="fixed", budget="none"),
        Arm(
            "revision",
            "the revision of July 2026: two retries, no budget",
            retries=2,
            backoff="revision",
            budget="none",
        ),
        Arm("default", "motorlite's default: five retries, backoff, 1000 tokens for each client"),
        Arm("per-server", "the default, and 200 tokens for each server", budget="server"),
        Arm("shared", "the default, one budget for all clients", budget="shared"),
        Arm("small-budget", "the default with 20 tokens for each client", tokens=20),
        Arm("breaker", "the default with a circuit breaker", breaker=True),
        Arm("queue", "the default with a bounded wait queue", queue=True),
        Arm("adaptive", "the default with an adaptive concurrency limit", adaptive_limit=True),
        Arm("small-pool", "the default with 10 connections for each client", max_pool_size=10),
        Arm("small-pool-queue", "the same, with a bounded wait queue", queue=True, max_pool_size=10),
        Arm(
            "small-pool-newest",
            "the same, which serves the newest first when it does not drain",
            queue=True,
            newest_first=True,
            max_pool_size=10,
        ),
        Arm("no-retarget", "the default, but retries do not avoid the overloaded server", retargets=False),
        Arm("three", "three immediate retries without budget", retries=3, backoff="none", budget="none"),
        Arm("bucket", "three immediate retries, 5 tokens for each client", retries=3, backoff="none", tokens=5),
        Arm(
            "published-bucket",
            "the same, but a retry that succeeds does not get its token back",
            retries=3,
            backoff="none",
            budget="published",
            tokens=5,
        ),
        Arm(
            "retry-breaker",
            "three immediate retries, and a circuit breaker that stops retries at 10 % failures",
            retries=3,
            backoff="none",
            budget="none",
            retry_breaker=True,
        ),
        Arm("pymongo", "PyMongo Async, its defaults", driver="pymongo"),
        Arm("motor", "Motor, its defaults", driver="motor"),
        Arm("mongojet", "mongojet, its defaults", driver="mongojet"),
    )
}


def parse_arm(text: str) -> Arm:
    """An arm by its name, or one that differs from it: ``default:tokens=50,max_pool_size=20``.

    Raises:
        WrongPolicyError: There is no such arm or field, or the value has another type.
    """
    name, _, changes = text.partition(":")
    if name not in ARMS:
        raise WrongPolicyError(f"there is no policy {name!r}; there are {', '.join(ARMS)}")
    arm = ARMS[name]
    if not changes:
        return arm
    pairs = (change.partition("=") for change in changes.split(","))
    values = {field: _value(arm, field, value) for field, _, value in pairs}
    return replace(arm, name=text, about=f"{arm.about}; {changes}", **values)


def _value(arm: Arm, name: str, text: str) -> Any:
    allowed = [field.name for field in fields(arm) if field.name not in ("name", "about", "driver")]
    if name not in allowed:
        raise WrongPolicyError(f"a policy has no {name!r}; it has {', '.join(allowed)}")
    words = get_args(hint) if get_origin(hint := get_type_hints(Arm)[name]) is Literal else ()
    if text in words:
        return text
    kind = type(getattr(arm, name))
    try:
        value = YES_OR_NO[text.lower()] if kind is bool else kind(text)
    except (ValueError, KeyError):
        value = math.nan
    if words or not value >= 0:
        wanted = f"one of {', '.join(words)}" if words else f"{kind.__name__} of at least 0"
        raise WrongPolicyError(f"{name}={text} is not {wanted}")
    return value


# --- as options of a client ---


@dataclass(frozen=True, slots=True)
class FixedBackoff(OverloadRetry):
    """The same delay before each retry, without jitter."""

    def backoff(self, earlier_retries: int, jitter: float, server_hint: float | None = None) -> float:
        return FIXED if server_hint is None else server_hint


class SuccessBudget(RetryBudget):
    """A bucket in which every success puts a tenth of a token, and from which every retry takes one for good."""

    __slots__ = ()

    def retry_succeeded(self, address: Address | None = None) -> None:
        self.first_attempt_succeeded(address)

    def retry_failed_otherwise(self, address: Address | None = None) -> None:
        """Deposit nothing."""


def client_options(arm: Arm, budget: RetryBudget | None = None) -> dict[str, Any]:
    """The keyword arguments of `AsyncMongoClient` for one of the clients of `arm`; `budget` is the shared one."""
    options: dict[str, Any] = {"overload_policy": policy(arm), "maxPoolSize": arm.max_pool_size}
    if arm.budget == "shared":
        options["retry_budget"] = budget
    elif arm.budget == "published":
        options["retry_budget"] = SuccessBudget(arm.tokens)
    elif arm.budget != "none":
        options["retry_budget"] = RetryBudget(arm.tokens, per_server=PER_SERVER if arm.budget == "server" else None)
    if arm.breaker:
        options["circuit_breaker"] = CircuitBreaker(gates_first_attempts=True)
    elif arm.retry_breaker:
        options["circuit_breaker"] = CircuitBreaker(failure_rate=0.1, gates_first_attempts=False)
    if arm.adaptive_limit:
        options["concurrency_limit"] = ConcurrencyLimit()
    if arm.queue:
        options["wait_queue"] = WaitQueue(strategy="queue", ordering="adaptive" if arm.newest_first else "fifo")
    return options


def shared_budget(arm: Arm) -> RetryBudget | None:
    """The budget that all clients of `arm` use together, or None."""
    return RetryBudget(arm.tokens) if arm.budget == "shared" else None


def policy(arm: Arm) -> OverloadRetry:
    if arm.backoff == "revision":
        preset = OverloadRetry.revision_2026_07()
        return preset.with_options(max_retries=arm.retries, is_budgeted=arm.budget != "none")
    preset = OverloadRetry()
    if arm.backoff == "fixed":
        preset = FixedBackoff()
    elif arm.backoff == "none":
        preset = OverloadRetry(base_backoff=0.0)
    return preset.with_options(arm.retries, arm.budget != "none", arm.retargets)
