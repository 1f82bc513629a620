"""Shell: everything around the driver: hosts, network, time and randomness, all of one seed; and the trace of a run."""

from __future__ import annotations

import hashlib
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from benchmarks import virtual
from motorlite._client.dependencies import Dependencies
from tests.simulation.frozen import SimulatedRuntime, order_sets
from tests.simulation.member import SET_NAME, Member
from tests.simulation.network import Network
from tests.simulation.router import Router

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from motorlite._base.values import Address
    from motorlite._client.core import Core
    from tests.simulation.loop import SimulationLoop
    from tests.simulation.member import Node
    from tests.simulation.network import Observer
    from tests.support.clients import Client

ROUTERS: Final[tuple[Address, ...]] = (("r", 27017), ("s", 27017))
ADDRESSES: Final[tuple[Address, ...]] = (("a", 27017), ("b", 27017), ("c", 27017))


class Trace:
    """What happened, in order. Equal traces mean equal runs."""

    def __init__(self, loop: SimulationLoop) -> None:
        self._loop = loop
        self._events: list[tuple[Any, ...]] = []

    def record(self, what: str, *details: Any) -> None:
        """Write down an event; bytes are represented by their length and check sum."""
        last = details[-1]
        if isinstance(last, bytes):
            details = (*details[:-1], len(last), crc32(last))
        self._events.append((self._loop.time(), what, *details))

    def lines(self) -> list[str]:
        """One line for each event."""
        return [f"{time:.9f} {' '.join(map(str, rest))}" for time, *rest in self._events]


def digest(lines: Sequence[str]) -> str:
    """A hash of a trace."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


class World:
    """Three members and the network.

    Args:
        loop: The loop of the simulation.
        seed: That of all that is random.
        routers: Whether clients reach the members through two routers.
        rules: Rules of servers that are broken on purpose.
    """

    def __init__(
        self, loop: SimulationLoop, seed: int, *, routers: bool = False, rules: frozenset[str] = frozenset()
    ) -> None:
        self.loop = loop
        self.seed = seed
        self.chance = Random(f"world {seed}")
        self.trace = Trace(loop)
        self.network = Network(loop, Random(f"network {seed}"), self.trace.record)
        self.members = [
            Member(address, ADDRESSES, self.network, Random(f"member {address[0]} {seed}"), rules)
            for address in ADDRESSES
        ]
        self.routers = [
            Router(address, self.members, self.network, Random(f"router {address[0]} {seed}"))
            for address in (ROUTERS if routers else ())
        ]
        self.observers: list[Observer] = []
        # Whether a member may have told a change stream that it cannot resume.
        self.has_lost_history: bool = False
        self._clients = 0

    def start(self) -> None:
        """Start all servers."""
        for node in (*self.members, *self.routers):
            node.start()

    @property
    def primary(self) -> Member | None:
        """The primary of the newest term, if one is alive."""
        found = [member for member in self.members if member.is_up and member.replica.is_primary]
        return max(found, key=lambda member: member.replica.term, default=None)

    def node(self, role: str) -> Node:
        """The server in a role: ``primary``, ``first`` or ``second``, which are routers if there are any."""
        primary = self.primary or self.members[0]
        if role == "primary":
            return primary
        others: Sequence[Node] = self.routers or [member for member in self.members if member is not primary]
        return others[("first", "second").index(role)]

    def client(self, observe: Callable[[Core], Observer] | None = None, **options: Any) -> Client:
        """A client in this world.

        Args:
            observe: Makes what looks at its connections.
            **options: Of the client.
        """
        self._clients += 1
        chance = Random(f"client {self._clients} {self.seed}")
        observer: Observer | None = None
        hosts = ",".join(f"{host}:{port}" for host, port in (ROUTERS if self.routers else ADDRESSES))
        uri = f"mongodb://{hosts}/" + ("" if self.routers else f"?replicaSet={SET_NAME}")
        dependencies = Dependencies(
            runtime=SimulatedRuntime,
            connector=partial(self.network.connector, lambda: observer),
            jitter=chance.random,
            below=chance.randrange,
            nonce=lambda: chance.randbytes(32),
        )
        client = virtual.client(uri, dependencies, **options)
        order_sets(client._core)
        if observe is not None:
            observer = observe(client._core)
            self.observers.append(observer)
        return client
