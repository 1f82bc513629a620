"""Pure: simulated time, and what happens when."""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Clock:
    """A queue of events. An event is a function and its one argument."""

    __slots__ = ("_count", "_events", "_soon", "now")

    def __init__(self) -> None:
        self.now: float = 0.0
        # (time, number, function, argument); the number keeps the order of events of the same time.
        self._events: list[tuple[float, int, Callable[[Any], None], Any]] = []
        self._count = 0
        # What follows from the current event, as soon as it has been dealt with.
        self._soon: deque[tuple[Callable[[Any], None], Any]] = deque()

    def at(self, time: float, action: Callable[[Any], None], subject: Any) -> None:
        """Call ``action(subject)`` at a time, which may be infinity: never."""
        self._count += 1
        heappush(self._events, (time, self._count, action, subject))

    def soon(self, action: Callable[[Any], None], subject: Any) -> None:
        """Call ``action(subject)`` when the current event has been dealt with."""
        self._soon.append((action, subject))

    def settle(self) -> None:
        """Make the calls that `soon` put off."""
        while self._soon:
            action, subject = self._soon.popleft()
            action(subject)

    def run(self, until: float) -> None:
        """Go on to a time."""
        events, soon = self._events, self._soon
        while events and events[0][0] <= until:
            self.now, _, action, subject = heappop(events)
            action(subject)
            if soon:
                self.settle()
        self.now = until
