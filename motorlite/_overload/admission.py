"""Pure: which operations may wait for a connection, and what a configured wait queue counts.

A connection is a permit, whether it is open yet or not. An operation that finds a permit free, not counting those that
earlier operations are about to get, only waits for its connection to be opened and is never refused. All others queue,
as far as `WaitQueue` lets them. With the strategy "queue", they may queue for connections that are in use. With the
other two they may only queue while connections are missing, since a pool that is not full rejects no operation. The
depth bounds all of them: a server that is slow to accept connections would keep any number waiting. Memory is checked
before the depth.
"""

from __future__ import annotations

from math import ceil, inf
from typing import TYPE_CHECKING, Final, TypeVar

from motorlite._overload.backoff import DEFAULT_RETRY_AFTER
from motorlite._overload.durations import DurationCounter
from motorlite.errors import (
    AdmissionError,
    PoolFullError,
    WaitQueueFullError,
    WaitQueueMemoryError,
    WaitQueueTimeoutError,
)
from motorlite.stats import QueueStats

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._base.values import Address
    from motorlite._overload.concurrency_limit import AdaptiveLimit
    from motorlite.overload.wait_queue import WaitQueue

# Bytes of the bookkeeping for each waiting operation.
OVERHEAD: Final = 200
# How much one operation changes the mean duration.
_WEIGHT: Final = 1 / 32
# Seconds after which the server's hint says nothing about the current load.
_HINT_LASTS: Final = 10.0

POOL_FULL: Final = "pool_full"
QUEUE_FULL: Final = "queue_full"
MEMORY_LIMIT: Final = "memory_limit"
TIMEOUT: Final = "timeout"
STANDING_QUEUE: Final = "standing_queue"

ErrorT = TypeVar("ErrorT", bound=AdmissionError)


class Admission:
    """The admission of operations to one pool of `max_size` connections (0: no limit).

    Attributes:
        limit: The adaptive limit of operations that run at once, if the server has one.
    """

    __slots__ = (
        "_address",
        "_hint",
        "_hint_until",
        "_max_size",
        "_mean",
        "_rejected",
        "_retry_after",
        "_waits",
        "limit",
        "memory",
        "options",
        "priorities",
    )

    def __init__(self, options: WaitQueue, address: Address, max_size: int) -> None:
        self.options: WaitQueue = options
        self._address = address
        self._max_size = max_size
        self.limit: AdaptiveLimit | None = None
        # Estimated bytes of the waiting operations.
        self.memory: int = 0
        # The mean duration of operations in seconds; 0.0 until one has ended.
        self._mean: float = 0.0
        # The server's own wish in seconds, and the loop time until which it counts.
        self._hint = 0.0
        self._hint_until = -inf
        # Refused operations by reason, and the ones let in by priority.
        self._rejected: dict[str, int] = {}
        self.priorities: dict[int, int] = {}
        # How long operations waited that got a connection; after how long refused ones may try again.
        self._waits = DurationCounter()
        self._retry_after = DurationCounter()

    @property
    def capacity(self) -> int:
        """How many operations may run at once; 0: any number, so nothing is ever refused."""
        if self.limit is None:
            return self._max_size
        return min(self._max_size, self.limit.value) if self._max_size else self.limit.value

    # --- what an operation brings ---

    def priority_of(self, priority: int, assigned: int | None) -> int:
        """Return the priority that counts: of the innermost and the outermost block that set one (None: neither)."""
        options = self.options
        if assigned is None:
            return options.default_priority
        highest = options.max_priority if options.allow_priority_override else min(options.max_priority, assigned)
        return min(highest, priority)

    def size_of(self, hint: Callable[[], int]) -> int:
        """Return the estimated bytes of a waiting operation; 0 without a memory limit, and then without asking."""
        return 0 if self.options.memory_limit is None else OVERHEAD + hint()

    # --- the decision ---

    def refusal(self, depth: int, size: int, now: float, *, is_full: bool) -> AdmissionError | None:
        """Return the error of an operation that finds no permit and must not wait for one, or None.

        `depth`: how many operations wait without a permit. `is_full`: no further connection may be opened.
        """
        options = self.options
        if is_full and options.strategy != "queue":
            capacity = self.capacity
            text = f"all connections of the pool are taken ({capacity}/{capacity}), try again later"
            return self._refused(PoolFullError(text), POOL_FULL, capacity, capacity, depth, now)
        limit = options.memory_limit
        if limit is not None and self.memory + size > int(limit):
            text = (
                f"the operations that wait for a connection use {self.memory} of {limit} bytes, and this one needs "
                f"{size}, try again later"
            )
            return self._refused(WaitQueueMemoryError(text), MEMORY_LIMIT, self.memory, int(limit), depth, now)
        if depth >= options.max_depth and not self.drops_oldest:
            return self.full(depth, now)
        return None

    def must_drop(self, depth: int) -> bool:
        """Whether a waiting operation has to make room for a new one that is let in."""
        return depth >= self.options.max_depth and self.drops_oldest

    @property
    def drops_oldest(self) -> bool:
        """Whether a full queue drops a waiting operation and not the new one."""
        return self.options.overflow_strategy == "drop_oldest"

    def full(self, depth: int, now: float, waited: float = 0.0) -> WaitQueueFullError:
        """Return the error of an operation that finds the queue full, or that is dropped for another."""
        limit = self.options.max_depth
        error = WaitQueueFullError(f"the wait queue is full ({depth}/{limit}), try again later")
        error.wait_time = waited
        return self._refused(error, QUEUE_FULL, depth, limit, depth, now)

    def timed_out(self, error: WaitQueueTimeoutError, depth: int, waited: float, now: float) -> WaitQueueTimeoutError:
        """Complete the error of an operation that waited for too long."""
        error.wait_time = waited
        return self._refused(error, TIMEOUT, depth, self.options.max_depth, depth, now)

    def standing(self, depth: int, waited: float, now: float) -> WaitQueueTimeoutError:
        """Return the error of an operation that an adaptive queue drops."""
        error = WaitQueueTimeoutError(
            f"dropped after waiting {waited:.3f} s for a connection: the queue of {depth} operations does not drain"
        )
        error.wait_time, error.phase = waited, "queue"
        return self._refused(error, STANDING_QUEUE, depth, self.options.max_depth, depth, now)

    def _refused(self, error: ErrorT, reason: str, depth: int, limit: int, waiting: int, now: float) -> ErrorT:
        error.address, error.depth, error.limit = self._address, depth, limit
        error.retry_after = self.retry_after(waiting, now)
        self._rejected[reason] = self._rejected.get(reason, 0) + 1
        self._retry_after.add(error.retry_after)
        return error

    # --- what it learns ---

    def let_in(self, priority: int, size: int) -> None:
        """Count an operation that waits from now on."""
        self.memory += size
        if self.options.ordering == "priority":
            self.priorities[priority] = self.priorities.get(priority, 0) + 1

    def served(self, waited: float) -> None:
        """Count an operation that got a connection after waiting for `waited` seconds."""
        self._waits.add(waited)

    def worked(self, seconds: float) -> None:
        """Record that an operation had a connection for `seconds`."""
        mean = self._mean
        self._mean = mean + (seconds - mean) * _WEIGHT if mean else seconds

    def hinted(self, seconds: float, now: float) -> None:
        """Record that the server asked for a pause of `seconds` (`baseBackoffMS`)."""
        self._hint, self._hint_until = seconds, now + _HINT_LASTS

    def retry_after(self, waiting: int, now: float) -> float:
        """Return after how many seconds an operation behind `waiting` others may expect a connection.

        The server's hint counts first. Else it is the mean duration of operations, once for each time that all
        connections are used until the queue is empty; 1 s if no operation has ended yet.
        """
        if now < self._hint_until:
            return self._hint
        if not self._mean:
            return DEFAULT_RETRY_AFTER
        return self._mean * ceil((waiting + 1) / max(self.capacity, 1))

    def stats(self, depth: int, *, is_standing: bool) -> QueueStats:
        """Return the statistics."""
        return QueueStats(
            strategy=self.options.strategy,
            depth=depth,
            memory=self.memory,
            rejected=dict(self._rejected),
            timeouts=self._rejected.get(TIMEOUT, 0),
            waits=self._waits.snapshot(),
            retry_after=self._retry_after.snapshot(),
            priorities=dict(self.priorities),
            is_standing=is_standing,
        )
