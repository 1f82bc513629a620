"""Shell: `python -m benchmarks arrow`: a long scan into an Arrow table, beside pymongoarrow on PyMongo in a thread.

Each run is a process of its own. Meanwhile a task wakes up each millisecond: how late it is at most is what any other
task of the program sees, whatever keeps the loop or Python's global lock. Without a scan, it shows the machine's noise.
"""

from __future__ import annotations

import json
import resource
import sys
import warnings
from dataclasses import asdict, dataclass
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread

from benchmarks.figures import align, judge
from benchmarks.processes import ask
from benchmarks.speed.rounds import server

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

DATABASE, COLLECTION = "motorlite_arrow", "c"
# Seconds without a scan.
IDLE: Final = 2.0
# Milliseconds.
TARGET: Final = 50.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """Seconds, growth of the process's memory at its peak in MB, milliseconds that the loop was late at most, rows."""

    seconds: float
    peak_mb: float
    latest_ms: float
    rows: int


async def by_motorlite(uri: str, warmed: Callable[[], None]) -> int:
    from motorlite import AsyncMongoClient
    from motorlite.arrow import find_arrow

    async with AsyncMongoClient(uri) as client:
        # The first operation loads modules.
        await client.admin.command("ping")
        warmed()
        return int((await find_arrow(client[DATABASE][COLLECTION])).num_rows)


async def by_pymongoarrow(uri: str, warmed: Callable[[], None]) -> int:
    import pymongo
    from pymongoarrow.api import find_arrow_all

    def scan() -> int:
        with pymongo.MongoClient[dict[str, Any]](uri) as client:
            return int(find_arrow_all(client[DATABASE][COLLECTION], {}).num_rows)

    warmed()
    return await anyio.to_thread.run_sync(scan)


async def nothing(_uri: str, warmed: Callable[[], None]) -> int:
    warmed()
    await anyio.sleep(IDLE)
    return 0


# What scans, and on which event loop.
ARMS: Final = {
    "motorlite": (by_motorlite, "asyncio"),
    "motorlite on trio": (by_motorlite, "trio"),
    "pymongoarrow in a thread": (by_pymongoarrow, "asyncio"),
    "no scan": (nothing, "asyncio"),
}


async def measured(arm: str, uri: str) -> None:
    """Scan once and print the outcome."""
    import pymongoarrow.api  # noqa: F401

    latest, started = 0.0, perf_counter()

    def warmed() -> None:
        nonlocal latest, started
        latest, started = 0.0, perf_counter()

    async def tick() -> None:
        nonlocal latest
        while True:
            before = perf_counter()
            await anyio.sleep(0.001)
            latest = max(latest, perf_counter() - before - 0.001)

    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    scan, _ = ARMS[arm]
    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        rows = await scan(uri, warmed)
        seconds = perf_counter() - started
        await anyio.sleep(0.01)
        group.cancel_scope.cancel()
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024
    print(json.dumps(asdict(Outcome(seconds, peak, latest * 1000, rows))))


def fill(collection: Any, count: int) -> None:
    """Insert documents with strings, numbers, a list and a document."""
    for first in range(0, count, 20_000):
        collection.insert_many(
            [
                {"_id": n, "a": n / 2, "text": f"text {n}", "nested": {"x": n}, "list": [1, 2, 3]}
                for n in range(first, min(first + 20_000, count))
            ],
            ordered=False,
        )


def middle(outcomes: list[Outcome]) -> Outcome:
    """The median of the seconds and of the memory, and the longest delay of all rounds."""
    return Outcome(
        median(outcome.seconds for outcome in outcomes),
        median(outcome.peak_mb for outcome in outcomes),
        max(outcome.latest_ms for outcome in outcomes),
        outcomes[0].rows,
    )


def run(arguments: argparse.Namespace) -> int:
    import pymongo

    found: dict[str, list[Outcome]] = {arm: [] for arm in ARMS}
    with server(arguments.uri) as uri, pymongo.MongoClient[dict[str, Any]](uri) as client:
        client.drop_database(DATABASE)
        fill(client[DATABASE][COLLECTION], arguments.documents)
        try:
            for _ in range(arguments.rounds):
                for arm in ARMS:
                    outcome = Outcome(**ask("benchmarks.arrow", arm, uri))
                    assert outcome.rows in (arguments.documents, 0)
                    found[arm].append(outcome)
        finally:
            client.drop_database(DATABASE)
    head = ("driver", "seconds", "peak memory, MB", "loop late at most, ms")
    figures = {arm: middle(outcomes) for arm, outcomes in found.items()}
    rows = [(arm, f"{one.seconds:.2f}", f"{one.peak_mb:.0f}", f"{one.latest_ms:.0f}") for arm, one in figures.items()]
    print(f"{arguments.documents:,} documents, medians of {arguments.rounds} rounds, and the longest delay of all\n")
    print(f"{align([head, *rows])}\n")
    loops = ("motorlite", "motorlite on trio")
    return judge(
        [
            (f"{arm}: the loop is never late by more than {TARGET:g} ms", figures[arm].latest_ms <= TARGET)
            for arm in loops
        ]
        + [
            (f"{arm}: as fast as pymongoarrow", figures[arm].seconds <= figures["pymongoarrow in a thread"].seconds)
            for arm in loops
        ]
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=3, help="default: 3")
    parser.add_argument("--documents", type=int, default=1_000_000, help="default: a million")
    parser.add_argument("--uri", help="measure against this deployment instead of starting a mongod")


if __name__ == "__main__":
    warnings.filterwarnings("ignore", r"pyarrow\.lib\.\w+ size changed", RuntimeWarning)
    arm, uri = sys.argv[1:]
    anyio.run(measured, arm, uri, backend=ARMS[arm][1])
