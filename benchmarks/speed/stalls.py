"""Shell: `python -m benchmarks stalls`: the longest time for which a driver keeps the event loop from anything else.

Each step of a task and each callback of the loop is timed, in processor time, which other load on the machine does not
lengthen, and by the clock.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from dataclasses import asdict, astuple, dataclass
from functools import partial
from itertools import product
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Any, Final

from benchmarks.arms import ARMS, arm_uri, names
from benchmarks.documents import DATABASE, document
from benchmarks.figures import align, judge
from benchmarks.processes import ask
from benchmarks.speed.rounds import present, server
from benchmarks.speed.targets import SUBJECT
from benchmarks.speed.workloads import check

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from benchmarks.arms import Driver

COLLECTION: Final = "stalls"
# One batch of 16 MB, which follows a first one of 101 documents.
BATCH, INSERTED = 91_000, 100_000
CASES: Final = {"find": "find, a reply of 16 MB, to_list", "insert_many": f"insert_many of {INSERTED:,} documents"}
WATCHED: Final = {name: arm for name, arm in ARMS.items() if arm.loop.name != "uvloop" and name != "bare"}
# Milliseconds of processor time.
TARGET: Final = 50.0


@dataclass(frozen=True, slots=True)
class Stall:
    """The longest step, also without Python's cyclic garbage collector, and all of them together; seconds."""

    longest_cpu: float = 0.0
    longest_without_collector: float = 0.0
    longest: float = 0.0
    total_cpu: float = 0.0

    def and_(self, cpu: float, seconds: float, collector: float = 0.0) -> Stall:
        """This and one more step, in which the collector took some of the CPU time."""
        return Stall(
            max(self.longest_cpu, cpu),
            max(self.longest_without_collector, cpu - collector),
            max(self.longest, seconds),
            self.total_cpu + cpu,
        )

    def least(self, other: Stall) -> Stall:
        """The smaller of each: what the driver needs, and not what disturbed it."""
        return Stall(*map(min, astuple(self), astuple(other)))


class Watch:
    """Times the steps of asyncio's loop, or of trio's tasks."""

    def __init__(self) -> None:
        self.stall = Stall()
        self._collector = 0.0
        self.before_task_step()
        gc.callbacks.append(self._collects)

    def _collects(self, phase: str, _info: object) -> None:
        now = thread_time()
        self._collector += now if phase == "stop" else -now

    def watch_asyncio(self) -> None:
        """Time every callback from now on."""
        original: Callable[[asyncio.Handle], None] = asyncio.Handle._run

        def run(handle: asyncio.Handle) -> None:
            self.before_task_step()
            original(handle)
            self.after_task_step()

        setattr(asyncio.Handle, "_run", run)  # noqa: B010  # private

    # trio's instruments have these two methods.

    def before_task_step(self, _task: object = None) -> None:
        self._collector = 0.0
        self._cpu, self._at = thread_time(), perf_counter()

    def after_task_step(self, _task: object = None) -> None:
        self.stall = self.stall.and_(thread_time() - self._cpu, perf_counter() - self._at, self._collector)


async def perform(case: str, driver: Driver, documents: list[dict[str, Any]]) -> None:
    """Do once what a case says; `documents` are those to insert, or become those that are found.

    They stay: to free them takes an application as long as it takes.
    """
    collection = driver.database[COLLECTION]
    assert driver.read_all is not None
    if case == "find":
        found = await driver.read_all(collection.find({}))
        documents += found
        check(len(found), BATCH)
    else:
        await driver.database[f"{COLLECTION}_written"].insert_many(documents)


async def watched(arm: str, case: str, uri: str) -> None:
    """Warm up, watch one operation, and print its stall."""
    async with ARMS[arm].open(uri) as driver:
        await driver.find_one({"_id": 0})
        # Only where they are needed: Python's full collections, which count, look at them too.
        documents = [document(number) for number in range(INSERTED if case == "insert_many" else 0)]
        watch = Watch()
        if ARMS[arm].loop.name == "trio":
            import trio

            class Instrument(Watch, trio.abc.Instrument):
                """A watch that trio knows."""

            watch = Instrument()
            trio.lowlevel.add_instrument(watch)
        else:
            watch.watch_asyncio()
        # As a callback of its own: the time until its first wait counts, too.
        await ARMS[arm].loop.all_of([partial(perform, case, driver, documents)])
        print(json.dumps(asdict(watch.stall)))


def run(arguments: argparse.Namespace) -> int:
    import pymongo

    found: dict[tuple[str, str], Stall] = {}
    arms, _ = present(arguments.arms)
    with server(arguments.uri) as uri, pymongo.MongoClient[dict[str, Any]](uri) as client:
        database = client[DATABASE]
        client.drop_database(DATABASE)
        database[COLLECTION].insert_many(document(number) for number in range(BATCH))
        try:
            for _ in range(arguments.rounds):
                for case, arm in product(CASES, arms):
                    database[f"{COLLECTION}_written"].drop()
                    stall = Stall(**ask("benchmarks.speed.stalls", arm, case, arm_uri(uri)))
                    found[case, arm] = found.get((case, arm), stall).least(stall)
        finally:
            client.drop_database(DATABASE)
    print(f"The least of {arguments.rounds} rounds, milliseconds\n\n{render(found)}\n")
    return judge(verdict(found))


def render(found: dict[tuple[str, str], Stall]) -> str:
    head = ("", "driver", "longest step, CPU", "without the collector", "by the clock", "all steps, CPU")
    rows = [
        (CASES[case], arm, *(f"{value * 1000:.0f}" for value in astuple(one))) for (case, arm), one in found.items()
    ]
    return align([head, *rows])


def verdict(found: dict[tuple[str, str], Stall]) -> list[tuple[str, bool]]:
    """The target for each case, with what was found, and whether it is met."""
    longest = {case: one.longest_cpu * 1000 for (case, arm), one in found.items() if arm == SUBJECT}
    return [(f"{CASES[case]}: no step over {TARGET:g} ms ({ms:.0f} ms)", ms <= TARGET) for case, ms in longest.items()]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=3, help="default: 3")
    parser.add_argument("--arms", type=names(WATCHED), default=["motorlite", "motorlite-trio", "pymongo"])
    parser.add_argument("--uri", help="measure against this deployment instead of starting a mongod")


if __name__ == "__main__":
    ARMS[sys.argv[1]].loop.run(partial(watched, *sys.argv[1:]))
