"""Pure: the driver's events, and base classes for applications' listeners.

Command, pool and topology events come from the public specifications and have PyMongo's names. Events of operations,
retries, pending replies and server selection are motorlite's own. Events are plain slots objects; do not change them.
Listeners are called synchronously on the event loop and must return quickly. Their exceptions are logged and ignored.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
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


@dataclass(slots=True, eq=False, repr=False)
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

    command_name: str
    database_name: str
    request_id: int
    operation_id: int
    connection_id: Address
    server_connection_id: int | None = None
    driver_connection_id: int | None = None
    service_id: ObjectId | None = None


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


@dataclass(slots=True, eq=False, repr=False)
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

    operation_name: str
    database_name: str
    collection_name: str | None
    operation_id: int


@dataclass(slots=True, eq=False, repr=False)
class OperationStartedEvent(OperationEvent):
    """An operation begins. Published in the task of the caller, before a server is selected.

    Two operations have no command of their own: ``"transaction"`` begins with the first operation of a transaction and
    ends when it is committed or aborted; ``"withTransaction"`` is a call of `with_transaction`.

    Attributes:
        parent_id: The `operation_id` of the transaction that this operation is part of, or of the `with_transaction`
            that this transaction is part of; None for others.
    """

    parent_id: int | None = None


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


@dataclass(slots=True, eq=False, repr=False)
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

    command_name: str
    operation_id: int
    _: KW_ONLY
    permitted: bool
    reason: str
    rule: str | None = None
    refusal: str | None
    delay: float
    attempt: int
    tokens: float
    address: Address | None
    error: PyMongoError
    deprioritized: bool

    def __post_init__(self) -> None:
        self.error = detached(self.error)


@dataclass(slots=True, eq=False, repr=False)
class DegradedEvent(_Event):
    """The client refused to send an operation, and the fallback of its call answered instead.

    Attributes:
        command_name: The operation's command.
        operation_id: As in the command events.
        read_preference: The read preference that was used instead; None if a function supplies the answer.
        error: Why the operation was refused; `error.address` is the server, if one was selected.
    """

    command_name: str
    operation_id: int
    read_preference: ServerMode | None
    error: AdmissionError

    def __post_init__(self) -> None:
        self.error = detached(self.error)


class RetryListener(_Named):
    """A listener for retry events. Subclass it and pass it to the client as ``event_listeners=[...]``."""

    def degraded(self, event: DegradedEvent) -> None:
        """Called when a fallback has answered an operation that the client refused to send."""

    def retry(self, event: RetryEvent) -> None:
        """Called when a retry is permitted (`event.permitted`) or refused (`event.refusal`)."""


@dataclass(slots=True, eq=False, repr=False)
class ServerSelectionEvent(_Event):
    """The base class of all server selection events.

    Attributes:
        operation_name: The command's name.
        operation_id: The same for all attempts and batches of one operation.
        selector: A description of the requirement: a read preference, a write, or one server by its address.
        topology_description: The description of the deployment at that moment.
    """

    operation_name: str
    operation_id: int
    selector: str
    topology_description: TopologyDescription


class ServerSelectionStartedEvent(ServerSelectionEvent):
    """An operation needs a server."""

    __slots__ = ()


@dataclass(slots=True, eq=False, repr=False)
class ServerSelectionWaitingEvent(ServerSelectionEvent):
    """No server is suitable; the operation waits for at most `remaining_time` seconds. Published once per selection."""

    remaining_time: float


@dataclass(slots=True, eq=False, repr=False)
class ServerSelectionSucceededEvent(ServerSelectionEvent):
    """The server at `server_address` was selected."""

    server_address: Address


@dataclass(slots=True, eq=False, repr=False)
class ServerSelectionFailedEvent(ServerSelectionEvent):
    """No server was selected; the operation raises `failure` unless it is retried."""

    failure: BaseException

    def __post_init__(self) -> None:
        self.failure = detached(self.failure)


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


@dataclass(slots=True, eq=False, repr=False)
class CircuitBreakerEvent(_Event):
    """The base class of all circuit breaker events; `address` is the address of the breaker's server."""

    address: Address


@dataclass(slots=True, eq=False, repr=False)
class CircuitBreakerOpenedEvent(CircuitBreakerEvent):
    """A breaker opened: the server kept failing, or a probe failed.

    Attributes:
        operations: The attempts that led to it: those of the window, or the probes.
        failures: How many of them failed.
        retry_after: Seconds until the breaker lets probes pass.
    """

    operations: int
    failures: int
    retry_after: float


class CircuitBreakerHalfOpenedEvent(CircuitBreakerEvent):
    """A breaker became half-open, because an operation arrived after its time: that operation is the first probe."""

    __slots__ = ()


@dataclass(slots=True, eq=False, repr=False)
class CircuitBreakerClosedEvent(CircuitBreakerEvent):
    """A breaker closed: all probes, `operations` in number, succeeded."""

    operations: int


class CircuitBreakerListener(_Named):
    """A listener for circuit breakers. Subclass it, override what you need, pass it as ``event_listeners=[...]``."""

    def breaker_opened(self, event: CircuitBreakerOpenedEvent) -> None:
        """Called when a breaker opened."""

    def breaker_half_opened(self, event: CircuitBreakerHalfOpenedEvent) -> None:
        """Called when a breaker became half-open."""

    def breaker_closed(self, event: CircuitBreakerClosedEvent) -> None:
        """Called when a breaker closed."""


# --- connection pools (connection monitoring and pooling specification) ---


@dataclass(slots=True, eq=False, repr=False)
class PoolEvent(_Event):
    """The base class of all pool events; `address` is the address of the pool's server."""

    address: Address


@dataclass(slots=True, eq=False, repr=False)
class PoolCreatedEvent(PoolEvent):
    """A pool was created; `options` has the options that differ from their defaults."""

    options: Mapping[str, Any]


class PoolReadyEvent(PoolEvent):
    """A pool is ready to create connections."""

    __slots__ = ()


@dataclass(slots=True, eq=False, repr=False)
class PoolClearedEvent(PoolEvent):
    """A pool was cleared: its connections are stale and it is paused."""

    service_id: ObjectId | None = None
    interrupt_connections: bool = False


class PoolClosedEvent(PoolEvent):
    """A pool was closed."""

    __slots__ = ()


@dataclass(slots=True, eq=False, repr=False)
class ConnectionEvent(PoolEvent):
    """The base class of the events of one connection; `connection_id` is unique in its pool and starts at 1."""

    connection_id: int


class ConnectionCreatedEvent(ConnectionEvent):
    """A connection was created but is not established yet."""

    __slots__ = ()


@dataclass(slots=True, eq=False, repr=False)
class ConnectionReadyEvent(ConnectionEvent):
    """A connection finished its handshake and authentication after `duration` seconds."""

    duration: float


class ConnectionClosedReason(_Named):
    """Values of `ConnectionClosedEvent.reason`."""

    STALE = "stale"
    IDLE = "idle"
    ERROR = "error"
    POOL_CLOSED = "poolClosed"


@dataclass(slots=True, eq=False, repr=False)
class ConnectionClosedEvent(ConnectionEvent):
    """A connection was closed; see `ConnectionClosedReason`."""

    reason: str
    error: BaseException | None = None

    def __post_init__(self) -> None:
        self.error = detached(self.error)


class ConnectionCheckOutStartedEvent(PoolEvent):
    """An operation requested a connection."""

    __slots__ = ()


class ConnectionCheckOutFailedReason(_Named):
    """Values of `ConnectionCheckOutFailedEvent.reason`."""

    TIMEOUT = "timeout"
    POOL_CLOSED = "poolClosed"
    CONN_ERROR = "connectionError"


@dataclass(slots=True, eq=False, repr=False)
class ConnectionCheckOutFailedEvent(PoolEvent):
    """An operation got no connection; see `ConnectionCheckOutFailedReason`. `duration` is in seconds.

    `connection_id` is always 0: there is no connection.
    """

    connection_id: ClassVar[int] = 0

    reason: str
    duration: float
    error: BaseException | None = None

    def __post_init__(self) -> None:
        self.error = detached(self.error)


@dataclass(slots=True, eq=False, repr=False)
class ConnectionCheckedOutEvent(ConnectionEvent):
    """An operation got a connection after `duration` seconds."""

    duration: float


class ConnectionCheckedInEvent(ConnectionEvent):
    """An operation returned its connection."""

    __slots__ = ()


@dataclass(slots=True, eq=False, repr=False)
class PendingReplyEvent(ConnectionEvent):
    """The base class of pending reply events, with the connection and the abandoned request.

    Cancelling an operation after its request was sent, or a timeout, does not cost the connection. The driver waits for
    the reply in the background, for a limited time, and then reuses the connection.
    """

    request_id: int


class PendingReplyStartedEvent(PendingReplyEvent):
    """A request was abandoned; the driver waits for its reply in the background."""

    __slots__ = ()


@dataclass(slots=True, eq=False, repr=False)
class PendingReplySucceededEvent(PendingReplyEvent):
    """The reply arrived after `duration` seconds; the connection is usable again."""

    duration: float


@dataclass(slots=True, eq=False, repr=False)
class PendingReplyFailedEvent(PendingReplyEvent):
    """The driver gave up on the reply after `duration` seconds and closed the connection.

    `error` is set when the reply's time limit passed or the connection broke. It is None when the pool was closed or
    cleared, or was full while another operation needed a connection.
    """

    duration: float
    error: BaseException | None

    def __post_init__(self) -> None:
        self.error = detached(self.error)


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


@dataclass(slots=True, eq=False, repr=False)
class TopologyEvent(_Event):
    """The base class of topology events, with the id of the client's topology."""

    topology_id: ObjectId


class TopologyOpenedEvent(TopologyEvent):
    """A client started to discover its deployment."""

    __slots__ = ()


class TopologyClosedEvent(TopologyEvent):
    """A client stopped monitoring its deployment."""

    __slots__ = ()


@dataclass(slots=True, eq=False, repr=False)
class TopologyDescriptionChangedEvent(TopologyEvent):
    """The client's description of its deployment changed."""

    previous_description: TopologyDescription
    new_description: TopologyDescription


@dataclass(slots=True, eq=False, repr=False)
class ServerEvent(TopologyEvent):
    """The base class of the topology events of one server."""

    server_address: Address


class ServerOpeningEvent(ServerEvent):
    """A server was added to the topology."""

    __slots__ = ()


class ServerClosedEvent(ServerEvent):
    """A server was removed from the topology."""

    __slots__ = ()


@dataclass(slots=True, eq=False, repr=False)
class ServerDescriptionChangedEvent(ServerEvent):
    """The client's description of a server changed."""

    previous_description: ServerDescription
    new_description: ServerDescription


@dataclass(slots=True, eq=False, repr=False)
class ServerHeartbeatEvent(_Event):
    """The base class of heartbeat events. `awaited`: the server may delay its reply (streaming)."""

    connection_id: Address
    awaited: bool


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


@dataclass(slots=True, eq=False, repr=False)
class ServerHeartbeatFailedEvent(ServerHeartbeatEvent):
    """A server did not reply to its monitor within `duration` seconds, or replied with an error."""

    duration: float
    reply: BaseException

    def __post_init__(self) -> None:
        self.reply = detached(self.reply)


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
