from __future__ import annotations

import pytest

from motorlite._topology.server_description import ServerDescription, ServerType
from motorlite._topology.topology_type import TopologyType
from motorlite._topology.updates import Draft, update
from tests.unit._topology.deployments import A, B, hello, primary, secondary

MEMBERS = ["a:1", "b:1"]
SERVERS = {
    ServerType.Unknown: ServerDescription.unknown(A),
    ServerType.Standalone: hello(A),
    ServerType.Mongos: hello(A, msg="isdbgrid"),
    ServerType.RSPrimary: primary(A, hosts=MEMBERS),
    ServerType.RSSecondary: secondary(A, hosts=MEMBERS),
    ServerType.RSArbiter: hello(A, setName="rs", arbiterOnly=True, hosts=MEMBERS),
    ServerType.RSOther: hello(A, setName="rs", hidden=True, hosts=MEMBERS),
    ServerType.RSGhost: hello(A, isreplicaset=True),
}
UNKNOWN, SHARDED = TopologyType.Unknown, TopologyType.Sharded
NO_PRIMARY, WITH_PRIMARY = TopologyType.ReplicaSetNoPrimary, TopologyType.ReplicaSetWithPrimary
KEPT, REMOVED = True, False

# The specification's table: topology type afterwards and whether the server is kept. In a replica set with a
# primary that primary is the server itself, so anything else that it turns into leaves the set without one.
TABLE = {
    UNKNOWN: [
        (UNKNOWN, KEPT),
        (UNKNOWN, REMOVED),
        (SHARDED, KEPT),
        (WITH_PRIMARY, KEPT),
        (NO_PRIMARY, KEPT),
        (NO_PRIMARY, KEPT),
        (NO_PRIMARY, KEPT),
        (UNKNOWN, KEPT),
    ],
    SHARDED: [(SHARDED, kept) for kept in (KEPT, REMOVED, KEPT, *[REMOVED] * 5)],
    NO_PRIMARY: [
        (NO_PRIMARY, KEPT),
        (NO_PRIMARY, REMOVED),
        (NO_PRIMARY, REMOVED),
        (WITH_PRIMARY, KEPT),
        *[(NO_PRIMARY, KEPT)] * 4,
    ],
    WITH_PRIMARY: [
        (NO_PRIMARY, KEPT),
        (NO_PRIMARY, REMOVED),
        (NO_PRIMARY, REMOVED),
        (WITH_PRIMARY, KEPT),
        *[(NO_PRIMARY, KEPT)] * 4,
    ],
}


def draft(kind: TopologyType) -> Draft:
    before = primary(A) if kind is WITH_PRIMARY else ServerDescription.unknown(A)
    return Draft(
        kind,
        {A: before, B: ServerDescription.unknown(B)},
        set_name="rs" if kind in (NO_PRIMARY, WITH_PRIMARY) else None,
        max_set_version=None,
        max_election_id=None,
        has_one_seed=False,
    )


@pytest.mark.parametrize(
    ("kind", "server_type", "kind_after", "is_kept"),
    [
        (kind, server_type, *outcome)
        for kind, outcomes in TABLE.items()
        for server_type, outcome in zip(SERVERS, outcomes, strict=True)
    ],
)
def test_transition_table(
    kind: TopologyType, server_type: ServerType, kind_after: TopologyType, is_kept: bool
) -> None:
    changed = draft(kind)
    update(changed, SERVERS[server_type])
    assert changed.kind is kind_after
    assert (A in changed.servers) is is_kept
    assert B in changed.servers


def test_lone_standalone_is_a_single_deployment() -> None:
    changed = draft(UNKNOWN)
    changed.has_one_seed = True
    update(changed, SERVERS[ServerType.Standalone])
    assert changed.kind is TopologyType.Single
    assert A in changed.servers


@pytest.mark.parametrize("kind", [NO_PRIMARY, WITH_PRIMARY])
@pytest.mark.parametrize("server_type", [ServerType.RSPrimary, ServerType.RSSecondary])
def test_member_of_another_set_is_removed(kind: TopologyType, server_type: ServerType) -> None:
    changed = draft(kind)
    changed.set_name = "another"
    update(changed, SERVERS[server_type])
    assert changed.kind is NO_PRIMARY
    assert set(changed.servers) == {B}


@pytest.mark.parametrize("kind", [NO_PRIMARY, WITH_PRIMARY])
def test_alias_of_a_member_is_removed(kind: TopologyType) -> None:
    changed = draft(kind)
    update(changed, secondary(A, hosts=["x:1", "b:1"], me="x:1"))
    assert A not in changed.servers
    # Only the first one is followed: with a primary, the primary knows the members.
    assert (("x", 1) in changed.servers) is (kind is NO_PRIMARY)


def test_set_name_is_learned() -> None:
    for server_type in (ServerType.RSPrimary, ServerType.RSSecondary):
        changed = draft(UNKNOWN)
        update(changed, SERVERS[server_type])
        assert changed.set_name == "rs"
