"""Shell: one server of the deployment: its pool, its monitor and its operation count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bson.objectid import ObjectId

    from motorlite._admission.gate import Gate
    from motorlite._base.values import Address
    from motorlite._pool.pool import Pool
    from motorlite._topology.monitor import Monitor
    from motorlite._topology.server_description import ServerDescription
    from motorlite.errors import PyMongoError


class OnError(Protocol):
    """Takes the error of an operation on an established connection of `generation` (`server.OnError`).

    `topology_version` is that of the reply, for errors that do not contain the whole reply.
    """

    def __call__(
        self,
        error: PyMongoError,
        generation: int,
        *,
        topology_version: Mapping[str, Any] | None = None,
        service_id: ObjectId | None = None,
    ) -> None: ...


class Server:
    """A selectable server."""

    __slots__ = ("address", "attempts", "attempts_ended", "description", "failed", "gate", "monitor", "pool")

    # Updates the topology; which sets it.
    failed: OnError

    def __init__(self, description: ServerDescription, pool: Pool, monitor: Monitor | None) -> None:
        self.address: Address = description.address
        # The newest description; an operation reads the minimum round-trip time from it when it selects the server.
        self.description: ServerDescription = description
        self.pool: Pool = pool
        # The breaker and the concurrency limit, for the executor; monitors ignore them. None: neither is configured.
        self.gate: Gate | None = pool.gate
        # None behind a load balancer.
        self.monitor: Monitor | None = monitor
        # Numbers of attempts of operations that selected this server, and of those that ended.
        self.attempts: int = 0
        self.attempts_ended: int = 0

    @property
    def operation_count(self) -> int:
        """The number of operations that hold or wait for a connection, for the choice between two servers."""
        return self.attempts - self.attempts_ended
