"""Pure: operations that wait for a connection, and the connections that are established on their behalf."""

from __future__ import annotations

from math import inf
from typing import Protocol

from motorlite._pool.pace import haste


class Waiter(Protocol):
    """Waits until a request is served; implemented by each runtime."""

    def offer(self, value: object) -> bool:
        """Hand `value` over. False if the waiter has given up; the caller then keeps `value`."""
        ...


class Request:
    """One operation that waits for a connection."""

    __slots__ = ("establishment", "haste", "operation_until", "since", "until", "waiter")

    def __init__(
        self, waiter: Waiter, since: float = 0.0, *, until: float = inf, operation_until: float | None = None
    ) -> None:
        self.waiter = waiter
        # When it was made, and until when its caller waits, as far as the driver can see; loop times.
        self.since = since
        self.until = until
        # The magnitude of what lies between the two.
        self.haste = haste(until - since)
        # When the timeoutMS of the operation is used up; None: none was set.
        self.operation_until = operation_until
        # The connection that is being established because of this request, or None.
        self.establishment: Establishment | None = None


class Establishment:
    """A connection that is being established."""

    __slots__ = ("connection_id", "generation", "request")

    def __init__(self, connection_id: int, generation: int, request: Request | None) -> None:
        self.connection_id = connection_id
        self.generation = generation
        # On whose behalf; None for minPoolSize, or when that request was served otherwise.
        self.request = request
