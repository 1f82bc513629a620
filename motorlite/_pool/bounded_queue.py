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
    from motorlite.errors import AdmissionError
    from motorlite.overload import WaitQueue
    from motorlite.stats import QueueStats

    Order: TypeAlias = AgedQueue | ByPriority[Request] | Adaptive[Request]

# A global, since reading a member of an enumeration takes 0.28 µs on Python 3.11.
_OTHER = Purpose.OTHER


def _order(options: WaitQueue, pace: Pace) -> Order:
    if options.ordering == "priority":
        return ByPriority(float(options.timeout))
    if options.ordering == "adaptive":
        return Adaptive(float(options.adaptive_target), float(options.adaptive_interval))
    return AgedQueue(pace)


class BoundedQueue:
    """The requests that wait for a connection, as far as the configuration lets them."""

    __slots__ = ("_order", "admission", "count")

    def __init__(self, options: WaitQueue, address: Address, max_size: int, pace: Pace) -> None:
        self.admission: Admission = Admission(options, address, max_size)
        self._order = _order(options, pace)
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
        request.is_admitted = ticket.is_admitted
        if admission.options.strategy == "queue" and not ticket.is_admitted:
            request.leaves_at = request.since + float(admission.options.timeout)

    def admit(self, request: Request, room: int | None, connecting: int, now: float) -> bool:
        """Let `request` wait, if necessary at the expense of another one; else give it the error.

        `room`: how many more operations may have a connection, which need not be open yet; None: any number.
        `connecting`: how many of these connections are being established.
        """
        if room is not None and self.count >= room and not request.is_admitted:
            error = self._refusal(request, self.count - max(room, 0), now, is_full=room <= connecting)
            if error is not None:
                request.waiter.offer(error)
                return False
            request.leaves_at = request.since + float(self.admission.options.timeout)
        self.admission.let_in(request.priority, request.size)
        return True

    def _refusal(self, request: Request, depth: int, now: float, *, is_full: bool) -> AdmissionError | None:
        admission = self.admission
        error = admission.refusal(depth, request.size, now, is_full=is_full)
        if error is None and admission.must_drop(depth):
            victim = self._order.victim(request)
            if victim is None:
                return admission.full(depth, now)
            self._drop(victim)
            victim.waiter.offer(admission.full(depth, now, now - victim.since))
        return error

    def push(self, request: Request) -> None:
        """Add `request`, which was let in."""
        self._order.push(request)
        self.count = self._order.count

    def push_first(self, request: Request) -> None:
        """Add `request`, whose turn has come."""
        self.admission.memory += request.size
        if isinstance(self._order, AgedQueue):
            self._order.push_first(request)
        else:
            self._order.push(request)  # ranks are by age
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
        capacity = self.admission.capacity
        if not capacity:
            return  # all that wait do so for connections that are being opened
        for request in self._order.overdue(now, capacity):
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
