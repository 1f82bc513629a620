"""Shell: what the order of a wait queue is worth when more callers come than the server can serve.

Real clients in virtual time: callers arrive at random, at a multiple of what the connections can serve, and each gives
up after a fixed time. The figure is the goodput: the share of the capacity that went into answers for which a caller
still waited.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from itertools import product
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import bson

import motorlite
from benchmarks import virtual
from benchmarks.documents import HELLO, reply_to
from benchmarks.figures import align
from motorlite._client.dependencies import Dependencies
from motorlite.errors import PyMongoError
from motorlite.overload import WaitQueue
from motorlite.testing.memory_stream import MemoryStream

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from motorlite import AsyncCollection
    from motorlite._base.values import Address
    from motorlite._net.runtime import Connector, Framer, Runtime

CONNECTIONS: Final = 10
# Seconds that an operation takes on average; the times are exponentially distributed.
TAKES: Final = 0.03
PATIENCE: Final = (0.05, 0.2, 1.0)
LOADS: Final = (1.3, 2.0, 4.0)
DEPTH: Final = 10_000
SEED: Final = 7
# Nothing is counted before, so that the queue has settled.
WARM_UP: Final = 2.0
ORDERS: Final[dict[str, WaitQueue | None]] = {
    # Equal priorities leave the strict order.
    "first in, first out": WaitQueue("queue", DEPTH, 60.0, "priority", None),
    "no option": None,
    "fifo": WaitQueue("queue", DEPTH, 60.0, "fifo", None),
    "adaptive": WaitQueue("queue", DEPTH, 60.0, "adaptive", None),
}
FOUND: Final = bson.encode({"cursor": {"firstBatch": [], "id": 0, "ns": "d.c"}, "ok": 1.0})


class Outcome(NamedTuple):
    """The result of one order."""

    order: str
    load: float
    patience: float
    is_seen: bool
    # Answers in time, as a share of the capacity; callers that were told early, as a share of all.
    goodput: float
    dropped: float
    # Seconds until the answers that came in time: median and 99th percentile.
    median: float
    slowest: float


class _Server:
    """Answers each operation after a random time, whatever else is under way."""

    def __init__(self) -> None:
        self._dice = random.Random(SEED)

    def connector(self, runtime: Runtime, _tls: object, _proxy: object = None) -> Connector:
        async def connect(address: Address, framer: Framer, until: float) -> MemoryStream:
            return MemoryStream(runtime, address, framer, self)

        return connect

    def data_received(self, stream: MemoryStream, data: bytes) -> None:
        is_find = b"\x02find\x00" in data[:40]
        reply = reply_to(data, FOUND if is_find else bson.encode(HELLO))
        seconds = self._dice.expovariate(1 / TAKES) if is_find else 0.0
        asyncio.get_running_loop().call_later(seconds, stream.deliver, reply)

    def client_closed(self, stream: MemoryStream) -> None:
        """Nothing is left to do."""


@dataclass(slots=True)
class Simulation:
    """One pool and its callers."""

    queue: WaitQueue | None
    load: float
    patience: float
    # Whether the driver knows when the caller gives up.
    is_seen: bool
    arrived: int = 0
    dropped: int = 0
    latencies: list[float] = field(default_factory=list)

    async def run(self, seconds: float) -> None:
        loop, dice = asyncio.get_running_loop(), random.Random(SEED)
        end, gap = WARM_UP + seconds, TAKES / CONNECTIONS / self.load
        world = Dependencies(connector=_Server().connector)
        options: dict[str, Any] = {"maxPoolSize": CONNECTIONS, "maxConnecting": CONNECTIONS, "wait_queue": self.queue}
        async with virtual.client("mongodb://db.example/", world, **options) as client:
            await asyncio.gather(*(client.d.c.find_one() for _ in range(CONNECTIONS)))
            start = now = loop.time()
            async with asyncio.TaskGroup() as callers:
                while (now := now + dice.expovariate(1 / gap)) < start + end:
                    await asyncio.sleep(now - loop.time())
                    callers.create_task(self._call(client.d.c, now - start, end))

    async def _call(self, collection: AsyncCollection, arrived: float, end: float) -> None:
        self.arrived += arrived > WARM_UP
        loop = asyncio.get_running_loop()
        began = loop.time()
        is_refused = False
        try:
            with motorlite.timeout(self.patience if self.is_seen else None):
                async with asyncio.timeout(None if self.is_seen else self.patience):
                    await collection.find_one()
        except (TimeoutError, PyMongoError):
            is_refused = True
        took = loop.time() - began
        if WARM_UP < arrived + took <= end:
            self.dropped += is_refused and took < self.patience - 1e-6
            self.latencies += [] if is_refused else [took]


def measure(order: str, load: float, patience: float, *, is_seen: bool, seconds: float) -> Outcome:
    simulation = Simulation(ORDERS[order], load, patience, is_seen)
    virtual.run(simulation.run(seconds))
    times = sorted(simulation.latencies) or [inf]
    goodput = len(simulation.latencies) / (seconds * CONNECTIONS / TAKES)
    dropped = simulation.dropped / simulation.arrived
    median, slowest = times[len(times) // 2], times[int(len(times) * 0.99)]
    return Outcome(order, load, patience, is_seen, goodput, dropped, median, slowest)


def render(outcomes: Sequence[Outcome]) -> str:
    """One line for each load and patience, one column for each order."""
    orders = list(dict.fromkeys(one.order for one in outcomes))
    cells: dict[tuple[bool, float, float], list[str]] = {}
    for one in outcomes:
        cell = f"{one.goodput:.0%}, {one.median * 1000:.0f} ms"
        cells.setdefault((one.is_seen, one.load, one.patience), []).append(cell)
    rows = [
        ("seen" if is_seen else "not seen", f"{load:g}", f"{patience * 1000:.0f} ms", *found)
        for (is_seen, load, patience), found in cells.items()
    ]
    return align([("limit", "load", "gives up after", *orders), *rows])


def run(arguments: argparse.Namespace) -> int:
    """Print the goodput and the median latency of the answers that came in time; return the exit status."""
    outcomes = [
        measure(order, load, patience, is_seen=is_seen, seconds=arguments.seconds)
        for is_seen, load, patience, order in product((True, False), LOADS, PATIENCE, ORDERS)
    ]
    print(
        f"{CONNECTIONS} connections, operations take {TAKES * 1000:.0f} ms; goodput as a share of the capacity, and "
        f"the median time to those answers\n\n{render(outcomes)}"
    )
    return 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=5.0, help="virtual seconds of each run; default: 5")
