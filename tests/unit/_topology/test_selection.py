from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from motorlite._base.deadline import NO_DEADLINE, Deadline
from motorlite._topology.selection import (
    WRITABLE,
    Selector,
    WritesByPreference,
    choose,
    describe_failure,
    describe_limit,
    describe_selector,
    suitable_servers,
)
from motorlite._topology.server_description import (
    NEAREST,
    PRIMARY,
    PRIMARY_PREFERRED,
    SECONDARY_PREFERRED,
    ServerDescription,
)
from motorlite._topology.topology_description import TopologyDescription
from motorlite.errors import AutoReconnect, ConfigurationError, NotPrimaryError, OperationFailure, PyMongoError
from motorlite.read_preferences import ReadPreference, Secondary
from tests.support.deployments import A, B, C, Preference, hello, primary, replica_set, secondary

if TYPE_CHECKING:
    from motorlite._topology.selection import ServerSelector


def found(
    topology: TopologyDescription,
    selector: Selector,
    *deprioritized: tuple[str, int],
    local_threshold: float = 0.015,
    server_selector: ServerSelector | None = None,
) -> str:
    servers = suitable_servers(
        topology,
        selector,
        deprioritized=frozenset(deprioritized),
        local_threshold=local_threshold,
        heartbeat_frequency=10.0,
        server_selector=server_selector,
    )
    return "".join(server.address[0] for server in servers)


def test_public_read_preferences_are_selectors() -> None:
    topology = replica_set(primary(A), secondary(B, tags={"dc": "ny"}), secondary(C))
    assert found(topology, Secondary(tag_sets=[{"dc": "ny"}])) == "b"
    assert found(topology, ReadPreference.PRIMARY) == "a"
    assert len({Secondary(), Secondary(), WRITABLE, A}) == 3


def test_a_pipeline_that_writes() -> None:
    """CRUD specification, "Aggregation Pipelines with Write Stages"."""
    selector = WritesByPreference(ReadPreference.SECONDARY)
    new, old = secondary(B, maxWireVersion=13), secondary(C, maxWireVersion=12)
    main = primary(A, maxWireVersion=13)
    assert found(replica_set(main, new), selector) == "b"
    # One that cannot forward a write, and all of them go to the primary.
    assert found(replica_set(main, new, old), selector) == "a"
    assert found(replica_set(new, old), selector) == ""
    assert found(replica_set(), selector) == ""
    assert describe_selector(selector) == describe_selector(ReadPreference.SECONDARY)
    assert len({selector, WritesByPreference(ReadPreference.SECONDARY)}) == 1


def test_latency_window() -> None:
    near, far = primary(A, round_trip_time=0.020), secondary(B, round_trip_time=0.005)
    assert found(replica_set(near, far), Preference(NEAREST), local_threshold=0.014) == "b"
    topology = replica_set(near, far, secondary(C, round_trip_time=0.021))
    assert found(topology, Preference(NEAREST)) == "ab"
    assert found(topology, Preference(NEAREST), local_threshold=0.0) == "b"
    assert found(topology, Preference(NEAREST), local_threshold=1.0) == "abc"
    assert found(topology, Preference(NEAREST), B, local_threshold=0.001) == "ac", "the window is that of the others"


@pytest.mark.parametrize("round_trip_time", [0.0, None])
def test_a_server_that_is_as_near_as_can_be_or_was_not_measured(round_trip_time: float | None) -> None:
    near, far = primary(A, round_trip_time=round_trip_time), secondary(B, round_trip_time=0.5)
    assert found(replica_set(near, far), Preference(NEAREST)) == "a"
    assert found(replica_set(near, secondary(B)), Preference(NEAREST)) == "ab"


def test_deprioritized_server_is_the_last_resort() -> None:
    topology = replica_set(primary(A), secondary(B))
    assert found(topology, Preference(NEAREST), A) == "b"
    assert found(topology, Preference(PRIMARY_PREFERRED), A) == "b"
    assert found(topology, Preference(SECONDARY_PREFERRED), B) == "a"
    assert found(topology, Preference(NEAREST), A, B) == "ab"
    assert found(topology, Preference(PRIMARY), A) == "a"
    assert found(topology, WRITABLE, A) == "a"
    assert found(topology, A, A) == "a"


def test_address_selects_one_known_server_whatever_it_is() -> None:
    topology = replica_set(primary(A), hello(B, isreplicaset=True))
    assert found(topology, B) == "b"
    assert found(topology, C) == ""
    assert found(topology, ("z", 1)) == ""


def test_server_selector_comes_before_the_window() -> None:
    topology = replica_set(primary(A, round_trip_time=0.5), secondary(B, round_trip_time=0.001))
    asked = []

    def slowest_only(servers: list[ServerDescription]) -> list[ServerDescription]:
        asked.append(len(servers))
        return servers[:1]

    assert found(topology, Preference(NEAREST), server_selector=slowest_only) == "a"
    assert found(replica_set(), Preference(NEAREST), server_selector=slowest_only) == ""
    assert asked == [2]


def test_server_selector_has_no_say_where_there_is_no_choice() -> None:
    def none(_: list[ServerDescription]) -> list[ServerDescription]:
        return []

    topology = replica_set(primary(A), secondary(B))
    assert found(topology, Preference(NEAREST), server_selector=none) == ""
    assert found(topology, B, server_selector=none) == "b", "a cursor is there"
    direct = TopologyDescription.initial([A], direct_connection=True).apply(primary(A))
    balanced = TopologyDescription.initial([A], load_balanced=True).apply(ServerDescription.load_balancer(A))
    for topology in (direct, balanced):
        assert found(topology, WRITABLE, server_selector=none) == "a"
        assert found(topology, Preference(NEAREST), server_selector=none) == "a"


def test_incompatible_deployment_is_an_error() -> None:
    topology = TopologyDescription.initial([A]).apply(hello(A, maxWireVersion=7))
    with pytest.raises(ConfigurationError, match=r"MongoDB 4\.0.*MongoDB 4\.2"):
        found(topology, WRITABLE)


def test_too_small_max_staleness_is_an_error_before_anything_is_discovered() -> None:
    with pytest.raises(ConfigurationError, match="maxStalenessSeconds=1 "):
        found(replica_set(), Preference(NEAREST, max_staleness=1))


class Loaded(NamedTuple):
    name: str
    operation_count: int


@pytest.mark.parametrize(
    ("pair", "expected"),
    [((0, 0), "a"), ((0, 1), "c"), ((1, 0), "a"), ((1, 1), "c"), ((2, 0), "c"), ((2, 1), "c"), ((0, 2), "a")],
)
def test_choice_between_every_pair(pair: tuple[int, int], expected: str) -> None:
    """The less busy one, or the first of the pair."""
    candidates = [Loaded("a", 1), Loaded("b", 2), Loaded("c", 0), Loaded("d", 1)]
    assert choose(candidates, *pair).name == expected
    assert choose(candidates, 3, 0).name == "d"


def test_describe_selector() -> None:
    assert describe_selector(WRITABLE) == "a write"
    assert describe_selector(("::1", 5)) == "the server [::1]:5"
    assert describe_selector(Preference(PRIMARY)) == "read preference primary"
    assert describe_selector(Preference(NEAREST, ({"dc": "ny"}, {}), 120)) == (
        "read preference nearest, tag sets [{'dc': 'ny'}, {}], maxStalenessSeconds 120"
    )


def test_failure_names_every_server_and_its_last_error() -> None:
    topology = replica_set().apply(ServerDescription.unknown(A, error=AutoReconnect("connection refused")))
    assert describe_failure(topology, WRITABLE) == (
        "No server for a write: no server of the deployment can be reached (ReplicaSetNoPrimary 'rs'). "
        "a:1 is Unknown: AutoReconnect: connection refused; b:1 is Unknown: it has not answered yet; "
        "c:1 is Unknown: it has not answered yet"
    )


def test_failure_names_each_server_once() -> None:
    error = AutoReconnect("[::1]:5: connection refused")
    description = TopologyDescription.initial([("::1", 5)]).apply(ServerDescription.unknown(("::1", 5), error=error))
    assert "). [::1]:5 is Unknown: AutoReconnect: connection refused" in describe_failure(description, WRITABLE)
    assert describe_failure(description, WRITABLE).count("::1") == 1


def test_failure_with_reachable_servers_names_their_kinds() -> None:
    topology = replica_set(primary(A), secondary(B, tags={"dc": "la"}))
    text = describe_failure(topology, Preference(NEAREST, ({"dc": "ny"},)))
    assert "none of the known servers is suitable (ReplicaSetWithPrimary 'rs')" in text
    assert "a:1 is RSPrimary; b:1 is RSSecondary with tags {'dc': 'la'}; c:1 is Unknown" in text


def test_limit_of_a_selection_that_does_not_wait() -> None:
    assert describe_limit(NO_DEADLINE, None, 1.0, 30) == describe_limit(Deadline(2.0, timeout=5.0), None, 1.0, 30) == ""
    # Not what is left of it when the selection begins.
    assert describe_limit(NO_DEADLINE, 1.2995, 1.0, 0.3) == "within 0.3 s (serverSelectionTimeoutMS)"
    assert describe_limit(Deadline(1.0, timeout=5.0), None, 1.0, 30) == "within 5 s (timeoutMS or motorlite.timeout())"


def test_failure_names_the_set_that_was_found_instead() -> None:
    description = TopologyDescription.initial([A], replica_set="wrong").apply(secondary(A, setName="right"))
    assert not description.server_descriptions()
    text = describe_failure(description, WRITABLE, "within 5 s (serverSelectionTimeoutMS)")
    assert text.startswith("No server for a write within 5 s (serverSelectionTimeoutMS): no server is left")
    assert "a:1 is a member of the replica set 'right'. None of the hosts matches" in text


def test_failure_without_any_server() -> None:
    topology = TopologyDescription.initial([A], replica_set="rs").apply(hello(A))
    text = describe_failure(topology, WRITABLE)
    assert "no server is left in the deployment (ReplicaSetNoPrimary 'rs'). a:1 is a Standalone. None" in text


HUGE = "\x01" * 1_000_000


@pytest.mark.parametrize(
    "error",
    [
        OperationFailure(HUGE, 18, {"ok": 0, "errmsg": HUGE, "code": 18}),
        OperationFailure("no", 18, {"ok": 0, "errmsg": "no", "code": 18, "info": HUGE}),
        NotPrimaryError(HUGE, {"errmsg": HUGE}),
        AutoReconnect(HUGE),
    ],
    ids=["message", "reply", "not primary", "network"],
)
def test_failure_repeats_little_of_what_a_server_says(error: PyMongoError) -> None:
    """There may be a hundred servers, and every operation that finds none of them has this text."""
    topology = replica_set().apply(ServerDescription.unknown(A, error=error))
    text = describe_failure(topology, WRITABLE)
    assert f"a:1 is Unknown: {type(error).__name__}: {str(error)[:2]}" in text
    assert len(text) < 1500
    assert len(repr(topology)) < 1500


@pytest.mark.parametrize(("code", "expected"), [(18, "no (code 18); "), (0, "no (code 0); "), (None, "no; ")])
def test_failure_repeats_the_code_if_there_is_one(code: int | None, expected: str) -> None:
    error = OperationFailure("no", code, {"ok": 0, "errmsg": "no"})
    topology = replica_set().apply(ServerDescription.unknown(A, error=error))
    assert f"a:1 is Unknown: OperationFailure: {expected}" in describe_failure(topology, WRITABLE)


@pytest.mark.parametrize("tags", [{"a": HUGE}, {HUGE: "a"}, {f"{number:06d}": "" for number in range(100_000)}])
def test_failure_repeats_few_tags_and_no_long_name(tags: dict[str, str]) -> None:
    reply: dict[str, Any] = {"setName": HUGE, "hosts": ["a:1"], "secondary": True, "tags": tags}
    topology = TopologyDescription.initial([A]).apply(hello(A, **reply))
    text = describe_failure(topology, WRITABLE)
    assert "a:1 is RSSecondary with tags {" in text
    assert len(text) < 6000
    assert ("'000019': ''}" in text, "'000020'" in text) == ("000020" in tags, False), "twenty of them"


def test_failure_repeats_little_of_another_sets_name() -> None:
    topology = TopologyDescription.initial([A], replica_set="rs", direct_connection=True)
    text = describe_failure(topology.apply(hello(A, setName=HUGE, secondary=True)), WRITABLE)
    assert "but this server is a member of" in text
    assert len(text) < 1500


def test_an_applications_filter_may_leave_only_a_deprioritized_server() -> None:
    topology = replica_set(primary(A), secondary(B))
    assert found(topology, Preference(NEAREST), A, server_selector=lambda servers: servers[:1]) == "b"
    only_a = [server for server in topology.known_servers if server.address == A]
    assert found(topology, Preference(NEAREST), A, server_selector=lambda s: [x for x in s if x in only_a]) == "a"
