"""Pure: counts a load's requests per second and in total."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from benchmarks.figures import percentile

# 95 % of a normal distribution are within so many standard deviations.
Z: Final = 1.96


@dataclass(slots=True)
class Counts:
    """Counts of a period; latencies are those of all finished requests, failed ones included, in seconds."""

    served: int = 0
    failed: int = 0
    attempts: int = 0
    retries: int = 0
    latencies: list[float] = field(default_factory=list)

    @property
    def requests(self) -> int:
        return self.served + self.failed

    @property
    def error_share(self) -> float:
        return self.failed / self.requests if self.requests else 0.0

    @property
    def amplification(self) -> float:
        """Attempts that the server saw for each finished request."""
        return self.attempts / self.requests if self.requests else 0.0

    def latency(self, share: float) -> float:
        """The percentile `share` of the latencies; NaN if no request was finished."""
        return percentile(sorted(self.latencies), share)

    def add(self, other: Counts) -> None:
        self.served += other.served
        self.failed += other.failed
        self.attempts += other.attempts
        self.retries += other.retries
        self.latencies += other.latencies


def share_range(successes: int, trials: int) -> tuple[float, float]:
    """The 95 % interval of a share that was counted (Wilson's, which holds for few and for none)."""
    share, spread = successes / trials, Z * Z / trials
    middle = share + spread / 2
    width = Z * math.sqrt(share * (1 - share) / trials + spread / trials / 4)
    return max(0.0, (middle - width) / (1 + spread)), min(1.0, (middle + width) / (1 + spread))


class Tally:
    """Counts of the current second, the total of all finished seconds, and that of those in an overload."""

    __slots__ = ("now", "overloaded", "peak_attempts", "surprises", "total")

    def __init__(self) -> None:
        self.now = Counts()
        self.total = Counts()
        self.overloaded = Counts()
        # The most attempts in one second.
        self.peak_attempts = 0
        # Errors other than overload rejections; the demo fails if there are any.
        self.surprises: list[str] = []

    def end_second(self, *, is_overloaded: bool = False) -> Counts:
        """Finish the current second and return its counts."""
        ended, self.now = self.now, Counts()
        self.total.add(ended)
        if is_overloaded:
            self.overloaded.add(ended)
        self.peak_attempts = max(self.peak_attempts, ended.attempts)
        return ended
