"""Server discovery and monitoring: replies and errors in, descriptions out ("sdam")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from motorlite._base.error_documents import RETRYABLE, SYSTEM_OVERLOADED
from motorlite._topology.error_handling import ErrorFacts, on_check_error, on_error
from motorlite._topology.server_description import ServerDescription, parse_address
from motorlite._wire.replies import error_from_reply
from motorlite.errors import AutoReconnect, NetworkTimeout, PyMongoError
from tests.spec.formats.base import Format, equal
from tests.spec.formats.topology_data import initial_topology, server_type
from tests.spec.unified.outcomes import Failed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._base.values import Address

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


def check(test: Mapping[str, Any]) -> None:
    """Compare the descriptions after each phase."""
    deployment = Deployment(test["uri"])
    for number, phase in enumerate(test["phases"]):
        for source, reply in phase.get("responses", ()):
            deployment.receive(source, reply)
        for event in phase.get("applicationErrors", ()):
            deployment.fail(event)
        _check_outcome(phase["outcome"], deployment, f"phase {number}")


def _check_outcome(outcome: Mapping[str, Any], deployment: Deployment, where: str) -> None:
    description = deployment.description
    servers = description.server_descriptions()
    equal(outcome["topologyType"], description.topology_type_name, f"{where}: topology type")
    equal({parse_address(address) for address in outcome["servers"]}, set(servers), f"{where}: servers")
    for text, expected in outcome["servers"].items():
        address = parse_address(text)
        _check_server(servers[address], expected, deployment.generations.get(address, 0), f"{where}: {text}")
    for field, attribute in TOPOLOGY_FIELDS.items():
        if field in outcome:
            equal(outcome[field], getattr(description, attribute), f"{where}: {field}")
    equal(outcome.get("compatible", True), description.compatibility_error is None, f"{where}: compatible")


def _check_server(server: ServerDescription, expected: Mapping[str, Any], generation: int, where: str) -> None:
    equal(server_type(expected["type"]), server.server_type_name, f"{where}: type")
    for name, attribute in SERVER_FIELDS.items():
        if name in expected:
            # Wire versions have the default 0, everything else None.
            equal(expected[name] or None, getattr(server, attribute) or None, f"{where}: {name}")
    if "error" in expected and expected["error"] not in str(server.error):
        raise Failed(f"{where}: error: expected {expected['error']!r} in it, found {str(server.error)!r}")
    if "pool" in expected:
        equal(expected["pool"]["generation"], generation, f"{where}: generation of the pool")


def outcomes(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The outcomes of the phases of what looks like a file of this kind."""
    phases = content.get("phases")
    found = [phase.get("outcome") for phase in phases if isinstance(phase, dict)] if isinstance(phases, list) else []
    return [outcome for outcome in found if isinstance(outcome, dict)]


def _is_sdam(content: Mapping[str, Any]) -> bool:
    return any("topologyType" in outcome for outcome in outcomes(content))


SDAM: Final = Format("sdam", check, _is_sdam, is_extended=True)
