"""Pure: what may follow a failed attempt, as values."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from motorlite.retry import RetryReason, RetryRefusal, RetryRule

if TYPE_CHECKING:
    from motorlite._execution.failure import Failure
    from motorlite.retry import RetryRequest, RetryStrategy


class Again:
    """Decision: try once more after `delay` seconds."""

    __slots__ = ("delay", "deprioritize", "is_paid", "reason", "rule")

    refusal = None

    def __init__(
        self, reason: RetryReason, rule: RetryRule, delay: float, *, deprioritize: bool = False, is_paid: bool = False
    ) -> None:
        self.reason: RetryReason = reason
        # Who permits the retry.
        self.rule: RetryRule = rule
        self.delay: float = delay
        # Whether to avoid the server that failed.
        self.deprioritize: bool = deprioritize
        # Whether it took a token.
        self.is_paid: bool = is_paid


class Raise:
    """Decision: the operation fails with `failure`, not always the newest one. If it has a reply, that reply stands.

    `refusal` is None if no rule covers the error of a first attempt, or if a permitted retry was not made
    (`Retry.gave_up`).
    """

    __slots__ = ("failure", "reason", "refusal", "rule")

    delay: float = 0.0
    deprioritize = False

    def __init__(
        self, failure: Failure, reason: RetryReason, rule: RetryRule | None, refusal: RetryRefusal | None
    ) -> None:
        self.failure: Failure = failure
        self.reason: RetryReason = reason
        # Who refuses the retry; None: no rule permits it.
        self.rule: RetryRule | None = rule
        self.refusal: RetryRefusal | None = refusal


class ExpireAfter(Raise):
    """Decision: the operation waits until its time has passed, then fails with `failure`; it is not sent again."""

    __slots__ = ("delay",)

    def __init__(self, failure: Failure, reason: RetryReason, delay: float) -> None:
        super().__init__(failure, reason, RetryRule.STRATEGY, RetryRefusal.DEADLINE)
        self.delay: float = delay


class Ask(NamedTuple):
    """Decision: the application's strategy decides; `Retry.conclude` takes its answer."""

    strategy: RetryStrategy
    request: RetryRequest
    reason: RetryReason


class StrategyFault(NamedTuple):
    """What a strategy did instead of returning a RetryAction, and the traceback of its exception."""

    text: str
    trace: str = ""
