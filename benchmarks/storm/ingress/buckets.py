"""Pure: the token bucket of a limiter, and the work that a server has before it."""

from __future__ import annotations

from collections import deque
from math import inf
from typing import Final, Generic, TypeVar

T = TypeVar("T")
# Sums of floats are inexact: a difference that is less than this counts as none.
_NEARLY: Final = 1e-6


class TokenBucket:
    """A token bucket that begins full. Its capacity is at least one token."""

    __slots__ = ("_at", "_tokens", "capacity", "rate")

    def __init__(self, rate: float, burst_seconds: float, now: float) -> None:
        self.rate: float = rate
        self.capacity: float = max(1.0, rate * burst_seconds)
        self._tokens = self.capacity
        self._at = now

    def tokens(self, now: float) -> float:
        """The number of tokens; negative if some were borrowed."""
        return min(self.capacity, self._tokens + max(0.0, now - self._at) * self.rate)

    def take(self, now: float) -> bool:
        """Take a token if there is one."""
        return self.borrow(now, at_most=0.0) is not None

    def borrow(self, now: float, at_most: float = inf) -> float | None:
        """Take a token now or in the future. Returns after how many seconds it is due, or None if that is too late.

        Args:
            now: The time.
            at_most: How many seconds the caller would wait.
        """
        tokens = self.tokens(now)
        missing = 1.0 - tokens
        wait = 0.0 if missing <= _NEARLY else missing / self.rate if self.rate > 0 else inf
        if wait > at_most or wait == inf:
            return None
        self._tokens, self._at = tokens - 1.0, now
        return wait

    def give_back(self) -> None:
        """Return a token that was not used."""
        self._tokens += 1.0

    def change(self, rate: float, burst_seconds: float, now: float) -> None:
        """Change the rate and the capacity; tokens that are there stay, as far as they fit."""
        tokens = self.tokens(now)
        self.rate, self.capacity = rate, max(1.0, rate * burst_seconds)
        self._tokens, self._at = min(self.capacity, tokens), now


class WorkQueue(Generic[T]):
    """Work that is done in order of arrival, at a speed that may change.

    Each item needs a number of units. Nothing is served twice or skipped: an item is done when the units of all items
    before it, and its own, have been worked off.

    Args:
        speed: Units per second; infinity does everything at once.
        now: The time.
    """

    __slots__ = ("_area", "_at", "_done", "_end", "_items", "speed")

    def __init__(self, speed: float, now: float) -> None:
        self.speed: float = speed
        # Units worked off so far, and those that will have been when the queue is empty.
        self._done = self._end = 0.0
        self._at = now
        # Each item with the value of `_done` at which it is finished.
        self._items: deque[tuple[float, T]] = deque()
        # The backlog, integrated over time.
        self._area = 0.0

    def __len__(self) -> int:
        return len(self._items)

    def push(self, item: T, units: float, now: float) -> None:
        """Append an item."""
        self._advance(now)
        self._end += units
        self._items.append((self._end, item))

    def finished(self, now: float) -> list[T]:
        """Remove and return the items that are finished, in order."""
        self._advance(now)
        items, done, found = self._items, self._done + _NEARLY, []
        while items and items[0][0] <= done:
            found.append(items.popleft()[1])
        return found

    def next_at(self) -> float | None:
        """When the first item will be finished; None if there is none, or nothing is worked off."""
        if not self._items or self.speed <= 0:
            return None
        return self._at + max(0.0, self._items[0][0] - self._done) / self.speed

    def backlog(self, now: float) -> float:
        """The units that are still to be done."""
        self._advance(now)
        return self._end - self._done

    def change(self, speed: float, now: float) -> None:
        """Work at another speed from now on, also on what is under way."""
        self._advance(now)
        self.speed = speed

    def drop(self, now: float) -> None:
        """Forget everything that is not finished."""
        self._advance(now)
        self._items.clear()
        self._end = self._done

    def area(self, now: float) -> float:
        """The integral of the backlog since the start, in unit seconds. Its increase per second is the mean backlog."""
        self._advance(now)
        return self._area

    def _advance(self, now: float) -> None:
        seconds, self._at = max(0.0, now - self._at), max(now, self._at)
        left = self._end - self._done
        if left <= 0:
            return
        if self.speed == inf or self.speed * seconds >= left:
            self._done = self._end
            self._area += left * left / (2 * self.speed)
        else:
            self._done += self.speed * seconds
            self._area += seconds * (left + self._end - self._done) / 2
