"""Discovery events: replies in, events out, on scripted servers in virtual time ("sdam-monitoring")."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import anyio

from motorlite import monitoring as events
from motorlite._base.values import format_address
from motorlite._client.core import Core
from motorlite._client.dependencies import Dependencies
from motorlite._options.options import client_options
from motorlite._topology.server_description import parse_address
from motorlite.testing.scripted import Close, Reply, ScriptedDeployment
from tests.spec.formats.base import Format, equal
from tests.spec.formats.sdam import outcomes
from tests.spec.formats.topology_data import server_type
from tests.spec.unified.outcomes import BadTest
from tests.support.events import Recorder
from tests.support.pools import settle
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from motorlite._base.values import Address
    from motorlite._net.runtime import Connector, Framer, Runtime
    from motorlite._net.tls import TLSContext
    from motorlite._options.parts import ProxyOptions
    from motorlite.testing.scripted import Answer

# The names of the events in the tests, and which of the descriptions they have.
_NAMES: Final = {
    events.TopologyOpenedEvent: "topology_opening_event",
    events.TopologyClosedEvent: "topology_closed_event",
    events.TopologyDescriptionChangedEvent: "topology_description_changed_event",
    events.ServerOpeningEvent: "server_opening_event",
    events.ServerClosedEvent: "server_closed_event",
    events.ServerDescriptionChangedEvent: "server_description_changed_event",
}
# Seconds within which every server is checked again.
_A_CHECK: Final = 11.0


class Discovery:
    """A client whose servers cannot be reached before the test has a reply of them."""

    def __init__(self, test: Mapping[str, Any]) -> None:
        self.log = Recorder(events.TopologyEvent)
        options = client_options(
            test["uri"],
            event_listeners=[self.log],
            serverMonitoringMode="poll",
            connectTimeoutMS=0,
        )
        self._deployment = ScriptedDeployment(dict.fromkeys(map(format_address, [*options.seeds, *_sources(test)])))
        self._doors: defaultdict[Address, anyio.Event] = defaultdict(anyio.Event)
        self._core = Core(options, Dependencies(connector=self._connector))

    def _connector(self, runtime: Runtime, tls: TLSContext | None, _proxy: ProxyOptions | None) -> Connector:
        connect = self._deployment.connector(runtime, tls)

        async def connect_when_open(address: Address, framer: Framer, until: float) -> Any:
            await self._doors[address].wait()
            return await connect(address, framer, until)

        return connect_when_open

    async def start(self) -> None:
        """Let the client begin."""
        self._core.enter()
        await settle()

    async def receive(self, source: str, reply: Mapping[str, Any]) -> None:
        """Let the next check of a server end with a reply, or with a network error when that is empty."""
        address = parse_address(source)
        if all(server.address != address for server in self._core.topology.servers):
            return  # the client has lost interest in it
        server = self._deployment[source]
        answer: Answer = Reply(reply) if reply else Close()
        for name in ("isMaster", "hello"):
            server.on(name, answer)
        seen = len(server.hellos)
        self._doors[address].set()
        await settle()
        await until(lambda: len(server.hellos) > seen, _A_CHECK)
        await settle()

    async def close(self) -> None:
        """End everything."""
        await self._core.close()
        await self._deployment.close()


def _sources(test: Mapping[str, Any]) -> Iterator[Address]:
    for phase in test["phases"]:
        for source, _ in phase.get("responses", ()):
            yield parse_address(source)


async def check(test: Mapping[str, Any]) -> None:
    """Compare what was published during each phase; the first one has what was published before any reply, too."""
    discovery = Discovery(test)
    try:
        await discovery.start()
        for number, phase in enumerate(test["phases"]):
            for source, reply in phase.get("responses", ()):
                await discovery.receive(source, reply)
            found, discovery.log.events = discovery.log.events, []
            _check_events(phase["outcome"]["events"], found, f"phase {number}")
    finally:
        await discovery.close()


def _check_events(expected: list[Mapping[str, Any]], found: list[Any], where: str) -> None:
    names = [name for event in expected for name in event]
    equal(names, [_NAMES[type(event)] for event in found], f"{where}: events")
    for number, (one, event) in enumerate(zip(expected, found, strict=True)):
        ((name, fields),) = one.items()
        _check_event(fields, event, f"{where}: event {number} ({name})")


def _check_event(fields: Mapping[str, Any], event: Any, where: str) -> None:
    for field, value in fields.items():
        match field:
            case "topologyId":
                equal(True, event.topology_id is not None, f"{where}: whether it has an id")
            case "address":
                equal(parse_address(value), event.server_address, f"{where}: {field}")
            case "previousDescription" | "newDescription":
                found = getattr(event, "previous_description" if field.startswith("previous") else "new_description")
                compare = _check_topology if "topologyType" in value else _check_server
                compare(value, found, f"{where}: {field}")
            case _:
                raise BadTest(f"{where}: the field {field} is not known")


def _check_topology(expected: Mapping[str, Any], found: Any, where: str) -> None:
    equal(expected["topologyType"], found.topology_type_name, f"{where}: type")
    equal(expected.get("setName"), found.replica_set_name, f"{where}: setName")
    servers = found.server_descriptions()
    equal([parse_address(server["address"]) for server in expected["servers"]], sorted(servers), f"{where}: servers")
    for server in expected["servers"]:
        address = parse_address(server["address"])
        _check_server(server, servers[address], f"{where}: {server['address']}")


def _check_server(expected: Mapping[str, Any], found: Any, where: str) -> None:
    equal(parse_address(expected["address"]), found.address, f"{where}: address")
    equal(server_type(expected["type"]), found.server_type_name, f"{where}: type")
    equal(expected.get("setName"), found.replica_set_name, f"{where}: setName")
    primary = expected.get("primary")
    equal(None if primary is None else parse_address(primary), found.primary, f"{where}: primary")
    for name in ("hosts", "passives", "arbiters"):
        equal(frozenset(map(parse_address, expected.get(name, ()))), getattr(found, name), f"{where}: {name}")


def _is_sdam_monitoring(content: Mapping[str, Any]) -> bool:
    return any("events" in outcome for outcome in outcomes(content))


SDAM_MONITORING: Final = Format("sdam-monitoring", check, _is_sdam_monitoring, is_extended=True)
