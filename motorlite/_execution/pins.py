"""Shell: a connection held by one cursor or one transaction: behind a load balancer, no other is sure to reach it.

Load balancer specification, "Connection Pinning". An exhaust cursor holds its connection too, because its batches
arrive there without requests. The operation that opens the cursor or begins the transaction does not check its
connection in. Further commands use it without selecting a server. The owner of the pin releases it once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from motorlite._connection.handshake import Purpose
from motorlite.errors import AutoReconnect

if TYPE_CHECKING:
    from motorlite._connection.connection import Connection
    from motorlite._operations.contract import Operation
    from motorlite._topology.topology import Server


class PinnedConnection:
    """A connection that stays checked out until `release` (a `Pin`). Two operations never use it at the same time."""

    __slots__ = ("_cursors", "_is_released", "connection", "server")

    def __init__(self, server: Server, connection: Connection, purpose: Purpose = Purpose.CURSOR) -> None:
        self.server: Server = server
        self.connection: Connection = connection
        self._is_released = False
        # The open cursors of a transaction: no other connection is certain to reach them.
        self._cursors: set[int] = set()
        connection.purpose = purpose

    @property
    def is_usable(self) -> bool:
        """Whether a command can be sent: the connection is open, has no pending reply and is not streaming replies."""
        return not self.is_lost and self.connection.streaming is None

    @property
    def is_lost(self) -> bool:
        """Whether the connection is closed or has a pending reply."""
        return self._is_released or self.connection.stream.is_closed or self.connection.owed is not None

    def check_out(self) -> Connection:
        """Return the connection, for one command, or for the next of the replies that it streams.

        Raises:
            AutoReconnect: The connection is lost or has a pending reply.
        """
        if self.is_lost:
            what = self.connection.purpose.value
            raise AutoReconnect(f"the connection that the {what} was opened on is lost")
        return self.connection

    def learn(self, used: int, reply: Mapping[str, Any]) -> None:
        """Learn which cursors of a transaction are open, from a reply to a command with cursor `used` (0: none)."""
        killed = reply.get("cursorsKilled")
        if isinstance(killed, list):
            self._cursors.difference_update(one for one in killed if isinstance(one, int))
        cursor = reply.get("cursor")
        if isinstance(cursor, Mapping) and isinstance(cursor_id := cursor.get("id"), int):
            self._cursors.discard(used)
            if cursor_id:
                self._cursors.add(cursor_id)

    def release(self) -> None:
        """Return the connection to its pool. Further calls have no effect."""
        if not self._is_released:
            self._is_released = True
            if self.connection.streaming is not None or self._cursors:
                # Nothing else stops the server, which then drops the cursors.
                self.connection.close()
            self.server.pool.check_in(self.connection)
            self.connection.purpose = Purpose.OTHER


def stays_pinned(operation: Operation[Any], connection: Connection, reply: Mapping[str, Any] | None) -> bool:
    """Whether the cursor that `operation` opened holds its connection."""
    return (connection.facts.is_load_balanced or operation.keeps_connection) and opens_cursor(reply)


def opens_cursor(reply: Mapping[str, Any] | None) -> bool:
    """Whether the reply has a cursor with more batches to fetch."""
    cursor = reply.get("cursor") if reply is not None else None
    return isinstance(cursor, dict) and bool(cursor.get("id"))
