"""Pure: limits how often messages of one kind are logged."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

# Keys that are remembered before those whose interval has passed are forgotten.
_MANY = 100


class Limiter:
    """Admits one message of each kind per interval, and counts the others.

    `now` is a clock in seconds. Until it is set, every kind is admitted once.
    """

    __slots__ = ("_interval", "_kinds", "now")

    def __init__(self, interval: float = inf) -> None:
        self._interval = interval
        # Time of the last admission, and the number of messages left out since, by kind.
        self._kinds: dict[Hashable, tuple[float, int]] = {}
        self.now: Callable[[], float] = float

    def reopen(self, kind: Hashable) -> None:
        """Admit the next message of this kind, since it has a new cause; it still counts those left out before."""
        if kind in self._kinds:
            self._kinds[kind] = (-inf, self._kinds[kind][1])

    def admit(self, kind: Hashable) -> int | None:
        """Return how many messages of this kind were left out since the last one, or None: leave this one out too."""
        now = self.now()
        last, left_out = self._kinds.get(kind, (-inf, 0))
        if now < last + self._interval:
            self._kinds[kind] = (last, left_out + 1)
            return None
        if len(self._kinds) >= _MANY:
            self._kinds = {each: state for each, state in self._kinds.items() if now < state[0] + self._interval}
        self._kinds[kind] = (now, 0)
        return left_out
