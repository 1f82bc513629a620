"""Pure: a wait queue that the application configured (`motorlite.overload.WaitQueue`), for the requests of a pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from motorlite._admission.pool_queue import AgedQueue
from motorlite._admission.waiting_line import Order, PoolAdmission, WaitingLine, order_of
from motorlite._connection.handshake import Purpose

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from motorlite._admission.pace import Pace
    from motorlite._admission.tickets import Request, Ticket
    from motorlite._base.values import Address
    from motorlite._connection.connection import Connection
    from motorlite.overload import WaitQueue


_OTHER = Purpose.OTHER


class BoundedQueue(WaitingLine["Request"]):
    """The requests that wait for a connection, as far as the configuration lets them."""

    __slots__ = ("admission",)

    def __init__(
        self,
        options: WaitQueue,
        address: Address,
        max_size: int,
        pace: Pace,
        ages: Callable[[float], Iterable[float]],
    ) -> None:
        self.admission: PoolAdmission = PoolAdmission(options, address, max_size, ages)
        order: Order[Request] = AgedQueue(pace) if options.ordering == "fifo" else order_of(options)
        super().__init__(self.admission, order)

    def fill_in(self, request: Request, ticket: Ticket, ends_at: float) -> None:
        """Give `request` what the queue goes by. `ends_at`: when the time limit of the caller ends its wait."""
        admission = self.admission
        request.entered = ticket.entered
        request.priority = admission.priority_of(ticket.priority, ticket.assigned_priority)
        request.options = options = ticket.options or admission.options
        request.size = admission.size_of(ticket.size_hint, options)
        request.ends_at = ends_at
        request.is_admitted = ticket.is_admitted
        if options.strategy == "queue" and not ticket.is_admitted:
            request.leaves_at = request.since + float(options.timeout)

    def admit(self, request: Request, room: int | None, connecting: int, now: float) -> bool:
        """Let `request` wait, if necessary at the expense of another one; else give it the error.

        `room`: how many more operations may have a connection, which need not be open yet; None: any number.
        `connecting`: how many of these connections are being established.
        """
        options = request.options or self.admission.options
        if room is not None and self.count >= room and not request.is_admitted:
            depth = self.count - max(room, 0)
            error = self.refusal(request, depth, now, is_full=room <= connecting, options=options)
            if error is not None:
                request.waiter.offer(error)
                return False
            request.leaves_at = request.since + float(options.timeout)
        self.admission.let_in(request.priority, request.size)
        return True

    def push_first(self, request: Request) -> None:
        """Add `request` at the front, or at its rank."""
        self.admission.memory += request.size
        if isinstance(self._order, AgedQueue):
            self._order.push_first(request)
        else:
            self._order.push(request)  # ranks are by age
        self.count: int = self._order.count

    def refuse_overdue(self, now: float) -> None:
        """Refuse the requests that an adaptive queue does not consider worth waiting for."""
        capacity = self.admission.capacity
        if capacity:  # else all that wait do so for connections that are being opened
            self.drop_overdue(now, capacity)

    def worked(self, connection: Connection, now: float) -> None:
        """Learn from an operation that returns `connection`."""
        if connection.purpose is _OTHER:
            self.admission.worked(now - connection.in_use_since)
