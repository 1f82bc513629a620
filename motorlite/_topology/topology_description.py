"""Pure: the description of a deployment, and its update with a new description of one server."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from motorlite import topology_description
from motorlite._base import wire_versions
from motorlite._base.values import cut, format_address
from motorlite._connection.handshake import incompatibility
from motorlite._options.table import default_setting
from motorlite._topology.server_description import (
    MAX_MEMBERS,
    MAX_SHOWN,
    Preference,
    ServerDescription,
    compare_topology_versions,
    servers_for_read,
    servers_for_write,
    too_many_members,
)
from motorlite.errors import ConfigurationError, NotPrimaryError
from motorlite.topology_description import ServerType, TopologyType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from bson.objectid import ObjectId

    from motorlite._base.values import Address


# The transition table of discovery, applied to a draft of the next topology description.
#
# Theory of operation: the description of one server is put into a draft of the topology. Then the action that the
# specification's table lists for (topology type, server type) corrects the rest: it adds or removes other members,
# deposes an older primary and updates the topology's type. The actions have the specification's names (server
# discovery and monitoring, "Updating the TopologyDescription").

# The first version in which the election id takes precedence over the set version.
ELECTION_ID_FIRST_WIRE_VERSION: Final = wire_versions.V6_0


@dataclass(slots=True, eq=False, repr=False)
class Draft:
    """The next topology description under construction."""

    kind: TopologyType
    # The draft owns this dictionary; the descriptions in it are shared.
    servers: dict[Address, ServerDescription]
    set_name: str | None
    max_set_version: int | None
    max_election_id: ObjectId | None
    # Only a single seed may turn an unknown deployment into a standalone.
    has_one_seed: bool
    # The latest server that is not what the client asks for.
    rejected: ServerDescription | None = None


def update(draft: Draft, server: ServerDescription) -> None:
    """Replace the old description of `server`, a member of `draft`, and update the rest of the draft."""
    draft.servers[server.address] = server
    if draft.kind is TopologyType.Single:
        _verify_set_name(draft, server)
    elif draft.kind is not TopologyType.LoadBalanced:
        action = _TABLE[draft.kind].get(server.server_type)
        if action is not None:
            action(draft, server)


def _verify_set_name(draft: Draft, server: ServerDescription) -> None:
    """Reset a server of another replica set (specification, "Verifying setName with TopologyType Single")."""
    if not server.is_server_type_known or draft.set_name in (None, server.replica_set_name):
        return
    name = server.replica_set_name
    belongs = f"is a member of {cut(name, MAX_SHOWN)!r}" if name else "is not a member of a replica set"
    error = ConfigurationError(f"the client asks for the replica set {draft.set_name!r}, but this server {belongs}")
    draft.servers[server.address] = ServerDescription.unknown(
        server.address, error=error, last_update_time=server.last_update_time
    )


def _check_if_has_primary(draft: Draft, _: ServerDescription) -> None:
    has_primary = any(server.server_type is ServerType.RSPrimary for server in draft.servers.values())
    draft.kind = TopologyType.ReplicaSetWithPrimary if has_primary else TopologyType.ReplicaSetNoPrimary


def _remove(draft: Draft, server: ServerDescription) -> None:
    del draft.servers[server.address]
    draft.rejected = server


def _remove_and_check_if_has_primary(draft: Draft, server: ServerDescription) -> None:
    _remove(draft, server)
    _check_if_has_primary(draft, server)


def _update_unknown_with_standalone(draft: Draft, server: ServerDescription) -> None:
    if draft.has_one_seed:
        draft.kind = TopologyType.Single
    else:
        # Several seeds can only mean a replica set or a sharded cluster.
        _remove(draft, server)


def _set_sharded(draft: Draft, _: ServerDescription) -> None:
    draft.kind = TopologyType.Sharded


def _found_member(draft: Draft, server: ServerDescription) -> None:
    draft.kind = TopologyType.ReplicaSetNoPrimary
    _update_rs_without_primary(draft, server)


def _update_rs_without_primary(draft: Draft, server: ServerDescription) -> None:
    if draft.set_name is None:
        draft.set_name = server.replica_set_name
    elif draft.set_name != server.replica_set_name:
        _remove(draft, server)
        return
    _add_members(draft, server)
    if _is_alias(server):
        _remove(draft, server)


def _update_rs_with_primary_from_member(draft: Draft, server: ServerDescription) -> None:
    if draft.set_name != server.replica_set_name or _is_alias(server):
        _remove(draft, server)
    # The member itself may have been the primary.
    _check_if_has_primary(draft, server)


def _update_rs_from_primary(draft: Draft, server: ServerDescription) -> None:
    if draft.set_name is None:
        draft.set_name = server.replica_set_name
    elif draft.set_name != server.replica_set_name:
        _remove_and_check_if_has_primary(draft, server)
        return
    if not _record_election(draft, server):
        error = NotPrimaryError(
            "primary marked stale due to electionId/setVersion mismatch, "
            f"({server.election_id}, {server.set_version}) is stale compared to "
            f"({draft.max_election_id}, {draft.max_set_version})"
        )
        _depose(draft, server, error)
    else:
        for other in list(draft.servers.values()):
            if other.server_type is ServerType.RSPrimary and other.address != server.address:
                _depose(draft, other, NotPrimaryError("primary marked stale due to discovery of newer primary"))
        _add_members(draft, server)
        for address in list(draft.servers):
            if address not in server.all_hosts:
                del draft.servers[address]
    _check_if_has_primary(draft, server)


def _record_election(draft: Draft, server: ServerDescription) -> bool:
    """Record the newest election; return whether `server` was elected in it, otherwise it is a stale primary."""
    version, election = server.set_version, server.election_id
    if server.max_wire_version >= ELECTION_ID_FIRST_WIRE_VERSION:
        ours = (_nullable(election), _nullable(version))
        if ours < (_nullable(draft.max_election_id), _nullable(draft.max_set_version)):
            return False
        draft.max_election_id, draft.max_set_version = election, version
        return True
    if version is not None and election is not None:
        newest = (_nullable(draft.max_set_version), _nullable(draft.max_election_id))
        # The specification wants both to be known. An unknown set version is never the greater one.
        if draft.max_election_id is not None and newest > (_nullable(version), _nullable(election)):
            return False
        draft.max_election_id = election
    if version is not None and (draft.max_set_version is None or version > draft.max_set_version):
        draft.max_set_version = version
    return True


def _nullable(value: Any) -> tuple[bool, Any]:
    """Return a sort key that orders None before every other value."""
    return (value is not None, value)


def _depose(draft: Draft, server: ServerDescription, error: NotPrimaryError) -> None:
    draft.servers[server.address] = ServerDescription.unknown(
        server.address, error=error, last_update_time=server.last_update_time
    )


def _add_members(draft: Draft, server: ServerDescription) -> None:
    # Sorted, so that the order of monitors and events does not depend on hashes.
    for address in sorted(server.all_hosts, key=format_address):
        if address not in draft.servers:
            draft.servers[address] = ServerDescription.unknown(address)


def _is_alias(server: ServerDescription) -> bool:
    """Whether the client reaches the server by a name that the replica set does not use."""
    return server.me is not None and server.me != server.address


_Action: TypeAlias = "Callable[[Draft, ServerDescription], None]"
_MEMBERS: Final = (ServerType.RSSecondary, ServerType.RSArbiter, ServerType.RSOther)
# Specification, "TopologyType table": the actions for new descriptions of such servers. Others are kept as they are.
_TABLE: Final[dict[TopologyType, dict[ServerType, _Action]]] = {
    TopologyType.Unknown: {
        ServerType.Standalone: _update_unknown_with_standalone,
        ServerType.Mongos: _set_sharded,
        ServerType.RSPrimary: _update_rs_from_primary,
        **dict.fromkeys(_MEMBERS, _found_member),
    },
    TopologyType.Sharded: {
        ServerType.Standalone: _remove,
        ServerType.RSPrimary: _remove,
        **dict.fromkeys(_MEMBERS, _remove),
        ServerType.RSGhost: _remove,
    },
    TopologyType.ReplicaSetNoPrimary: {
        ServerType.Standalone: _remove,
        ServerType.Mongos: _remove,
        ServerType.RSPrimary: _update_rs_from_primary,
        **dict.fromkeys(_MEMBERS, _update_rs_without_primary),
    },
    TopologyType.ReplicaSetWithPrimary: {
        ServerType.Unknown: _check_if_has_primary,
        ServerType.Standalone: _remove_and_check_if_has_primary,
        ServerType.Mongos: _remove_and_check_if_has_primary,
        ServerType.RSPrimary: _update_rs_from_primary,
        **dict.fromkeys(_MEMBERS, _update_rs_with_primary_from_member),
        ServerType.RSGhost: _check_if_has_primary,
    },
}


_HEARTBEAT_FREQUENCY: Final[float] = default_setting("heartbeatFrequencyMS")


class TopologyDescription(topology_description.TopologyDescription):
    """The description of a deployment; immutable, `apply` returns a new one.

    Attributes:
        has_one_seed: Whether the client has a single seed, which may be a standalone.
        rejected: The latest server that left because it is not what the client asks for, or None; for messages.
    """

    def __init__(
        self,
        topology_type: TopologyType,
        servers: Mapping[Address, ServerDescription],
        replica_set_name: str | None = None,
        max_set_version: int | None = None,
        max_election_id: ObjectId | None = None,
        has_one_seed: bool = False,
        rejected: ServerDescription | None = None,
    ) -> None:
        self.topology_type: TopologyType = topology_type
        self.topology_type_name: str = topology_type.value
        self.replica_set_name: str | None = replica_set_name
        self.max_set_version: int | None = max_set_version
        self.max_election_id: ObjectId | None = max_election_id
        self.has_one_seed: bool = has_one_seed
        self.rejected: ServerDescription | None = rejected
        self._servers = MappingProxyType(dict(servers))
        self.compatibility_error: str | None = _compatibility_error(servers.values())
        self.logical_session_timeout_minutes: int | None = _session_timeout(servers.values())

    def __reduce__(self) -> tuple[Any, ...]:
        # A read-only mapping can be neither pickled nor copied, but the dictionary behind it can.
        draft = self._draft()
        draft.rejected = None
        return TopologyDescription._of, (draft,)

    @classmethod
    def _of(cls, draft: Draft) -> TopologyDescription:
        return cls(
            draft.kind,
            draft.servers,
            draft.set_name,
            draft.max_set_version,
            draft.max_election_id,
            draft.has_one_seed,
            draft.rejected,
        )

    def _draft(self) -> Draft:
        return Draft(
            self.topology_type,
            dict(self._servers),
            self.replica_set_name,
            self.max_set_version,
            self.max_election_id,
            self.has_one_seed,
            self.rejected,
        )

    @classmethod
    def empty(cls) -> TopologyDescription:
        """Return a deployment without servers, for a client that is not yet open or already closed."""
        return cls(TopologyType.Unknown, {})

    @classmethod
    def initial(
        cls,
        seeds: Iterable[Address],
        *,
        direct_connection: bool = False,
        replica_set: str | None = None,
        load_balanced: bool = False,
    ) -> TopologyDescription:
        """Return the initial description of a client; the options have been checked for contradictions.

        A load balancer is Unknown at first; `ServerDescription.load_balancer` is applied immediately.
        """
        servers = {address: ServerDescription.unknown(address) for address in seeds}
        if load_balanced:
            kind = TopologyType.LoadBalanced
        elif direct_connection:
            kind = TopologyType.Single
        elif replica_set is not None:
            kind = TopologyType.ReplicaSetNoPrimary
        else:
            kind = TopologyType.Unknown
        return cls(kind, servers, replica_set, has_one_seed=len(servers) == 1)

    def server_descriptions(self) -> Mapping[Address, ServerDescription]:
        """All servers by address, read-only."""
        return self._servers

    @property
    def known_servers(self) -> list[ServerDescription]:
        """The servers that are available."""
        return [server for server in self._servers.values() if server.is_server_type_known]

    def has_readable_server(self, read_preference: Preference | None = None) -> bool:
        """Whether a server is currently suitable for a read with `read_preference` (default: primary).

        Args:
            read_preference: Mode, tags and staleness.
        """
        everyone = list(self._servers.values())
        if read_preference is None:
            return bool(servers_for_write(self.topology_type, everyone))
        return bool(servers_for_read(self.topology_type, everyone, everyone, read_preference, _HEARTBEAT_FREQUENCY))

    def is_stale(self, reported: ServerDescription) -> bool:
        """Whether `reported` is outdated: its server was removed, or its topologyVersion is lower."""
        known = self._servers.get(reported.address)
        return known is None or compare_topology_versions(known.topology_version, reported.topology_version) > 0

    def apply(self, reported: ServerDescription) -> TopologyDescription:
        """Return the deployment with `reported`, of one server, or this object itself if `reported` is stale.

        `TopologyChange.between` returns the further changes.
        """
        if self.is_stale(reported):
            return self
        draft = self._updated(reported)
        count = len(draft.servers)
        if count > max(MAX_MEMBERS, len(self._servers)):
            # No single server named too many members, but all servers together did.
            error = too_many_members(count)
            draft = self._updated(
                ServerDescription.unknown(reported.address, error=error, last_update_time=reported.last_update_time)
            )
        return self._of(draft)

    def _updated(self, reported: ServerDescription) -> Draft:
        draft = self._draft()
        update(draft, reported)
        return draft

    def with_hosts(self, addresses: Iterable[Address]) -> TopologyDescription:
        """Return the deployment with exactly these servers after its SRV records changed (sharded or unknown)."""
        servers = {address: self._servers.get(address) or ServerDescription.unknown(address) for address in addresses}
        draft = self._draft()
        draft.servers, draft.has_one_seed, draft.rejected = servers, self.has_one_seed and len(servers) == 1, None
        return self._of(draft)

    def is_pool_ready_after(self, checked: ServerDescription) -> bool:
        """Whether this successful check makes the server's pool ready ("Connection Pool Management")."""
        return checked.is_readable or (checked.is_server_type_known and self.topology_type is TopologyType.Single)

    def __repr__(self) -> str:
        servers = sorted(self._servers.values(), key=lambda server: format_address(server.address))
        return f"<{type(self).__name__} topology_type: {self.topology_type_name}, servers: {servers!r}>"


class TopologyChange(NamedTuple):
    """The difference between two descriptions of a deployment.

    Attributes:
        added: Servers to start monitoring.
        removed: Servers to stop monitoring; their pools are closed.
        deposed: Primaries that became Unknown because of another primary. Each is checked immediately and keeps its
            pool ("updateRSFromPrimary").
    """

    added: tuple[Address, ...]
    removed: tuple[Address, ...]
    deposed: tuple[Address, ...]

    @classmethod
    def between(
        cls, old: TopologyDescription, new: TopologyDescription, subject: Address | None = None
    ) -> TopologyChange:
        """Return the difference that a new description of the server at `subject` made."""
        before, after = old.server_descriptions(), new.server_descriptions()
        return cls(
            added=tuple(address for address in after if address not in before),
            removed=tuple(address for address in before if address not in after),
            deposed=tuple(
                address
                for address, server in after.items()
                if address != subject
                and not server.is_server_type_known
                and address in before
                and before[address].server_type is ServerType.RSPrimary
            ),
        )


def _compatibility_error(servers: Iterable[ServerDescription]) -> str | None:
    """Return the first incompatibility, or None (specification, "Checking wire protocol compatibility")."""
    for server in servers:
        if server.server_type in (ServerType.Unknown, ServerType.LoadBalancer):
            continue
        problem = incompatibility(server.address, server.min_wire_version, server.max_wire_version)
        if problem is not None:
            return problem
    return None


def _session_timeout(servers: Iterable[ServerDescription]) -> int | None:
    """Return the session timeout of the deployment (specification, "Logical Session Timeout")."""
    timeouts = [server.logical_session_timeout_minutes for server in servers if server.is_readable]
    known = [timeout for timeout in timeouts if timeout is not None]
    return min(known) if known and len(known) == len(timeouts) else None
