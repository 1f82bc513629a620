"""What a server is by its hello, and that discovery and handshake never disagree about it."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from motorlite._connection.handshake import parse_hello, server_type
from motorlite._topology.server_description import WRITABLE_TYPES, ServerDescription
from motorlite.topology_description import ServerType

ADDRESS = ("a", 1)
VALUES: dict[str, tuple[Any, ...]] = {
    "arbiterOnly": (True, 1, False, None),
    "setName": ("rs", "", None),
    "isWritablePrimary": (True, False, None),
    "ismaster": (True, None),
    "secondary": (True, None),
    "hidden": (True, None),
    "isreplicaset": (True, None),
    "msg": ("isdbgrid", None),
}


def replies() -> list[dict[str, Any]]:
    """Every combination of the fields that decide."""
    found = (dict(zip(VALUES, values, strict=True)) for values in product(*VALUES.values()))
    always = {"ok": 1, "maxWireVersion": 17}
    return [always | {name: value for name, value in fields.items() if value is not None} for fields in found]


def test_discovery_and_handshake_agree() -> None:
    arbiters = 0
    for reply in replies():
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
