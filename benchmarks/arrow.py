"""Shell: `python -m benchmarks arrow`: a long scan into an Arrow table, beside pymongoarrow on PyMongo in a thread.

Each run is a process of its own. Meanwhile a task wakes up each millisecond: how late it is at most is what any other
task of the program sees, whoever keeps the loop or Python's global lock.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import warnings
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from benchmarks.figures import align, judge
from benchmarks.processes import ask
from benchmarks.speed.rounds import server

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

DATABASE, COLLECTION = "motorlite_arrow", "c"
ARMS: Final = ("motorlite", "pymongoarrow in a thread")
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
    return await asyncio.to_thread(scan)


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
            await asyncio.sleep(0.001)
            latest = max(latest, perf_counter() - before - 0.001)

    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ticking = asyncio.create_task(tick())
    rows = await (by_motorlite if arm == ARMS[0] else by_pymongoarrow)(uri, warmed)
    seconds = perf_counter() - started
    await asyncio.sleep(0.01)
    ticking.cancel()
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


def run(arguments: argparse.Namespace) -> int:
    import pymongo

    found: dict[str, Outcome] = {}
    with server(arguments.uri) as uri, pymongo.MongoClient[dict[str, Any]](uri) as client:
        client.drop_database(DATABASE)
        fill(client[DATABASE][COLLECTION], arguments.documents)
        try:
            for _ in range(arguments.rounds):
                for arm in ARMS:
                    outcome = Outcome(**ask("benchmarks.arrow", arm, uri))
                    assert outcome.rows == arguments.documents
                    known = found.get(arm, outcome)
                    found[arm] = Outcome(
                        min(outcome.seconds, known.seconds),
                        min(outcome.peak_mb, known.peak_mb),
                        min(outcome.latest_ms, known.latest_ms),
                        outcome.rows,
                    )
        finally:
            client.drop_database(DATABASE)
    head = ("driver", "seconds", "peak memory, MB", "loop late at most, ms")
    rows = [(arm, f"{one.seconds:.2f}", f"{one.peak_mb:.0f}", f"{one.latest_ms:.0f}") for arm, one in found.items()]
    print(f"{arguments.documents:,} documents, the least of {arguments.rounds} rounds\n\n{align([head, *rows])}\n")
    latest = found[ARMS[0]].latest_ms
    return judge([(f"the loop is never late by more than {TARGET:g} ms ({latest:.0f} ms)", latest <= TARGET)])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=3, help="default: 3")
    parser.add_argument("--documents", type=int, default=1_000_000, help="default: a million")
    parser.add_argument("--uri", help="measure against this deployment instead of starting a mongod")


if __name__ == "__main__":
    warnings.filterwarnings("ignore", r"pyarrow\.lib\.\w+ size changed", RuntimeWarning)
    asyncio.run(measured(*sys.argv[1:]))
