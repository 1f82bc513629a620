"""Pure: the configuration of rate limits."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal

from motorlite._base.arguments import check_above, check_whole, check_word, wrong
from motorlite.overload.wait_queue import WaitQueue

__all__ = ["RateLimit"]

EVERYTHING: Final = "*"
"""The key of the limit for all operations of a client."""

_FASTEST: Final = 1_000_000
_LONGEST: Final = 60.0
# Seconds.
_TIMEOUT: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """Limit how many operations start per second: ``AsyncMongoClient(..., rate_limit=RateLimit(rate=500))``.

    A mapping limits single databases and collections, ``{"shop": RateLimit(rate=100), "shop.orders": ...}``; the key
    ``"*"`` is the whole client. An operation needs a token of each limit that concerns it.

    An operation takes one token, before it selects a server; retries take none. Work in progress (getMore, the further
    commands of a bulk write, commits) is never refused or delayed. It takes its tokens all the same, and later
    operations wait for them.

    Attributes:
        rate: Operations per second; above 0, at most 1,000,000.
        burst: How many operations may start at once after a pause; 1 to 1,000,000. None: as many as in one second, at
            least 1.
        strategy: ``"reject"``: without a token, an operation fails at once with `RateLimitError`. ``"queue"``: it waits
            for one, first come, first served unless `queue` says otherwise. (``"wait"`` is its deprecated name.)
        timeout: The longest wait in seconds; at most 60. An operation that could not start in that time, or before its
            deadline, fails at once. Not for ``"reject"``, nor beside `queue`, which has its own.
        queue: The limits and the order of the queue for tokens: a `WaitQueue` with the strategy ``"queue"``. None: 100
            operations, first come, first served, with at most 100 MB.

    Raises:
        TypeError: A field has the wrong type.
        ValueError: A number is out of range or NaN, there is no such strategy, or a field has no effect with the
            others.
    """

    rate: float
    burst: int | None = None
    strategy: Literal["reject", "queue", "wait"] = "reject"
    timeout: float = _TIMEOUT
    queue: WaitQueue | None = None

    def __post_init__(self) -> None:
        check_above("rate", self.rate, _FASTEST, unit="a number per second")
        if self.burst is not None:
            check_whole("burst", self.burst, 1, _FASTEST)
        if self.strategy == "wait":
            warnings.warn("strategy='wait' is deprecated, use strategy='queue'", DeprecationWarning, stacklevel=3)
            object.__setattr__(self, "strategy", "queue")
        check_word("strategy", self.strategy, ("reject", "queue"), "'reject' or 'queue'")
        check_above("timeout", self.timeout, _LONGEST, unit="a number of seconds")
        if self.queue is not None:
            self._check_queue(self.queue)
        elif self.strategy == "reject" and self.timeout != _TIMEOUT:
            raise ValueError(f"timeout={self.timeout!r} has no effect without strategy='queue'")

    def _check_queue(self, queue: Any) -> None:
        if not isinstance(queue, WaitQueue):
            raise TypeError(wrong("queue", queue, "a WaitQueue"))
        if self.strategy != "queue":
            raise ValueError(f"queue={queue!r} has no effect without strategy='queue'")
        if queue.strategy != "queue":
            raise ValueError(wrong("queue", queue, "a WaitQueue with strategy='queue'"))
        if self.timeout != _TIMEOUT:
            raise ValueError(f"timeout={self.timeout!r} has no effect beside queue: write WaitQueue(timeout=...)")

    @property
    def wait_queue(self) -> WaitQueue:
        """The rules for operations that wait for a token."""
        if self.queue is not None:
            return self.queue
        return WaitQueue("queue", timeout=self.timeout) if self.strategy == "queue" else WaitQueue("reject")

    @property
    def capacity(self) -> int:
        """`burst`, or its default."""
        return max(1, int(self.rate)) if self.burst is None else self.burst


def as_rate_limits(value: Any) -> Mapping[str, RateLimit]:
    """Check the option ``rate_limit`` and return it as a mapping.

    Raises:
        TypeError: The value is neither a RateLimit nor a mapping of RateLimits.
        ValueError: A key is no namespace.
    """
    if isinstance(value, RateLimit):
        return MappingProxyType({EVERYTHING: value})
    if not isinstance(value, Mapping) or not all(isinstance(limit, RateLimit) for limit in value.values()):
        raise TypeError("not a RateLimit or a mapping of RateLimits")
    for name in value:
        if not isinstance(name, str):
            raise TypeError(f"{name!r} is not the name of a database or collection")
        database, dot, collection = name.partition(".")
        if not database or (dot and not collection):
            raise ValueError(f"{name!r} is not the name of a database or collection")
    return MappingProxyType(dict(value))
