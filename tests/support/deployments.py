"""Descriptions for the tests of this folder."""

from __future__ import annotations

from typing import Any

from motorlite._topology.server_description import ServerDescription
from motorlite._topology.topology_description import TopologyDescription

A, B, C = ("a", 1), ("b", 1), ("c", 1)
ALL = ["a:1", "b:1", "c:1"]


def hello(
    address: tuple[str, int], *, round_trip_time: float | None = 0.01, now: float = 0.0, **fields: Any
) -> ServerDescription:
    reply = {"ok": 1, "maxWireVersion": 21, **fields}
    return ServerDescription.from_hello(
        address, reply, round_trip_time=round_trip_time, min_round_trip_time=0.0, now=now
    )


def primary(address: tuple[str, int], **fields: Any) -> ServerDescription:
    return hello(address, **{"setName": "rs", "isWritablePrimary": True, "hosts": ALL, **fields})


def secondary(address: tuple[str, int], **fields: Any) -> ServerDescription:
    return hello(address, **{"setName": "rs", "secondary": True, "hosts": ALL, **fields})


def replica_set(*servers: ServerDescription) -> TopologyDescription:
    """A replica set of a, b and c after news of `servers`."""
    description = TopologyDescription.initial([A, B, C], replica_set="rs")
    for server in servers:
        description = description.apply(server)
    return description


class Preference:
    """The part of a read preference that selection looks at."""

    def __init__(self, mode: int, tag_sets: tuple[dict[str, str], ...] = ({},), max_staleness: int = -1) -> None:
        self.mode = mode
        self.tag_sets = tag_sets
        self.max_staleness = max_staleness
