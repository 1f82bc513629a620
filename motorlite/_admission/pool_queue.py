"""Pure: the usual wait queue of a full pool: first in, first out, but who has too little time left steps aside.

First in, first out (pooling specification), with one exception, for a queue that does not become empty while callers
give up. A request with less time left than operations with such a limit take on this server would only waste the
connection, so it steps aside for requests that can still use one. The limit of a request is its deadline or cancel
scope. If the driver cannot see a limit (`asyncio.timeout`), it assumes the time that such callers recently waited
before they gave up, and a request that has outlived that assumption regains its place at the front. So no request waits
behind later ones for longer than the usual patience of callers. While no caller gives up, the order is that of the
specification.

This queue refuses no operation. `bounded_queue` has the configured queues, which refuse and drop operations.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Final

from motorlite._admission.pace import MANY, urgency
from motorlite._connection.handshake import CONNECTING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from motorlite._admission.pace import Pace
    from motorlite._net.runtime import Waiter
    from motorlite.errors import PyMongoError
    from motorlite.overload import WaitQueue


# A caller that has waited for this multiple of the usual patience has proved to be patient.
_PROOF: Final = 1.25


@dataclass(slots=True, eq=False, repr=False)
class Ticket:
    """What a configured wait queue and a circuit breaker need to know about an operation."""

    # Loop time at which the operation first asked a pool for a connection. Retries keep it.
    entered: float
    # Estimates the bytes of the command; only called where memory is limited.
    size_hint: Callable[[], int] = int
    # What the innermost and the outermost block set; None: neither does.
    priority: int = 50
    assigned_priority: int | None = None
    # It continues admitted work, and waits as long as its caller does.
    is_admitted: bool = field(default=False, kw_only=True)
    # The server's breaker stops it when it opens.
    is_gated: bool = field(default=False, kw_only=True)
    # The settings of the call, which replace the client's. The order of the queue remains the client's.
    options: WaitQueue | None = field(default=None, kw_only=True)


class _Defaults:
    """Defaults of fields. Most requests never set them, and then they take no memory."""

    __slots__ = ()

    # Its own connection was opened, so it has passed the queue.
    has_passed: bool = False
    # The server's breaker stops it when it opens.
    is_gated: bool = False
    # Makes the error of a request that the pool has refused, which the operation gets in one of the next steps.
    refusal: Callable[[], PyMongoError] | None = None
    # The rest is for a configured wait queue. `Ticket` explains the first three.
    priority: int = 50
    is_admitted: bool = False
    options: WaitQueue | None = None
    # The estimated bytes of the command.
    size: int = 0
    # Its place in the queue's order, which sets it.
    rank: tuple[float, int] = (0.0, 0)
    # Loop times at which the queue's timeout and the time limit of the caller end the wait.
    leaves_at: float = inf
    ends_at: float = inf


class Request(_Defaults):
    """An operation that waits for a connection."""

    __slots__ = (
        "__dict__",  # for what is in `_Defaults`; made when it is needed
        "entered",
        "establishment",
        "next",
        "operation_until",
        "previous",
        "since",
        "until",
        "urgency",
        "waiter",
    )

    def __init__(self, waiter: Waiter, since: float, until: float = inf, operation_until: float | None = None) -> None:
        self.waiter: Waiter = waiter
        # Loop times of the request and of the end of the caller's wait, as far as the driver can see it.
        self.since: float = since
        self.until: float = until
        # The magnitude of the difference between the two.
        self.urgency: int | None = None if until == inf else urgency(until - since)
        # Loop time at which the operation's timeoutMS expires; None: not set.
        self.operation_until: float | None = operation_until
        # The connection that is being established for this request, or None.
        self.establishment: Establishment | None = None
        # Loop time at which the operation first asked a pool for a connection.
        self.entered: float = since
        # Its neighbours in a `PoolQueue`.
        self.previous: Request | None = None
        self.next: Request | None = None

    def release(self) -> None:
        """Detach the connection being established from this request, which was served or stopped waiting."""
        if self.establishment is not None:
            self.establishment.request = None
            self.establishment = None

    def refuse(self, error: PyMongoError) -> None:
        """End the wait with `error`."""
        self.release()
        if not self.waiter.offer(error):
            # Its time is up, but the busy event loop has not woken it yet. This error is the one that was counted.
            self.refusal: Callable[[], PyMongoError] | None = lambda: error

    def deliver(self) -> bool:
        """Give the operation the error of its refusal. Returns False if it has one already, or has left."""
        return self.refusal is not None and self.waiter.offer(self.refusal())

    def has_expired(self, now: float) -> bool:
        """Whether it must not be served any more. One whose own connection is being opened has passed the queue."""
        if now >= self.ends_at:
            return True
        return now >= self.leaves_at and self.establishment is None and not self.has_passed


@dataclass(slots=True, eq=False, repr=False)
class Establishment:
    """A connection that is being established."""

    connection_id: int
    generation: int
    # The request it is established for; None for minPoolSize, or if that request was served otherwise.
    request: Request | None
    # For messages: the loop time of its start, and how far it has got.
    started_at: float = 0.0
    step: str = CONNECTING

    def reach(self, step: str) -> None:
        """Record how far it has got."""
        self.step = step


class PoolQueue:
    """The requests that wait for a connection; removing a request takes constant time."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        # Number of waiting requests. A plain attribute, because every check-out and every check-in reads it.
        self.count: int = 0
        # The ends of the line. Each request has its neighbours: that takes half of the time and the memory of a dict.
        self._first: Request | None = None
        self._last: Request | None = None
        # Requests that came first with too little time left; the one with the most time left is the last.
        self._aside: OrderedDict[Request, None] = OrderedDict()

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Request]:
        yield from self._in_order()
        yield from self._aside

    def _in_order(self) -> Iterator[Request]:
        request = self._first
        while request is not None:
            following = request.next
            yield request
            request = following

    def push(self, request: Request) -> None:
        """Append `request`."""
        self.count += 1
        last, self._last = self._last, request
        if last is None:
            self._first = request
        else:
            last.next, request.previous = request, last

    def push_first(self, request: Request) -> None:
        """Add `request` at the front."""
        self.count += 1
        first, self._first = self._first, request
        if first is None:
            self._last = request
        else:
            first.previous, request.next = request, first

    def pop(self, now: float) -> Request:
        """Remove and return the request that is served next."""
        self.count -= 1
        # Usually few callers give up.
        patience = inf if self._pace.part_left < MANY else self._pace.patience(now)
        if self._aside and self._has_outlived(next(iter(self._aside)), patience, now):
            return self._aside.popitem(last=False)[0]
        request = self._first
        while request is not None:
            self._first = following = request.next
            if following is None:
                self._last = None
            else:
                request.next = following.previous = None
            if patience == inf == request.until:  # the usual case: neither the server nor the callers are in a hurry
                return request
            if not self._is_late(request, self._pace.needed(now, request.urgency), patience, now):
                return request
            self._aside[request] = None
            request = following
        return self._aside.popitem(last=True)[0]

    def discard(self, request: Request) -> None:
        """Remove `request` if it is in the queue."""
        if request in self._aside:
            del self._aside[request]
        elif request is self._first or request.previous is not None:
            self._unlink(request)
        else:
            return
        self.count -= 1

    def _unlink(self, request: Request) -> None:
        before, after = request.previous, request.next
        request.previous = request.next = None
        if before is None:
            self._first = after
        else:
            before.next = after
        if after is None:
            self._last = before
        else:
            after.previous = before

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
