"""Pure: connection pool events and their listener (connection monitoring and pooling specification).

Applications import them from `motorlite.monitoring`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from motorlite._events.base import Event, Public
from motorlite.errors import detached

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bson.objectid import ObjectId

    from motorlite._base.values import Address


class PoolEvent(Event):
    """The base class of all pool events; `address` is the address of the pool's server."""

    __slots__ = ("address",)

    def __init__(self, address: Address) -> None:
        self.address: Address = address


class PoolCreatedEvent(PoolEvent):
    """A pool was created; `options` has the options that differ from their defaults."""

    __slots__ = ("options",)

    def __init__(self, address: Address, options: Mapping[str, Any]) -> None:
        super().__init__(address)
        self.options: Mapping[str, Any] = options


class PoolReadyEvent(PoolEvent):
    """A pool is ready to create connections."""

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
    """The base class of the events of one connection; `connection_id` is unique in its pool and starts at 1."""

    __slots__ = ("connection_id",)

    def __init__(self, address: Address, connection_id: int) -> None:
        super().__init__(address)
        self.connection_id: int = connection_id


class ConnectionCreatedEvent(ConnectionEvent):
    """A connection was created but is not established yet."""

    __slots__ = ()


class ConnectionReadyEvent(ConnectionEvent):
    """A connection finished its handshake and authentication after `duration` seconds."""

    __slots__ = ("duration",)

    def __init__(self, address: Address, connection_id: int, duration: float) -> None:
        super().__init__(address, connection_id)
        self.duration: float = duration


class ConnectionClosedReason(Public):
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
    """An operation requested a connection."""

    __slots__ = ()


class ConnectionCheckOutFailedReason(Public):
    """Values of `ConnectionCheckOutFailedEvent.reason`."""

    TIMEOUT = "timeout"
    POOL_CLOSED = "poolClosed"
    CONN_ERROR = "connectionError"


class ConnectionCheckOutFailedEvent(PoolEvent):
    """An operation got no connection; see `ConnectionCheckOutFailedReason`. `duration` is in seconds.

    `connection_id` is always 0: there is no connection.
    """

    __slots__ = ("duration", "error", "reason")

    connection_id: ClassVar[int] = 0

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
    """An operation returned its connection."""

    __slots__ = ()


class PendingReplyEvent(ConnectionEvent):
    """The base class of pending reply events, with the connection and the abandoned request.

    Cancelling an operation after its request was sent, or a timeout, does not cost the connection. The driver waits for
    the reply in the background, for a limited time, and then reuses the connection.
    """

    __slots__ = ("request_id",)

    def __init__(self, address: Address, connection_id: int, request_id: int) -> None:
        super().__init__(address, connection_id)
        self.request_id: int = request_id


class PendingReplyStartedEvent(PendingReplyEvent):
    """A request was abandoned; the driver waits for its reply in the background."""

    __slots__ = ()


class PendingReplySucceededEvent(PendingReplyEvent):
    """The reply arrived after `duration` seconds; the connection is usable again."""

    __slots__ = ("duration",)

    def __init__(self, address: Address, connection_id: int, request_id: int, duration: float) -> None:
        super().__init__(address, connection_id, request_id)
        self.duration: float = duration


class PendingReplyFailedEvent(PendingReplyEvent):
    """The driver gave up on the reply after `duration` seconds and closed the connection.

    `error` is set when the reply's time limit passed or the connection broke. It is None when the pool was closed or
    cleared, or was full while another operation needed a connection.
    """

    __slots__ = ("duration", "error")

    def __init__(
        self, address: Address, connection_id: int, request_id: int, duration: float, error: BaseException | None
    ) -> None:
        super().__init__(address, connection_id, request_id)
        self.duration: float = duration
        self.error: BaseException | None = None if error is None else detached(error)


class ConnectionPoolListener(Public):
    """A listener for pool events. Subclass it, override what you need, pass it as ``event_listeners=[...]``."""

    def pool_created(self, event: PoolCreatedEvent) -> None:
        """Called when a pool was created."""

    def pool_ready(self, event: PoolReadyEvent) -> None:
        """Called when a pool became ready."""

    def pool_cleared(self, event: PoolClearedEvent) -> None:
        """Called when a pool was cleared."""

    def pool_closed(self, event: PoolClosedEvent) -> None:
        """Called when a pool was closed."""

    def connection_created(self, event: ConnectionCreatedEvent) -> None:
        """Called when a connection was created."""

    def connection_ready(self, event: ConnectionReadyEvent) -> None:
        """Called when a connection was established."""

    def connection_closed(self, event: ConnectionClosedEvent) -> None:
        """Called when a connection was closed."""

    def connection_check_out_started(self, event: ConnectionCheckOutStartedEvent) -> None:
        """Called when a check-out started."""

    def connection_check_out_failed(self, event: ConnectionCheckOutFailedEvent) -> None:
        """Called when a check-out failed."""

    def connection_checked_out(self, event: ConnectionCheckedOutEvent) -> None:
        """Called when a check-out succeeded."""

    def connection_checked_in(self, event: ConnectionCheckedInEvent) -> None:
        """Called when a connection was checked in."""

    def pending_reply_started(self, event: PendingReplyStartedEvent) -> None:
        """Called when a request was abandoned and its reply is pending."""

    def pending_reply_succeeded(self, event: PendingReplySucceededEvent) -> None:
        """Called when the reply to an abandoned request arrived."""

    def pending_reply_failed(self, event: PendingReplyFailedEvent) -> None:
        """Called when the driver gave up on the reply to an abandoned request."""
