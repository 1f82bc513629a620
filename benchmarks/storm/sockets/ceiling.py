"""Net: how many requests per second the ingress can pass at most on this machine."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import asdict, dataclass
from itertools import cycle
from time import monotonic
from typing import TYPE_CHECKING, Final

from benchmarks.bare import BareClient
from benchmarks.storm.scenario import Server

if TYPE_CHECKING:
    from benchmarks.storm.sockets.processes import Ingress

SECONDS: Final = 1.0
CONNECTIONS: Final = 32
MARGIN: Final = 0.75
"""A run in which the ingress is busier than this share of its ceiling, for a second, is not valid."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Requests per second that keep the ingress, which has one thread, busy.

    They are counted per second of its CPU time, so that other load on the machine does not change them.

    Attributes:
        forwarded: Of requests that are passed on to the server.
        rejected: Of rejections.
    """

    forwarded: float
    rejected: float

    def __str__(self) -> str:
        return (
            f"the ingress passes at most {self.forwarded:,.0f} requests, or {self.rejected:,.0f} rejections, per "
            f"second on this machine; runs that keep it busy for over {MARGIN:.0%} of a second are not valid"
        )


def measure(ingress: Ingress, seconds: float = SECONDS) -> Ceiling:
    """Measure the ceiling with as many requests as the machine can make."""
    unlimited = asdict(Server(mode="queue", work=1e9, handshake_cost=0, latency=0))
    closed = asdict(Server(work=1e9, admission_rate=0, handshake_cost=0, latency=0))
    rates = []
    for server in (unlimited, closed):
        ingress.order("reset", servers=[server] * len(ingress.addresses))
        before = ingress.order("cpu")
        done = asyncio.run(_blast(*ingress.addresses[0], seconds))
        rates.append(done / (ingress.order("cpu") - before))
    ingress.order("reset")
    return Ceiling(*rates)


async def _blast(host: str, port: int | None, seconds: float) -> int:
    client = BareClient(host, port or 0, CONNECTIONS)
    numbers = cycle(range(1000))
    end = monotonic() + seconds

    async def ask() -> int:
        done = 0
        while monotonic() < end:
            with contextlib.suppress(KeyError):  # a rejection has no cursor
                await client.find_one({"_id": next(numbers)})
            done += 1
        return done

    try:
        return sum(await asyncio.gather(*(ask() for _ in range(CONNECTIONS))))
    finally:
        client.close()
