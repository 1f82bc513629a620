from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING

import pytest
from bson.objectid import ObjectId

from motorlite._topology.server_description import NEAREST, SECONDARY, ServerDescription
from motorlite._topology.topology_description import TopologyChange, TopologyDescription
from motorlite.errors import AutoReconnect
from motorlite.topology_description import ServerType, TopologyType
from tests.support.deployments import A, B, C, Preference, hello, primary, replica_set, secondary

if TYPE_CHECKING:
    from collections.abc import Callable

PROCESS = ObjectId()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, TopologyType.Unknown),
        ({"direct_connection": True}, TopologyType.Single),
        ({"direct_connection": True, "replica_set": "rs"}, TopologyType.Single),
        ({"replica_set": "rs"}, TopologyType.ReplicaSetNoPrimary),
        ({"load_balanced": True}, TopologyType.LoadBalanced),
    ],
)
def test_initial_type(options: dict[str, object], expected: TopologyType) -> None:
    description = TopologyDescription.initial([A], **options)  # type: ignore[arg-type]  # parametrised
    assert description.topology_type is expected
    assert description.topology_type_name == expected.value
    assert list(description.server_descriptions()) == [A]
    assert not description.has_known_servers
    assert description.replica_set_name == options.get("replica_set")


def test_descriptions_are_read_only() -> None:
    servers = TopologyDescription.initial([A]).server_descriptions()
    with pytest.raises(TypeError):
        servers[B] = hello(B)  # type: ignore[index]  # what is being tested


def test_standalone_after_the_lone_seed_named_others_is_removed() -> None:
    description = TopologyDescription.initial([A]).apply(secondary(A)).apply(hello(B))
    assert set(description.server_descriptions()) == {A, C}


def test_news_of_an_unknown_address_are_ignored() -> None:
    description = replica_set(primary(A))
    assert description.apply(primary(("z", 1))) is description


def test_older_topology_version_is_ignored_and_an_equal_one_is_not() -> None:
    description = replica_set(primary(A, topologyVersion={"processId": PROCESS, "counter": 2}))
    assert description.apply(secondary(A, topologyVersion={"processId": PROCESS, "counter": 1})) is description
    news = secondary(A, topologyVersion={"processId": PROCESS, "counter": 2})
    assert description.apply(news).server_descriptions()[A] is news


def test_new_primary_deposes_the_old_one() -> None:
    old = replica_set(primary(A, setVersion=1, electionId=ObjectId("0" * 24)))
    new = old.apply(primary(B, setVersion=1, electionId=ObjectId("1" * 24), hosts=["a:1", "b:1", "d:1", "e:1"]))
    assert old.server_descriptions()[A].server_type is ServerType.RSPrimary, "the old description remains as it was"
    deposed = new.server_descriptions()[A]
    assert deposed.server_type is ServerType.Unknown
    assert "primary marked stale due to discovery of newer primary" in str(deposed.error)
    assert TopologyChange.between(old, new, B) == ((("d", 1), ("e", 1)), (C,), (A,))
    # A late word of the old primary does not depose the new one.
    late = new.apply(primary(A, setVersion=1, electionId=ObjectId("0" * 24)))
    assert late.topology_type is TopologyType.ReplicaSetWithPrimary
    assert "electionId/setVersion mismatch, (" in str(late.server_descriptions()[A].error)
    assert TopologyChange.between(new, late, A).deposed == ()
    # Nor does a failure of the new one count as that.
    failed = new.apply(ServerDescription.unknown(B, error=AutoReconnect("gone")))
    assert failed.topology_type is TopologyType.ReplicaSetNoPrimary
    assert TopologyChange.between(new, failed, B).deposed == ()


def test_a_lost_server_keeps_the_topology_version_of_the_error() -> None:
    version = {"processId": PROCESS, "counter": 9}
    lost = ServerDescription.unknown(A, error=AutoReconnect("gone"), topology_version=version)
    new = replica_set(primary(A)).apply(lost)
    assert new.server_descriptions()[A].topology_version == version


def test_session_timeout_is_the_smallest_of_those_with_data() -> None:
    description = replica_set(
        primary(A, logicalSessionTimeoutMinutes=30),
        secondary(B, logicalSessionTimeoutMinutes=10),
        hello(C, setName="rs", arbiterOnly=True, hosts=["a:1", "b:1", "c:1"]),
    )
    assert description.logical_session_timeout_minutes == 10
    assert description.apply(secondary(B)).logical_session_timeout_minutes is None
    assert replica_set().logical_session_timeout_minutes is None


@pytest.mark.parametrize(
    ("versions", "problem"),
    [
        (
            (0, 7),
            "reports wire version 7 (MongoDB 4.0), but this version of motorlite requires at least 8 (MongoDB 4.2)",
        ),
        (
            (0, 0),
            "reports wire version 0 (MongoDB 2.4), but this version of motorlite requires at least 8 (MongoDB 4.2)",
        ),
        ((999, 1000), "requires wire version 999, but this version of motorlite only supports up to 29"),
        ((0, 8), None),
    ],
)
def test_a_server_that_is_too_old_or_too_new(versions: tuple[int, int], problem: str | None) -> None:
    description = TopologyDescription.initial([A]).apply(
        hello(A, minWireVersion=versions[0], maxWireVersion=versions[1])
    )
    assert description.compatibility_error == (problem and f"Server at a:1 {problem}.")


def test_readable_and_writable_servers() -> None:
    description = replica_set(secondary(A, tags={"dc": "ny"}))
    assert not description.has_writable_server()
    assert not description.has_readable_server()
    assert description.has_readable_server(Preference(SECONDARY))
    assert not description.has_readable_server(Preference(NEAREST, ({"dc": "la"},)))
    assert [server.address for server in description.readable_servers] == [A]
    assert description.apply(primary(B)).has_writable_server()
    balanced = TopologyDescription.initial([A], load_balanced=True).apply(ServerDescription.load_balancer(A))
    assert balanced.topology_type is TopologyType.LoadBalanced
    assert balanced.compatibility_error is None
    assert balanced.has_writable_server()


def test_with_hosts_follows_srv_records() -> None:
    description = TopologyDescription.initial([A, B]).apply(hello(A, msg="isdbgrid"))
    followed = description.with_hosts([A, C])
    assert followed.topology_type is TopologyType.Sharded
    assert followed.server_descriptions()[A] is description.server_descriptions()[A]
    assert followed.server_descriptions()[C].server_type is ServerType.Unknown
    assert B not in followed.server_descriptions()


def test_with_several_hosts_there_is_no_lone_seed_any_more() -> None:
    description = TopologyDescription.initial([A])
    assert description.with_hosts([B]).has_one_seed
    followed = description.with_hosts([A, B])
    assert not followed.has_one_seed
    assert followed.apply(hello(A)).topology_type is TopologyType.Unknown


def test_pool_is_ready_after_checks_of_servers_that_serve() -> None:
    description = replica_set()
    direct = TopologyDescription.initial([A], direct_connection=True)
    ghost, failed = hello(A, isreplicaset=True), ServerDescription.unknown(A)
    assert description.is_pool_ready_after(secondary(A))
    assert not description.is_pool_ready_after(ghost)
    assert direct.is_pool_ready_after(ghost)
    assert not direct.is_pool_ready_after(failed)


def test_servers_that_name_one_another_are_not_followed_for_ever() -> None:
    description = TopologyDescription.initial([A], replica_set="rs")
    newest = "a"
    for step in range(5):
        # Each of the newest names ninety others.
        hosts = [f"{newest}:1", *(f"h{step}-{number}:1" for number in range(90))]
        description = description.apply(secondary((newest, 1), me=f"{newest}:1", hosts=hosts))
        assert len(description.server_descriptions()) <= 100
        newest = list(description.server_descriptions())[-1][0]
    liar = description.server_descriptions()[newest, 1]
    assert liar.server_type is ServerType.Unknown
    assert "the deployment would have 181 members; at most 100 are followed" in str(liar.error)
    # The application's own seeds are as many as it says, and what is known already does not count against the news.
    seeds = [(f"s{number}", 1) for number in range(150)]
    description = TopologyDescription.initial(seeds, replica_set="rs")
    description = description.apply(secondary(("s0", 1), hosts=["s0:1", "s1:1"]))
    assert description.server_descriptions()[("s0", 1)].server_type is ServerType.RSSecondary
    assert len(description.server_descriptions()) == 150


def test_repr_lists_the_servers() -> None:
    text = repr(replica_set(primary(A)))
    assert text.startswith("<TopologyDescription topology_type: ReplicaSetWithPrimary, servers: [")
    assert text.count("<ServerDescription") == 3


@pytest.mark.parametrize("duplicate", [lambda value: pickle.loads(pickle.dumps(value)), copy.copy, copy.deepcopy])
def test_it_can_be_copied_and_pickled(duplicate: Callable[[TopologyDescription], TopologyDescription]) -> None:
    description = replica_set(primary(A, election_id=ObjectId(), set_version=3), secondary(B))
    twin = duplicate(description)
    assert repr(twin) == repr(description)
    for name in vars(description):
        assert getattr(twin, name) == getattr(description, name)
    with pytest.raises(TypeError):
        twin.server_descriptions()[C] = description.server_descriptions()[A]  # type: ignore[index]  # read-only
