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
from bisect import bisect_left, insort
from math import inf
from typing import TYPE_CHECKING, ClassVar, Final, Generic, Protocol, TypeVar

from motorlite._admission.circuit_breaker import DurationCounter
from motorlite._admission.pace import Advice, next_turn
from motorlite._admission.pool_queue import PoolQueue, Request
from motorlite._connection.handshake import Purpose
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
    from motorlite._admission.pace import Pace
    from motorlite._admission.pool_queue import Ticket
    from motorlite._base.values import Address
    from motorlite._connection.connection import Connection
    from motorlite.overload import WaitQueue


# Bytes of the bookkeeping for each waiting operation.
OVERHEAD: Final = 200
# How many priorities a request rises during half of the queue's timeout: from the lowest to the highest.
_RISE: Final = 100.0
# How much one operation changes the mean duration.
_WEIGHT: Final = 1 / 32
# Seconds after which the server's hint says nothing about the current load.
_HINT_LASTS: Final = 10.0

# Why an operation was refused, for the statistics.
TIMEOUT: Final = "timeout"

ErrorT = TypeVar("ErrorT", bound=AdmissionError)


class InLine(Protocol):
    """An operation that waits."""

    # Loop time at which the operation asked for a connection for the first time; a retry keeps it.
    entered: float
    # Loop time at which it began to wait.
    since: float
    # 0 to 100.
    priority: int
    # Continues admitted work, so it is never dropped.
    is_admitted: bool
    # Estimated bytes.
    size: int
    # Set by the order; lower ranks are served first. The second number is unique.
    rank: tuple[float, int]

    def refuse(self, error: AdmissionError) -> None:
        """End the wait with `error`."""
        ...


T = TypeVar("T", bound=InLine)


class Order(Protocol[T]):
    """Decides which operation is served next."""

    count: int
    is_standing: bool

    def __iter__(self) -> Iterator[T]: ...
    def push(self, request: T) -> None: ...
    def pop(self, now: float) -> T: ...
    def discard(self, request: T) -> object: ...
    def victim(self, newcomer: T) -> T | None: ...
    def overdue(self, now: float, round_size: int) -> Iterable[T]: ...


# The orders in which a configured wait queue serves: by age, by priority, and by its state (adaptive).
#
# All keep the requests sorted by a rank that never changes while they wait, in a list: `WaitQueue.max_depth` bounds its
# length, so moving its items costs a few microseconds at most.


def _rank(request: InLine) -> tuple[float, int]:
    return request.rank


def _age(request: InLine) -> tuple[float, int]:
    return request.entered, request.rank[1]


class ByAge(Generic[T]):
    """First in, first out."""

    is_standing: bool = False

    def __init__(self) -> None:
        # Number of waiting requests. A plain attribute, because every check-out and every check-in reads it.
        self.count: int = 0
        self._requests: list[T] = []
        # How many requests there have been, so that equal ranks keep the order in which they came.
        self._numbers = 0

    def __iter__(self) -> Iterator[T]:
        return iter(self._requests)

    def _rank_of(self, request: T) -> float:
        return request.entered

    def push(self, request: T) -> None:
        """Add `request`."""
        self._numbers += 1
        request.rank = (self._rank_of(request), self._numbers)
        self.count += 1
        insort(self._requests, request, key=_rank)

    def pop(self, now: float) -> T:
        """Remove and return the request that is served next."""
        self.count -= 1
        return self._requests.pop(0)

    def ahead_of(self, request: T) -> int:
        """Return how many requests are served before `request`, if no other one comes."""
        return bisect_left(self._requests, request.rank, key=_rank)

    def discard(self, request: T) -> bool:
        """Remove `request`; return False if it is not in the queue."""
        requests = self._requests
        position = bisect_left(requests, request.rank, key=_rank)
        if position == len(requests) or requests[position] is not request:
            return False
        del requests[position]
        self.count -= 1
        return True

    def victim(self, newcomer: T) -> T | None:
        """Return the request to drop in favor of `newcomer`: the oldest; None if that would be `newcomer` itself."""
        return _first_droppable(self._requests)

    def overdue(self, now: float, round_size: int) -> Iterable[T]:
        """Return the requests that are not worth waiting for: none."""
        return ()


def _first_droppable(requests: Iterable[T]) -> T | None:
    return next((request for request in requests if not request.is_admitted), None)


class ByPriority(ByAge[T]):
    """The highest priority first; of equal ones, the operation that waits longest.

    A request rises by 100 priorities while it waits for half of the queue's timeout. So a request of priority 0 is only
    overtaken by requests that ask less than half a timeout after it; later ones, even of priority 100, stay behind.
    Ranks of two requests keep their order while both wait, since both rise alike.
    """

    def __init__(self, timeout: float) -> None:
        super().__init__()
        self._priorities_per_second = _RISE / (timeout / 2)
        # The requests of each priority that may be dropped, oldest first. There are at most 101 lists, none empty.
        self._by_priority: dict[int, list[T]] = {}

    def _rank_of(self, request: T) -> float:
        return request.entered * self._priorities_per_second - request.priority

    def push(self, request: T) -> None:
        super().push(request)
        if not request.is_admitted:
            insort(self._by_priority.setdefault(request.priority, []), request, key=_age)

    def pop(self, now: float) -> T:
        request = super().pop(now)
        self._forget(request)
        return request

    def discard(self, request: T) -> bool:
        is_here = super().discard(request)
        if is_here:
            self._forget(request)
        return is_here

    def victim(self, newcomer: T) -> T | None:
        """Return the request to drop in favor of `newcomer`; None if that would be `newcomer` itself."""
        lowest = min(self._by_priority, default=None)
        return None if lowest is None or newcomer.priority < lowest else self._by_priority[lowest][0]

    def _forget(self, request: T) -> None:
        if request.is_admitted:
            return
        same = self._by_priority[request.priority]
        del same[bisect_left(same, _age(request), key=_age)]
        if not same:
            del self._by_priority[request.priority]


class Adaptive(ByAge[T]):
    """First in, first out while the queue drains; newest first, and the oldest dropped, while it stands.

    A queue stands when its oldest request has waited for at least `target` at every service for `interval` (the rule of
    CoDel, RFC 8289, with the modes of "Fail at Scale", ACM Queue 13:8). In a standing queue, first in, first out makes
    each caller wait until its patience is nearly used up, and then works for callers that have just left. The newest
    callers will wait for the answer. Those behind them are unlikely to be served at all, so they get an error after
    `interval` and can do something else. As many requests as may run at once (`round_size`) are never dropped, however
    slow the operations are. A request that must not be dropped is served next instead.
    """

    def __init__(self, target: float, interval: float) -> None:
        super().__init__()
        self._target = target
        self._interval = interval
        # How many of the requests must not be dropped.
        self._admitted = 0
        # Loop time since which the oldest request was never below the target; None: it is, or nothing waits.
        self._standing_since: float | None = None

    def __iter__(self) -> Iterator[T]:
        return reversed(self._requests) if self.is_standing else iter(self._requests)

    def push(self, request: T) -> None:
        super().push(request)
        self._admitted += request.is_admitted

    def pop(self, now: float) -> T:
        self._look(now)
        request = self._requests.pop(self._next(now))
        self.count -= 1
        self._admitted -= request.is_admitted
        self._end_if_empty()
        return request

    def ahead_of(self, request: T) -> int:
        position = super().ahead_of(request)
        return self.count - 1 - position if self.is_standing else position

    def _next(self, now: float) -> int:
        if not self.is_standing:
            return 0
        if self._admitted:
            for position, request in enumerate(self._requests):
                if now - request.entered <= self._interval:
                    break
                if request.is_admitted:
                    return position
        return -1

    def discard(self, request: T) -> bool:
        is_here = super().discard(request)
        if is_here:
            self._admitted -= request.is_admitted
        self._end_if_empty()
        return is_here

    def overdue(self, now: float, round_size: int) -> Iterable[T]:
        """Return the requests that are not worth waiting for; call it after each service."""
        if not self.is_standing:
            return ()
        too_many = self.count - round_size
        oldest = self._requests[: max(too_many, 0)]
        return [each for each in oldest if now - each.entered > self._interval and not each.is_admitted]

    def _end_if_empty(self) -> None:
        if not self.count:
            self._standing_since, self.is_standing = None, False

    def _look(self, now: float) -> None:
        if now - self._requests[0].entered < self._target:
            self._standing_since, self.is_standing = None, False
        elif self._standing_since is None:
            self._standing_since = now
        elif now - self._standing_since >= self._interval:
            self.is_standing = True


class AgedQueue(PoolQueue):
    """The same order for a configured queue: retries keep the age of their operation."""

    is_standing: bool = False

    def __init__(self, pace: Pace) -> None:
        super().__init__(pace)
        # Retries by age. They waited in an earlier attempt, so they are few, and mostly older than the others.
        self._returned: list[Request] = []

    def __iter__(self) -> Iterator[Request]:
        yield from self._returned
        yield from super().__iter__()

    def push(self, request: Request) -> None:
        """Add `request`."""
        if request.entered < request.since:
            self.count += 1
            insort(self._returned, request, key=_entered)
        else:
            super().push(request)

    def pop(self, now: float) -> Request:
        """Remove and return the request that is served next."""
        if self._returned and self._returned[0].entered <= self._oldest_entered():
            self.count -= 1
            return self._returned.pop(0)
        return super().pop(now)

    def discard(self, request: Request) -> None:
        """Remove `request` if it is in the queue."""
        if request.entered < request.since and request in self._returned:
            self._returned.remove(request)
            self.count -= 1
        else:
            super().discard(request)

    def victim(self, newcomer: Request) -> Request | None:
        """Return the request to drop in favor of `newcomer`: one that stepped aside, else the oldest, or None."""
        aside = _first_droppable(self._aside)
        if aside is not None:
            return aside
        found = (_first_droppable(self._returned), _first_droppable(self._in_order()))
        return min((request for request in found if request is not None), key=_entered, default=None)

    def overdue(self, now: float, round_size: int) -> list[Request]:
        """Return the requests that are not worth waiting for: none."""
        return []

    def _oldest_entered(self) -> float:
        oldest = inf if self._first is None else self._first.entered
        return min(oldest, next(iter(self._aside)).entered) if self._aside else oldest


def _entered(request: Request) -> float:
    return request.entered


def order_of(options: WaitQueue) -> ByAge[T]:
    """Return the order that the configuration names."""
    if options.ordering == "priority":
        return ByPriority(float(options.timeout))
    if options.ordering == "adaptive":
        return Adaptive(float(options.adaptive_target), float(options.adaptive_interval))
    return ByAge()


class WaitingLine(ABC, Generic[T]):
    """The operations that wait, under the rules of a `WaitQueue`: it decides which may, and `order` who is next."""

    # The errors of operations that must not wait, or have waited too long.
    _full: ClassVar[type[AdmissionError]] = WaitQueueFullError
    _too_large: ClassVar[type[AdmissionError]] = WaitQueueMemoryError
    _late: ClassVar[type[AdmissionError]] = WaitQueueTimeoutError

    def __init__(
        self,
        options: WaitQueue,
        order: Order[T],
        address: Address | None,
        *,
        goal: str = "a connection",
        queue: str = "the wait queue",
    ) -> None:
        self.options: WaitQueue = options
        self._order = order
        # A plain attribute: every check-out and every check-in of a pool reads it.
        self.count: int = 0
        self._address = address
        # For messages: what operations wait for, and where.
        self._goal = goal
        self._queue = queue
        # Estimated bytes of the waiting operations.
        self.memory: int = 0
        # Refused operations by reason, and the ones let in by priority.
        self._rejected: dict[str, int] = {}
        self._priorities: dict[int, int] = {}
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

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[T]:
        return iter(self._order)

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
            return self._refused(self._too_large(text), "memory_limit", self.memory, int(limit), depth, now)
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
        return self._refused(error, "queue_full", depth, limit, depth, now)

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
        return self._refused(error, "standing_queue", depth, self.options.max_depth, depth, now)

    def _refused(self, error: ErrorT, reason: str, depth: int, limit: int, waiting: int, now: float) -> ErrorT:
        error.address, error.depth, error.limit = self._address, depth, limit
        # A caller that has waited this long should not expect a shorter wait the next time.
        error.retry_after = max(self.advised(waiting, now), error.wait_time)
        self._rejected[reason] = self._rejected.get(reason, 0) + 1
        self._retry_after.add(error.retry_after)
        return error

    def ask(
        self, request: T, depth: int, now: float, *, is_full: bool, options: WaitQueue | None = None
    ) -> AdmissionError | None:
        """Return the error of `request` if it must not wait. If necessary, refuse another one to make room for it.

        `depth`: how many operations wait with nothing free for them. `is_full`: nothing more will be opened for them.
        `options`: those of the call, if it has its own.
        """
        error = self.refusal(depth, request.size, now, is_full=is_full, options=options)
        if error is None and self.must_drop(depth, options):
            victim = self._order.victim(request)
            if victim is None:
                return self.full(depth, now, options=options)
            self.discard(victim)
            victim.refuse(self.full(depth, now, now - victim.since, options=options))
        return error

    def push(self, request: T) -> None:
        """Add `request`, which was admitted."""
        self._order.push(request)
        self.count = self._order.count

    def pop(self, now: float) -> T:
        """Remove and return the request that is served next."""
        request = self._order.pop(now)
        self._count(-request.size)
        return request

    def discard(self, request: T) -> None:
        """Remove `request` if it is in the line."""
        self._order.discard(request)
        if self._order.count < self.count:
            self._count(-request.size)

    def drop_overdue(self, now: float, round_size: int) -> None:
        """Refuse the requests that an adaptive order does not consider worth waiting for."""
        for request in self._order.overdue(now, round_size):
            depth = self.count
            self.discard(request)
            request.refuse(self.standing(depth, now - request.since, now))

    def _count(self, size: int) -> None:
        """Count what the order holds now: `size` bytes more, or less."""
        self.count = self._order.count
        self.memory += size

    # --- what it learns ---

    def let_in(self, priority: int, size: int) -> None:
        """Count an operation that waits from now on."""
        self.memory += size
        if self.options.ordering == "priority":
            self._priorities[priority] = self._priorities.get(priority, 0) + 1

    def served(self, waited: float) -> None:
        """Count an operation that was served after waiting for `waited` seconds."""
        self._waits.add(waited)

    def stats(self) -> QueueStats:
        """Return the statistics."""
        return QueueStats(
            strategy=self.options.strategy,
            depth=self.count,
            memory=self.memory,
            rejected=dict(self._rejected),
            timeouts=self._rejected.get(TIMEOUT, 0),
            waits=self._waits.snapshot(),
            retry_after=self._retry_after.snapshot(),
            priorities=dict(self._priorities),
            is_standing=self._order.is_standing,
        )


class BoundedQueue(WaitingLine[Request]):
    """The requests that wait for a connection of a pool of `max_size` connections (0: no limit).

    Attributes:
        limit: The adaptive limit of operations that run at once, if the server has one.
    """

    def __init__(
        self,
        options: WaitQueue,
        address: Address,
        max_size: int,
        pace: Pace,
        ages: Callable[[float], Iterable[float]],
    ) -> None:
        order: Order[Request] = AgedQueue(pace) if options.ordering == "fifo" else order_of(options)
        super().__init__(options, order, address)
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
        return self._refused(PoolFullError(text), "pool_full", capacity, capacity, depth, now)

    def worked(self, connection: Connection, now: float) -> None:
        """Learn from an operation that returns `connection`."""
        if connection.purpose is Purpose.OTHER:
            seconds, mean = now - connection.in_use_since, self._mean
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

    def fill_in(self, request: Request, ticket: Ticket, ends_at: float) -> None:
        """Give `request` what the queue goes by. `ends_at`: when the time limit of the caller ends its wait."""
        request.entered = ticket.entered
        request.priority = self.priority_of(ticket.priority, ticket.assigned_priority)
        request.options = options = ticket.options or self.options
        request.size = self.size_of(ticket.size_hint, options)
        request.ends_at = ends_at
        request.is_admitted = ticket.is_admitted
        if options.strategy == "queue" and not ticket.is_admitted:
            request.leaves_at = request.since + float(options.timeout)

    def admit(self, request: Request, room: int | None, connecting: int, now: float) -> bool:
        """Let `request` wait, if necessary at the expense of another one; else give it the error.

        `room`: how many more operations may have a connection, which need not be open yet; None: any number.
        `connecting`: how many of these connections are being established.
        """
        options = request.options or self.options
        if room is not None and self.count >= room and not request.is_admitted:
            depth = self.count - max(room, 0)
            error = self.ask(request, depth, now, is_full=room <= connecting, options=options)
            if error is not None:
                request.waiter.offer(error)
                return False
            request.leaves_at = request.since + float(options.timeout)
        self.let_in(request.priority, request.size)
        return True

    def push_first(self, request: Request) -> None:
        """Add `request` at the front, or at its rank."""
        if isinstance(self._order, AgedQueue):
            self._order.push_first(request)
        else:
            self._order.push(request)  # ranks are by age
        self._count(request.size)

    def refuse_overdue(self, now: float) -> None:
        """Refuse the requests that an adaptive queue does not consider worth waiting for."""
        capacity = self.capacity
        if capacity:  # else all that wait do so for connections that are being opened
            self.drop_overdue(now, capacity)
