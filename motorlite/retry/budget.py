"""Pure: the budget of retries: tokens, which retries cost (client backpressure specification, "Token Bucket").

`_retry.decision` says which retry takes a token.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from motorlite._base.arguments import check_number

if TYPE_CHECKING:
    from motorlite._base.values import Address

__all__ = ["RetryBudget"]

TOKEN_CAPACITY: Final = 1000.0
RETRY_COST: Final = 1.0
# Tokens returned by every success, which pays for about one retry per ten successes in the long run.
RETURN_RATE: Final = 0.1
_COST: Final = round(RETRY_COST * 10)
_RETURN: Final = round(RETURN_RATE * 10)


class RetryBudget:
    """A bucket of tokens for retries. An empty bucket refuses immediately; nothing ever waits for a token.

    Every client has one of its own. Pass one as `retry_budget` to set its capacity, or the same to several clients, in
    any threads, to let them share it. Its counts are exact.

    Args:
        capacity: The number of tokens, with which it begins.
        per_server: The number of tokens for each server, in addition. A retry then takes one token of the server that
            failed and one of all servers together, so that a single failing server cannot use up the budget. None: no
            such limit.

    Raises:
        TypeError: An argument is not a number.
        ValueError: A number is negative, NaN, infinite or above 2**53.
    """

    # Tokens are counted in tenths, as integers: adding 0.1 a thousand times would not give 100.
    __slots__ = ("_capacity", "_lock", "_per_server", "_servers", "_tenths", "is_full")

    def __init__(self, capacity: float = TOKEN_CAPACITY, *, per_server: float | None = None) -> None:
        check_number("capacity", capacity, "number", int, float)
        if per_server is not None:
            check_number("per_server", per_server, "number", int, float)
        self._capacity = round(capacity * 10)
        self._tenths = self._capacity
        self._per_server = None if per_server is None else round(per_server * 10)
        # The servers whose tokens are not complete.
        self._servers: dict[Address, int] = {}
        # Held for a few operations on integers and one dictionary, never while anything else runs.
        self._lock = threading.Lock()
        # Whether a deposit would change nothing. Read without the lock, for every operation that succeeds at once:
        # a task that reads it while a token is taken has deposited before that.
        self.is_full: bool = True

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} tokens={self.tokens:g}, capacity={self.capacity:g}, per_server={self.per_server}>"
        )

    def _renew_lock(self) -> None:
        """In a forked child: another thread of the parent may have held the lock, and could not release this copy."""
        self._lock = threading.Lock()

    @property
    def tokens(self) -> float:
        """The number of tokens left."""
        return self._tenths / 10

    @property
    def capacity(self) -> float:
        """The maximum number of tokens."""
        return self._capacity / 10

    @property
    def per_server(self) -> float | None:
        """The maximum number of tokens for each server, or None."""
        return None if self._per_server is None else self._per_server / 10

    def tokens_for(self, address: Address) -> float | None:
        """Return the tokens left for retries after errors of one server, or None without a limit per server."""
        if self._per_server is None:
            return None
        return self._servers.get(address, self._per_server) / 10

    def take(self, address: Address | None = None) -> bool:
        """Withdraw the cost of one retry. Returns False, and takes nothing, if too few tokens are left.

        Args:
            address: The server that failed; None: no server was selected.
        """
        with self._lock:
            if self._tenths < _COST:
                return False
            if self._per_server is not None and address is not None:
                left = self._servers.get(address, self._per_server)
                if left < _COST:
                    return False
                self._servers[address] = left - _COST
            self._tenths -= _COST
            self.is_full = False
            return True

    def first_attempt_succeeded(self, address: Address | None = None) -> None:
        """Rule 1: deposit 0.1."""
        self._deposit(_RETURN, address)

    def retry_succeeded(self, address: Address | None = None) -> None:
        """Rule 2: deposit 1.1. `address`: the server whose error the retry followed, as in `take`."""
        self._deposit(_RETURN + _COST, address)

    def retry_failed_otherwise(self, address: Address | None = None) -> None:
        """Rule 3: a retry failed for a reason other than overload: deposit 1."""
        self._deposit(_COST, address)

    def retry_not_made(self, address: Address | None = None) -> None:
        """Return the token of a retry that was cancelled before it was sent."""
        self._deposit(_COST, address)

    def forget(self, address: Address) -> None:
        """Forget the tokens of a server that has left the deployment. If it returns, it gets a full bucket.

        Clients call it themselves.

        Args:
            address: The server.
        """
        with self._lock:
            if self._servers.pop(address, None) is not None:
                self.is_full = self._tenths == self._capacity and not self._servers

    def _deposit(self, tenths: int, address: Address | None) -> None:
        if self.is_full:
            return
        with self._lock:
            self._tenths = min(self._capacity, self._tenths + tenths)
            if address in self._servers:
                assert self._per_server is not None
                assert address is not None
                left = self._servers[address] + tenths
                if left < self._per_server:
                    self._servers[address] = left
                else:
                    del self._servers[address]
            self.is_full = self._tenths == self._capacity and not self._servers
