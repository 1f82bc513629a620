"""Pure: the compared policies, neutral between the real driver and the simulation, and the peers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


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
            nobody's. "published": the client's, but a retry that succeeds does not get its token back, as in the
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
