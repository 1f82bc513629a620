"""Pure: how many operations one server should run at once, from how long they take.

Theory of operation. Up to a server's capacity, more operations at once mean more throughput. Above it they only mean a
queue inside the server, and the queue shows as latency. The limit compares the median duration of recent operations
with the duration on a server without a queue (`base`):

    limit = limit * min(1, tolerance * base / median) + sqrt(limit)          smoothed

The first factor takes away the queue that is too much, the square root lets the limit grow; both balance at a short
queue, which keeps the server busy. The limit only grows while operations need all of it.

`base` must not follow the latency up, or a queue that grows slowly would go unnoticed. So it is measured: now and then
(`probe_interval`), the limit falls to half of what the server seems able to run, for one group of durations. That costs
half of the throughput for a few dozen operations.

Durations are looked at in groups, and medians compared, because a single operation says little: a report takes a
hundred times as long as a look-up. A group has only operations that began after the last change of the limit. Errors of
overload and timeouts lower the limit at once, by a tenth, but not more often than operations take.

Operations that wait for data on the server (awaitData) are no work for it. They come on top of the limit, or a few
change streams would take it up.

docs/limits.md has the measurements behind this choice, and the comparison with AIMD.
"""

from __future__ import annotations

from math import inf, sqrt
from statistics import median
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from motorlite.overload.concurrency import ConcurrencyLimit


# The size of a group: two durations for each operation that may run, within these bounds.
_FEWEST: Final = 50
_MOST: Final = 200
# The fraction of the way to its new value that the limit goes after a group.
_SMOOTHING: Final = 0.3
# The limit loses at most half of itself after a group, and a tenth after an error.
_STEEPEST: Final = 0.5
_AFTER_ERROR: Final = 0.9
# How far a faster group takes `base` down. Medians of groups scatter: their minimum would be too low.
_BASE_SMOOTHING: Final = 0.1


class AdaptiveLimit:
    """The concurrency limit of one server."""

    def __init__(self, settings: ConcurrencyLimit) -> None:
        self._settings = settings
        # How many operations may run at once now: the limit, and those that wait for data. A plain attribute, because
        # every check-out reads it.
        self.value: int = settings.initial
        # The operations that wait for data, or for a connection to do so.
        self._awaiting: set[object] = set()
        # The limit outside of probes, before rounding.
        self._exact = float(settings.initial)
        # The median duration without a queue; None until the first group is complete.
        self._base: float | None = None
        # The current group, the most operations that ran at once while it grew, and the loop time after which its
        # operations began.
        self._durations: list[float] = []
        self._most_at_once = 0
        self._began_after = -inf
        # The current group is a probe; loop time of the next probe; inf before the first operation.
        self._is_probing = False
        self._probe_at = inf
        # Loop time before which further errors do not lower the limit.
        self._next_cut_at = -inf

    @property
    def base(self) -> float | None:
        """The median duration of operations on the server without a queue, in seconds; None while unknown."""
        return self._base

    @property
    def own(self) -> int:
        """The limit of the operations that do not wait for data."""
        return self.value - len(self._awaiting)

    def awaits_data(self, operation: object) -> None:
        """Make room for an operation that waits for data."""
        if operation not in self._awaiting:
            self._awaiting.add(operation)
            self.value += 1

    def awaits_no_longer(self, operation: object) -> None:
        """Take the room back, if the operation had any. Call this before its connection is checked in."""
        if operation in self._awaiting:
            self._awaiting.discard(operation)
            self.value -= 1

    def succeeded(self, seconds: float, at_once: int, now: float) -> None:
        """Learn that the server replied after `seconds` to one of `at_once` operations."""
        if self._probe_at == inf:
            self._probe_at = now + self._settings.probe_interval
        if now - seconds < self._began_after:
            return
        self._durations.append(seconds)
        self._most_at_once = max(self._most_at_once, at_once - len(self._awaiting))
        if len(self._durations) >= max(_FEWEST, min(_MOST, 2 * self.own)):
            self._evaluate(median(self._durations), now)
            self._durations = []
            self._most_at_once = 0
            self._began_after = now

    def failed(self, seconds: float, now: float) -> None:
        """Learn that the server was overloaded, or did not reply in time, `seconds` after the operation began."""
        if now < self._next_cut_at:
            return
        self._next_cut_at = now + (seconds if self._base is None else self._base)
        self._exact = max(float(self._settings.minimum), self._exact * _AFTER_ERROR)
        self._use(min(self.own, int(self._exact)) if self._is_probing else int(self._exact))

    def _evaluate(self, middle: float, now: float) -> None:
        settings = self._settings
        if self._is_probing:
            self._is_probing = False
            self._probe_at = now + settings.probe_interval
            self._base = middle if self._base is None else (self._base + middle) / 2
            self._use(int(self._exact))
            return
        base = self._base
        if base is None:
            base = self._base = middle
        elif middle < base:
            base = self._base = base + (middle - base) * _BASE_SMOOTHING
        # Durations of zero occur in simulations.
        gradient = min(1.0, settings.tolerance * base / middle) if middle > 0 else 1.0
        is_used_up = self._most_at_once >= self.own
        if gradient < 1.0 or is_used_up:
            aim = self._exact * max(_STEEPEST, gradient) + sqrt(self._exact)
            self._exact = max(float(settings.minimum), self._exact + (aim - self._exact) * _SMOOTHING)
        self._use(int(self._exact))
        if is_used_up and now >= self._probe_at and self.own > settings.minimum:
            self._is_probing = True
            capacity = self._exact * min(1.0, base / middle) if middle > 0 else self._exact
            self._use(max(settings.minimum, int(capacity / 2)))

    def _use(self, limit: int) -> None:
        self.value = limit + len(self._awaiting)
