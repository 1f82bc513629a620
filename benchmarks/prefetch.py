"""Shell: what `prefetch=1` brings: a program that works through a long cursor, with the next batch on its way or not.

The server (and the way to it) needs some time for each getMore, the program some for each batch. Without prefetch the
two add up. The program's own time is asynchronous (it waits for something else) or takes the processor, which the
decoding of the next batch then has to share.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.figures import align, judge
from motorlite import AsyncMongoClient
from motorlite.testing import LocalServer, failpoints

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from motorlite import AsyncCollection

DATABASE, COLLECTION = "motorlite_prefetch", "c"
DOCUMENTS, BATCH = 20_000, 1000
# Milliseconds that the server is held up for each getMore; 0: as fast as it is.
SERVER_TAKES = (0, 5, 20)
# How the program works, and milliseconds for each batch.
WORK = (("none", 0), ("waits", 5), ("waits", 20), ("computes", 5))
LEAST_SPEEDUP = 1.3  # where server and program take equally long


@dataclass(frozen=True, slots=True)
class Outcome:
    """One combination: seconds to read everything in the best round, without prefetch and with it."""

    server_ms: int
    kind: str
    work_ms: int
    without: float
    with_it: float

    @property
    def speedup(self) -> float:
        return self.without / self.with_it


async def work(kind: str, milliseconds: int) -> None:
    if kind == "waits":
        await asyncio.sleep(milliseconds / 1000)
    elif kind == "computes":
        for _ in range(milliseconds):  # as a program does that waits for something between its documents
            _compute(0.001)
            await asyncio.sleep(0)


def _compute(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


async def read(collection: AsyncCollection, kind: str, milliseconds: int, prefetch: int) -> float:
    """Read everything once; return the seconds taken."""
    started, count = time.perf_counter(), 0
    async for batch in collection.find(batch_size=BATCH, prefetch=prefetch).batches():
        count += len(batch)
        await work(kind, milliseconds)
    assert count == DOCUMENTS
    return time.perf_counter() - started


async def measure(server: LocalServer, rounds: int) -> list[Outcome]:
    """Measure all combinations; both ways take turns."""
    found = []
    async with AsyncMongoClient(server.uri) as client:
        collection: AsyncCollection = client[DATABASE][COLLECTION]
        await collection.insert_many([{"_id": number, "text": "x" * 200} for number in range(DOCUMENTS)])
        for server_ms in SERVER_TAKES:
            if server_ms:
                server.command(failpoints.fail_command(["getMore"], block_ms=server_ms))
            for kind, work_ms in WORK:
                times: tuple[list[float], list[float]] = ([], [])
                for _ in range(rounds):
                    for prefetch in (0, 1):
                        times[prefetch].append(await read(collection, kind, work_ms, prefetch))
                found.append(Outcome(server_ms, kind, work_ms, min(times[0]), min(times[1])))
            server.command(failpoints.off())
    return found


def render(outcomes: Sequence[Outcome]) -> str:
    head = ("server, per batch", "program, per batch", "without", "with", "times faster")
    rows = [
        (
            f"{one.server_ms} ms more",
            "nothing" if one.kind == "none" else f"{one.kind} {one.work_ms} ms",
            f"{one.without * 1000:.0f} ms",
            f"{one.with_it * 1000:.0f} ms",
            f"{one.speedup:.2f}",
        )
        for one in outcomes
    ]
    return align([head, *rows])


def misses(outcomes: Sequence[Outcome]) -> list[str]:
    """A line for each combination that should gain a lot and does not."""
    return [
        f"{one.server_ms} ms on the server, program {one.kind} {one.work_ms} ms: {one.speedup:.2f} times"
        for one in outcomes
        if one.kind == "waits" and one.server_ms == one.work_ms and one.speedup < LEAST_SPEEDUP
    ]


def run(arguments: argparse.Namespace) -> int:
    with LocalServer.start("standalone", own=True) as server:
        outcomes = asyncio.run(measure(server, arguments.rounds))
    print(f"{DOCUMENTS} documents in batches of {BATCH}, best of {arguments.rounds} rounds\n\n{render(outcomes)}\n")
    target = f"at least {LEAST_SPEEDUP} times as fast where server and program take equally long"
    return judge([(line, False) for line in misses(outcomes)] or [(target, True)])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=5, help="default: 5")
