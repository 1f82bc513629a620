"""Pure: operations that wait for a connection, and connections that are being established on their behalf."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from motorlite._admission.pace import haste
from motorlite._connection.handshake import CONNECTING

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._net.runtime import Waiter
    from motorlite.errors import PyMongoError
    from motorlite.overload import WaitQueue


class Ticket:
    """What a configured wait queue and a circuit breaker need to know about an operation."""

    __slots__ = ("assigned_priority", "entered", "is_admitted", "is_gated", "options", "priority", "size_hint")

    def __init__(
        self,
        entered: float,
        size_hint: Callable[[], int] = int,
        priority: int = 50,
        assigned_priority: int | None = None,
        *,
        is_admitted: bool = False,
        is_gated: bool = False,
        options: WaitQueue | None = None,
    ) -> None:
        # Loop time at which the operation first asked a pool for a connection. Retries keep it.
        self.entered: float = entered
        # Estimates the bytes of the command; only called where memory is limited.
        self.size_hint: Callable[[], int] = size_hint
        # What the innermost and the outermost block set; None: neither does.
        self.priority: int = priority
        self.assigned_priority: int | None = assigned_priority
        # It continues admitted work, and waits as long as its caller does.
        self.is_admitted: bool = is_admitted
        # The server's breaker stops it when it opens.
        self.is_gated: bool = is_gated
        # The settings of the call, which replace the client's. The order of the queue remains the client's.
        self.options: WaitQueue | None = options


class Request:
    """An operation that waits for a connection."""

    __slots__ = (
        "ends_at",
        "entered",
        "establishment",
        "has_passed",
        "haste",
        "is_admitted",
        "is_gated",
        "leaves_at",
        "operation_until",
        "options",
        "priority",
        "rank",
        "since",
        "size",
        "until",
        "waiter",
    )

    def __init__(
        self, waiter: Waiter, since: float = 0.0, *, until: float = inf, operation_until: float | None = None
    ) -> None:
        self.waiter: Waiter = waiter
        # Loop times of the request and of the end of the caller's wait, as far as the driver can see it.
        self.since: float = since
        self.until: float = until
        # The magnitude of the difference between the two.
        self.haste: int | None = haste(until - since)
        # Loop time at which the operation's timeoutMS expires; None: not set.
        self.operation_until: float | None = operation_until
        # The connection that is being established for this request, or None.
        self.establishment: Establishment | None = None
        # Its own connection was opened, so it has passed the queue.
        self.has_passed: bool = False
        # The server's breaker stops it when it opens.
        self.is_gated: bool = False
        # The rest is for a configured wait queue. See `Ticket`; bytes; set by the queue's order.
        self.entered: float = since
        self.priority: int = 50
        self.is_admitted: bool = False
        self.options: WaitQueue | None = None
        self.size: int = 0
        self.rank: tuple[float, int] = (0.0, 0)
        # Loop times at which the queue's timeout and the time limit of the caller end the wait.
        self.leaves_at: float = inf
        self.ends_at: float = inf

    def release(self) -> None:
        """Detach the connection being established from this request, which was served or stopped waiting."""
        if self.establishment is not None:
            self.establishment.request = None
            self.establishment = None

    def refuse(self, error: PyMongoError) -> None:
        """End the wait with `error`."""
        self.release()
        self.waiter.offer(error)

    def has_expired(self, now: float) -> bool:
        """Whether it must not be served any more. One whose own connection is being opened has passed the queue."""
        if now >= self.ends_at:
            return True
        return now >= self.leaves_at and self.establishment is None and not self.has_passed


class Establishment:
    """A connection that is being established."""

    __slots__ = ("connection_id", "generation", "request", "started_at", "step")

    def __init__(self, connection_id: int, generation: int, request: Request | None) -> None:
        self.connection_id: int = connection_id
        self.generation: int = generation
        # The request it is established for; None for minPoolSize, or if that request was served otherwise.
        self.request: Request | None = request
        # For messages: the loop time of its start, and how far it has got.
        self.started_at: float = 0.0
        self.step: str = CONNECTING

    def reach(self, step: str) -> None:
        """Record how far it has got."""
        self.step = step
