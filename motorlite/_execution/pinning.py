"""Shell: a connection that one cursor keeps, because behind a load balancer only that connection leads to it.

Load balancer specification, "Connection Pinning". The operation that opens the cursor does not check its connection in
again; getMore and killCursors are sent on it without selecting a server; whoever has the pin gives it back, once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._pool.services import Purpose
from motorlite.errors import AutoReconnect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._pool.connection import Connection
    from motorlite._topology.server import Server


class PinnedConnection:
    """A connection that is checked out until `release` (a `Pin`). Two operations never use it at the same time."""

    __slots__ = ("_is_released", "connection", "server")

    def __init__(self, server: Server, connection: Connection) -> None:
        self.server: Server = server
        self.connection: Connection = connection
        self._is_released = False
        connection.purpose = Purpose.CURSOR

    @property
    def is_usable(self) -> bool:
        """Whether a command can be sent: the connection is open and owes no reply."""
        return not self._is_released and not self.connection.stream.is_closed and self.connection.owed is None

    def lost(self) -> AutoReconnect:
        """The error of a command that cannot be sent."""
        error = AutoReconnect("the connection that the cursor was opened on is lost")
        error.address = self.server.address
        return error

    def release(self) -> None:
        """Give the connection back to its pool; only the first call has an effect."""
        if not self._is_released:
            self._is_released = True
            self.server.pool.check_in(self.connection)
            self.connection.purpose = Purpose.OTHER


def opens_cursor(reply: Mapping[str, Any] | None) -> bool:
    """Whether there is more to get with the cursor that is in the reply."""
    cursor = reply.get("cursor") if reply is not None else None
    return isinstance(cursor, dict) and bool(cursor.get("id"))
