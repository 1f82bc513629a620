"""Pure: operations that wait for a connection, and connections that are being established on their behalf."""

from __future__ import annotations

from math import inf
from typing import Protocol

from motorlite._pool.pace import haste


class Waiter(Protocol):
    """Waits for a request to be served; implemented by each runtime."""

    def offer(self, value: object) -> bool:
        """Hand over `value`; return False if the waiter has given up, in which case the caller keeps `value`."""
        ...


class Request:
    """An operation that waits for a connection."""

    __slots__ = ("establishment", "haste", "operation_until", "since", "until", "waiter")

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


class Establishment:
    """A connection that is being established."""

    __slots__ = ("connection_id", "generation", "request")

    def __init__(self, connection_id: int, generation: int, request: Request | None) -> None:
        self.connection_id: int = connection_id
        self.generation: int = generation
        # The request it is established for; None for minPoolSize, or if that request was served otherwise.
        self.request: Request | None = request
