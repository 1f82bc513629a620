"""Pure: the configuration of adaptive concurrency limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from motorlite._base.arguments import check_above, check_whole

__all__ = ["ConcurrencyLimit"]

_MOST: Final = 1_000_000
_LONGEST: Final = 3600.0
_MOST_TOLERANT: Final = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrencyLimit:
    """Find out how many operations a server can run at once, and send no more.

    For example ``AsyncMongoClient(..., concurrency_limit=ConcurrencyLimit())``.

    maxPoolSize is a guess, and the right number changes with the load of other clients. The limit of each server
    follows its latency: it grows while operations need it and are about as fast as on a server without a queue, and
    shrinks when they take longer, or when the server reports overload. Operations above the limit wait for a connection
    in the pool's queue, where giving up costs the server nothing. The limit never exceeds maxPoolSize. Not available
    behind a load balancer, whose connections lead to several servers.

    Attributes:
        initial: The limit of a new server; 1 to 1,000,000.
        minimum: The limit never becomes lower; 1 to 1,000,000, at most `initial`.
        tolerance: How many times as long as without a queue operations may take (their median); above 1, at most 100.
        probe_interval: Seconds between two measurements of the duration without a queue. During each of them, for a few
            dozen operations, about half as many operations run at once. At most 3600.

    Raises:
        TypeError: A field has the wrong type.
        ValueError: A number is out of range or NaN, or `minimum` is above `initial`.
    """

    initial: int = 20
    minimum: int = 4
    tolerance: float = 2.0
    probe_interval: float = 10.0

    def __post_init__(self) -> None:
        check_whole("initial", self.initial, 1, _MOST)
        check_whole("minimum", self.minimum, 1, _MOST)
        check_above("tolerance", self.tolerance, _MOST_TOLERANT, above=1)
        check_above("probe_interval", self.probe_interval, _LONGEST, unit="a number of seconds")
        if self.minimum > self.initial:
            raise ValueError(f"minimum must be at most initial ({self.initial}), not {self.minimum}")
