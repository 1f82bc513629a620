"""Public tests of server discovery and monitoring: replies and errors in, descriptions out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from motorlite._topology.error_handling import ErrorFacts, on_check_error, on_error
from motorlite._topology.server_description import ServerDescription, parse_address
from motorlite.errors import (
    RETRYABLE,
    SYSTEM_OVERLOADED,
    AutoReconnect,
    NetworkTimeout,
    PyMongoError,
    error_from_reply,
)
from tests.spec.topology_data import cases, initial_topology

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite.values import Address

SERVER_FIELDS = {
    "setName": "replica_set_name",
    "setVersion": "set_version",
    "electionId": "election_id",
    "logicalSessionTimeoutMinutes": "logical_session_timeout_minutes",
    "topologyVersion": "topology_version",
    "minWireVersion": "min_wire_version",
    "maxWireVersion": "max_wire_version",
}
TOPOLOGY_FIELDS = {
    "setName": "replica_set_name",
    "maxSetVersion": "max_set_version",
    "maxElectionId": "max_election_id",
    "logicalSessionTimeoutMinutes": "logical_session_timeout_minutes",
}


class Deployment:
    """The topology and the pool generations, as a shell would keep them."""

    def __init__(self, uri: str) -> None:
        self.description = initial_topology(uri)
        self.generations: dict[Address, int] = {}

    def receive(self, source: str, reply: Mapping[str, Any]) -> None:
        address = parse_address(source)
        known = self.description.server_descriptions().get(address)
        if reply:
            news = ServerDescription.from_hello(address, reply, round_trip_time=0.001, min_round_trip_time=0.0, now=1.0)
            self.description = self.description.apply(news)
        elif known is not None:
            self._perform(address, on_check_error(known, AutoReconnect("connection closed"), now=1.0))

    def fail(self, event: Mapping[str, Any]) -> None:
        """An error of an application's connection."""
        address = parse_address(event["address"])
        known = self.description.server_descriptions()[address]
        generation = self.generations.get(address, 0)
        is_handshake = event["when"] == "beforeHandshakeCompletes"
        facts = ErrorFacts(
            error=_error(event, is_handshake),
            during_handshake=is_handshake,
            is_stale_generation=event.get("generation", generation) < generation,
        )
        self._perform(address, on_error(known, facts))

    def _perform(self, address: Address, effect: Any) -> None:
        if effect.description is not None:
            self.description = self.description.apply(effect.description)
        if effect.clear_pool:
            self.generations[address] = self.generations.get(address, 0) + 1


def _error(event: Mapping[str, Any], is_handshake: bool) -> PyMongoError:
    if event["type"] == "command":
        return error_from_reply(event["response"])
    error = NetworkTimeout("timed out") if event["type"] == "timeout" else AutoReconnect("connection reset")
    if is_handshake:
        # Pooling specification: network errors up to the end of hello are overload errors.
        error._add_error_label(SYSTEM_OVERLOADED)
        error._add_error_label(RETRYABLE)
    return error


def _check_server(server: ServerDescription, expected: Mapping[str, Any], generation: int) -> None:
    assert server.server_type_name == expected["type"].replace("PossiblePrimary", "Unknown")
    for name, attribute in SERVER_FIELDS.items():
        if name in expected:
            # Wire versions have the default 0, everything else None.
            assert (getattr(server, attribute) or None) == (expected[name] or None), name
    if "error" in expected:
        assert expected["error"] in str(server.error)
    if "pool" in expected:
        assert generation == expected["pool"]["generation"]


@pytest.mark.parametrize(
    "test",
    cases("server-discovery-and-monitoring/tests", "rs", "single", "sharded", "load-balanced", "errors"),
)
def test_descriptions(test: dict[str, Any]) -> None:
    deployment = Deployment(test["uri"])
    for phase in test["phases"]:
        for source, reply in phase.get("responses", ()):
            deployment.receive(source, reply)
        for event in phase.get("applicationErrors", ()):
            deployment.fail(event)
        outcome = phase["outcome"]
        description = deployment.description
        servers = description.server_descriptions()
        assert description.topology_type_name == outcome["topologyType"]
        assert set(servers) == {parse_address(address) for address in outcome["servers"]}
        for text, expected in outcome["servers"].items():
            address = parse_address(text)
            _check_server(servers[address], expected, deployment.generations.get(address, 0))
        for field, attribute in TOPOLOGY_FIELDS.items():
            if field in outcome:
                assert getattr(description, attribute) == outcome[field], field
        assert (description.compatibility_error is None) is outcome.get("compatible", True)
