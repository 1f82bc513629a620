"""Shell: what the API needs of the machinery below, as protocols; the composition root provides it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from motorlite._execution.lost_cursor import LostCursor
    from motorlite._execution.operation import Operation
    from motorlite._execution.session import Session, SessionPool
    from motorlite.deadline import Deadline
    from motorlite.driver_info import DriverInfo
    from motorlite.options import ClientOptions
    from motorlite.stats import ClientStats
    from motorlite.values import Address

# Seconds that closing a client gives to operations in flight.
GRACE: Final = 5.0


class ServerLike(Protocol):
    """What is known of one server.

    Attributes:
        address: Where it is.
        server_type_name: As the server discovery specification names it (RSPrimary, Mongos ...).
        max_wire_version: 0 while the server is unknown.
    """

    address: Address
    server_type_name: str
    max_wire_version: int


class TopologyLike(Protocol):
    """What is known of the deployment.

    Attributes:
        topology_type_name: As the server discovery specification names it (ReplicaSetWithPrimary ...).
        replica_set_name: None when it is not known, or when there is no replica set.
    """

    topology_type_name: str
    replica_set_name: str | None

    def server_descriptions(self) -> Mapping[Address, ServerLike]:
        """All servers by address."""
        ...

    @property
    def known_servers(self) -> Collection[ServerLike]:
        """The servers that are available."""
        ...

    def has_writable_server(self) -> bool:
        """Whether a write would find a server now."""
        ...

    def has_readable_server(self) -> bool:
        """Whether a read from the primary would find a server now."""
        ...


class ExecutorLike(Protocol):
    """The one way in which an operation reaches a server."""

    async def execute(
        self,
        operation: Operation,
        session: Session | None,
        deadline: Deadline,
        operation_id: int | None = None,
    ) -> Any:
        """What the operation's `parse` makes of the reply; None for an unacknowledged write."""
        ...

    def release(self, session: Session) -> None:
        """Give the server session of `session` back to the pool."""
        ...


class CoreLike(Protocol):
    """One client's machinery, bound to an event loop at its first use."""

    @property
    def options(self) -> ClientOptions:
        """The configuration; what DNS adds to it is known after the first operation."""
        ...

    @property
    def executor(self) -> ExecutorLike:
        """Usable after `enter`."""
        ...

    @property
    def sessions(self) -> SessionPool:
        """The server sessions of this client that are not in use."""
        ...

    @property
    def topology_description(self) -> TopologyLike:
        """What is known of the deployment now."""
        ...

    def enter(self) -> None:
        """Bind to the running event loop; called first by each operation.

        Raises:
            InvalidOperation: Another loop is running than before, the process was forked, or the client is
                closed.
        """
        ...

    async def connect(self, deadline: Deadline) -> None:
        """Wait for a server that can be read from. Usable after `enter`."""
        ...

    async def checkpoint(self) -> None:
        """Give the event loop its turn; a cancelled caller is cancelled here."""
        ...

    def now(self) -> float:
        """The event loop's time, seconds."""
        ...

    def scope_deadline(self) -> float:
        """The deadline of the cancel scope that the caller is in, or infinity."""
        ...

    def new_operation_id(self) -> int:
        """An operation id for several commands that belong together."""
        ...

    def append_metadata(self, info: DriverInfo) -> None:
        """Name a library on top of the driver in the handshakes of new connections."""
        ...

    def kill_cursor(self, cursor: LostCursor) -> None:
        """Kill a cursor in the background; does nothing when the loop is gone. To be called from anywhere."""
        ...

    def release_session(self, session: Session) -> None:
        """Give the server session of a dropped `session` back; does nothing when the loop is gone. From anywhere."""
        ...

    async def close(self, grace: float = GRACE) -> None:
        """End the sessions, close the connections and stop the background work.

        Operations in flight have `grace` seconds.
        """
        ...

    def stats(self) -> ClientStats:
        """A snapshot of pools, budget and retries."""
        ...
