"""Pure: the orders in which a configured wait queue serves: by age, by priority, and by its state (adaptive).

All keep the requests sorted by a rank that never changes while they wait, in a list: `WaitQueue.max_depth` bounds its
length, so moving its items costs a few microseconds at most.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


# How many priorities a request rises during half of the queue's timeout: from the lowest to the highest.
_RISE: Final = 100.0


class Waiting(Protocol):
    """An operation that waits."""

    # Loop time at which the operation asked for a connection for the first time; a retry keeps it.
    entered: float
    # 0 to 100.
    priority: int
    # Continues admitted work, so it is never dropped.
    is_admitted: bool
    # Set by the order; lower ranks are served first. The second number is unique.
    rank: tuple[float, int]


T = TypeVar("T", bound=Waiting)


def _rank(request: Waiting) -> tuple[float, int]:
    return request.rank


def _age(request: Waiting) -> tuple[float, int]:
    return request.entered, request.rank[1]


class _Sorted(Generic[T]):
    """Requests by rank."""

    __slots__ = ("_numbers", "_requests", "count")

    def __init__(self) -> None:
        # Number of waiting requests. A plain attribute, because every check-out and every check-in reads it.
        self.count: int = 0
        self._requests: list[T] = []
        # How many requests there have been, so that equal ranks keep the order in which they came.
        self._numbers = 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[T]:
        return iter(self._requests)

    def _insert(self, request: T, rank: float) -> None:
        self._numbers += 1
        request.rank = (rank, self._numbers)
        self.count += 1
        requests = self._requests
        if not requests or requests[-1].rank < request.rank:
            requests.append(request)
        else:
            insort(requests, request, key=_rank)

    def ahead_of(self, request: T) -> int:
        """Return how many requests are served before `request`, if no other one comes."""
        return bisect_left(self._requests, request.rank, key=_rank)

    def _remove(self, request: T) -> bool:
        """Remove `request`; return False if it is not here."""
        requests = self._requests
        position = bisect_left(requests, request.rank, key=_rank)
        if position == len(requests) or requests[position] is not request:
            return False
        del requests[position]
        self.count -= 1
        return True


class ByAge(_Sorted[T]):
    """First in, first out."""

    __slots__ = ()

    def push(self, request: T) -> None:
        """Add `request`."""
        self._insert(request, request.entered)

    def pop(self, now: float) -> T:
        """Remove and return the request that is served next."""
        self.count -= 1
        return self._requests.pop(0)

    def discard(self, request: T) -> None:
        """Remove `request` if it is in the queue."""
        self._remove(request)

    def victim(self, newcomer: T) -> T | None:
        """Return the request to drop in favor of `newcomer`: the oldest; None if that would be `newcomer` itself."""
        return next((request for request in self._requests if not request.is_admitted), None)

    def overdue(self, now: float, round_size: int) -> Iterable[T]:
        """Return the requests that are not worth waiting for: none."""
        return ()


class ByPriority(_Sorted[T]):
    """The highest priority first; of equal ones, the operation that waits longest.

    A request rises by 100 priorities while it waits for half of the queue's timeout. So a request of priority 0 is only
    overtaken by requests that ask less than half a timeout after it; later ones, even of priority 100, stay behind.
    Ranks of two requests keep their order while both wait, since both rise alike.
    """

    __slots__ = ("_by_priority", "_priorities_per_second")

    def __init__(self, timeout: float) -> None:
        super().__init__()
        self._priorities_per_second = _RISE / (timeout / 2)
        # The requests of each priority that may be dropped, oldest first. There are at most 101 lists, none empty.
        self._by_priority: dict[int, list[T]] = {}

    def push(self, request: T) -> None:
        """Add `request`."""
        self._insert(request, request.entered * self._priorities_per_second - request.priority)
        if not request.is_admitted:
            insort(self._by_priority.setdefault(request.priority, []), request, key=_age)

    def pop(self, now: float) -> T:
        """Remove and return the request that is served next."""
        request = self._requests.pop(0)
        self.count -= 1
        self._forget(request)
        return request

    def discard(self, request: T) -> None:
        """Remove `request` if it is in the queue."""
        if self._remove(request):
            self._forget(request)

    def victim(self, newcomer: T) -> T | None:
        """Return the request to drop in favor of `newcomer`; None if that would be `newcomer` itself."""
        lowest = min(self._by_priority, default=None)
        return None if lowest is None or newcomer.priority < lowest else self._by_priority[lowest][0]

    def overdue(self, now: float, round_size: int) -> Iterable[T]:
        """Return the requests that are not worth waiting for: none."""
        return ()

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

    __slots__ = ("_admitted", "_interval", "_standing_since", "_target", "is_standing")

    def __init__(self, target: float, interval: float) -> None:
        super().__init__()
        self._target = target
        self._interval = interval
        # How many of the requests must not be dropped.
        self._admitted = 0
        # Loop time since which the oldest request was never below the target; None: it is, or nothing waits.
        self._standing_since: float | None = None
        self.is_standing: bool = False

    def __iter__(self) -> Iterator[T]:
        return reversed(self._requests) if self.is_standing else iter(self._requests)

    def push(self, request: T) -> None:
        """Add `request`."""
        super().push(request)
        self._admitted += request.is_admitted

    def pop(self, now: float) -> T:
        """Remove and return the request that is served next."""
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

    def discard(self, request: T) -> None:
        """Remove `request` if it is in the queue."""
        if self._remove(request):
            self._admitted -= request.is_admitted
        self._end_if_empty()

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
