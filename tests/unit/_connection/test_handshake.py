from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from bson import Int64, ObjectId

from motorlite._base import wire_versions
from motorlite._connection.handshake import hello_document, incompatibility, monitor_hello, parse_hello, server_type
from motorlite._topology.server_description import WRITABLE_TYPES, ServerDescription
from motorlite.errors import ConfigurationError, OperationFailure, ProtocolError
from motorlite.topology_description import ServerType

ADDRESS = ("db.example", 27017)
METADATA = {"driver": {"name": "motorlite"}}
API: Any = SimpleNamespace(version="1", strict=True, deprecation_errors=False)
BARE_API: Any = SimpleNamespace(version="1", strict=None, deprecation_errors=None)
COMMON = {"helloOk": True, "backpressure": True, "client": METADATA, "compression": []}
LEGACY = {"isMaster": 1, **COMMON}
MODERN = {"hello": 1, **COMMON}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, LEGACY),
        ({"legacy": False}, MODERN),
        # The versioned API and load balancers know only hello, whatever the caller says.
        ({"server_api": BARE_API}, MODERN | {"apiVersion": "1"}),
        (
            {"server_api": API},
            MODERN | {"apiVersion": "1", "apiStrict": True, "apiDeprecationErrors": False},
        ),
        ({"load_balanced": True}, MODERN | {"loadBalanced": True}),
        ({"compressors": ("zstd", "zlib")}, LEGACY | {"compression": ["zstd", "zlib"]}),
        ({"backpressure": "2"}, LEGACY | {"backpressure": "2"}),
        ({"backpressure": False}, {name: value for name, value in LEGACY.items() if name != "backpressure"}),
        (
            {"sasl_supported_mechs": "admin.user", "speculative_authenticate": {"saslStart": 1}},
            LEGACY | {"saslSupportedMechs": "admin.user", "speculativeAuthenticate": {"saslStart": 1}},
        ),
    ],
)
def test_hello_document(options: dict[str, Any], expected: dict[str, Any]) -> None:
    document = hello_document(metadata=METADATA, **options)
    assert document == expected
    assert type(document.get("backpressure")) is type(expected.get("backpressure"))
    # The command's name must come first on the wire.
    assert next(iter(document)) == next(iter(expected))


@pytest.mark.parametrize(
    ("arguments", "server_api", "expected"),
    [
        ((False,), None, {"isMaster": 1, "helloOk": True}),
        ((True,), None, {"hello": 1, "helloOk": True}),
        (
            (True, {"counter": 3}, 10_000),
            None,
            {"hello": 1, "helloOk": True, "topologyVersion": {"counter": 3}, "maxAwaitTimeMS": 10_000},
        ),
        # Only both together make the server wait.
        ((True, None, 10_000), None, {"hello": 1, "helloOk": True}),
        ((True, {"counter": 3}, None), None, {"hello": 1, "helloOk": True}),
        ((False,), BARE_API, {"hello": 1, "helloOk": True, "apiVersion": "1"}),
    ],
)
def test_later_hellos_carry_no_handshake(arguments: tuple[Any, ...], server_api: Any, expected: dict[str, Any]) -> None:
    assert monitor_hello(*arguments, server_api=server_api) == expected


def test_a_full_reply() -> None:
    service_id = ObjectId()
    reply = {
        "helloOk": True,
        "setName": "rs",
        "maxBsonObjectSize": 1000,
        "maxMessageSizeBytes": 2000.0,
        "maxWriteBatchSize": Int64(30),
        "logicalSessionTimeoutMinutes": 30,
        "connectionId": Int64(5_000_000_000),
        "minWireVersion": 0,
        "maxWireVersion": 17,
        "serviceId": service_id,
        "topologyVersion": {"counter": Int64(1)},
        "saslSupportedMechs": ["SCRAM-SHA-1", "x"],
        "speculativeAuthenticate": {"payload": b"secret"},
        "compression": ["zlib"],
        "ok": 1.0,
    }
    handshake = parse_hello(ADDRESS, reply, False)
    facts = handshake.facts
    assert (facts.address, facts.min_wire_version, facts.max_wire_version) == (ADDRESS, 0, 17)
    assert (facts.max_bson_object_size, facts.max_message_size, facts.max_write_batch_size) == (
        1000,
        2000,
        30,
    )
    assert (facts.is_standalone, facts.is_mongos, facts.is_load_balanced) == (False, False, False)
    assert facts.session_timeout_minutes == 30
    assert handshake.hello_ok
    assert not handshake.is_arbiter
    assert handshake.server_connection_id == 5_000_000_000
    assert handshake.service_id is None, "there is no load balancer"
    assert handshake.topology_version == {"counter": 1}
    assert handshake.sasl_supported_mechs == ("SCRAM-SHA-1", "x")
    assert handshake.speculative_reply == {"payload": b"secret"}
    assert handshake.compression == ("zlib",)
    assert handshake.reply is reply
    assert repr(handshake) == "<Handshake db.example:27017 wire version 17>"


def test_a_bare_reply() -> None:
    handshake = parse_hello(ADDRESS, {"ok": 1, "maxWireVersion": 8}, False)
    facts = handshake.facts
    assert facts.is_standalone
    assert facts.session_timeout_minutes is None
    assert (facts.max_bson_object_size, facts.max_message_size) == (16 * 1024 * 1024, 48_000_000)
    assert facts.max_write_batch_size == 100_000
    assert not handshake.hello_ok
    assert handshake.server_connection_id is None
    assert handshake.sasl_supported_mechs is None
    assert handshake.speculative_reply is None
    assert handshake.compression == ()


def test_no_limit_is_believed_that_a_message_cannot_have() -> None:
    names = ("maxBsonObjectSize", "maxMessageSizeBytes", "maxWriteBatchSize")
    facts = parse_hello(ADDRESS, {"ok": 1, "maxWireVersion": 8, **dict.fromkeys(names, 2**62)}, False).facts
    assert (facts.max_bson_object_size, facts.max_message_size, facts.max_write_batch_size) == (2**31 - 1,) * 3


# The fields that decide what a server is.
KINDS: dict[str, tuple[Any, ...]] = {
    "arbiterOnly": (True, 1, False, None),
    "setName": ("rs", "", None),
    "isWritablePrimary": (True, False, None),
    "ismaster": (True, None),
    "secondary": (True, None),
    "hidden": (True, None),
    "isreplicaset": (True, None),
    "msg": ("isdbgrid", None),
}


def test_discovery_and_handshake_agree() -> None:
    arbiters = 0
    for values in product(*KINDS.values()):
        fields = {name: value for name, value in zip(KINDS, values, strict=True) if value is not None}
        reply = {"ok": 1, "maxWireVersion": 17, **fields}
        described = ServerDescription.from_hello(ADDRESS, reply, round_trip_time=0.1, min_round_trip_time=0.1, now=1.0)
        handshake = parse_hello(ADDRESS, reply, False)
        assert handshake.is_arbiter is (described.server_type is ServerType.RSArbiter)
        assert handshake.facts.is_standalone is (described.server_type is ServerType.Standalone)
        assert handshake.facts.is_mongos is (described.server_type is ServerType.Mongos)
        assert not (handshake.is_arbiter and described.server_type in WRITABLE_TYPES | {ServerType.RSSecondary})
        arbiters += handshake.is_arbiter
    assert arbiters


@pytest.mark.parametrize("arbiter", [True, 1, "yes"])
def test_an_arbiter_is_a_member_that_is_nothing_else(arbiter: object) -> None:
    assert server_type({"setName": "rs", "arbiterOnly": arbiter}) is ServerType.RSArbiter
    assert server_type({"arbiterOnly": arbiter}) is ServerType.Standalone
    assert server_type({"setName": "rs", "arbiterOnly": arbiter, "ismaster": True}) is ServerType.RSPrimary
    assert server_type({"setName": "rs", "arbiterOnly": arbiter, "secondary": True}) is ServerType.RSSecondary


@pytest.mark.parametrize(("wire_version", "mongodb"), [(0, "2.4"), (2, "2.6"), (6, "3.6"), (7, "4.0"), (None, "2.4")])
def test_old_servers_are_refused_with_both_versions(wire_version: int | None, mongodb: str) -> None:
    reply = {"ok": 1} | ({} if wire_version is None else {"maxWireVersion": wire_version})
    with pytest.raises(ConfigurationError) as raised:
        parse_hello(ADDRESS, reply, False)
    assert str(raised.value).startswith(
        f"Server at db.example:27017 reports wire version {wire_version or 0} (MongoDB {mongodb}), "
        "but this version of motorlite requires at least 8 (MongoDB 4.2)."
    )
    assert raised.value.address == ADDRESS


def test_servers_of_the_future_are_refused_only_when_they_drop_today() -> None:
    assert incompatibility(ADDRESS, 0, wire_versions.NEWEST + 50) is None
    assert incompatibility(ADDRESS, wire_versions.NEWEST, wire_versions.NEWEST) is None
    refusal = incompatibility(ADDRESS, wire_versions.NEWEST + 1, wire_versions.NEWEST + 50)
    assert refusal is not None
    assert f"requires wire version {wire_versions.NEWEST + 1}" in refusal
    assert f"only supports up to {wire_versions.NEWEST}" in refusal


def test_a_load_balancer_must_name_the_service() -> None:
    with pytest.raises(ConfigurationError) as raised:
        parse_hello(ADDRESS, {"ok": 1, "maxWireVersion": 17}, True)
    assert str(raised.value.args[0]) == (
        "Driver attempted to initialize in load balancing mode, but the server does not support this mode."
    )


def test_a_service_behind_a_load_balancer() -> None:
    service_id = ObjectId()
    reply = {"ok": 1, "maxWireVersion": 17, "serviceId": service_id, "logicalSessionTimeoutMinutes": 30}
    handshake = parse_hello(ADDRESS, reply, True)
    assert handshake.service_id == service_id
    assert handshake.facts.is_load_balanced
    assert not handshake.facts.is_standalone
    assert handshake.facts.supports_sessions
    assert handshake.facts.session_timeout_minutes is None, "sessions do not expire for the client"
    with pytest.raises(ProtocolError, match="serviceId must be an ObjectId, got int"):
        parse_hello(ADDRESS, reply | {"serviceId": 1}, True)


@pytest.mark.parametrize("ok", [0, 2, -1, "yes", {}, [1], None])
def test_a_refused_handshake(ok: object) -> None:
    reply = {"ok": ok, "maxWireVersion": 17, "errmsg": "busy", "errorLabels": ["SystemOverloadedError"]}
    with pytest.raises(OperationFailure, match="busy") as raised:
        parse_hello(ADDRESS, reply, False)
    assert raised.value.address == ADDRESS
    assert raised.value.has_error_label("SystemOverloadedError")


@pytest.mark.parametrize(
    ("answered", "accepted"),
    [("zlib", ()), (5, ()), ({"zlib": 1}, ()), ([5, None, "zlib"], (5, None, "zlib")), ([["zlib"]], (["zlib"],))],
)
def test_strange_answers_to_the_offer_of_compressors(answered: object, accepted: tuple[Any, ...]) -> None:
    assert parse_hello(ADDRESS, {"ok": 1, "maxWireVersion": 17, "compression": answered}, False).compression == accepted


@pytest.mark.parametrize(
    "fields",
    [
        {"maxWireVersion": "17"},
        {"maxWireVersion": True},
        {"maxWireVersion": float("nan")},
        {"maxWireVersion": float("inf")},
        {"maxWireVersion": 17.5},
        {"maxBsonObjectSize": 0},
        {"maxMessageSizeBytes": -1},
        {"maxWriteBatchSize": []},
        {"connectionId": "1"},
        {"topologyVersion": 1},
        {"speculativeAuthenticate": b"x"},
    ],
)
def test_fields_of_the_wrong_type(fields: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError, match=next(iter(fields))):
        parse_hello(ADDRESS, {"ok": 1, "maxWireVersion": 17} | fields, False)
