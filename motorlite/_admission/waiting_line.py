"""Pure: who may wait for a connection of a full pool, or for a token, and who is refused in a configured wait queue.

A connection is a permit, whether it is open yet or not. An operation that finds a permit free, not counting those that
earlier operations are about to get, only waits for its connection to be opened and is never refused. All others queue,
as far as `WaitQueue` lets them. With the strategy "queue", they may queue for connections that are in use. With the
other two they may only queue while connections are missing, since a pool that is not full rejects no operation. The
depth bounds all of them: a server that is slow to accept connections would keep any number waiting. Memory is checked
before the depth. The operations that wait for a rate limit are admitted by the same rules (`rate_limiter`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import inf
from typing import TYPE_CHECKING, ClassVar, Final, Generic, Protocol, TypeVar

from motorlite._admission.circuit_breaker import DurationCounter
from motorlite._admission.orders import Adaptive, ByAge, ByPriority, Waiting
from motorlite._admission.retry_after import Advice, next_turn
from motorlite.errors import (
    AdmissionError,
    PoolFullError,
    WaitQueueFullError,
    WaitQueueMemoryError,
    WaitQueueTimeoutError,
)
from motorlite.stats import QueueStats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from motorlite._admission.concurrency_limit import AdaptiveLimit
    from motorlite._base.values import Address
    from motorlite.overload import WaitQueue


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


class Admission(ABC):
    """The admission of operations to one queue."""

    __slots__ = (
        "_address",
        "_goal",
        "_queue",
        "_rejected",
        "_retry_after",
        "_waits",
        "memory",
        "options",
        "priorities",
    )

    # The errors of operations that must not wait, or have waited too long.
    _full: ClassVar[type[AdmissionError]] = WaitQueueFullError
    _too_large: ClassVar[type[AdmissionError]] = WaitQueueMemoryError
    _late: ClassVar[type[AdmissionError]] = WaitQueueTimeoutError

    def __init__(
        self,
        options: WaitQueue,
        address: Address | None,
        *,
        goal: str = "a connection",
        queue: str = "the wait queue",
    ) -> None:
        self.options: WaitQueue = options
        self._address = address
        # For messages: what operations wait for, and where.
        self._goal = goal
        self._queue = queue
        # Estimated bytes of the waiting operations.
        self.memory: int = 0
        # Refused operations by reason, and the ones let in by priority.
        self._rejected: dict[str, int] = {}
        self.priorities: dict[int, int] = {}
        # The waits of operations that were served, and the `retry_after` of refused ones.
        self._waits = DurationCounter()
        self._retry_after = DurationCounter()

    @abstractmethod
    def retry_after(self, waiting: int, now: float) -> float:
        """Estimate after how many seconds an operation behind `waiting` others is served."""

    @abstractmethod
    def taken(self, depth: int, now: float) -> AdmissionError:
        """Return the error of an operation that finds nothing free and must not wait, while `depth` others do."""

    def advised(self, waiting: int, now: float) -> float:
        """Return after how many seconds the caller of a refused operation may try again; by default the estimate."""
        return self.retry_after(waiting, now)

    # --- what an operation brings ---

    def priority_of(self, priority: int, assigned: int | None) -> int:
        """Return the priority that counts: of the innermost and the outermost block that set one (None: neither)."""
        options = self.options
        if assigned is None:
            return options.default_priority
        highest = options.max_priority if options.allow_priority_override else min(options.max_priority, assigned)
        return min(highest, priority)

    def size_of(self, hint: Callable[[], int], options: WaitQueue | None = None) -> int:
        """Return the estimated bytes of a waiting operation; without a memory limit, return 0 and do not call `hint`.

        `options`: those of the call, if it has its own, as in the following methods.
        """
        is_limited = self.options.memory_limit is not None or (options and options.memory_limit is not None)
        return OVERHEAD + hint() if is_limited else 0

    # --- the decision ---

    def refusal(
        self, depth: int, size: int, now: float, *, is_full: bool, options: WaitQueue | None = None
    ) -> AdmissionError | None:
        """Return the error of an operation that finds no permit and must not wait for one, or None.

        `depth`: how many operations wait without a permit. `is_full`: no further connection may be opened.
        """
        options = options or self.options
        if is_full and options.strategy != "queue":
            return self.taken(depth, now)
        limit = options.memory_limit
        if limit is not None and self.memory + size > int(limit):
            text = (
                f"the operations that wait for {self._goal} use {self.memory} of {limit} bytes, and this one needs "
                f"{size}, try again later"
            )
            return self._refused(self._too_large(text), MEMORY_LIMIT, self.memory, int(limit), depth, now)
        if depth >= options.max_depth and options.overflow_strategy != "drop_oldest":
            return self.full(depth, now, options=options)
        return None

    def must_drop(self, depth: int, options: WaitQueue | None = None) -> bool:
        """Whether a waiting operation has to make room for a new one that is let in."""
        options = options or self.options
        return depth >= options.max_depth and options.overflow_strategy == "drop_oldest"

    def full(self, depth: int, now: float, waited: float = 0.0, *, options: WaitQueue | None = None) -> AdmissionError:
        """Return the error of an operation that finds the queue full, or that is dropped for another."""
        limit = (options or self.options).max_depth
        error = self._full(f"{self._queue} is full ({depth}/{limit}), try again later")
        error.wait_time = waited
        return self._refused(error, QUEUE_FULL, depth, limit, depth, now)

    def timed_out(self, error: ErrorT, depth: int, waited: float, now: float) -> ErrorT:
        """Complete the error of an operation that has waited too long."""
        error.wait_time = waited
        return self._refused(error, TIMEOUT, depth, self.options.max_depth, depth, now)

    def standing(self, depth: int, waited: float, now: float) -> AdmissionError:
        """Return the error of an operation that an adaptive queue drops."""
        error = self._late(
            f"dropped after waiting {waited:.3f} s for {self._goal}: the queue of {depth} operations does not drain"
        )
        error.wait_time, error.phase = waited, "queue"
        return self._refused(error, STANDING_QUEUE, depth, self.options.max_depth, depth, now)

    def _refused(self, error: ErrorT, reason: str, depth: int, limit: int, waiting: int, now: float) -> ErrorT:
        error.address, error.depth, error.limit = self._address, depth, limit
        # A caller that has waited this long should not expect a shorter wait the next time.
        error.retry_after = max(self.advised(waiting, now), error.wait_time)
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
        """Count an operation that was served after waiting for `waited` seconds."""
        self._waits.add(waited)

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


class PoolAdmission(Admission):
    """The admission of operations to one pool of `max_size` connections (0: no limit).

    Attributes:
        limit: The adaptive limit of operations that run at once, if the server has one.
    """

    __slots__ = ("_advice", "_ages", "_hint", "_hint_until", "_max_size", "_mean", "limit")

    def __init__(
        self, options: WaitQueue, address: Address, max_size: int, ages: Callable[[float], Iterable[float]]
    ) -> None:
        super().__init__(options, address)
        self._max_size = max_size
        # Returns for how many seconds the operations of the pool have been running at a loop time.
        self._ages = ages
        self.limit: AdaptiveLimit | None = None
        # The mean duration of operations in seconds; 0.0 until one has ended.
        self._mean: float = 0.0
        # The server's own wish in seconds, and the loop time until which it counts.
        self._hint = 0.0
        self._hint_until = -inf
        self._advice = Advice()

    @property
    def capacity(self) -> int:
        """How many operations may run at once; 0: any number, so nothing is ever refused."""
        if self.limit is None:
            return self._max_size
        return min(self._max_size, self.limit.value) if self._max_size else self.limit.value

    def taken(self, depth: int, now: float) -> AdmissionError:
        capacity = self.capacity
        text = f"all connections of the pool are taken ({capacity}/{capacity}), try again later"
        return self._refused(PoolFullError(text), POOL_FULL, capacity, capacity, depth, now)

    def worked(self, seconds: float) -> None:
        """Record that an operation had a connection for `seconds`."""
        mean = self._mean
        self._mean = mean + (seconds - mean) * _WEIGHT if mean else seconds

    def hinted(self, seconds: float, now: float) -> None:
        """Record that the server asked for a pause of `seconds` (`baseBackoffMS`)."""
        self._hint, self._hint_until = seconds, now + _HINT_LASTS

    def retry_after(self, waiting: int, now: float) -> float:
        """Estimate after how many seconds an operation behind `waiting` others gets a connection.

        The server's hint counts first. Otherwise, it is the duration of operations (the mean, or that of the running
        ones) times the rounds that the queue ahead needs; at least 1 s if no operation has ended yet.
        """
        if now < self._hint_until:
            return self._hint
        return next_turn(self._ages(now), self._mean, waiting, self.capacity)

    def advised(self, waiting: int, now: float) -> float:
        estimate = self.retry_after(waiting, now)
        if now < self._hint_until:
            return estimate
        return self._advice.give(estimate, now, self._mean / max(self.capacity, 1))


# The operations that wait for a connection or a token, under the rules of a `WaitQueue`.
#
# `admission` decides which operations may wait, and the order which one is served next. A line joins the two: it
# delivers refusals, and keeps the sum of the sizes.


class InLine(Waiting, Protocol):
    """An operation that waits."""

    # Estimated bytes.
    size: int
    # Loop time at which it began to wait.
    since: float

    def refuse(self, error: AdmissionError) -> None:
        """End the wait with `error`."""
        ...


T = TypeVar("T", bound=InLine)


class Order(Protocol[T]):
    """Decides which operation is served next."""

    count: int

    def __iter__(self) -> Iterator[T]: ...
    def push(self, request: T) -> None: ...
    def pop(self, now: float) -> T: ...
    def discard(self, request: T) -> None: ...
    def victim(self, newcomer: T) -> T | None: ...
    def overdue(self, now: float, round_size: int) -> Iterable[T]: ...


def order_of(options: WaitQueue) -> ByAge[T] | ByPriority[T]:
    """Return the order that the configuration names."""
    if options.ordering == "priority":
        return ByPriority(float(options.timeout))
    if options.ordering == "adaptive":
        return Adaptive(float(options.adaptive_target), float(options.adaptive_interval))
    return ByAge()


class WaitingLine(Generic[T]):
    """The operations that wait."""

    __slots__ = ("_admission", "_order", "count")

    def __init__(self, admission: Admission, order: Order[T]) -> None:
        self._admission = admission
        self._order = order
        # A plain attribute: every check-out and every check-in of a pool reads it.
        self.count: int = 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[T]:
        return iter(self._order)

    def refusal(
        self, request: T, depth: int, now: float, *, is_full: bool, options: WaitQueue | None = None
    ) -> AdmissionError | None:
        """Return the error of `request` if it must not wait. If necessary, refuse another one to make room for it.

        `depth`: how many operations wait with nothing free for them. `is_full`: nothing more will be opened for them.
        `options`: those of the call, if it has its own.
        """
        admission = self._admission
        error = admission.refusal(depth, request.size, now, is_full=is_full, options=options)
        if error is None and admission.must_drop(depth, options):
            victim = self._order.victim(request)
            if victim is None:
                return admission.full(depth, now, options=options)
            self.discard(victim)
            victim.refuse(admission.full(depth, now, now - victim.since, options=options))
        return error

    def push(self, request: T) -> None:
        """Add `request`, which was admitted."""
        self._order.push(request)
        self.count = self._order.count

    def pop(self, now: float) -> T:
        """Remove and return the request that is served next."""
        request = self._order.pop(now)
        self._removed(request)
        return request

    def discard(self, request: T) -> None:
        """Remove `request` if it is in the line."""
        self._order.discard(request)
        if self._order.count < self.count:
            self._removed(request)

    def drop_overdue(self, now: float, round_size: int) -> None:
        """Refuse the requests that an adaptive order does not consider worth waiting for."""
        for request in self._order.overdue(now, round_size):
            depth = self.count
            self.discard(request)
            request.refuse(self._admission.standing(depth, now - request.since, now))

    def stats(self) -> QueueStats:
        """Return the statistics."""
        return self._admission.stats(self.count, is_standing=getattr(self._order, "is_standing", False))

    def _removed(self, request: T) -> None:
        self.count = self._order.count
        self._admission.memory -= request.size
