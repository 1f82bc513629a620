"""Pure: the client's budget of retries (client backpressure specification, "Token Bucket")."""

from __future__ import annotations

from typing import Final

from motorlite.retry import TOKEN_CAPACITY

RETRY_COST: Final = 1.0
# What every success returns, so that about one retry per ten successes can be paid in the long run.
RETURN_RATE: Final = 0.1
_COST: Final = round(RETRY_COST * 10)
_RETURN: Final = round(RETURN_RATE * 10)


class TokenBucket:
    """Tokens for retries. An empty bucket refuses at once; nothing ever waits for a token.

    Counted in tenths, as whole numbers: adding 0.1 a thousand times would not give 100.
    """

    __slots__ = ("_capacity", "_tenths")

    def __init__(self, capacity: float = TOKEN_CAPACITY) -> None:
        self._capacity = round(capacity * 10)
        self._tenths = self._capacity

    @property
    def tokens(self) -> float:
        """How many tokens are left."""
        return self._tenths / 10

    @property
    def capacity(self) -> float:
        """How many tokens there can be."""
        return self._capacity / 10

    def take(self) -> bool:
        """Withdraw the cost of one retry; False, and nothing taken, when less is left."""
        if self._tenths < _COST:
            return False
        self._tenths -= _COST
        return True

    def first_attempt_succeeded(self) -> None:
        """Rule 1: deposit 0.1."""
        if self._tenths < self._capacity:
            self._tenths += _RETURN

    def retry_succeeded(self) -> None:
        """Rule 2: deposit 1.1."""
        self._tenths = min(self._capacity, self._tenths + _RETURN + _COST)

    def retry_failed_otherwise(self) -> None:
        """Rule 3: a retry failed, but not for overload: deposit 1."""
        self._tenths = min(self._capacity, self._tenths + _COST)

    def retry_not_made(self) -> None:
        """A retry that was paid for was cancelled before it was sent: give its token back."""
        self._tenths = min(self._capacity, self._tenths + _COST)
