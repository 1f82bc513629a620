"""Shell: one server of the deployment: its pool, its monitor and how many operations it is busy with."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from motorlite._pool.pool import Pool
    from motorlite._topology.monitor import Monitor
    from motorlite._topology.server_description import ServerDescription
    from motorlite.values import Address


class Server:
    """What a selected operation talks to."""

    __slots__ = ("address", "description", "monitor", "operation_count", "pool")

    def __init__(self, description: ServerDescription, pool: Pool, monitor: Monitor | None) -> None:
        self.address: Address = description.address
        # The newest; an operation reads the minimum round-trip time from it when it selects the server.
        self.description = description
        self.pool = pool
        # None behind a load balancer.
        self.monitor = monitor
        # Operations that have or want a connection, for the choice between two servers.
        self.operation_count = 0
