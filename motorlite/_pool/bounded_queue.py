"""Pure: a wait queue that the application configured (`motorlite.overload.WaitQueue`).

`_overload.admission` decides who may wait, and the order who is served next. This class joins them to the requests of a
pool: it hands refusals over, and keeps the sum of the requests' sizes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from motorlite._connection.purpose import Purpose
from motorlite._overload.admission import Admission
from motorlite._overload.admission_order import Adaptive, ByPriority
from motorlite._pool.queue import AgedQueue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from motorlite._base.values import Address
    from motorlite._connection.connection import Connection
    from motorlite._pool.pace import Pace
    from motorlite._pool.requests import Request, Ticket
    from motorlite.overload import WaitQueue
    from motorlite.stats import QueueStats

    Order: TypeAlias = AgedQueue | ByPriority[Request] | Adaptive[Request]

# A global, since reading a member of an enumeration takes 0.28 µs on Python 3.11.
_OTHER = Purpose.OTHER


def _order(options: WaitQueue, max_size: int, pace: Pace) -> Order:
    if options.ordering == "priority":
        return ByPriority(float(options.timeout))
    if options.ordering == "adaptive":
        return Adaptive(float(options.adaptive_target), float(options.adaptive_interval), max_size)
    return AgedQueue(pace)


class BoundedQueue:
    """The requests that wait for a connection, as far as the configuration lets them."""

    __slots__ = ("_order", "admission", "count")

    def __init__(self, options: WaitQueue, address: Address, max_size: int, pace: Pace) -> None:
        self.admission: Admission = Admission(options, address, max_size)
        self._order = _order(options, max_size, pace)
        # As in `WaitQueue`: every check-out and every check-in reads it.
        self.count: int = 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Request]:
        return iter(self._order)

    def fill_in(self, request: Request, ticket: Ticket, ends_at: float) -> None:
        """Give `request` what the queue goes by. `ends_at`: when the time limit of the caller ends its wait."""
        admission = self.admission
        request.entered = ticket.entered
        request.priority = admission.priority_of(ticket.priority, ticket.assigned_priority)
        request.size = admission.size_of(ticket.size_hint)
        request.ends_at = ends_at
        if admission.options.strategy == "queue":
            request.leaves_at = request.since + float(admission.options.timeout)

    def admit(self, request: Request, taken: int, now: float) -> bool:
        """Let `request` wait, if necessary at the expense of another one; else give it the error.

        `taken`: the connections in use and pending.
        """
        occupied = taken + self.count
        error = self.admission.refusal(occupied, request.size, now)
        if error is None and self.admission.must_drop(occupied):
            victim = self._order.victim(request)
            if victim is None:
                error = self.admission.full(self.count, now)
            else:
                self._drop(victim)
                victim.waiter.offer(self.admission.full(self.count + 1, now, now - victim.since))
        if error is None:
            self.admission.let_in(request.priority, request.size)
            return True
        request.waiter.offer(error)
        return False

    def push(self, request: Request) -> None:
        """Add `request`, which was let in."""
        self._order.push(request)
        self.count = self._order.count

    def pop(self, now: float) -> Request:
        """Remove and return the request that is served next."""
        request = self._order.pop(now)
        self._removed(request)
        return request

    def discard(self, request: Request) -> None:
        """Remove `request` if it is in the queue."""
        self._order.discard(request)
        if self._order.count < self.count:
            self._removed(request)

    def drop_overdue(self, now: float) -> None:
        """Refuse the requests that an adaptive queue does not consider worth waiting for."""
        for request in self._order.overdue(now):
            depth = self.count
            self._drop(request)
            request.waiter.offer(self.admission.standing(depth, now - request.since, now))

    def worked(self, connection: Connection, now: float) -> None:
        """Learn from an operation that returns `connection`."""
        if connection.purpose is _OTHER:
            self.admission.worked(now - connection.in_use_since)

    def stats(self) -> QueueStats:
        """Return the statistics."""
        return self.admission.stats(self.count, is_standing=getattr(self._order, "is_standing", False))

    def _drop(self, request: Request) -> None:
        self.discard(request)
        request.release()

    def _removed(self, request: Request) -> None:
        self.count = self._order.count
        self.admission.memory -= request.size
