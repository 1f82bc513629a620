from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from bson.datetime_ms import DatetimeMS
from bson.int64 import Int64
from bson.objectid import ObjectId

from motorlite._options.uri import parse_hosts
from motorlite._topology.server_description import ServerDescription, compare_topology_versions, parse_address
from motorlite.errors import AutoReconnect, InvalidURI, NetworkTimeout, OperationFailure, ProtocolError
from motorlite.topology_description import ServerType
from tests.support.kept_errors import is_kept_copy

if TYPE_CHECKING:
    from collections.abc import Callable

ADDRESS = ("a", 27017)


def hello(round_trip_time: float = 0.01, now: float = 5.0, **fields: Any) -> ServerDescription:
    return ServerDescription.from_hello(
        ADDRESS, {"ok": 1, **fields}, round_trip_time=round_trip_time, min_round_trip_time=0.005, now=now
    )


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ServerType.Standalone),
        ({"isWritablePrimary": True}, ServerType.Standalone),
        ({"msg": "isdbgrid"}, ServerType.Mongos),
        ({"setName": "rs", "isWritablePrimary": True}, ServerType.RSPrimary),
        ({"setName": "rs", "ismaster": True}, ServerType.RSPrimary),
        (
            {"setName": "rs", "isWritablePrimary": False, "ismaster": True, "secondary": True},
            ServerType.RSSecondary,
        ),
        ({"setName": "rs", "secondary": True}, ServerType.RSSecondary),
        ({"setName": "rs", "secondary": True, "hidden": True}, ServerType.RSOther),
        ({"setName": "rs", "arbiterOnly": True}, ServerType.RSArbiter),
        ({"setName": "rs"}, ServerType.RSOther),
        ({"isreplicaset": True}, ServerType.RSGhost),
        ({"isreplicaset": True, "setName": "rs", "isWritablePrimary": True}, ServerType.RSGhost),
    ],
)
def test_type(fields: dict[str, Any], expected: ServerType) -> None:
    server = hello(**fields)
    assert server.server_type is expected
    assert server.server_type_name == expected.value
    assert server.is_server_type_known


def test_all_fields() -> None:
    election_id = ObjectId()
    version = {"processId": ObjectId(), "counter": 3}
    fields: dict[str, Any] = {"$clusterTime": {"clusterTime": 1}}
    server = hello(
        **fields,
        setName="rs",
        isWritablePrimary=True,
        setVersion=4,
        electionId=election_id,
        tags={"dc": "ny"},
        hosts=["A:1", "b:2"],
        passives=["c:3"],
        arbiters=["[::1]:4"],
        me="A:1",
        primary="B:2",
        minWireVersion=1,
        maxWireVersion=21,
        maxBsonObjectSize=5,
        maxMessageSizeBytes=6,
        maxWriteBatchSize=7,
        logicalSessionTimeoutMinutes=30,
        topologyVersion=version,
        lastWrite={"lastWriteDate": datetime(1970, 1, 1, 0, 1)},
        iscryptd=True,
    )
    assert (server.replica_set_name, server.set_version, server.election_id) == ("rs", 4, election_id)
    assert server.tags == {"dc": "ny"}
    assert server.hosts == {("a", 1), ("b", 2)}
    assert server.passives == {("c", 3)}
    assert server.arbiters == {("::1", 4)}
    assert server.all_hosts == {("a", 1), ("b", 2), ("c", 3), ("::1", 4)}
    assert (server.me, server.primary) == (("a", 1), ("b", 2))
    assert (server.min_wire_version, server.max_wire_version) == (1, 21)
    assert (server.max_bson_object_size, server.max_message_size, server.max_write_batch_size) == (5, 6, 7)
    assert server.logical_session_timeout_minutes == 30
    assert server.topology_version == version
    assert server.last_write_date == 60.0
    assert server.is_cryptd is True
    assert server.cluster_time == {"clusterTime": 1}
    assert (server.round_trip_time, server.min_round_trip_time, server.last_update_time) == (0.01, 0.005, 5.0)
    assert server.is_writable
    assert server.is_readable
    assert server.retryable_writes_supported


def test_defaults_of_a_server_that_announces_nothing() -> None:
    server = hello()
    assert server.max_bson_object_size == 16 * 1024 * 1024
    assert server.max_message_size == 48_000_000
    assert server.max_write_batch_size == 100_000
    assert (server.min_wire_version, server.max_wire_version) == (0, 0)
    assert server.logical_session_timeout_minutes is None
    assert (server.me, server.primary, server.last_write_date, server.set_version) == (None, None, None, None)
    assert server.tags == {}
    assert type(hello(maxWireVersion=21.0).max_wire_version) is int, "a whole double is an integer"


@pytest.mark.parametrize(
    ("server", "is_readable", "is_writable", "retries_writes"),
    [
        (hello(), True, True, False),
        (hello(setName="rs", secondary=True, logicalSessionTimeoutMinutes=30), True, False, False),
        (ServerDescription.load_balancer(ADDRESS), True, True, True),
        (ServerDescription.unknown(ADDRESS, error=AutoReconnect("gone")), False, False, False),
    ],
    ids=["standalone", "secondary", "load balancer", "unknown"],
)
def test_what_a_server_serves(
    server: ServerDescription, is_readable: bool, is_writable: bool, retries_writes: bool
) -> None:
    assert (server.is_readable, server.is_writable) == (is_readable, is_writable)
    assert server.retryable_writes_supported is retries_writes
    assert server.is_server_type_known is is_readable
    if not is_readable:
        assert server.server_type is ServerType.Unknown
        assert is_kept_copy(server.error, AutoReconnect("gone"))
        assert (server.round_trip_time, server.last_update_time) == (None, -math.inf)


@pytest.mark.parametrize(
    "date",
    [DatetimeMS(60_500), datetime(1970, 1, 1, 0, 1, 0, 500_000, tzinfo=UTC)],
    ids=["milliseconds", "aware"],
)
def test_last_write_date_in_every_form_that_the_codec_gives(date: object) -> None:
    assert hello(lastWrite={"lastWriteDate": date}).last_write_date == 60.5


def test_reply_with_an_error_gives_an_unknown_server() -> None:
    server = ServerDescription.from_hello(
        ADDRESS,
        {"ok": 0, "errmsg": "not today", "code": 18},
        round_trip_time=0.1,
        min_round_trip_time=0.0,
        now=7.0,
    )
    assert server.server_type is ServerType.Unknown
    assert isinstance(server.error, OperationFailure)
    assert "not today" in str(server.error)
    assert server.round_trip_time is None
    assert server.last_update_time == 7.0


@pytest.mark.parametrize(
    "fields",
    [
        {"hosts": "a:1"},
        {"hosts": [1]},
        {"hosts": ["a:port"]},
        {"hosts": ["a:70000"]},
        {"setName": 5},
        {"me": 5},
        {"tags": []},
        {"electionId": "x"},
        {"topologyVersion": 1},
        {"lastWrite": 1},
        {"lastWrite": {"lastWriteDate": "today"}},
        {"lastWrite": {"lastWriteDate": True}},
        {"lastWrite": {"lastWriteDate": Int64(1)}},
    ],
    ids=str,
)
def test_nonsense_is_a_protocol_error(fields: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError, match="hello"):
        hello(**fields)


def test_equality_ignores_times() -> None:
    assert hello(round_trip_time=1.0, now=1.0) == hello(round_trip_time=2.0, now=2.0)


@pytest.mark.parametrize(
    "fields",
    [
        {"msg": "isdbgrid"},
        {"maxWireVersion": 9},
        {"minWireVersion": 1},
        {"tags": {"a": "b"}},
        {"hosts": ["a:1"]},
        {"passives": ["a:1"]},
        {"arbiters": ["a:1"]},
        {"me": "a:1"},
        {"primary": "a:1"},
        {"setName": "rs"},
        {"setVersion": 1},
        {"electionId": ObjectId("65a000000000000000000001")},
        {"logicalSessionTimeoutMinutes": 1},
        {"topologyVersion": {"processId": 1, "counter": 1}},
        {"iscryptd": True},
    ],
    ids=str,
)
def test_every_marked_field_makes_a_difference(fields: dict[str, Any]) -> None:
    assert hello() != hello(**fields)
    assert hello(**fields) == hello(**fields)


def test_equality_of_errors_is_by_kind_and_text() -> None:
    def failed(error: AutoReconnect | None) -> ServerDescription:
        return ServerDescription.unknown(ADDRESS, error=error)

    assert failed(AutoReconnect("gone")) == failed(AutoReconnect("gone"))
    assert failed(AutoReconnect("gone")) != failed(AutoReconnect("lost"))
    assert failed(AutoReconnect("gone")) != failed(NetworkTimeout("gone"))
    assert failed(AutoReconnect("gone")) != failed(None)
    assert failed(None) != "a description"


def test_repr_names_server_type_and_error() -> None:
    assert repr(hello()) == "<ServerDescription ('a', 27017) server_type: Standalone, rtt: 0.01>"
    text = repr(ServerDescription.unknown(ADDRESS, error=AutoReconnect("gone")))
    assert "server_type: Unknown" in text
    assert "gone" in text


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("a", ("a", 27017)),
        ("Host.Example:1", ("host.example", 1)),
        ("[::1]:5", ("::1", 5)),
        ("[FE80::1]", ("fe80::1", 27017)),
        ("[0:0::1]:5", ("::1", 5)),
        ("[fe80::1%eth0]:5", ("fe80::1%eth0", 5)),
        ("[FE80::1%enP2p1s0]", ("fe80::1%enP2p1s0", 27017)),
        ("10.0.0.1:65535", ("10.0.0.1", 65535)),
        ("B\u00dccher.example:1", ("b\u00fccher.example", 1)),
        ("a.", ("a.", 27017)),
    ],
)
def test_parse_address(text: str, address: tuple[str, int | None]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.3\0.mongodb.net:27017",
        "a\0:1",
        "a b:1",
        "a\n:1",
        "a\u00a0b:1",
        "a\u200bb:1",
        "a/b:1",
        "/tmp/mongodb.sock",
        "/tmp/mongodb.sock:1",
        "user@a:1",
        "a?x:1",
        "a#x:1",
        "a%41:1",
        "a,b:1",
        "a\\b:1",
        "",
        ":1",
        ".:1",
        ".a:1",
        "a..b:1",
        "a" * 256,
        "a:",
        "a:0",
        "a:65536",
        "a:+1",
        "a:1_0",
        "a:\u0661",
        "a:1:2",
        "::1",
        "::1:27017",
        "[::1:27017",
        "::1]:27017",
        "[::1]27017",
        "[::1]:",
        "[::1]x:1",
        "[a]:1",
        "[]:1",
        "[::1%\0.mongodb.net]:1",
        "[::1%a b]:1",
        "[::1%]:1",
    ],
)
@pytest.mark.parametrize("name", ["hosts", "passives", "arbiters", "me", "primary"])
def test_hosts_are_read_as_strictly_as_those_of_a_connection_string(name: str, text: str) -> None:
    value: Any = text if name in ("me", "primary") else ["a:1", text]
    if text or name not in ("me", "primary"):
        with pytest.raises(ProtocolError, match=r"names an invalid member: .* is not a host and a port"):
            hello(**{name: value})
    if not text.startswith("/"):  # a socket of the client's own machine is for its connection string only
        with pytest.raises(InvalidURI):
            parse_hosts(text.replace("%", "%25").replace(",", "%2C"), 27017)


def test_a_long_text_that_is_no_host_is_cut_in_the_error() -> None:
    with pytest.raises(ProtocolError) as caught:
        hello(hosts=["a" * 100_000])
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "value", ["x" * 1_000_000, [["x"] * 10_000], {"x": "y" * 1_000_000}], ids=["text", "list", "map"]
)
@pytest.mark.parametrize(
    "fields",
    [
        lambda value: {"maxWireVersion": value},
        lambda value: {"maxBsonObjectSize": value},
        lambda value: {"setVersion": value},
        lambda value: {"electionId": value},
        lambda value: {"me": [value]},
        lambda value: {"hosts": [[value]]},
        lambda value: {"lastWrite": [value]},
        lambda value: {"lastWrite": {"lastWriteDate": value}},
    ],
)
def test_no_value_of_the_wrong_type_is_in_the_error(fields: Callable[[Any], dict[str, Any]], value: Any) -> None:
    with pytest.raises(ProtocolError) as caught:
        hello(**fields(value))
    assert len(str(caught.value)) < 200


def members(count: int, prefix: str = "h") -> list[str]:
    return [f"{prefix}{number}:1" for number in range(count)]


@pytest.mark.parametrize("name", ["hosts", "passives", "arbiters"])
def test_no_more_members_are_followed_than_a_replica_set_can_have(name: str) -> None:
    fields: dict[str, Any] = {name: members(100)}
    assert len(hello(**fields).all_hosts) == 100
    with pytest.raises(ProtocolError, match="the deployment would have 101 members; at most 100 are followed"):
        hello(**{**fields, name: members(101)})


def test_members_of_all_kinds_count_together() -> None:
    fields: dict[str, Any] = {name: members(40, name) for name in ("hosts", "passives", "arbiters")}
    with pytest.raises(ProtocolError, match="would have 120 members; at most 100"):
        hello(**fields)


LIMITS = ("maxBsonObjectSize", "maxMessageSizeBytes", "maxWriteBatchSize")
NUMBERS = ("minWireVersion", "maxWireVersion", "setVersion", "logicalSessionTimeoutMinutes", *LIMITS)
NO_NUMBERS: list[Any] = [-1, -(2**31), True, "1", 1.5, float("nan"), float("inf"), [], {}]


@pytest.mark.parametrize(
    ("field", "value"),
    [*((field, value) for field in NUMBERS for value in NO_NUMBERS), *((field, 0) for field in LIMITS)],
    ids=str,
)
def test_numbers_that_cannot_be(field: str, value: Any) -> None:
    with pytest.raises(ProtocolError, match=field):
        hello(**{field: value})


@pytest.mark.parametrize(
    ("known", "news", "expected"),
    [
        (None, (1, 1), -1),
        ((1, 1), None, -1),
        ((1, 5), (2, 1), -1),
        ((1, 1), (1, 2), -1),
        ((1, 2), (1, 2), 0),
        ((1, 3), (1, 2), 1),
        ((1, 3), (1, "x"), -1),
    ],
)
def test_compare_topology_versions(known: tuple[int, int] | None, news: tuple[int, Any] | None, expected: int) -> None:
    def version(pair: tuple[int, Any] | None) -> dict[str, Any] | None:
        return None if pair is None else {"processId": pair[0], "counter": pair[1]}

    assert compare_topology_versions(version(known), version(news)) == expected
