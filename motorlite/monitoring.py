"""Pure: the driver's events, and base classes for applications' listeners.

Command, pool and topology events come from the public specifications and have PyMongo's names. Events of operations,
retries, pending replies and server selection are motorlite's own. Events are plain slots objects; do not change them.
Listeners are called synchronously on the event loop and must return quickly. Their exceptions are logged and ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from motorlite._base.arguments import is_like, wrong
from motorlite.errors import detached

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from bson.objectid import ObjectId

    from motorlite._base.values import Address
    from motorlite.errors import AdmissionError, PyMongoError
    from motorlite.read_preferences import ServerMode
    from motorlite.topology_description import ServerDescription, TopologyDescription

__all__ = [
    "CircuitBreakerClosedEvent",
    "CircuitBreakerEvent",
    "CircuitBreakerHalfOpenedEvent",
    "CircuitBreakerListener",
    "CircuitBreakerOpenedEvent",
    "CommandEvent",
    "CommandFailedEvent",
    "CommandListener",
    "CommandStartedEvent",
    "CommandSucceededEvent",
    "ConnectionCheckOutFailedEvent",
    "ConnectionCheckOutFailedReason",
    "ConnectionCheckOutStartedEvent",
    "ConnectionCheckedInEvent",
    "ConnectionCheckedOutEvent",
    "ConnectionClosedEvent",
    "ConnectionClosedReason",
    "ConnectionCreatedEvent",
    "ConnectionEvent",
    "ConnectionPoolListener",
    "ConnectionReadyEvent",
    "DegradedEvent",
    "OperationEvent",
    "OperationFailedEvent",
    "OperationListener",
    "OperationStartedEvent",
    "OperationSucceededEvent",
    "PendingReplyEvent",
    "PendingReplyFailedEvent",
    "PendingReplyStartedEvent",
    "PendingReplySucceededEvent",
    "PoolClearedEvent",
    "PoolClosedEvent",
    "PoolCreatedEvent",
    "PoolEvent",
    "PoolReadyEvent",
    "RetryEvent",
    "RetryListener",
    "ServerClosedEvent",
    "ServerDescriptionChangedEvent",
    "ServerEvent",
    "ServerHeartbeatEvent",
    "ServerHeartbeatFailedEvent",
    "ServerHeartbeatListener",
    "ServerHeartbeatStartedEvent",
    "ServerHeartbeatSucceededEvent",
    "ServerListener",
    "ServerOpeningEvent",
    "ServerSelectionEvent",
    "ServerSelectionFailedEvent",
    "ServerSelectionListener",
    "ServerSelectionStartedEvent",
    "ServerSelectionSucceededEvent",
    "ServerSelectionWaitingEvent",
    "TopologyClosedEvent",
    "TopologyDescriptionChangedEvent",
    "TopologyEvent",
    "TopologyListener",
    "TopologyOpenedEvent",
    "register",
]


class _Named:
    """A class whose repr is its name."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__qualname__}>"


class _Event(_Named):
    """The base class of all events, with a readable repr."""

    __slots__ = ()

    def __repr__(self) -> str:
        names = [name for kind in reversed(type(self).__mro__) for name in sorted(getattr(kind, "__slots__", ()))]
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"<{type(self).__name__} {fields}>"


# --- commands (command logging and monitoring specification) ---


class CommandEvent(_Event):
    """The base class of all command events.

    Attributes:
        command_name: For example ``"find"``.
        database_name: The database that the command ran on.
        request_id: Pairs a started event with its succeeded or failed event.
        operation_id: The same for all attempts and batches of one operation.
        connection_id: The server's address.
        server_connection_id: The server's id for the connection, or None.
        driver_connection_id: The pool's id for the connection.
        service_id: The service behind a load balancer, else None.
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
    """The server replied with ``ok: 1``.

    Attributes:
        duration: The duration in seconds.
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
    """The server replied with an error, or no reply arrived.

    Attributes:
        duration: The duration in seconds.
        failure: The reply, or a description of the client-side error; redacted for sensitive commands.
        error: The exception.
    """

    __slots__ = ("duration", "error", "failure")

    def __init__(
        self, duration: float, failure: Mapping[str, Any], error: BaseException | None, *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.duration: float = duration
        self.failure: Mapping[str, Any] = failure
        self.error: BaseException | None = detached(error)

    @property
    def duration_micros(self) -> int:
        """The duration in microseconds, as PyMongo names it."""
        return round(self.duration * 1_000_000)


class CommandListener(_Named):
    """A listener for command events. Subclass it, override what you need, pass it as ``event_listeners=[...]``."""

    def started(self, event: CommandStartedEvent) -> None:
        """Called before a command is sent."""

    def succeeded(self, event: CommandSucceededEvent) -> None:
        """Called after a command succeeded."""

    def failed(self, event: CommandFailedEvent) -> None:
        """Called after a command failed."""


# --- operations: beginning and end, retries (both motorlite's own) and server selection ---


class OperationEvent(_Event):
    """The base class of the events of one operation: a call of the public API, with all its attempts and batches.

    A cursor's first batch is one operation, and each further batch is another one (``"getMore"``).

    Attributes:
        operation_name: The operation's name in the OpenTelemetry specification for drivers: that of its command, except
            for ``"createCollection"``, ``"dropCollection"``, ``"bulkWrite"`` and ``"runCommand"``.
        database_name: The database.
        collection_name: The collection, or None for operations on databases and for user-defined commands.
        operation_id: The same in the operation's command, retry and server selection events.
    """

    __slots__ = ("collection_name", "database_name", "operation_id", "operation_name")

    def __init__(self, operation_name: str, database_name: str, collection_name: str | None, operation_id: int) -> None:
        self.operation_name: str = operation_name
        self.database_name: str = database_name
        self.collection_name: str | None = collection_name
        self.operation_id: int = operation_id


class OperationStartedEvent(OperationEvent):
    """An operation begins. Published in the task of the caller, before a server is selected.

    Two operations have no command of their own: ``"transaction"`` begins with the first operation of a transaction and
    ends when it is committed or aborted; ``"withTransaction"`` is a call of `with_transaction`.

    Attributes:
        parent_id: The `operation_id` of the transaction that this operation is part of, or of the `with_transaction`
            that this transaction is part of; None for others.
    """

    __slots__ = ("parent_id",)

    def __init__(
        self,
        operation_name: str,
        database_name: str,
        collection_name: str | None,
        operation_id: int,
        parent_id: int | None = None,
    ) -> None:
        super().__init__(operation_name, database_name, collection_name, operation_id)
        self.parent_id: int | None = parent_id


class OperationSucceededEvent(OperationEvent):
    """An operation returned its result after `duration` seconds."""

    __slots__ = ("duration",)

    def __init__(self, duration: float, *args: Any) -> None:
        super().__init__(*args)
        self.duration: float = duration


class OperationFailedEvent(OperationEvent):
    """An operation raised `failure` after `duration` seconds. A cancelled operation raises its cancellation."""

    __slots__ = ("duration", "failure")

    def __init__(self, duration: float, failure: BaseException, *args: Any) -> None:
        super().__init__(*args)
        self.duration: float = duration
        self.failure: BaseException = detached(failure)


class OperationListener(_Named):
    """A listener for operations. Subclass it, override what you need, pass it as ``event_listeners=[...]``."""

    def operation_started(self, event: OperationStartedEvent) -> None:
        """Called when an operation begins, in the task and context of its caller."""

    def operation_succeeded(self, event: OperationSucceededEvent) -> None:
        """Called after an operation succeeded."""

    def operation_failed(self, event: OperationFailedEvent) -> None:
        """Called after an operation failed or was cancelled."""


class RetryEvent(_Event):
    """The driver permitted or refused a retry.

    Errors that no retry rule covers, such as a duplicate key, publish no event unless the operation was retried before.

    Attributes:
        command_name: The operation's command.
        operation_id: As in the command events.
        permitted: Whether a retry follows.
        reason: Why the attempt failed (a value of `RetryReason`, for example ``"overload"``).
        rule: Who permitted or refused the retry (a value of `RetryRule`): ``"overload policy"``, ``"specification"``
            (retryable reads or writes), ``"strategy"`` or ``"always"``; None if no rule permits it.
        refusal: Why no retry follows (a value of `RetryRefusal`), or None.
        delay: Seconds until the retry, or until the operation fails because its time limit passes before the
            strategy's retry; else 0.0.
        attempt: The number of attempts so far.
        tokens: The number of tokens left in the bucket after the decision.
        address: The server that failed, or None if no server was reached.
        error: The error of the failed attempt.
        deprioritized: Whether the retry avoids that server.
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
        "rule",
        "tokens",
    )

    def __init__(
        self,
        command_name: str,
        operation_id: int,
        *,
        permitted: bool,
        reason: str,
        rule: str | None = None,
        refusal: str | None,
        delay: float,
        attempt: int,
        tokens: float,
        address: Address | None,
        error: PyMongoError,
        deprioritized: bool,
    ) -> None:
        self.command_name: str = command_name
        self.operation_id: int = operation_id
        self.permitted: bool = permitted
        self.reason: str = reason
        self.rule: str | None = rule
        self.refusal: str | None = refusal
        self.delay: float = delay
        self.attempt: int = attempt
        self.tokens: float = tokens
        self.address: Address | None = address
        self.error: PyMongoError = detached(error)
        self.deprioritized: bool = deprioritized


class DegradedEvent(_Event):
    """The client refused to send an operation, and the fallback of its call answered instead.

    Attributes:
        command_name: The operation's command.
        operation_id: As in the command events.
        read_preference: The read preference that was used instead; None if a function supplies the answer.
        error: Why the operation was refused; `error.address` is the server, if one was selected.
    """

    __slots__ = ("command_name", "error", "operation_id", "read_preference")

    def __init__(
        self, command_name: str, operation_id: int, read_preference: ServerMode | None, error: AdmissionError
    ) -> None:
        self.command_name: str = command_name
        self.operation_id: int = operation_id
        self.read_preference: ServerMode | None = read_preference
        self.error: AdmissionError = detached(error)


class RetryListener(_Named):
    """A listener for retry events. Subclass it and pass it to the client as ``event_listeners=[...]``."""

    def degraded(self, event: DegradedEvent) -> None:
        """Called when a fallback has answered an operation that the client refused to send."""

    def retry(self, event: RetryEvent) -> None:
        """Called when a retry is permitted (`event.permitted`) or refused (`event.refusal`)."""


class ServerSelectionEvent(_Event):
    """The base class of all server selection events.

    Attributes:
        operation_name: The command's name.
        operation_id: The same for all attempts and batches of one operation.
        selector: A description of the requirement: a read preference, a write, or one server by its address.
        topology_description: The description of the deployment at that moment.
    """

    __slots__ = ("operation_id", "operation_name", "selector", "topology_description")

    def __init__(
        self, operation_name: str, operation_id: int, selector: str, topology_description: TopologyDescription
    ) -> None:
        self.operation_name: str = operation_name
        self.operation_id: int = operation_id
        self.selector: str = selector
        self.topology_description: TopologyDescription = topology_description


class ServerSelectionStartedEvent(ServerSelectionEvent):
    """An operation needs a server."""

    __slots__ = ()


class ServerSelectionWaitingEvent(ServerSelectionEvent):
    """No server is suitable; the operation waits for at most `remaining_time` seconds. Published once per selection."""

    __slots__ = ("remaining_time",)

    def __init__(
        self,
        operation_name: str,
        operation_id: int,
        selector: str,
        topology_description: TopologyDescription,
        remaining_time: float,
    ) -> None:
        super().__init__(operation_name, operation_id, selector, topology_description)
        self.remaining_time: float = remaining_time


class ServerSelectionSucceededEvent(ServerSelectionEvent):
    """The server at `server_address` was selected."""

    __slots__ = ("server_address",)

    def __init__(
        self,
        operation_name: str,
        operation_id: int,
        selector: str,
        topology_description: TopologyDescription,
        server_address: Address,
    ) -> None:
        super().__init__(operation_name, operation_id, selector, topology_description)
        self.server_address: Address = server_address


class ServerSelectionFailedEvent(ServerSelectionEvent):
    """No server was selected; the operation raises `failure` unless it is retried."""

    __slots__ = ("failure",)

    def __init__(
        self,
        operation_name: str,
        operation_id: int,
        selector: str,
        topology_description: TopologyDescription,
        failure: BaseException,
    ) -> None:
        super().__init__(operation_name, operation_id, selector, topology_description)
        self.failure: BaseException = detached(failure)


class ServerSelectionListener(_Named):
    """A listener for server selection. Subclass it, override what you need, pass it as ``event_listeners=[...]``."""

    def selection_started(self, event: ServerSelectionStartedEvent) -> None:
        """Called when an operation needs a server."""

    def selection_waiting(self, event: ServerSelectionWaitingEvent) -> None:
        """Called when no server is suitable at the moment."""

    def selection_succeeded(self, event: ServerSelectionSucceededEvent) -> None:
        """Called when a server was selected."""

    def selection_failed(self, event: ServerSelectionFailedEvent) -> None:
        """Called when no server was selected."""


# --- circuit breakers (motorlite's own) ---


class CircuitBreakerEvent(_Event):
    """The base class of all circuit breaker events; `address` is the address of the breaker's server."""

    __slots__ = ("address",)

    def __init__(self, address: Address) -> None:
        self.address: Address = address


class CircuitBreakerOpenedEvent(CircuitBreakerEvent):
    """A breaker opened: the server kept failing, or a probe failed.

    Attributes:
        operations: The attempts that led to it: those of the window, or the probes.
        failures: How many of them failed.
        retry_after: Seconds until the breaker lets probes pass.
    """

    __slots__ = ("failures", "operations", "retry_after")

    def __init__(self, address: Address, operations: int, failures: int, retry_after: float) -> None:
        super().__init__(address)
        self.operations: int = operations
        self.failures: int = failures
        self.retry_after: float = retry_after


class CircuitBreakerHalfOpenedEvent(CircuitBreakerEvent):
    """A breaker became half-open, because an operation arrived after its time: that operation is the first probe."""

    __slots__ = ()


class CircuitBreakerClosedEvent(CircuitBreakerEvent):
    """A breaker closed: all probes, `operations` in number, succeeded."""

    __slots__ = ("operations",)

    def __init__(self, address: Address, operations: int) -> None:
        super().__init__(address)
        self.operations: int = operations


class CircuitBreakerListener(_Named):
    """A listener for circuit breakers. Subclass it, override what you need, pass it as ``event_listeners=[...]``."""

    def breaker_opened(self, event: CircuitBreakerOpenedEvent) -> None:
        """Called when a breaker opened."""

    def breaker_half_opened(self, event: CircuitBreakerHalfOpenedEvent) -> None:
        """Called when a breaker became half-open."""

    def breaker_closed(self, event: CircuitBreakerClosedEvent) -> None:
        """Called when a breaker closed."""


# --- connection pools (connection monitoring and pooling specification) ---


class PoolEvent(_Event):
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


class ConnectionClosedReason(_Named):
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
        self.error: BaseException | None = detached(error)


class ConnectionCheckOutStartedEvent(PoolEvent):
    """An operation requested a connection."""

    __slots__ = ()


class ConnectionCheckOutFailedReason(_Named):
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
        self.error: BaseException | None = detached(error)


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
        self.error: BaseException | None = detached(error)


class ConnectionPoolListener(_Named):
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


# --- discovery and monitoring (discovery and monitoring specification) ---


class TopologyEvent(_Event):
    """The base class of topology events, with the id of the client's topology."""

    __slots__ = ("topology_id",)

    def __init__(self, topology_id: ObjectId) -> None:
        self.topology_id: ObjectId = topology_id


class TopologyOpenedEvent(TopologyEvent):
    """A client started to discover its deployment."""

    __slots__ = ()


class TopologyClosedEvent(TopologyEvent):
    """A client stopped monitoring its deployment."""

    __slots__ = ()


class TopologyDescriptionChangedEvent(TopologyEvent):
    """The client's description of its deployment changed."""

    __slots__ = ("new_description", "previous_description")

    def __init__(
        self, topology_id: ObjectId, previous_description: TopologyDescription, new_description: TopologyDescription
    ) -> None:
        super().__init__(topology_id)
        self.previous_description: TopologyDescription = previous_description
        self.new_description: TopologyDescription = new_description


class ServerEvent(TopologyEvent):
    """The base class of the topology events of one server."""

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
    """The client's description of a server changed."""

    __slots__ = ("new_description", "previous_description")

    def __init__(
        self,
        topology_id: ObjectId,
        server_address: Address,
        previous_description: ServerDescription,
        new_description: ServerDescription,
    ) -> None:
        super().__init__(topology_id, server_address)
        self.previous_description: ServerDescription = previous_description
        self.new_description: ServerDescription = new_description


class ServerHeartbeatEvent(_Event):
    """The base class of heartbeat events. `awaited`: the server may delay its reply (streaming)."""

    __slots__ = ("awaited", "connection_id")

    def __init__(self, connection_id: Address, awaited: bool) -> None:
        self.connection_id: Address = connection_id
        self.awaited: bool = awaited


class ServerHeartbeatStartedEvent(ServerHeartbeatEvent):
    """A monitor is about to check its server."""

    __slots__ = ()


class HeartbeatReply(_Named, dict[str, Any]):
    """The server's reply to a check."""

    __slots__ = ()

    @property
    def document(self) -> Mapping[str, Any]:
        """The reply itself, under PyMongo's name for it."""
        return self


class ServerHeartbeatSucceededEvent(ServerHeartbeatEvent):
    """A server replied to its monitor after `duration` seconds."""

    __slots__ = ("duration", "reply")

    def __init__(self, connection_id: Address, awaited: bool, duration: float, reply: Mapping[str, Any]) -> None:
        super().__init__(connection_id, awaited)
        self.duration: float = duration
        self.reply: HeartbeatReply = HeartbeatReply(reply)


class ServerHeartbeatFailedEvent(ServerHeartbeatEvent):
    """A server did not reply to its monitor within `duration` seconds, or replied with an error."""

    __slots__ = ("duration", "reply")

    def __init__(self, connection_id: Address, awaited: bool, duration: float, reply: BaseException) -> None:
        super().__init__(connection_id, awaited)
        self.duration: float = duration
        self.reply: BaseException = detached(reply)


class ServerHeartbeatListener(_Named):
    """A listener for heartbeats. Subclass it, override what you need, pass it as ``event_listeners=[...]``."""

    def started(self, event: ServerHeartbeatStartedEvent) -> None:
        """Called when a check started."""

    def succeeded(self, event: ServerHeartbeatSucceededEvent) -> None:
        """Called when a check succeeded."""

    def failed(self, event: ServerHeartbeatFailedEvent) -> None:
        """Called when a check failed."""


class ServerListener(_Named):
    """A listener for servers that appear, change and disappear."""

    def opened(self, event: ServerOpeningEvent) -> None:
        """Called when a server was added."""

    def description_changed(self, event: ServerDescriptionChangedEvent) -> None:
        """Called when a server's description changed."""

    def closed(self, event: ServerClosedEvent) -> None:
        """Called when a server was removed."""


class TopologyListener(_Named):
    """A listener for changes of the whole topology."""

    def opened(self, event: TopologyOpenedEvent) -> None:
        """Called when discovery started."""

    def description_changed(self, event: TopologyDescriptionChangedEvent) -> None:
        """Called when the topology's description changed."""

    def closed(self, event: TopologyClosedEvent) -> None:
        """Called when monitoring stopped."""


# --- the listeners of new clients ---

LISTENERS: Final = (
    CircuitBreakerListener,
    CommandListener,
    OperationListener,
    RetryListener,
    ServerSelectionListener,
    ConnectionPoolListener,
    ServerHeartbeatListener,
    ServerListener,
    TopologyListener,
)
"""The base classes of listeners."""

_registered: Final[list[object]] = []

sources: Final[list[Callable[[], Iterable[object]]]] = []
"""Further listeners, asked for with each new client (`motorlite.compat`)."""


def register(listener: Any) -> None:
    """Add a listener to every client that is created from now on, before those of its option `event_listeners`.

    Existing clients are unchanged. Nothing removes a registered listener: prefer `event_listeners`.

    Args:
        listener: An instance of one or more listener classes, which may be PyMongo's.

    Raises:
        TypeError: `listener` is not a listener.
    """
    if not any(is_like(listener, kind) for kind in LISTENERS):
        names = ", ".join(kind.__name__ for kind in LISTENERS)
        raise TypeError(wrong("listener", listener, f"an instance of a subclass of {names}"))
    _registered.append(listener)


def registered() -> tuple[object, ...]:
    """Return the listeners for a new client."""
    return (*_registered, *(listener for listeners in sources for listener in listeners()))
