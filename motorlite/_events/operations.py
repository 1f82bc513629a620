"""Pure: events of single operations: beginning and end, retries (both motorlite's own) and server selection.

Applications import them from `motorlite.monitoring`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._events.base import Event, Public
from motorlite.errors import detached

if TYPE_CHECKING:
    from motorlite._base.values import Address
    from motorlite.errors import AdmissionError, PyMongoError
    from motorlite.read_preferences import ServerMode
    from motorlite.topology_description import TopologyDescription


class OperationEvent(Event):
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


class OperationListener(Public):
    """A listener for operations. Subclass it, override what you need, pass it as ``event_listeners=[...]``."""

    def operation_started(self, event: OperationStartedEvent) -> None:
        """Called when an operation begins, in the task and context of its caller."""

    def operation_succeeded(self, event: OperationSucceededEvent) -> None:
        """Called after an operation succeeded."""

    def operation_failed(self, event: OperationFailedEvent) -> None:
        """Called after an operation failed or was cancelled."""


class RetryEvent(Event):
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


class DegradedEvent(Event):
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


class RetryListener(Public):
    """A listener for retry events. Subclass it and pass it to the client as ``event_listeners=[...]``."""

    def degraded(self, event: DegradedEvent) -> None:
        """Called when a fallback has answered an operation that the client refused to send."""

    def retry(self, event: RetryEvent) -> None:
        """Called when a retry is permitted (`event.permitted`) or refused (`event.refusal`)."""


class ServerSelectionEvent(Event):
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


class ServerSelectionListener(Public):
    """A listener for server selection. Subclass it, override what you need, pass it as ``event_listeners=[...]``."""

    def selection_started(self, event: ServerSelectionStartedEvent) -> None:
        """Called when an operation needs a server."""

    def selection_waiting(self, event: ServerSelectionWaitingEvent) -> None:
        """Called when no server is suitable at the moment."""

    def selection_succeeded(self, event: ServerSelectionSucceededEvent) -> None:
        """Called when a server was selected."""

    def selection_failed(self, event: ServerSelectionFailedEvent) -> None:
        """Called when no server was selected."""


# Events of circuit breakers and their listener (motorlite's own).
#
# Applications import them from `motorlite.monitoring`.


class CircuitBreakerEvent(Event):
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


class CircuitBreakerListener(Public):
    """A listener for circuit breakers. Subclass it, override what you need, pass it as ``event_listeners=[...]``."""

    def breaker_opened(self, event: CircuitBreakerOpenedEvent) -> None:
        """Called when a breaker opened."""

    def breaker_half_opened(self, event: CircuitBreakerHalfOpenedEvent) -> None:
        """Called when a breaker became half-open."""

    def breaker_closed(self, event: CircuitBreakerClosedEvent) -> None:
        """Called when a breaker closed."""
