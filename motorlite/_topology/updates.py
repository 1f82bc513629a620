"""Pure: the transition table of discovery, applied to a draft of the next topology description.

Theory of operation: the description of one server is put into a draft of the topology. Then the action that the
specification's table lists for (topology type, server type) corrects the rest: it adds or removes other members,
deposes an older primary and updates the topology's type. The actions have the specification's names (server discovery
and monitoring, "Updating the TopologyDescription").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from motorlite._base import wire_versions
from motorlite._base.values import cut
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


def update(draft: Draft, server: ServerDescription) -> None:
    """Replace the old description of `server`, a member of `draft`, and update the rest of the draft."""
    draft.servers[server.address] = server
    if draft.kind is TopologyType.Single:
        _verify_set_name(draft, server)
    elif draft.kind is not TopologyType.LoadBalanced:
        action = _TABLE[draft.kind][server.server_type]
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
        is_known = draft.max_set_version is not None and draft.max_election_id is not None
        if is_known and newest > (_nullable(version), _nullable(election)):
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
    for address in sorted(server.all_hosts, key=_address_key):
        if address not in draft.servers:
            draft.servers[address] = ServerDescription.unknown(address)


def _address_key(address: Address) -> tuple[str, int]:
    return (address[0], address[1] or 0)


def _is_alias(server: ServerDescription) -> bool:
    """Whether the client reaches the server by a name that the replica set does not use."""
    return server.me is not None and server.me != server.address


_KEEP: Final = None
_Action: TypeAlias = "Callable[[Draft, ServerDescription], None] | None"


def _row(
    unknown: _Action, standalone: _Action, mongos: _Action, primary: _Action, member: _Action, ghost: _Action
) -> dict[ServerType, _Action]:
    return {
        ServerType.Unknown: unknown,
        ServerType.Standalone: standalone,
        ServerType.Mongos: mongos,
        ServerType.RSPrimary: primary,
        ServerType.RSSecondary: member,
        ServerType.RSArbiter: member,
        ServerType.RSOther: member,
        ServerType.RSGhost: ghost,
    }


# Specification, "TopologyType table": the action for news of a server of the column's type.
_TABLE: Final[dict[TopologyType, dict[ServerType, _Action]]] = {
    TopologyType.Unknown: _row(
        unknown=_KEEP,
        standalone=_update_unknown_with_standalone,
        mongos=_set_sharded,
        primary=_update_rs_from_primary,
        member=_found_member,
        ghost=_KEEP,
    ),
    TopologyType.Sharded: _row(
        unknown=_KEEP, standalone=_remove, mongos=_KEEP, primary=_remove, member=_remove, ghost=_remove
    ),
    TopologyType.ReplicaSetNoPrimary: _row(
        unknown=_KEEP,
        standalone=_remove,
        mongos=_remove,
        primary=_update_rs_from_primary,
        member=_update_rs_without_primary,
        ghost=_KEEP,
    ),
    TopologyType.ReplicaSetWithPrimary: _row(
        unknown=_check_if_has_primary,
        standalone=_remove_and_check_if_has_primary,
        mongos=_remove_and_check_if_has_primary,
        primary=_update_rs_from_primary,
        member=_update_rs_with_primary_from_member,
        ghost=_check_if_has_primary,
    ),
}
