"""Pure: events of what is done for one operation: retries (motorlite's own) and server selection.

`motorlite.monitoring` is where applications import them from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite.errors import detached
from motorlite.events_base import Event

if TYPE_CHECKING:
    from motorlite.errors import PyMongoError
    from motorlite.values import Address


class RetryEvent(Event):
    """The driver decided about a retry.

    There is none for errors that no rule about retries is about, such as a duplicate key, unless the operation was
    retried before.

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


class RetryListener:
    """Is told of every decision about a retry."""

    def retry(self, event: RetryEvent) -> None:
        """A retry follows (`event.permitted`), or was refused (`event.refusal`)."""


class ServerSelectionEvent(Event):
    """What the events about choosing a server for an operation have in common.

    Attributes:
        operation_name: The command's name.
        operation_id: The same for all attempts and batches of one operation.
        selector: What the server is needed for, in words: a read preference, a write, or one server by its address.
        topology_description: What was known of the deployment.
    """

    __slots__ = ("operation_id", "operation_name", "selector", "topology_description")

    def __init__(self, operation_name: str, operation_id: int, selector: str, topology_description: Any) -> None:
        self.operation_name: str = operation_name
        self.operation_id: int = operation_id
        self.selector: str = selector
        self.topology_description: Any = topology_description


class ServerSelectionStartedEvent(ServerSelectionEvent):
    """An operation needs a server."""

    __slots__ = ()


class ServerSelectionWaitingEvent(ServerSelectionEvent):
    """None is suitable; the operation waits for `remaining_time` seconds at most. Told once per selection."""

    __slots__ = ("remaining_time",)

    def __init__(
        self,
        operation_name: str,
        operation_id: int,
        selector: str,
        topology_description: Any,
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
        topology_description: Any,
        server_address: Address,
    ) -> None:
        super().__init__(operation_name, operation_id, selector, topology_description)
        self.server_address: Address = server_address


class ServerSelectionFailedEvent(ServerSelectionEvent):
    """No server was selected; `failure` is what the operation gets, if it is not retried."""

    __slots__ = ("failure",)

    def __init__(
        self,
        operation_name: str,
        operation_id: int,
        selector: str,
        topology_description: Any,
        failure: BaseException,
    ) -> None:
        super().__init__(operation_name, operation_id, selector, topology_description)
        self.failure: BaseException = detached(failure)


class ServerSelectionListener:
    """Subclass it, override what you need, and pass it to the client as ``event_listeners=[...]``."""

    def started(self, event: ServerSelectionStartedEvent) -> None:
        """An operation needs a server."""

    def waiting(self, event: ServerSelectionWaitingEvent) -> None:
        """None is suitable at this moment."""

    def succeeded(self, event: ServerSelectionSucceededEvent) -> None:
        """A server was selected."""

    def failed(self, event: ServerSelectionFailedEvent) -> None:
        """No server was selected."""
