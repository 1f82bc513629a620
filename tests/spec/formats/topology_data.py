"""The public JSON data about discovery and selection, and the values that it describes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from bson.datetime_ms import DatetimeMS

from motorlite._topology.server_description import ServerDescription, parse_address
from motorlite._topology.topology_description import TopologyDescription
from motorlite.read_preferences import MODES
from motorlite.topology_description import TopologyType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from motorlite._base.values import Address

# What a server of each type answers to hello.
HELLO: dict[str, dict[str, Any]] = {
    "Standalone": {},
    "Mongos": {"msg": "isdbgrid"},
    "RSPrimary": {"setName": "rs", "isWritablePrimary": True},
    "RSSecondary": {"setName": "rs", "secondary": True},
    "RSArbiter": {"setName": "rs", "arbiterOnly": True},
    "RSOther": {"setName": "rs", "hidden": True},
    "RSGhost": {"isreplicaset": True},
}


def server_type(name: str) -> str:
    """The type that a test names: what only single-threaded drivers call a possible primary, is unknown."""
    return "Unknown" if name == "PossiblePrimary" else name


def initial_topology(uri: str) -> TopologyDescription:
    """What a client with this connection string starts with (the few options that discovery knows)."""
    parts = urlsplit(uri)
    options = dict(parse_qsl(parts.query))
    description = TopologyDescription.initial(
        [parse_address(host) for host in parts.netloc.split(",")],
        direct_connection=options.get("directConnection") == "true",
        replica_set=options.get("replicaSet"),
        load_balanced=options.get("loadBalanced") == "true",
    )
    if description.topology_type is TopologyType.LoadBalanced:
        for address in description.server_descriptions():
            description = description.apply(ServerDescription.load_balancer(address))
    return description


def server(data: Mapping[str, Any]) -> ServerDescription:
    """A server as the selection tests describe it."""
    address = parse_address(data["address"])
    kind = server_type(data["type"])
    if kind == "LoadBalancer":
        return ServerDescription.load_balancer(address)
    if kind == "Unknown":
        return ServerDescription.unknown(address)
    reply = {
        "ok": 1,
        "maxWireVersion": data.get("maxWireVersion", 21),
        "tags": data.get("tags", {}),
        **HELLO[kind],
    }
    if "lastWrite" in data:
        milliseconds = int(data["lastWrite"]["lastWriteDate"])
        reply["lastWrite"] = {"lastWriteDate": DatetimeMS(milliseconds)}
    return ServerDescription.from_hello(
        address,
        reply,
        round_trip_time=data["avg_rtt_ms"] / 1000,
        min_round_trip_time=0.0,
        now=data.get("lastUpdateTime", 0) / 1000,
    )


def topology(data: Mapping[str, Any]) -> TopologyDescription:
    """A deployment as the selection tests describe it."""
    servers = [server(item) for item in data["servers"]]
    return TopologyDescription(TopologyType(data["type"]), {item.address: item for item in servers})


def addresses(items: Iterable[Mapping[str, Any]]) -> list[Address]:
    return sorted(parse_address(item["address"]) for item in items)


class Preference:
    """A read preference as the selection tests describe it."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.mode = _mode(data.get("mode", "primary"))
        self.tag_sets: list[dict[str, str]] = data.get("tag_sets", [{}])
        self.max_staleness: int = data.get("maxStalenessSeconds", -1)


def _mode(name: str) -> int:
    return MODES.index(name[0].lower() + name[1:])
