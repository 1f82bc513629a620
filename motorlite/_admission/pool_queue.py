"""Pure: the usual wait queue of a full pool: first in, first out, but who has too little time left steps aside.

First in, first out (pooling specification), with one exception, for a queue that does not become empty while callers
give up. A request with less time left than operations with such a limit take on this server would only waste the
connection, so it steps aside for requests that can still use one. The limit of a request is its deadline or cancel
scope. If the driver cannot see a limit (`asyncio.timeout`), it assumes the time that such callers recently waited
before they gave up, and a request that has outlived that assumption regains its place at the front. So no request waits
behind later ones for longer than the usual patience of callers. While no caller gives up, the order is that of the
specification.
"""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict
from math import inf
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from motorlite._admission.pace import Pace
    from motorlite._admission.tickets import Request


# A caller that has waited for this multiple of the usual patience has proved to be patient.
_PROOF: Final = 1.25


class PoolQueue:
    """The requests that wait for a connection; removing a request takes constant time."""

    __slots__ = ("_aside", "_in_order", "_pace", "count")

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        # Number of waiting requests. A plain attribute, because every check-out and every check-in reads it.
        self.count: int = 0
        # Not a dict: removing the oldest item of a dict gets slower with every item removed before.
        self._in_order: OrderedDict[Request, None] = OrderedDict()
        # Requests that came first with too little time left; the one with the most time left is the last.
        self._aside: OrderedDict[Request, None] = OrderedDict()

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Request]:
        yield from self._in_order
        yield from self._aside

    def push(self, request: Request) -> None:
        """Append `request`."""
        self.count += 1
        self._in_order[request] = None

    def push_first(self, request: Request) -> None:
        """Add `request` at the front."""
        self.count += 1
        self._in_order[request] = None
        self._in_order.move_to_end(request, last=False)

    def pop(self, now: float) -> Request:
        """Remove and return the request that is served next."""
        self.count -= 1
        patience = self._pace.patience(now)
        if self._aside and self._has_outlived(next(iter(self._aside)), patience, now):
            return self._aside.popitem(last=False)[0]
        while self._in_order:
            request = self._in_order.popitem(last=False)[0]
            if patience == inf == request.until:  # the usual case: neither the server nor the callers are in a hurry
                return request
            if not self._is_late(request, self._pace.needed(now, request.haste), patience, now):
                return request
            self._aside[request] = None
        return self._aside.popitem(last=True)[0]

    def discard(self, request: Request) -> None:
        """Remove `request` if it is in the queue."""
        for requests in (self._in_order, self._aside):
            if request in requests:
                del requests[request]
                self.count -= 1

    @staticmethod
    def _is_late(request: Request, needed: float, patience: float, now: float) -> bool:
        if request.until != inf:
            return request.until - now < needed
        return request.since + patience - now < needed and now - request.since <= _PROOF * patience

    @staticmethod
    def _has_outlived(request: Request, patience: float, now: float) -> bool:
        if request.until != inf:
            # The cancel scope was extended, or shields its content.
            return now > request.until
        return now - request.since > _PROOF * patience or patience == inf


class AgedQueue(PoolQueue):
    """The same order for a configured queue: retries keep the age of their operation."""

    __slots__ = ("_returned",)

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
            insort(self._returned, request, key=_age)
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
        found = (_first_droppable(self._returned), _first_droppable(self._in_order))
        return min((request for request in found if request is not None), key=_age, default=None)

    def overdue(self, now: float, round_size: int) -> list[Request]:
        """Return the requests that are not worth waiting for: none."""
        return []

    def _oldest_entered(self) -> float:
        return min((next(iter(part)).entered for part in (self._in_order, self._aside) if part), default=inf)


def _age(request: Request) -> float:
    return request.entered


def _first_droppable(requests: Iterable[Request]) -> Request | None:
    return next((request for request in requests if not request.is_admitted), None)
