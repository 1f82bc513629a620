"""Pure: the policy of retries while a server is overloaded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from motorlite._base.arguments import check_boolean, check_number
from motorlite._base.error_documents import RETRYABLE, SYSTEM_OVERLOADED
from motorlite._base.values import ByFields
from motorlite.retry.budget import TOKEN_CAPACITY
from motorlite.retry.strategy import RetryAction, RetryStrategy, SpecificationRetry

if TYPE_CHECKING:
    from motorlite.retry.reasons import RetryReason
    from motorlite.retry.strategy import RetryRequest

__all__ = ["OverloadRetry"]

MAX_ADAPTIVE_RETRIES: Final = 5


def is_asked(strategy: RetryStrategy) -> bool:
    """Whether a strategy is ever asked. The default has no opinion, and the overload policy is applied instead."""
    return type(strategy) not in (SpecificationRetry, OverloadRetry)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OverloadRetry(ByFields, RetryStrategy):
    """How operations are retried while the server is overloaded (client backpressure specification).

    As the client's `overload_policy`, it decides first about all errors with its labels. As a `retry_strategy` of a
    database, a collection or a block of calls, it takes the place of the client's policy there: with more retries, with
    fewer, or with none (``OverloadRetry(max_retries=0)``). Retries after network errors and failovers remain;
    `retargets` and `handshake` have no effect there, and another `token_capacity` than the default is refused.

    Attributes:
        max_retries: The maximum number of retries of one operation (`maxAdaptiveRetries`).
        is_budgeted: Whether retries that a label permits take tokens from the client's bucket (`retry_budget`).
        token_capacity: Deprecated: the capacity of the client's bucket. Set the option `retry_budget`.
        base_backoff: Seconds before the first retry, at a jitter of 1; the server's `baseBackoffMS` replaces it.
        max_backoff: The maximum backoff in seconds.
        first_exponent: 0: the first delay is `base_backoff`; 1: twice that.
        needs_both_labels: Whether retries require both labels, so that `RetryableError` alone permits none.
        retargets: Whether the retry avoids the overloaded server (`enableOverloadRetargeting`). With
            primaryPreferred a retry may then read from a secondary.
        handshake: The value of `backpressure` in the handshake.

    Raises:
        TypeError: A field has the wrong type.
        ValueError: A number is negative, NaN, infinite or above 2**53, or `handshake` is an empty string.
    """

    max_retries: int = MAX_ADAPTIVE_RETRIES
    is_budgeted: bool = True
    token_capacity: float = TOKEN_CAPACITY
    base_backoff: float = 0.1
    max_backoff: float = 10.0
    first_exponent: int = 0
    needs_both_labels: bool = False
    retargets: bool = True
    handshake: bool | str = True

    def __post_init__(self) -> None:
        for name in ("max_retries", "first_exponent"):
            check_number(name, getattr(self, name), "integer", int)
        for name in ("token_capacity", "base_backoff", "max_backoff"):
            check_number(name, getattr(self, name), "number", int, float)
        for name in ("is_budgeted", "needs_both_labels", "retargets"):
            check_boolean(name, getattr(self, name))
        if not isinstance(self.handshake, bool | str):
            raise TypeError(f"handshake must be True, False or a string, not {self.handshake!r}")
        if self.handshake == "":
            raise ValueError("handshake must not be an empty string")

    @classmethod
    def revision_2026_07(cls) -> OverloadRetry:
        """The later public revision: 2 retries after 200 and 400 ms, needs both labels, no bucket, no retargeting."""
        return cls(
            max_retries=2, is_budgeted=False, first_exponent=1, needs_both_labels=True, retargets=False, handshake="2"
        )

    def with_options(
        self, max_retries: int | None = None, is_budgeted: bool | None = None, retargets: bool | None = None
    ) -> OverloadRetry:
        """Return a copy with the arguments that are not None."""
        changes: dict[str, Any] = {"max_retries": max_retries, "is_budgeted": is_budgeted, "retargets": retargets}
        return replace(self, **{name: value for name, value in changes.items() if value is not None})

    @property
    def budget(self) -> Literal["client"] | None:
        return "client" if self.is_budgeted else None

    @property
    def _without_effect(self) -> str | None:
        if self.token_capacity == TOKEN_CAPACITY:
            return None
        return (
            f"token_capacity={self.token_capacity:g} has no effect for an OverloadRetry as a strategy: its retries "
            "take the tokens of the client's budget, which the client option retry_budget sets"
        )

    def backoff(self, earlier_retries: int, jitter: float, server_hint: float | None = None) -> float:
        """Return the seconds to wait before the next retry after an overload error.

        Args:
            earlier_retries: The number of all retries of the operation so far, for any reason.
            jitter: A random number in [0, 1).
            server_hint: The base that the server asks for, in seconds; None: `base_backoff`.
        """
        base = self.base_backoff if server_hint is None else server_hint
        # 2 ** 1024 would overflow. The delay reaches its maximum at a far smaller exponent.
        exponent = min(earlier_retries + self.first_exponent, 64)
        return jitter * min(self.max_backoff, float(base * 2**exponent))

    def retry_after(self, request: RetryRequest, reason: RetryReason) -> RetryAction:
        """Retry after errors with the labels of this policy, while the operation has fewer than `max_retries`."""
        is_overload = SYSTEM_OVERLOADED in request.error_labels
        if (
            RETRYABLE not in request.error_labels
            or request.retry_attempts >= self.max_retries
            or (self.needs_both_labels and not is_overload)
        ):
            return RetryAction.no_retry()
        if not is_overload:
            return RetryAction.with_duration(0)
        return RetryAction.with_duration(self.backoff(request.retry_attempts, request.jitter, request.server_hint))
