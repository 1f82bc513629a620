"""Pure: events that the driver publishes, and the listeners that applications write.

Command, pool and topology events are those of the public specifications with PyMongo's names; retry events are
motorlite's own: one for every decision about a retry, made or refused. Events are plain slots objects; do not change
them. A listener is called synchronously on the event loop and must return quickly; what it raises is logged and
ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bson.objectid import ObjectId

    from motorlite.values import Address


class _Event:
    """Gives every event a readable repr."""

    __slots__ = ()

    def __repr__(self) -> str:
        names = [name for kind in reversed(type(self).__mro__) for name in getattr(kind, "__slots__", ())]
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"<{type(self).__name__} {fields}>"


# --- commands (command logging and monitoring specification) ---


class CommandEvent(_Event):
    """What all command events have in common.

    Attributes:
        command_name: For example ``"find"``.
        database_name: The database that the command ran on.
        request_id: Pairs a started event with its succeeded or failed event.
        operation_id: The same for all attempts and batches of one operation.
        connection_id: Address of the server.
        server_connection_id: The server's own number for the connection, or None.
        driver_connection_id: The pool's number for the connection.
        service_id: Set behind a load balancer.
    """

    __slots__ = (
        "command_name",
        "connection_id",
        "database_name",
        "driver_connection_id",
        "operation_id",
        "request_id",
        "server_connection_id",
        "service_id",
    )

    def __init__(
        self,
        command_name: str,
        database_name: str,
        request_id: int,
        operation_id: int,
        connection_id: Address,
        server_connection_id: int | None = None,
        driver_connection_id: int | None = None,
        service_id: ObjectId | None = None,
    ) -> None:
        self.command_name: str = command_name
        self.database_name: str = database_name
        self.request_id: int = request_id
        self.operation_id: int = operation_id
        self.connection_id: Address = connection_id
        self.server_connection_id: int | None = server_connection_id
        self.driver_connection_id: int | None = driver_connection_id
        self.service_id: ObjectId | None = service_id


class CommandStartedEvent(CommandEvent):
    """A command is about to be written to its connection. `command` is empty for sensitive commands."""

    __slots__ = ("command",)

    def __init__(self, command: Mapping[str, Any], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.command: Mapping[str, Any] = command


class CommandSucceededEvent(CommandEvent):
    """The server answered with ``ok: 1``.

    Attributes:
        duration: Seconds.
        reply: The reply; empty for sensitive commands.
    """

    __slots__ = ("duration", "reply")

    def __init__(self, duration: float, reply: Mapping[str, Any], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.duration: float = duration
        self.reply: Mapping[str, Any] = reply

    @property
    def duration_micros(self) -> int:
        """The duration in microseconds, as PyMongo names it."""
        return round(self.duration * 1_000_000)


class CommandFailedEvent(CommandEvent):
    """The server answered with an error, or no answer came.

    Attributes:
        duration: Seconds.
        failure: The reply, or a description of the client-side error; redacted for sensitive commands.
        error: The exception.
    """

    __slots__ = ("duration", "error", "failure")

    def __init__(
        self,
        duration: float,
        failure: Mapping[str, Any],
        error: BaseException | None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.duration: float = duration
        self.failure: Mapping[str, Any] = failure
        self.error: BaseException | None = error

    @property
    def duration_micros(self) -> int:
        """The duration in microseconds, as PyMongo names it."""
        return round(self.duration * 1_000_000)


class CommandListener:
    """Subclass it, override what you need, and pass it to the client as ``event_listeners=[...]``."""

    def started(self, event: CommandStartedEvent) -> None:
        """A command is about to be sent."""

    def succeeded(self, event: CommandSucceededEvent) -> None:
        """A command succeeded."""

    def failed(self, event: CommandFailedEvent) -> None:
        """A command failed."""


# --- retries (motorlite's own) ---


class RetryEvent(_Event):
    """The driver decided about a retry.

    Attributes:
        command_name: The operation's command.
        operation_id: As in the command events.
        permitted: Whether a retry follows.
        reason: What the failed attempt was classified as: ``"overload"``, ``"retryable"`` (the RetryableError label
            alone), ``"retryable read"``, ``"retryable write"``, or ``"none"``.
        refusal: Why no retry follows, or None: ``"attempts"``, ``"deadline"``, ``"tokens"``, ``"not retryable"``,
            ``"disabled"``.
        delay: Seconds of backoff before the retry; 0.0 without one.
        attempt: How many attempts were made so far.
        tokens: What is left in the token bucket after the decision.
        address: The server that failed, or None when none was reached.
        error: The error of the failed attempt.
        deprioritized: Whether that server is avoided by the retry.
    """

    __slots__ = (
        "address",
        "attempt",
        "command_name",
        "delay",
        "deprioritized",
        "error",
        "operation_id",
        "permitted",
        "reason",
        "refusal",
        "tokens",
    )

    def __init__(
        self,
        command_name: str,
        operation_id: int,
        *,
        permitted: bool,
        reason: str,
        refusal: str | None,
        delay: float,
        attempt: int,
        tokens: float,
        address: Address | None,
        error: Exception,
        deprioritized: bool,
    ) -> None:
        self.command_name: str = command_name
        self.operation_id: int = operation_id
        self.permitted: bool = permitted
        self.reason: str = reason
        self.refusal: str | None = refusal
        self.delay: float = delay
        self.attempt: int = attempt
        self.tokens: float = tokens
        self.address: Address | None = address
        self.error: Exception = error
        self.deprioritized: bool = deprioritized


class RetryListener:
    """Is told of every decision about a retry."""

    def retry(self, event: RetryEvent) -> None:
        """A retry follows (`event.permitted`), or was refused (`event.refusal`)."""


# --- connection pools (connection monitoring and pooling specification) ---


class PoolEvent(_Event):
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
        self.error: BaseException | None = error


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
        self.error: BaseException | None = error


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
        self.error: BaseException | None = error


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


# --- topology (server discovery and monitoring: logging and monitoring) ---


class TopologyEvent(_Event):
    """What all topology events have in common: the id of the client's topology."""

    __slots__ = ("topology_id",)

    def __init__(self, topology_id: ObjectId) -> None:
        self.topology_id: ObjectId = topology_id


class TopologyOpenedEvent(TopologyEvent):
    """A client began to discover its deployment."""

    __slots__ = ()


class TopologyClosedEvent(TopologyEvent):
    """A client stopped monitoring its deployment."""

    __slots__ = ()


class TopologyDescriptionChangedEvent(TopologyEvent):
    """What the client knows of its deployment changed."""

    __slots__ = ("new_description", "previous_description")

    def __init__(self, topology_id: ObjectId, previous_description: Any, new_description: Any) -> None:
        super().__init__(topology_id)
        self.previous_description: Any = previous_description
        self.new_description: Any = new_description


class ServerEvent(TopologyEvent):
    """What the events about one server have in common."""

    __slots__ = ("server_address",)

    def __init__(self, topology_id: ObjectId, server_address: Address) -> None:
        super().__init__(topology_id)
        self.server_address: Address = server_address


class ServerOpeningEvent(ServerEvent):
    """A server was added to the topology."""

    __slots__ = ()


class ServerClosedEvent(ServerEvent):
    """A server was removed from the topology."""

    __slots__ = ()


class ServerDescriptionChangedEvent(ServerEvent):
    """What the client knows of a server changed."""

    __slots__ = ("new_description", "previous_description")

    def __init__(
        self, topology_id: ObjectId, server_address: Address, previous_description: Any, new_description: Any
    ) -> None:
        super().__init__(topology_id, server_address)
        self.previous_description: Any = previous_description
        self.new_description: Any = new_description


class ServerHeartbeatEvent(_Event):
    """What the heartbeat events have in common. `awaited`: the server may wait before it answers (streaming)."""

    __slots__ = ("awaited", "connection_id")

    def __init__(self, connection_id: Address, awaited: bool) -> None:
        self.connection_id: Address = connection_id
        self.awaited: bool = awaited


class ServerHeartbeatStartedEvent(ServerHeartbeatEvent):
    """A monitor is about to check its server."""

    __slots__ = ()


class ServerHeartbeatSucceededEvent(ServerHeartbeatEvent):
    """A server answered its monitor after `duration` seconds."""

    __slots__ = ("duration", "reply")

    def __init__(self, connection_id: Address, awaited: bool, duration: float, reply: Mapping[str, Any]) -> None:
        super().__init__(connection_id, awaited)
        self.duration: float = duration
        self.reply: Mapping[str, Any] = reply


class ServerHeartbeatFailedEvent(ServerHeartbeatEvent):
    """A server did not answer its monitor within `duration` seconds, or answered with an error."""

    __slots__ = ("duration", "reply")

    def __init__(self, connection_id: Address, awaited: bool, duration: float, reply: BaseException) -> None:
        super().__init__(connection_id, awaited)
        self.duration: float = duration
        # The error, under PyMongo's name for it.
        self.reply: BaseException = reply


class ServerHeartbeatListener:
    """Subclass it, override what you need, and pass it to the client as ``event_listeners=[...]``."""

    def started(self, event: ServerHeartbeatStartedEvent) -> None:
        """A check started."""

    def succeeded(self, event: ServerHeartbeatSucceededEvent) -> None:
        """A check succeeded."""

    def failed(self, event: ServerHeartbeatFailedEvent) -> None:
        """A check failed."""


class ServerListener:
    """Is told of servers that appear, change and disappear."""

    def opened(self, event: ServerOpeningEvent) -> None:
        """A server was added."""

    def description_changed(self, event: ServerDescriptionChangedEvent) -> None:
        """A server's description changed."""

    def closed(self, event: ServerClosedEvent) -> None:
        """A server was removed."""


class TopologyListener:
    """Is told of changes of the whole topology."""

    def opened(self, event: TopologyOpenedEvent) -> None:
        """Discovery started."""

    def description_changed(self, event: TopologyDescriptionChangedEvent) -> None:
        """The topology's description changed."""

    def closed(self, event: TopologyClosedEvent) -> None:
        """Monitoring stopped."""
