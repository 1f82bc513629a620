"""Pure: the client's budget of retries (client backpressure specification, "Token Bucket")."""

from __future__ import annotations

from typing import Final

from motorlite.retry import TOKEN_CAPACITY

RETRY_COST: Final = 1.0
# Tokens returned by every success, which pays for about one retry per ten successes in the long run.
RETURN_RATE: Final = 0.1
_COST: Final = round(RETRY_COST * 10)
_RETURN: Final = round(RETURN_RATE * 10)


class TokenBucket:
    """Tokens for retries. An empty bucket refuses immediately; nothing ever waits for a token.

    Tokens are counted in tenths, as integers: adding 0.1 a thousand times would not give 100.
    """

    __slots__ = ("_capacity", "_tenths")

    def __init__(self, capacity: float = TOKEN_CAPACITY) -> None:
        self._capacity = round(capacity * 10)
        self._tenths = self._capacity

    @property
    def tokens(self) -> float:
        """The number of tokens left."""
        return self._tenths / 10

    @property
    def capacity(self) -> float:
        """The maximum number of tokens."""
        return self._capacity / 10

    def take(self) -> bool:
        """Withdraw the cost of one retry. Returns False, and takes nothing, if too few tokens are left."""
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
        """Rule 3: a retry failed for a reason other than overload: deposit 1."""
        self._tenths = min(self._capacity, self._tenths + _COST)

    def retry_not_made(self) -> None:
        """Return the token of a retry that was cancelled before it was sent."""
        self._tenths = min(self._capacity, self._tenths + _COST)
