"""Pure: events of connection pools, and their listener (connection monitoring and pooling specification).

`motorlite.monitoring` is where applications import them from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite.errors import detached
from motorlite.events_base import Event

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bson.objectid import ObjectId

    from motorlite.values import Address


class PoolEvent(Event):
    """What all pool events have in common: the address of the pool's server."""

    __slots__ = ("address",)

    def __init__(self, address: Address) -> None:
        self.address: Address = address


class PoolCreatedEvent(PoolEvent):
    """A pool was created, with the options that are not at their defaults."""

    __slots__ = ("options",)

    def __init__(self, address: Address, options: Mapping[str, Any]) -> None:
        super().__init__(address)
        self.options: Mapping[str, Any] = options


class PoolReadyEvent(PoolEvent):
    """A pool may create connections from now on."""

    __slots__ = ()


class PoolClearedEvent(PoolEvent):
    """A pool was cleared: its connections are stale and it is paused."""

    __slots__ = ("interrupt_connections", "service_id")

    def __init__(
        self, address: Address, service_id: ObjectId | None = None, interrupt_connections: bool = False
    ) -> None:
        super().__init__(address)
        self.service_id: ObjectId | None = service_id
        self.interrupt_connections: bool = interrupt_connections


class PoolClosedEvent(PoolEvent):
    """A pool was closed."""

    __slots__ = ()


class ConnectionEvent(PoolEvent):
    """What the events about one connection have in common; `connection_id` is unique in its pool, from 1."""

    __slots__ = ("connection_id",)

    def __init__(self, address: Address, connection_id: int) -> None:
        super().__init__(address)
        self.connection_id: int = connection_id


class ConnectionCreatedEvent(ConnectionEvent):
    """A connection was created; it is not established yet."""

    __slots__ = ()


class ConnectionReadyEvent(ConnectionEvent):
    """A connection finished its handshake and authentication after `duration` seconds."""

    __slots__ = ("duration",)

    def __init__(self, address: Address, connection_id: int, duration: float) -> None:
        super().__init__(address, connection_id)
        self.duration: float = duration


class ConnectionClosedReason:
    """Values of `ConnectionClosedEvent.reason`."""

    STALE = "stale"
    IDLE = "idle"
    ERROR = "error"
    POOL_CLOSED = "poolClosed"


class ConnectionClosedEvent(ConnectionEvent):
    """A connection was closed; see `ConnectionClosedReason`."""

    __slots__ = ("error", "reason")

    def __init__(self, address: Address, connection_id: int, reason: str, error: BaseException | None = None) -> None:
        super().__init__(address, connection_id)
        self.reason: str = reason
        self.error: BaseException | None = None if error is None else detached(error)


class ConnectionCheckOutStartedEvent(PoolEvent):
    """An operation asks for a connection."""

    __slots__ = ()


class ConnectionCheckOutFailedReason:
    """Values of `ConnectionCheckOutFailedEvent.reason`."""

    TIMEOUT = "timeout"
    POOL_CLOSED = "poolClosed"
    CONN_ERROR = "connectionError"


class ConnectionCheckOutFailedEvent(PoolEvent):
    """An operation got no connection; see `ConnectionCheckOutFailedReason`. `duration` is in seconds."""

    __slots__ = ("duration", "error", "reason")

    def __init__(self, address: Address, reason: str, duration: float, error: BaseException | None = None) -> None:
        super().__init__(address)
        self.reason: str = reason
        self.duration: float = duration
        self.error: BaseException | None = None if error is None else detached(error)


class ConnectionCheckedOutEvent(ConnectionEvent):
    """An operation got a connection after `duration` seconds."""

    __slots__ = ("duration",)

    def __init__(self, address: Address, connection_id: int, duration: float) -> None:
        super().__init__(address, connection_id)
        self.duration: float = duration


class ConnectionCheckedInEvent(ConnectionEvent):
    """An operation gave its connection back."""

    __slots__ = ()


class PendingReplyEvent(ConnectionEvent):
    """What the events about a late reply have in common: the connection, and the request that was abandoned.

    An operation that is cancelled, or whose time is up, after its request was sent does not cost the connection: the
    driver waits for the reply in the background, for a limited time, and uses the connection again.
    """

    __slots__ = ("request_id",)

    def __init__(self, address: Address, connection_id: int, request_id: int) -> None:
        super().__init__(address, connection_id)
        self.request_id: int = request_id


class PendingReplyStartedEvent(PendingReplyEvent):
    """A request was abandoned; its reply is awaited in the background."""

    __slots__ = ()


class PendingReplySucceededEvent(PendingReplyEvent):
    """The reply arrived after `duration` seconds; the connection can be used again."""

    __slots__ = ("duration",)

    def __init__(self, address: Address, connection_id: int, request_id: int, duration: float) -> None:
        super().__init__(address, connection_id, request_id)
        self.duration: float = duration


class PendingReplyFailedEvent(PendingReplyEvent):
    """The reply was given up after `duration` seconds and the connection is closed.

    `error` says why: the time that such a reply is given was up, or the connection broke; None: the pool was closed or
    cleared, or somebody else needed a connection and the pool was full.
    """

    __slots__ = ("duration", "error")

    def __init__(
        self, address: Address, connection_id: int, request_id: int, duration: float, error: BaseException | None
    ) -> None:
        super().__init__(address, connection_id, request_id)
        self.duration: float = duration
        self.error: BaseException | None = None if error is None else detached(error)


class ConnectionPoolListener:
    """Subclass it, override what you need, and pass it to the client as ``event_listeners=[...]``."""

    def pool_created(self, event: PoolCreatedEvent) -> None:
        """A pool was created."""

    def pool_ready(self, event: PoolReadyEvent) -> None:
        """A pool became ready."""

    def pool_cleared(self, event: PoolClearedEvent) -> None:
        """A pool was cleared."""

    def pool_closed(self, event: PoolClosedEvent) -> None:
        """A pool was closed."""

    def connection_created(self, event: ConnectionCreatedEvent) -> None:
        """A connection was created."""

    def connection_ready(self, event: ConnectionReadyEvent) -> None:
        """A connection was established."""

    def connection_closed(self, event: ConnectionClosedEvent) -> None:
        """A connection was closed."""

    def connection_check_out_started(self, event: ConnectionCheckOutStartedEvent) -> None:
        """A check-out started."""

    def connection_check_out_failed(self, event: ConnectionCheckOutFailedEvent) -> None:
        """A check-out failed."""

    def connection_checked_out(self, event: ConnectionCheckedOutEvent) -> None:
        """A check-out succeeded."""

    def connection_checked_in(self, event: ConnectionCheckedInEvent) -> None:
        """A connection was checked in."""

    def pending_reply_started(self, event: PendingReplyStartedEvent) -> None:
        """A request was abandoned; its reply is awaited in the background."""

    def pending_reply_succeeded(self, event: PendingReplySucceededEvent) -> None:
        """The reply of an abandoned request arrived."""

    def pending_reply_failed(self, event: PendingReplyFailedEvent) -> None:
        """The reply of an abandoned request was given up."""
