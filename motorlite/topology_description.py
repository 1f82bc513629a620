"""Pure: descriptions of a deployment and its servers, in clients and events."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bson.objectid import ObjectId

    from motorlite._base.values import Address
    from motorlite.errors import PyMongoError
    from motorlite.read_preferences import ServerMode

__all__ = ["SERVER_TYPE", "TOPOLOGY_TYPE", "ServerDescription", "ServerType", "TopologyDescription", "TopologyType"]


class ServerType(StrEnum):
    """The types of servers (server discovery and monitoring specification, "ServerType")."""

    Unknown = "Unknown"
    Standalone = "Standalone"
    Mongos = "Mongos"
    RSPrimary = "RSPrimary"
    RSSecondary = "RSSecondary"
    RSArbiter = "RSArbiter"
    RSOther = "RSOther"
    RSGhost = "RSGhost"
    LoadBalancer = "LoadBalancer"


class TopologyType(StrEnum):
    """The types of deployments (server discovery and monitoring specification, "TopologyType")."""

    Unknown = "Unknown"
    Single = "Single"
    ReplicaSetNoPrimary = "ReplicaSetNoPrimary"
    ReplicaSetWithPrimary = "ReplicaSetWithPrimary"
    Sharded = "Sharded"
    LoadBalanced = "LoadBalanced"


SERVER_TYPE = ServerType
"""The types of servers, under PyMongo's name."""

TOPOLOGY_TYPE = TopologyType
"""The types of deployments, under PyMongo's name."""


class ServerDescription:
    """An immutable description of one server. All times are seconds.

    Equality compares the fields that the specification marks for it ("Server Description Equality"), so two
    checks of an unchanged server are equal although their round-trip times differ.

    Attributes:
        address: The address that the driver connects to.
        server_type: The server's type; `server_type_name` is the same as text.
        error: Why the server is Unknown, or None.
        hosts, passives, arbiters: The members of the replica set, as reported by this server; `all_hosts` has
            all three.
        me: The server's own configured address, or None.
        primary: The primary, as reported by this server, or None.
        replica_set_name, set_version, election_id, tags: From hello, None or empty when absent.
        min_wire_version, max_wire_version: The server's protocol range; only for compatibility.
        max_bson_object_size, max_message_size: Limits in bytes.
        max_write_batch_size: The maximum number of writes in one command.
        cluster_time: The server's `$clusterTime`, or None.
        topology_version: Freshness of this description (`processId` and `counter`), or None.
        logical_session_timeout_minutes: None when the server does not support sessions.
        last_write_date: The time of the replica set's newest write by the primary's wall clock, in seconds since
            1970; None when absent.
        last_update_time: The time of this description by the driver's monotonic clock; minus infinity for never.
        round_trip_time: Moving average of the round-trip time of hello, or None.
        min_round_trip_time: Minimum of the last ten samples, or 0.0.
        is_cryptd: Whether the server is a mongocryptd, or None.
        is_writable: Whether servers of this type accept writes.
        is_readable: Whether servers of this type accept reads ("data-bearing").
        is_server_type_known: Whether the server is available.
        retryable_writes_supported: Whether the server supports retryable writes (retryable writes specification,
            "Supported Server Versions").
    """

    __slots__ = ()

    address: Address
    server_type: ServerType
    server_type_name: str
    error: PyMongoError | None
    hosts: frozenset[Address]
    passives: frozenset[Address]
    arbiters: frozenset[Address]
    all_hosts: frozenset[Address]
    me: Address | None
    primary: Address | None
    replica_set_name: str | None
    set_version: int | None
    election_id: ObjectId | None
    tags: Mapping[str, Any]
    min_wire_version: int
    max_wire_version: int
    max_bson_object_size: int
    max_message_size: int
    max_write_batch_size: int
    cluster_time: Mapping[str, Any] | None
    topology_version: Mapping[str, Any] | None
    logical_session_timeout_minutes: int | None
    last_write_date: float | None
    last_update_time: float
    round_trip_time: float | None
    min_round_trip_time: float
    is_cryptd: bool | None
    is_writable: bool
    is_readable: bool
    is_server_type_known: bool
    retryable_writes_supported: bool

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.address} server_type: {self.server_type_name}>"

    # --- under PyMongo's names ---

    @property
    def mongos(self) -> bool:
        """Whether the server is a mongos."""
        return self.server_type is ServerType.Mongos

    @property
    def max_bson_size(self) -> int:
        """The same as `max_bson_object_size`."""
        return self.max_bson_object_size

    @property
    def retryable_reads_supported(self) -> bool:
        """Whether the server supports retryable reads; every server that the driver speaks to does."""
        return self.is_server_type_known


class TopologyDescription(ABC):
    """An immutable description of a deployment.

    Attributes:
        topology_type: The deployment's type; `topology_type_name` is the same as text.
        replica_set_name: Name of the replica set, as configured or discovered, or None.
        max_set_version, max_election_id: The newest election that a primary reported, or None.
        compatibility_error: Why the driver cannot work with this deployment, or None.
        logical_session_timeout_minutes: The minimum of all data-bearing servers, None if one of them has none.
    """

    __slots__ = ()

    topology_type: TopologyType
    topology_type_name: str
    replica_set_name: str | None
    max_set_version: int | None
    max_election_id: ObjectId | None
    compatibility_error: str | None
    logical_session_timeout_minutes: int | None

    @abstractmethod
    def server_descriptions(self) -> Mapping[Address, ServerDescription]:
        """All servers by address, read-only."""

    def __repr__(self) -> str:
        servers = list(self.server_descriptions().values())
        return f"<{type(self).__name__} topology_type: {self.topology_type_name}, servers: {servers!r}>"

    @property
    def known_servers(self) -> Sequence[ServerDescription]:
        """The servers that are available."""
        return [server for server in self.server_descriptions().values() if server.is_server_type_known]

    @property
    def has_known_servers(self) -> bool:
        """Whether any server is available."""
        return bool(self.known_servers)

    @property
    def readable_servers(self) -> Sequence[ServerDescription]:
        """The data-bearing servers."""
        return [server for server in self.server_descriptions().values() if server.is_readable]

    @abstractmethod
    def has_readable_server(self, read_preference: ServerMode | None = None) -> bool:
        """Whether a server is currently suitable for a read with `read_preference` (default: primary)."""

    def has_writable_server(self) -> bool:
        """Whether a server is currently suitable for a write."""
        return self.has_readable_server()
