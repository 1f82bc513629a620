"""Pure: the public vocabulary of retries."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Final

from motorlite._base.arguments import check_boolean

__all__ = ["OverloadRetry", "RetryReason", "RetryRefusal"]

MAX_ADAPTIVE_RETRIES: Final = 5
TOKEN_CAPACITY: Final = 1000.0
# Floats represent every integer up to this one.
_LARGEST: Final = 2.0**53


class RetryReason(enum.StrEnum):
    """The classification of a failed attempt."""

    OVERLOAD = "overload"
    """`SystemOverloadedError` with `RetryableError`: retried after a backoff, for one token."""
    LABEL = "retryable"
    """`RetryableError` alone: retried immediately, for one token."""
    READ = "retryable read"
    """Retryable reads specification: retried immediately, for no token."""
    WRITE = "retryable write"
    """Retryable writes specification: retried immediately with the same txnNumber, for no token."""
    NONE = "none"
    """No rule permits a retry."""


class RetryRefusal(enum.StrEnum):
    """Why no retry follows. An error that no retry rule covers (a duplicate key) has no refusal."""

    NOT_RETRYABLE = "not retryable"
    """The error is retryable, but not for this operation; or a retry failed with an error that is not retryable."""
    DISABLED = "disabled"
    """`retryReads` or `retryWrites` is off (both must be on for runCommand)."""
    ATTEMPTS = "attempts"
    """No retries are left."""
    DEADLINE = "deadline"
    """The time limit of the operation, of server selection or of the connection passed, or the backoff would end after
    the deadline of the operation or of the enclosing cancel scope."""
    TOKENS = "tokens"
    """The client's token bucket is empty."""
    BREAKER = "circuit breaker"
    """The circuit breaker of the server is open."""
    CLOSED = "closed"
    """The client is closing."""


@dataclass(frozen=True, slots=True)
class OverloadRetry:
    """How operations are retried while the server is overloaded (client backpressure specification).

    Attributes:
        max_retries: The maximum number of retries of one operation (`maxAdaptiveRetries`).
        is_budgeted: Whether retries that a label permits take tokens from the client's bucket (`adaptiveRetries`).
        token_capacity: The bucket's capacity and initial content.
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
            _check_number(name, getattr(self, name), "integer", int)
        for name in ("token_capacity", "base_backoff", "max_backoff"):
            _check_number(name, getattr(self, name), "number", int, float)
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
            max_retries=2,
            is_budgeted=False,
            first_exponent=1,
            needs_both_labels=True,
            retargets=False,
            handshake="2",
        )

    def with_options(
        self, max_retries: int | None = None, is_budgeted: bool | None = None, retargets: bool | None = None
    ) -> OverloadRetry:
        """Return a copy with the arguments that are not None."""
        return replace(
            self,
            max_retries=self.max_retries if max_retries is None else max_retries,
            is_budgeted=self.is_budgeted if is_budgeted is None else is_budgeted,
            retargets=self.retargets if retargets is None else retargets,
        )


def _check_number(name: str, value: object, noun: str, *kinds: type[float]) -> None:
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise TypeError(f"{name} must be a non-negative {noun}, not {value!r}")
    # The comparison is also false for NaN and infinities.
    if not 0 <= value <= _LARGEST:
        raise ValueError(f"{name} must be a non-negative {noun}, at most 2**53, not {value!r}")
