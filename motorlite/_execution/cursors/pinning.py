"""Shell: a connection held by one cursor or one transaction: behind a load balancer, no other is sure to reach it.

Load balancer specification, "Connection Pinning". The operation that opens the cursor or begins the transaction does
not check its connection in. Further commands use it without selecting a server. The owner of the pin releases it once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._connection.purpose import Purpose
from motorlite.errors import AutoReconnect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._connection.connection import Connection
    from motorlite._topology.server import Server


class PinnedConnection:
    """A connection that stays checked out until `release` (a `Pin`). Two operations never use it at the same time."""

    __slots__ = ("_is_released", "connection", "server")

    def __init__(self, server: Server, connection: Connection, purpose: Purpose = Purpose.CURSOR) -> None:
        self.server: Server = server
        self.connection: Connection = connection
        self._is_released = False
        connection.check_out(purpose)

    @property
    def is_usable(self) -> bool:
        """Whether a command can be sent: the connection is open and has no pending reply."""
        return not self._is_released and not self.connection.stream.is_closed and self.connection.owed is None

    def check_out(self) -> Connection:
        """Return the connection, for one command.

        Raises:
            AutoReconnect: The connection is lost or has a pending reply.
        """
        if not self.is_usable:
            what = self.connection.purpose.value
            raise AutoReconnect(f"the connection that the {what} was opened on is lost")
        return self.connection

    def release(self) -> None:
        """Return the connection to its pool. Further calls have no effect."""
        if not self._is_released:
            self._is_released = True
            self.server.pool.check_in(self.connection)
            self.connection.check_in()


def pin_to_cursor(server: Server, connection: Connection, reply: Mapping[str, Any] | None) -> PinnedConnection | None:
    """Return the connection, pinned to the cursor that the reply opened, or None if there is no more of it."""
    return PinnedConnection(server, connection) if opens_cursor(reply) else None


def opens_cursor(reply: Mapping[str, Any] | None) -> bool:
    """Whether the reply has a cursor with more batches to fetch."""
    cursor = reply.get("cursor") if reply is not None else None
    return isinstance(cursor, dict) and bool(cursor.get("id"))
