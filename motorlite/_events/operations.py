"""Pure: events of single operations: retries (motorlite's own) and server selection.

Applications import them from `motorlite.monitoring`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from motorlite._events.base import Event, Public
from motorlite.errors import detached

if TYPE_CHECKING:
    from motorlite._base.values import Address
    from motorlite.errors import AdmissionError, PyMongoError
    from motorlite.read_preferences import ServerMode
    from motorlite.topology_description import TopologyDescription


class RetryEvent(Event):
    """The driver permitted or refused a retry.

    Errors that no retry rule covers, such as a duplicate key, publish no event unless the operation was retried before.

    Attributes:
        command_name: The operation's command.
        operation_id: As in the command events.
        permitted: Whether a retry follows.
        reason: The classification of the failed attempt: ``"overload"``, ``"retryable"`` (the RetryableError label
            alone), ``"retryable read"``, ``"retryable write"``, or ``"none"``.
        refusal: Why no retry follows, or None: ``"attempts"``, ``"deadline"``, ``"tokens"``, ``"not retryable"``,
            ``"disabled"``, ``"closed"``.
        delay: The backoff before the retry in seconds, or 0.0.
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
        error: PyMongoError,
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
        self.error: PyMongoError = detached(error)
        self.deprioritized: bool = deprioritized


class DegradedEvent(Event):
    """The client refused to send an operation, and the fallback of its call answers instead.

    Attributes:
        command_name: The operation's command.
        operation_id: As in the command events.
        read_preference: The read preference that is used instead; None if a function supplies the answer.
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
        """Called when a fallback answers an operation that the client refused to send."""

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
