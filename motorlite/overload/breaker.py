"""Pure: the configuration of circuit breakers."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from motorlite._base.arguments import check_above, check_boolean, check_whole

__all__ = ["BreakerState", "CircuitBreaker"]

_MOST_OPERATIONS: Final = 1_000_000
_LONGEST: Final = 3600.0


class BreakerState(enum.StrEnum):
    """The states of a circuit breaker."""

    CLOSED = "closed"
    """The server works: all operations are sent."""
    OPEN = "open"
    """Too many operations failed: none of those that the breaker gates is sent."""
    HALF_OPEN = "half-open"
    """A few operations are sent as probes; their outcomes decide between closed and open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitBreaker:
    """Stop sending to a server that keeps failing: ``AsyncMongoClient(..., circuit_breaker=CircuitBreaker())``.

    Each server has its own breaker. It counts attempts that say something about the server: network errors, timeouts
    and errors with the label SystemOverloadedError are failures; every other reply is a success, even a duplicate key
    error. While the breaker is open, the attempts that it gates fail at once with `CircuitBreakerOpenError`, and so do
    those that wait in the queue when it opens. Reads and writes that may use other servers avoid this one. It does not
    affect monitors and work in progress: the end of a transaction, the further commands of a cursor or a bulk write,
    and commands that free the server's resources.

    Attributes:
        failure_rate: The breaker opens when at least this fraction of the counted attempts failed; above 0, at most 1.
        min_operations: It stays closed while fewer attempts than this were counted in the window; 1 to 1,000,000.
        window: Seconds for which an attempt counts; at most 3600.
        open_for: Seconds until an open breaker lets the first probes pass; at most 3600.
        probes: How many probes may be under way at the same time, and how many must succeed, without one that fails,
            to close the breaker; 1 to 1,000,000. One more may begin when no probe has begun for `open_for`.
        gates_first_attempts: Whether an open breaker also stops first attempts. If not, it stops only retries, which
            multiply the load on a failing server; the first attempts then show when the server recovers.

    Raises:
        TypeError: A field has the wrong type.
        ValueError: A number is out of range or NaN.
    """

    failure_rate: float = 0.5
    min_operations: int = 20
    window: float = 10.0
    open_for: float = 5.0
    probes: int = 1
    gates_first_attempts: bool = True

    def __post_init__(self) -> None:
        check_above("failure_rate", self.failure_rate, 1)
        check_whole("min_operations", self.min_operations, 1, _MOST_OPERATIONS)
        check_above("window", self.window, _LONGEST, unit="a number of seconds")
        check_above("open_for", self.open_for, _LONGEST, unit="a number of seconds")
        check_whole("probes", self.probes, 1, _MOST_OPERATIONS)
        check_boolean("gates_first_attempts", self.gates_first_attempts)
