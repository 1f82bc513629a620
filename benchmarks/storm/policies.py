"""Pure: an arm as the options of a motorlite client, the same for real clients and for simulated ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from motorlite.overload import CircuitBreaker, ConcurrencyLimit, WaitQueue
from motorlite.retry import OverloadRetry, RetryBudget

if TYPE_CHECKING:
    from benchmarks.storm.arms import Arm
    from motorlite._base.values import Address

PER_SERVER: Final = 200.0
"""Tokens for each server in the arms with a budget per server."""
FIXED: Final = 0.1
"""Seconds before each retry in the arms with a fixed backoff."""


@dataclass(frozen=True, slots=True)
class FixedBackoff(OverloadRetry):
    """The same delay before each retry, without jitter."""

    def backoff(self, earlier_retries: int, jitter: float, server_hint: float | None = None) -> float:
        """Return the delay."""
        return FIXED if server_hint is None else server_hint


class SuccessBudget(RetryBudget):
    """A bucket in which every success puts a tenth of a token, and from which every retry takes one for good."""

    __slots__ = ()

    def retry_succeeded(self, address: Address | None = None) -> None:
        """Deposit 0.1."""
        self.first_attempt_succeeded(address)

    def retry_failed_otherwise(self, address: Address | None = None) -> None:
        """Deposit nothing."""


def client_options(arm: Arm, budget: RetryBudget | None = None) -> dict[str, Any]:
    """Return the keyword arguments of `AsyncMongoClient` for one of the clients of `arm`.

    Args:
        arm: A motorlite arm.
        budget: What `shared_budget` returned, for all clients of the process.
    """
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
    """Return the budget that all clients of `arm` use together, or None."""
    return RetryBudget(arm.tokens) if arm.budget == "shared" else None


def policy(arm: Arm) -> OverloadRetry:
    """Return the policy of retries after errors of overload."""
    if arm.backoff == "revision":
        preset = OverloadRetry.revision_2026_07()
        return preset.with_options(max_retries=arm.retries, is_budgeted=arm.budget != "none")
    preset = OverloadRetry()
    if arm.backoff == "fixed":
        preset = FixedBackoff()
    elif arm.backoff == "none":
        preset = OverloadRetry(base_backoff=0.0)
    return preset.with_options(arm.retries, arm.budget != "none", arm.retargets)
