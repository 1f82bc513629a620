from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from bson import Int64, ObjectId

from motorlite._base import wire_versions
from motorlite._connection.handshake import hello_document, incompatibility, monitor_hello, parse_hello
from motorlite.errors import ConfigurationError, OperationFailure, ProtocolError

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
        (
            {"sasl_supported_mechs": "admin.user", "speculative_authenticate": {"saslStart": 1}},
            LEGACY | {"saslSupportedMechs": "admin.user", "speculativeAuthenticate": {"saslStart": 1}},
        ),
    ],
)
def test_hello_document(options: dict[str, Any], expected: dict[str, Any]) -> None:
    document = hello_document(metadata=METADATA, **options)
    assert document == expected
    # The command's name must come first on the wire.
    assert next(iter(document)) == next(iter(expected))


def test_backpressure_is_a_boolean_and_can_be_left_out() -> None:
    assert hello_document(metadata=METADATA)["backpressure"] is True
    assert "backpressure" not in hello_document(metadata=METADATA, backpressure=False)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((False,), {"isMaster": 1, "helloOk": True}),
        ((True,), {"hello": 1, "helloOk": True}),
        (
            (True, {"counter": 3}, 10_000),
            {"hello": 1, "helloOk": True, "topologyVersion": {"counter": 3}, "maxAwaitTimeMS": 10_000},
        ),
        # Only both together make the server wait.
        ((True, None, 10_000), {"hello": 1, "helloOk": True}),
        ((True, {"counter": 3}, None), {"hello": 1, "helloOk": True}),
    ],
)
def test_later_hellos_carry_no_handshake(arguments: tuple[Any, ...], expected: dict[str, Any]) -> None:
    assert monitor_hello(*arguments) == expected


def test_later_hellos_with_the_versioned_api() -> None:
    assert monitor_hello(False, server_api=BARE_API) == {"hello": 1, "helloOk": True, "apiVersion": "1"}


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


@pytest.mark.parametrize(
    ("fields", "load_balanced", "kind"),
    [
        ({}, False, "standalone"),
        ({"msg": "isdbgrid"}, False, "mongos"),
        ({"setName": "rs"}, False, "member"),
        ({"isreplicaset": True}, False, "member"),
        ({"setName": "rs", "arbiterOnly": True}, False, "arbiter"),
        ({"msg": "isdbgrid", "serviceId": ObjectId()}, True, "mongos balanced"),
        ({"serviceId": ObjectId()}, True, "balanced"),
    ],
)
def test_kinds_of_servers(fields: dict[str, Any], load_balanced: bool, kind: str) -> None:
    handshake = parse_hello(ADDRESS, {"ok": 1, "maxWireVersion": 17, **fields}, load_balanced)
    facts = handshake.facts
    assert facts.is_standalone is ("standalone" in kind)
    assert facts.is_mongos is ("mongos" in kind)
    assert facts.is_load_balanced is ("balanced" in kind)
    assert handshake.is_arbiter is ("arbiter" in kind)


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
    assert handshake.facts.supports_sessions
    assert handshake.facts.session_timeout_minutes is None, "sessions do not expire for the client"
    with pytest.raises(ProtocolError, match="serviceId must be an ObjectId, got int"):
        parse_hello(ADDRESS, reply | {"serviceId": 1}, True)


def test_a_refused_handshake() -> None:
    reply = {"ok": 0, "errmsg": "busy", "code": 462, "errorLabels": ["SystemOverloadedError"]}
    with pytest.raises(OperationFailure, match="busy") as raised:
        parse_hello(ADDRESS, reply, False)
    assert raised.value.address == ADDRESS
    assert raised.value.has_error_label("SystemOverloadedError")


@pytest.mark.parametrize("ok", [0, 2, -1, "yes", {}, [1], None])
def test_only_one_is_ok(ok: object) -> None:
    with pytest.raises(OperationFailure):
        parse_hello(ADDRESS, {"ok": ok, "maxWireVersion": 17}, False)


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
