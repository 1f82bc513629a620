"""Pure: what a pool behind a load balancer keeps for each service, and what its connections are in use for.

A connection through a load balancer leads to one of several services, which nobody can choose. The handshake tells
which (`serviceId`); from then on the connection shares the fate of that service's other connections, not of all.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bson.objectid import ObjectId


class Purpose(enum.Enum):
    """What a connection was checked out for (load balancer specification, "Connection Tracking")."""

    CURSOR = "cursor"
    TRANSACTION = "transaction"
    OTHER = "other"


class Services:
    """The generation of each service, and how many connections there are to it.

    A service without connections is forgotten: its next connection begins at generation 0 again, which no older
    connection can be mistaken for, since there is none.
    """

    __slots__ = ("_connections", "_generations")

    def __init__(self) -> None:
        self._generations: dict[ObjectId, int] = {}
        self._connections: dict[ObjectId, int] = {}

    def __len__(self) -> int:
        return len(self._connections)

    def generation(self, service_id: ObjectId) -> int:
        """The generation that a new connection to this service would get."""
        return self._generations.get(service_id, 0)

    def join(self, service_id: ObjectId) -> int:
        """There is one more connection to this service; its generation."""
        self._connections[service_id] = self._connections.get(service_id, 0) + 1
        return self.generation(service_id)

    def leave(self, service_id: ObjectId) -> None:
        """There is one connection less."""
        left = self._connections[service_id] - 1
        if left:
            self._connections[service_id] = left
        else:
            del self._connections[service_id]
            self._generations.pop(service_id, None)

    def clear(self, service_id: ObjectId) -> None:
        """All connections to this service are stale from now on."""
        if service_id in self._connections:
            self._generations[service_id] = self.generation(service_id) + 1
