"""Pure: token buckets that limit how many operations start per second, and the queues before them.

Theory of operation. A bucket is kept as one time (the generic cell rate algorithm): when it will be full again. Each
token taken moves that time by the interval between two tokens. So nothing has to be refilled, and the wait for the next
token is one subtraction.

Waiting operations form a queue for each bucket. Only the first one watches the time. When it takes its token, or gives
up, it hands its place to the next one (`Place.offer`). So a cancelled operation costs the others nothing, and they move
up. The wait of a newcomer is known in advance; it can only become shorter when others give up. An operation whose wait
would be too long is therefore refused when it arrives.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Protocol

from motorlite.overload.rate_limit import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite.overload.rate_limit import RateLimit


# A token may be taken this much before its time, in seconds: sums are inexact, and timers may fire a little early.
_EARLY: Final = 1e-6


class Place(Protocol):
    """A waiting operation."""

    def offer(self, value: object) -> bool:
        """Wake the operation: it is the first one now. Returns False if it has given up."""
        ...


class RateBucket:
    """The tokens of one limit, and the operations that wait for one."""

    __slots__ = ("_full_at", "_interval", "_spread", "limit", "name", "queue", "rejected")

    def __init__(self, name: str, limit: RateLimit) -> None:
        # The namespace, or "*".
        self.name: str = name
        self.limit: RateLimit = limit
        # Seconds between two tokens, and those that a full bucket's further tokens stand for.
        self._interval = 1.0 / limit.rate
        self._spread = (limit.capacity - 1) * self._interval
        # Loop time at which the bucket will be full, if nothing is taken until then.
        self._full_at = -float("inf")
        # Waiting operations, in order. Not a dict, whose first item is slow to find after many removals.
        self.queue: OrderedDict[Place, None] = OrderedDict()
        # The number of operations refused so far.
        self.rejected: int = 0

    def tokens(self, now: float) -> float:
        """The number of tokens; negative after operations that took a token without asking."""
        return round(self.limit.capacity - max(0.0, self._full_at - now) / self._interval, 6)

    def wait(self, now: float) -> float:
        """The seconds until the next token that no waiting operation will take."""
        left = self.due_at() - now
        return (left if left > _EARLY else 0.0) + len(self.queue) * self._interval

    def due_at(self) -> float:
        """The loop time of the next token, for the first operation in the queue."""
        return self._full_at - self._spread

    def is_due(self, now: float) -> bool:
        """Whether the first operation in the queue may take its token."""
        return self.due_at() - now <= _EARLY

    def take(self, now: float) -> None:
        """Take a token that is due."""
        self._full_at = max(self._full_at, now) + self._interval

    def charge(self, now: float) -> None:
        """Take a token without asking. The debt is at most one burst."""
        most = now + 2 * self.limit.capacity * self._interval
        self._full_at = max(self._full_at, min(max(self._full_at, now) + self._interval, most))

    def give_back(self) -> None:
        """Return a token that was taken for an operation that did not start."""
        self._full_at -= self._interval

    # --- the queue ---

    def join(self, place: Place) -> bool:
        """Wait behind the others. Returns whether the operation is the first one."""
        self.queue[place] = None
        return len(self.queue) == 1

    def quit(self, place: Place) -> None:
        """Leave the queue, with a token or without; if `place` was the first one, the next one takes over."""
        was_first = next(iter(self.queue)) is place
        del self.queue[place]
        if was_first:
            for following in self.queue:
                # One that has given up leaves the queue itself, and then wakes the next one.
                following.offer(True)
                return


class RateLimiter:
    """The rate limits of a client."""

    __slots__ = ("buckets",)

    def __init__(self, limits: Mapping[str, RateLimit]) -> None:
        self.buckets: dict[str, RateBucket] = {name: RateBucket(name, limit) for name, limit in limits.items()}

    def concerning(self, database: str, collection: str | None) -> list[RateBucket]:
        """The buckets that an operation needs a token of, the narrowest first.

        In this order, an operation that waits for its collection's turn does not keep others from the client's tokens.
        """
        names = (f"{database}.{collection}", database, EVERYTHING)
        return [bucket for name in names if (bucket := self.buckets.get(name)) is not None]
