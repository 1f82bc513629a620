"""Pure: command events and their listener (command logging and monitoring specification).

Applications import them from `motorlite.monitoring`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._events.base import Event, Public
from motorlite.errors import detached

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bson.objectid import ObjectId

    from motorlite._base.values import Address


class CommandEvent(Event):
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
        self.error: BaseException | None = None if error is None else detached(error)

    @property
    def duration_micros(self) -> int:
        """The duration in microseconds, as PyMongo names it."""
        return round(self.duration * 1_000_000)


class CommandListener(Public):
    """A listener for command events. Subclass it, override what you need, pass it as ``event_listeners=[...]``."""

    def started(self, event: CommandStartedEvent) -> None:
        """Called before a command is sent."""

    def succeeded(self, event: CommandSucceededEvent) -> None:
        """Called after a command succeeded."""

    def failed(self, event: CommandFailedEvent) -> None:
        """Called after a command failed."""
