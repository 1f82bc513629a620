"""Pure: counts what a load does, second by second and in all."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.figures import percentile


@dataclass(slots=True)
class Counts:
    """What happened in some time; latencies are those of served requests, in seconds."""

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
        """NaN when nothing was served."""
        return percentile(sorted(self.latencies), share)

    def add(self, other: Counts) -> None:
        self.served += other.served
        self.failed += other.failed
        self.attempts += other.attempts
        self.retries += other.retries
        self.latencies += other.latencies


class Tally:
    """The running second and the total of all finished ones."""

    __slots__ = ("now", "peak_attempts", "surprises", "total")

    def __init__(self) -> None:
        self.now = Counts()
        self.total = Counts()
        # The most attempts in one second.
        self.peak_attempts = 0
        # Errors that are not the rejection of an overloaded server: a demo with one of these has failed.
        self.surprises: list[str] = []

    def end_second(self) -> Counts:
        """Close the running second and return it."""
        ended, self.now = self.now, Counts()
        self.total.add(ended)
        self.peak_attempts = max(self.peak_attempts, ended.attempts)
        return ended
