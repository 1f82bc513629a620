"""Pure: the transition table of discovery, applied to a draft of the next topology description.

Theory of operation: the description of one server is put into a draft of the topology. Then the action that the
specification's table lists for (topology type, server type) corrects the rest: it adds or removes other members,
deposes an older primary and updates the topology's type. The actions have the specification's names (server discovery
and monitoring, "Updating the TopologyDescription").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from motorlite._base import wire_versions
from motorlite._base.values import cut, format_address
from motorlite._topology.server_description import MAX_SHOWN, ServerDescription
from motorlite.errors import ConfigurationError, NotPrimaryError
from motorlite.topology_description import ServerType, TopologyType

if TYPE_CHECKING:
    from collections.abc import Callable

    from bson.objectid import ObjectId

    from motorlite._base.values import Address

# The first version in which the election id takes precedence over the set version.
ELECTION_ID_FIRST_WIRE_VERSION: Final = wire_versions.V6_0


class Draft:
    """The next topology description under construction."""

    __slots__ = (
        "has_one_seed",
        "kind",
        "max_election_id",
        "max_set_version",
        "rejected",
        "servers",
        "set_name",
    )

    def __init__(
        self,
        kind: TopologyType,
        servers: dict[Address, ServerDescription],
        *,
        set_name: str | None,
        max_set_version: int | None,
        max_election_id: ObjectId | None,
        has_one_seed: bool,
    ) -> None:
        self.kind = kind
        # The draft owns this dictionary; the descriptions in it are shared.
        self.servers = servers
        self.set_name = set_name
        self.max_set_version = max_set_version
        self.max_election_id = max_election_id
        # Only a single seed may turn an unknown deployment into a standalone.
        self.has_one_seed = has_one_seed
        # The latest server that is not what the client asks for.
        self.rejected: ServerDescription | None = None


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
# Specification, "TopologyType table": the actions for news of servers of these types. Other news is kept as it is.
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
