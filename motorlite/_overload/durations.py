"""Pure: counts durations for the statistics."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import Final

from motorlite.stats import Durations

# Upper bounds in seconds: from an idle pool to the longest queue timeout.
BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class DurationCounter:
    """A histogram that grows."""

    __slots__ = ("_counts", "_total")

    def __init__(self) -> None:
        # By bound; the last one has the durations above all bounds.
        self._counts = [0] * (len(BOUNDS) + 1)
        self._total = 0.0

    def add(self, seconds: float) -> None:
        """Count a duration."""
        self._counts[bisect_left(BOUNDS, seconds)] += 1
        self._total += seconds

    def snapshot(self) -> Durations:
        """Return the counts so far."""
        *buckets, count = accumulate(self._counts)
        return Durations(count, self._total, dict(zip(BOUNDS, buckets, strict=True)))
