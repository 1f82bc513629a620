"""Test files of our own, one of each format, and what a run of them writes down."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.spec import __main__ as command
from tests.support import specifications

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# Why tests that need public data cannot be run.
NO_DATA = specifications.not_run()
needs_data = pytest.mark.skipif(NO_DATA is not None, reason=str(NO_DATA))


def write(file: Path, content: Any) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))
    return file


def records_of(*arguments: object, status: int, report_file: Path) -> list[dict[str, Any]]:
    """What a run writes down, and that it ends with this exit status."""
    assert command.main([*map(str, arguments), "--report", str(report_file)]) == status
    found: list[dict[str, Any]] = json.loads(report_file.read_text())
    return found


# --- one test of each format; the second content is wrong about the driver ---

A = {"address": "a:27017", "type": "Standalone", "avg_rtt_ms": 5}
TOPOLOGY = {"type": "Single", "servers": [A]}
WINDOWS = {"suitable_servers": [A], "in_latency_window": [A]}
URI = {"description": "one", "uri": "mongodb://a/?appname=x", "valid": True, "warning": False, "auth": None}
HELLO = {"ok": 1, "isWritablePrimary": True, "minWireVersion": 0, "maxWireVersion": 21}
UNKNOWN = {"address": "a:27017", "type": "Unknown", "hosts": [], "passives": [], "arbiters": []}


def listed(**fields: Any) -> dict[str, Any]:
    return {"tests": [{"description": "one", **fields}]}


def sdam(kind: str) -> dict[str, Any]:
    outcome = {"topologyType": "Single", "servers": {"a:27017": {"type": kind}}}
    phase = {"responses": [["a:27017", HELLO]], "outcome": outcome}
    return {"description": "one", "uri": "mongodb://a/?directConnection=true", "phases": [phase]}


def sdam_monitoring(kind: str) -> dict[str, Any]:
    described = [{"topologyType": "Single", "servers": [{**UNKNOWN, "type": one}]} for one in ("Unknown", kind)]
    nothing: dict[str, Any] = {"topologyType": "Unknown", "servers": []}
    events = [
        {"topology_opening_event": {"topologyId": "42"}},
        {"topology_description_changed_event": {"previousDescription": nothing, "newDescription": described[0]}},
        {"server_opening_event": {"topologyId": "42", "address": "a:27017"}},
        {
            "server_description_changed_event": {
                "address": "a:27017",
                "previousDescription": UNKNOWN,
                "newDescription": {**UNKNOWN, "type": "Standalone"},
            }
        },
        {"topology_description_changed_event": {"previousDescription": described[0], "newDescription": described[1]}},
    ]
    phase = {"responses": [["a:27017", HELLO]], "outcome": {"events": events}}
    return {"description": "one", "uri": "mongodb://a/?directConnection=true", "phases": [phase]}


def in_window(share: float) -> dict[str, Any]:
    servers = [{"address": f"{host}:27017", "type": "Mongos", "avg_rtt_ms": 5} for host in "ab"]
    return {
        "description": "one",
        "topology_description": {"type": "Sharded", "servers": servers},
        "mocked_topology_state": [
            {"address": "a:27017", "operation_count": 0},
            {"address": "b:27017", "operation_count": 5},
        ],
        "iterations": 100,
        "outcome": {"tolerance": 0.05, "expected_frequencies": {"a:27017": share}},
    }


def cmap(*events: str) -> dict[str, Any]:
    return {
        "version": 1,
        "style": "unit",
        "description": "one",
        "operations": [{"name": "ready"}, {"name": "clear"}],
        "events": [{"type": event} for event in events],
    }


def dns_seedlist(port: int) -> dict[str, Any]:
    return {
        "uri": "mongodb+srv://test3.test.build.10gen.cc/?replicaSet=repl0",
        "seeds": [f"localhost.test.build.10gen.cc:{port}"],
        "hosts": [f"localhost:{port}" for port in (27017, 27018, 27019)],
        "options": {"replicaSet": "repl0", "ssl": True},
    }


CREDENTIAL = {"username": "u", "password": "p", "source": "admin", "mechanism": None, "mechanism_properties": None}
READ_CONCERN = {"valid": True, "readConcern": {"level": "local"}, "isServerDefault": False}
UNIFIED: dict[str, Any] = {
    "description": "own",
    "schemaVersion": "1.28",
    "createEntities": [
        {"client": {"id": "client0"}},
        {"database": {"id": "database0", "client": "client0", "databaseName": "motorlite_test_own"}},
    ],
}


def unified(ok: int) -> dict[str, Any]:
    arguments = {"commandName": "ping", "command": {"ping": 1}}
    ping = {"name": "runCommand", "object": "database0", "arguments": arguments, "expectResult": {"ok": ok}}
    return {**UNIFIED, "tests": [{"description": "one", "operations": [ping]}]}


FILES: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "unified": (unified(1), unified(2)),
    "connection-string": (
        listed(**{**URI, "hosts": [{"type": "hostname", "host": "a", "port": None}], "options": {"appname": "x"}}),
        listed(**{**URI, "hosts": [{"type": "hostname", "host": "b", "port": None}], "options": {"appname": "x"}}),
    ),
    "uri-options": (
        listed(**{**URI, "hosts": None, "options": {"appname": "x"}}),
        listed(**{**URI, "hosts": None, "options": {"appname": "y"}}),
    ),
    "auth-connection-string": (
        listed(uri="mongodb://u:p@a", valid=True, credential=CREDENTIAL),
        listed(uri="mongodb://u:p@a", valid=True, credential={**CREDENTIAL, "source": "other"}),
    ),
    "concern-connection-string": (
        listed(uri="mongodb://a/?w=2", valid=True, warning=False, writeConcern={"w": 2}),
        listed(uri="mongodb://a/?w=2", valid=True, warning=False, writeConcern={"w": 3}),
    ),
    "concern-document": (
        listed(**READ_CONCERN, readConcernDocument={"level": "local"}),
        listed(**READ_CONCERN, readConcernDocument={"level": "majority"}),
    ),
    "sdam": (sdam("Standalone"), sdam("Mongos")),
    "sdam-monitoring": (sdam_monitoring("Standalone"), sdam_monitoring("Mongos")),
    "server-selection": (
        {"topology_description": TOPOLOGY, "operation": "write", **WINDOWS},
        {"topology_description": TOPOLOGY, "operation": "write", **WINDOWS, "in_latency_window": []},
    ),
    "round-trip-time": (
        {"avg_rtt_ms": 1, "new_rtt_ms": 1000, "new_avg_rtt": 200.8},
        {"avg_rtt_ms": 1, "new_rtt_ms": 1000, "new_avg_rtt": 200.9},
    ),
    "in-window": (in_window(1), in_window(0.5)),
    "max-staleness": (
        {"topology_description": TOPOLOGY, "read_preference": {"mode": "Nearest"}, **WINDOWS},
        {"topology_description": TOPOLOGY, "read_preference": {"mode": "Nearest"}, "error": True},
    ),
    "cmap": (
        cmap("ConnectionPoolCreated", "ConnectionPoolReady", "ConnectionPoolCleared"),
        cmap("ConnectionPoolCreated", "ConnectionPoolCleared"),
    ),
    "dns-seedlist": (dns_seedlist(27017), dns_seedlist(27018)),
}
