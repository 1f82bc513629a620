from __future__ import annotations

import pytest
from bson.objectid import ObjectId

from motorlite._base.values import format_address
from motorlite._topology.server_description import ServerDescription
from motorlite._topology.topology_description import Draft, update
from motorlite.errors import AutoReconnect
from motorlite.topology_description import ServerType, TopologyType
from tests.support.deployments import A, B, hello, primary, secondary

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


def draft(kind: TopologyType, newest: tuple[int | None, int | None] = (None, None)) -> Draft:
    """A draft of this type with the servers a and b, and the newest (set version, election id)."""
    before = primary(A) if kind is WITH_PRIMARY else ServerDescription.unknown(A)
    return Draft(
        kind,
        {A: before, B: ServerDescription.unknown(B)},
        set_name="rs" if kind in (NO_PRIMARY, WITH_PRIMARY) else None,
        max_set_version=newest[0],
        max_election_id=election_id(newest[1]),
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
def test_transition_table(kind: TopologyType, server_type: ServerType, kind_after: TopologyType, is_kept: bool) -> None:
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


BEFORE_6_0, SINCE_6_0 = 16, 17


@pytest.mark.parametrize(
    ("max_wire_version", "known", "news", "is_stale", "newest"),
    [
        # A set version decides before an election id, and is recorded without one too.
        (BEFORE_6_0, (None, None), (None, None), False, (None, None)),
        (BEFORE_6_0, (None, None), (1, 1), False, (1, 1)),
        (BEFORE_6_0, (None, None), (1, None), False, (1, None)),
        (BEFORE_6_0, (None, None), (None, 1), False, (None, None)),
        (BEFORE_6_0, (None, 2), (1, 1), False, (1, 1)),
        (BEFORE_6_0, (2, None), (1, 1), False, (2, 1)),
        (BEFORE_6_0, (2, 2), (1, 3), True, (2, 2)),
        (BEFORE_6_0, (2, 2), (2, 1), True, (2, 2)),
        (BEFORE_6_0, (2, 2), (2, 2), False, (2, 2)),
        (BEFORE_6_0, (2, 2), (2, 3), False, (2, 3)),
        (BEFORE_6_0, (2, 2), (3, 1), False, (3, 1)),
        (BEFORE_6_0, (2, 2), (3, None), False, (3, 2)),
        (BEFORE_6_0, (2, 2), (1, None), False, (2, 2)),
        (BEFORE_6_0, (2, 2), (None, 1), False, (2, 2)),
        (BEFORE_6_0, (2, 2), (None, 3), False, (2, 2)),
        # An election id decides before a set version.
        (SINCE_6_0, (None, None), (None, None), False, (None, None)),
        (SINCE_6_0, (None, None), (1, 1), False, (1, 1)),
        (SINCE_6_0, (2, 2), (1, 3), False, (1, 3)),
        (SINCE_6_0, (2, 2), (3, 1), True, (2, 2)),
        (SINCE_6_0, (2, 2), (1, 2), True, (2, 2)),
        (SINCE_6_0, (2, 2), (2, 2), False, (2, 2)),
        (SINCE_6_0, (2, 2), (3, 2), False, (3, 2)),
        (SINCE_6_0, (2, 2), (3, None), True, (2, 2)),
        (SINCE_6_0, (2, 2), (None, 2), True, (2, 2)),
    ],
)
def test_the_newest_election(
    max_wire_version: int,
    known: tuple[int | None, int | None],
    news: tuple[int | None, int | None],
    is_stale: bool,
    newest: tuple[int | None, int | None],
) -> None:
    changed = after_news_of_a_primary(known, news, max_wire_version)
    assert changed.servers[A].is_server_type_known is not is_stale
    assert recorded(changed) == newest


def after_news_of_a_primary(
    known: tuple[int | None, int | None], news: tuple[int | None, int | None], max_wire_version: int
) -> Draft:
    """The draft after news of a primary with (set version, election id) `news` when `known` was the newest."""
    changed = draft(NO_PRIMARY, known)
    server = hello(
        A,
        setName="rs",
        isWritablePrimary=True,
        hosts=MEMBERS,
        setVersion=news[0],
        electionId=election_id(news[1]),
        maxWireVersion=max_wire_version,
    )
    update(changed, server)
    return changed


def recorded(changed: Draft) -> tuple[int | None, int | None]:
    newest = changed.max_election_id
    return changed.max_set_version, None if newest is None else int(str(newest))


def election_id(number: int | None) -> ObjectId | None:
    return None if number is None else ObjectId(f"{number:024d}")


def test_new_members_are_added_in_the_order_of_their_names() -> None:
    changed = draft(NO_PRIMARY)
    names = [f"{host}:{port}" for host in "ba" for port in range(1020, 1010, -1)]
    update(changed, primary(A, hosts=["a:1", "b:1", "[::1]:1", *names]))
    assert list(map(format_address, changed.servers)) == ["a:1", "b:1", "[::1]:1", *sorted(names)]


def single() -> Draft:
    """A direct connection to a, which must be a member of the set rs."""
    changed = draft(TopologyType.Single)
    changed.servers = {A: ServerDescription.unknown(A)}
    changed.set_name = "rs"
    return changed


def test_a_direct_connection_names_what_the_server_belongs_to_instead() -> None:
    for server, belongs in (
        (hello(A), "is not a member of a replica set"),
        (secondary(A, setName="another"), "is a member of 'another'"),
    ):
        changed = single()
        update(changed, server)
        assert not changed.servers[A].is_server_type_known
        assert str(changed.servers[A].error).startswith(
            f"the client asks for the replica set 'rs', but this server {belongs}"
        )
    changed = single()
    update(changed, secondary(A))
    assert changed.servers[A].is_server_type_known


def test_a_direct_connection_that_fails_keeps_its_error() -> None:
    changed = single()
    update(changed, ServerDescription.unknown(A, error=AutoReconnect("refused")))
    assert isinstance(changed.servers[A].error, AutoReconnect)
