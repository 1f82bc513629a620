"""Pure: the state that a pool behind a load balancer keeps for each service.

A connection through a load balancer leads to one of several services, and the client cannot choose the service. The
handshake reports it (`serviceId`). From then on the connection becomes stale together with the other connections to
that service only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bson.objectid import ObjectId


class Services:
    """The generation and the number of connections of each service.

    A service without connections is forgotten. Its next connection starts at generation 0 again, which cannot be
    confused with that of an older connection, because there are no older connections.
    """

    __slots__ = ("_connections", "_generations")

    def __init__(self) -> None:
        self._generations: dict[ObjectId, int] = {}
        self._connections: dict[ObjectId, int] = {}

    def __len__(self) -> int:
        return len(self._connections)

    def generation(self, service_id: ObjectId) -> int:
        """Return the generation of new connections to this service."""
        return self._generations.get(service_id, 0)

    def join(self, service_id: ObjectId) -> int:
        """Count a new connection to this service and return its generation."""
        self._connections[service_id] = self._connections.get(service_id, 0) + 1
        return self.generation(service_id)

    def leave(self, service_id: ObjectId) -> None:
        """Count one connection less."""
        left = self._connections[service_id] - 1
        if left:
            self._connections[service_id] = left
        else:
            del self._connections[service_id]
            self._generations.pop(service_id, None)

    def clear(self, service_id: ObjectId) -> None:
        """Make all connections to this service stale."""
        if service_id in self._connections:
            self._generations[service_id] = self.generation(service_id) + 1
