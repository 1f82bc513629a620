"""Pure: which simulated servers an operation may use, decided by the driver's own server selection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._topology.selection import suitable_servers
from motorlite._topology.server_description import ServerDescription
from motorlite._topology.topology_description import TopologyDescription
from motorlite.read_preferences import make_read_preference, read_pref_mode_from_name
from motorlite.topology_description import TopologyType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from motorlite._base.values import Address

_SET = "storm"
_LOCAL_THRESHOLD = 0.015
_HEARTBEAT = 10.0


class Deployment:
    """The answers of server selection. They are remembered, since few states of a deployment occur."""

    __slots__ = ("_addresses", "_known_answers", "_latency", "_preference")

    def __init__(self, addresses: Sequence[Address], read_preference: str, latency: float) -> None:
        self._addresses = tuple(addresses)
        self._latency = latency
        self._preference = make_read_preference(read_pref_mode_from_name(read_preference), None)
        self._known_answers: dict[tuple[Any, ...], tuple[int, ...]] = {}

    def suitable(self, known: frozenset[int], primary: int | None, avoided: tuple[Address, ...]) -> tuple[int, ...]:
        """Return the servers that are suitable, by index.

        Args:
            known: The servers that the client can reach.
            primary: The primary, if there is one.
            avoided: The addresses of servers to use only if there are no others.
        """
        question = (known, primary, avoided)
        answer = self._known_answers.get(question)
        if answer is None:
            found = suitable_servers(
                self._describe(known, primary),
                self._preference,
                deprioritized=frozenset(avoided),
                local_threshold=_LOCAL_THRESHOLD,
                heartbeat_frequency=_HEARTBEAT,
            )
            answer = tuple(self._addresses.index(server.address) for server in found)
            self._known_answers[question] = answer
        return answer

    def _describe(self, known: frozenset[int], primary: int | None) -> TopologyDescription:
        has_primary = primary is not None and primary in known
        kind = TopologyType.ReplicaSetWithPrimary if has_primary else TopologyType.ReplicaSetNoPrimary
        servers = {
            address: self._describe_server(address, is_primary=index == primary)
            if index in known
            else ServerDescription.unknown(address)
            for index, address in enumerate(self._addresses)
        }
        return TopologyDescription(kind, servers, _SET)

    def _describe_server(self, address: Address, *, is_primary: bool) -> ServerDescription:
        hello = {
            "ok": 1,
            "isWritablePrimary": is_primary,
            "secondary": not is_primary,
            "setName": _SET,
            "hosts": [f"{host}:{port}" for host, port in self._addresses],
            "minWireVersion": 0,
            "maxWireVersion": 27,
            "logicalSessionTimeoutMinutes": 30,
        }
        return ServerDescription.from_hello(
            address, hello, round_trip_time=self._latency, min_round_trip_time=self._latency, now=0.0
        )
