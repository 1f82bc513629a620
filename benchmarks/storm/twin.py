"""Shell: a run in simulated time: real clients and the real ingress on a virtual clock, with servers in memory.

Only the sockets and the servers are replaced. A rule that changes in the driver changes here too.
"""

from __future__ import annotations

import asyncio
import platform
from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final, Literal

import bson
from bson.int64 import Int64
from bson.objectid import ObjectId

from benchmarks import virtual
from benchmarks.arms import LIBRARIES
from benchmarks.documents import HELLO, document, reply_to
from benchmarks.storm.drivers import DOCUMENTS, OVERLOADED, Motorlite
from benchmarks.storm.ingress import messages
from benchmarks.storm.ingress.orders import Orders
from benchmarks.storm.ingress.ports import ClientLink, Port
from benchmarks.storm.load import Application
from benchmarks.storm.results import Run
from benchmarks.storm.series import schedule, series
from benchmarks.storm.timeline import elections
from motorlite import __version__
from motorlite._client.dependencies import Dependencies
from motorlite.errors import AutoReconnect
from motorlite.retry import OverloadRetry, RetryAction, RetryStrategy
from motorlite.testing.memory_stream import MemoryStream

if TYPE_CHECKING:
    from benchmarks.storm.arms import Arm
    from benchmarks.storm.scenario import Scenario
    from motorlite._base.values import Address
    from motorlite._net.runtime import Connector, Framer, Runtime
    from motorlite.retry import RetryReason, RetryRequest

WARM_SECONDS: Final = 1.0
"""Simulated time for opening connections before a run."""
_SET: Final = "storm"


# --- servers ---


class _Mongod:
    """A server behind the ingress. It answers at once."""

    def __init__(self, servers: _Servers, address: Address) -> None:
        self._servers = servers
        self._address = address
        self._process = ObjectId()
        # The hellos that are answered when something changes, and when at the latest.
        self._awaited: dict[tuple[bytes, _MemoryLink], asyncio.TimerHandle] = {}

    def receive(self, message: bytes, link: _MemoryLink) -> None:
        """Answer a message of a client, now or later."""
        name = messages.parse(message).command
        if name == b"find":
            number = bson.decode(message[21:])["filter"]["_id"]
            link.write(reply_to(message, FOUND[number]))
        elif name in HELLOS:
            request = bson.decode(message[21:])
            if request.get("topologyVersion") == self._version():
                wait = request["maxAwaitTimeMS"] / 1000
                timer = asyncio.get_running_loop().call_later(wait, self._answer, message, link)
                self._awaited[message, link] = timer
            else:
                link.write(reply_to(message, self._hello()))
        else:
            link.write(reply_to(message, OK))

    def announce(self) -> None:
        """Answer the hellos that wait for a change."""
        for message, link in list(self._awaited):
            self._answer(message, link)

    def _answer(self, message: bytes, link: _MemoryLink) -> None:
        self._awaited.pop((message, link)).cancel()
        link.write(reply_to(message, self._hello()))

    def _version(self) -> dict[str, Any]:
        return {"processId": self._process, "counter": Int64(self._servers.changes)}

    def _hello(self) -> bytes:
        reply = {**HELLO, "topologyVersion": self._version()}
        names = [f"{host}:{port}" for host, port in self._servers.addresses]
        if len(names) > 1:
            is_primary = self._servers.primary == self._address
            me = f"{self._address[0]}:{self._address[1]}"
            reply |= {"isWritablePrimary": is_primary, "secondary": not is_primary, "setName": _SET, "hosts": names}
            reply |= {"me": me, "setVersion": 1}
        return bson.encode(reply)


HELLOS: Final = (b"hello", b"isMaster", b"ismaster")
OK: Final = bson.encode({"ok": 1.0})
FOUND: Final = [
    bson.encode({"cursor": {"firstBatch": [document(number)], "id": Int64(0), "ns": "storm.c"}, "ok": 1.0})
    for number in range(DOCUMENTS)
]


class _Servers:
    """All servers with their ingress, and who of them is the primary."""

    def __init__(self, scenario: Scenario) -> None:
        self.addresses: list[Address] = [(f"server{index}.example", 27017) for index in range(len(scenario.servers))]
        self.primary: Address | None = self.addresses[0]
        self.changes = 0
        self.mongods = [_Mongod(self, address) for address in self.addresses]
        self.ports = {address: _MemoryPort(address) for address in self.addresses}
        self._elections = elections(scenario)

    def begin(self, at: float) -> None:
        for when, index in self._elections[1:]:
            primary = None if index is None else self.addresses[index]
            asyncio.get_running_loop().call_at(at + when, self._elect, primary)

    def _elect(self, primary: Address | None) -> None:
        self.primary = primary
        self.changes += 1
        for mongod in self.mongods:
            mongod.announce()

    @property
    def uri(self) -> str:
        hosts = ",".join(f"{host}:{port}" for host, port in self.addresses)
        return f"mongodb://{hosts}/" + (f"?replicaSet={_SET}" if len(self.addresses) > 1 else "")

    def connector(self, kind: type[MemoryStream], runtime: Runtime, _tls: object, _proxy: object = None) -> Connector:
        async def connect(address: Address, framer: Framer, until: float) -> MemoryStream:
            port = self.ports[address]
            if not port.is_open:
                raise AutoReconnect(f"{address[0]}:{address[1]}: connection refused")
            link = _MemoryLink(port, self.mongods[self.addresses.index(address)])
            stream = kind(runtime, address, framer, link)
            link.connection_made(_Wire(link, stream))
            return stream

        return connect


class _MemoryPort(Port):
    """A port without a socket."""

    def __init__(self, address: Address) -> None:
        super().__init__((address[0], address[1] or 0), ("", 0))
        self.is_open = False

    async def open(self) -> None:
        self.is_open = True

    def close(self) -> None:
        self.is_open = False
        super().close()


class _MemoryLink(ClientLink):
    """A client's connection in memory, and the server's side of its stream."""

    def __init__(self, port: Port, mongod: _Mongod) -> None:
        super().__init__(port)
        self._mongod = mongod

    def data_received(self, _stream: MemoryStream, data: bytes) -> None:
        """The client has sent a message: it sends one at a time."""
        if not self.is_closed:
            self._received(bytes(data))

    def client_closed(self, _stream: MemoryStream) -> None:
        self.close()

    def _forward(self, message: bytes) -> None:
        if not self.is_closed:
            self._mongod.receive(message, self)


class _Wire(asyncio.Transport):
    """What a link writes to: the client's stream."""

    def __init__(self, link: _MemoryLink, stream: MemoryStream) -> None:
        super().__init__()
        self._link = link
        self._stream = stream

    def write(self, data: Any) -> None:
        self._stream.deliver(data)

    def is_closing(self) -> bool:
        return self._stream.is_closed

    def abort(self) -> None:
        self._stream.close()
        if not self._link.is_closed:
            self._link.connection_lost(None)


# --- clients ---


class _PeerStream(MemoryStream):
    """A connection of a peer, which closes it when nothing waits for the reply any more."""

    async def exchange(self, data: bytes, until: float) -> bytes | bytearray:
        try:
            return await super().exchange(data, until)
        except BaseException:
            self.abort()
            raise


# Seconds that a peer's attempt takes in the client, as measured on sockets. Without them, retries of a server that
# refuses connections would go on for ever at one moment of virtual time.
_PEER_ATTEMPT: Final = 0.0005


class _PeerRetries(RetryStrategy):
    """The retries of a peer: the revision of July 2026, and with a time limit ordinary ones that follow at once."""

    scope: Literal["adds", "decides"] = "decides"

    def __init__(self, *, has_limit: bool) -> None:
        self._has_limit = has_limit
        self._policy = OverloadRetry.revision_2026_07()

    @property
    def budget(self) -> None: ...

    def retry_after(self, request: RetryRequest, reason: RetryReason) -> RetryAction:
        if OVERLOADED in request.error_labels:
            action = self._policy.retry_after(request, reason)
            is_late = action.duration is not None and request.remaining is not None
            return RetryAction.no_retry() if is_late and action.duration >= request.remaining else action  # type: ignore[operator]
        is_left = self._has_limit or not request.retry_attempts
        return RetryAction.with_duration(_PEER_ATTEMPT) if is_left else RetryAction.no_retry()


class _Simulated(Motorlite):
    """Clients in memory; those of a peer are motorlite's with its retries and pools."""

    def __init__(self, servers: _Servers, arm: Arm, scenario: Scenario, seed: int) -> None:
        self._is_peer = arm.driver != "motorlite"
        if self._is_peer:
            arm = replace(arm, retries=2, backoff="revision", budget="none")
        super().__init__(servers.uri, arm, scenario)
        self.library = LIBRARIES["motorlite"]
        kind = _PeerStream if self._is_peer else MemoryStream
        self._world = Dependencies(
            connector=partial(servers.connector, kind),
            jitter=Random(f"jitter {seed}").random,
            below=Random(f"servers {seed}").randrange,
        )

    def options(self) -> dict[str, Any]:
        peer = {"retry_strategy": _PeerRetries(has_limit=self.patience is not None)} if self._is_peer else {}
        return {**super().options(), **peer}

    def make(self) -> Any:
        return virtual.client(self.uri, self._world, **self.options())


# --- runs ---


def simulate(scenario: Scenario, arm: Arm, seed: int = 1) -> Run:
    """Simulate one run of a motorlite arm, or of PyMongo Async or Motor, whose retries and pools are imitated.

    `seed` is that of all random numbers. The requests are the same for all arms.

    Raises:
        ValueError: The driver of the arm is not modelled.
    """
    if arm.driver == "mongojet":
        raise ValueError("mongojet is not modelled: it runs on sockets only")
    return virtual.run(_run(scenario, arm, seed))


async def _run(scenario: Scenario, arm: Arm, seed: int) -> Run:
    reports: list[Any] = []
    servers = _Servers(scenario)
    orders = Orders(list(servers.ports.values()), reports.append)
    driver = _Simulated(servers, arm, scenario, seed)
    await orders.order_reset()
    await driver.open(scenario.load.clients)
    await orders.order_hold()
    warming = asyncio.create_task(driver.warm_up(scenario.load))
    await asyncio.sleep(WARM_SECONDS)
    await orders.order_release()
    await warming
    start = asyncio.get_running_loop().time() + 0.1
    servers.begin(start)
    await orders.order_begin(start, scenario.seconds, schedule(scenario, seed))
    record = await Application(scenario, seed, driver, start).run(lambda _step, _values: None)
    await orders.order_end()
    # Without limits, so that nothing delays the clients, which end their sessions.
    await orders.order_reset()
    await driver.close()
    return Run.of(
        scenario,
        arm,
        seed,
        "twin",
        series=series(scenario, record, reports),
        requests=record.requests,
        versions={"motorlite": __version__, "python": platform.python_version()},
        invalid=[f"{count} requests ended with an unexpected {text}" for text, count in driver.surprises.items()],
    )
