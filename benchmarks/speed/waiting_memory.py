"""Shell: `python -m benchmarks waiting-memory`: what an operation that waits for a connection costs in memory.

The server never answers, so that all connections stay in use and everything else waits. What Python has allocated
(`tracemalloc`) is compared with the same number of tasks that wait for nothing.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
import tracemalloc
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from benchmarks.arms import ARMS, POOL_SIZE
from benchmarks.figures import align
from benchmarks.processes import ChildFailedError, ask, say, serving
from benchmarks.speed.rounds import missing
from benchmarks.speed.targets import SUBJECT

if TYPE_CHECKING:
    import argparse

    from benchmarks.arms import Arm, Driver
    from benchmarks.loops import Work

OPERATIONS: Final = 10_000
QUERY: Final = {"_id": 1}
TARGET: Final = 1024  # bytes
# Until all tasks wait; seconds.
SETTLING: Final = 3.0


class Scales:
    """Weighs the tasks of one arm. Nothing that waits is ever released: the process ends instead."""

    def __init__(self, arm: Arm, driver: Driver, count: int) -> None:
        self._loop = arm.loop
        self._driver = driver
        self._count = count

    async def weigh(self) -> None:
        """Print the bytes for each waiting operation, beyond the caller's task."""
        # The first wave opens all connections.
        await self._beside(2 * POOL_SIZE, self._operate, self._weigh_tasks)

    async def _weigh_tasks(self) -> None:
        tracemalloc.start()
        before = _allocated()
        await self._beside(self._count, self._wait, partial(self._weigh_operations, before))

    async def _weigh_operations(self, before: int) -> None:
        between = _allocated()
        await self._beside(self._count, self._operate, partial(self._finish, before, between))

    async def _finish(self, before: int, between: int) -> None:
        task = (between - before) / self._count
        print(json.dumps({"task": task, "operation": (_allocated() - between) / self._count - task}), flush=True)
        os._exit(0)

    async def _beside(self, count: int, work: Work, then: Work) -> None:
        """Start so many tasks; go on once all of them wait."""

        async def go_on() -> None:
            await self._loop.in_thread(partial(time.sleep, SETTLING))
            await then()

        await self._loop.all_of([go_on, *[work] * count])

    async def _operate(self) -> None:
        await self._driver.find_one(QUERY)

    async def _wait(self) -> None:
        await self._loop.forever()


def _allocated() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


async def weighed(arm: Arm, port: str, count: str) -> None:
    """Open a client of the arm and weigh."""
    uri = f"mongodb://127.0.0.1:{port}/?maxPoolSize={POOL_SIZE}&heartbeatFrequencyMS=3600000"
    async with arm.open(uri) as driver:
        await Scales(arm, driver, int(count)).weigh()


def run(arguments: argparse.Namespace) -> int:
    """Measure, print and judge; return the exit status."""
    found: dict[str, dict[str, float]] = {}
    lacking = missing(arguments.arms)
    for arm in arguments.arms:
        if arm in lacking:
            continue
        with serving("benchmarks.instructions.peer", "1", "--silent", "find") as port:
            try:
                found[arm] = ask("benchmarks.speed.waiting_memory", arm, str(port), str(arguments.operations))
            except ChildFailedError as error:
                say(f"{arm} failed: {error}")
    print(f"{arguments.operations:,} operations on {POOL_SIZE} connections, none of them answered; bytes for each\n")
    print(render(found))
    line, is_met = verdict(found)
    print(f"\n{line}")
    return 0 if is_met else 1


def render(found: dict[str, dict[str, float]]) -> str:
    """A row for each driver."""
    rows = [("", "beyond the caller's task", "the task itself")]
    rows += [(arm, f"{one['operation']:,.0f}", f"{one['task']:,.0f}") for arm, one in found.items()]
    return align(rows)


def verdict(found: dict[str, Any]) -> tuple[str, bool]:
    """Whether motorlite meets the target."""
    wanted = f"a waiting operation of {SUBJECT} takes at most {TARGET:,} bytes beyond its caller's task"
    if SUBJECT not in found:
        return f"not measured: {wanted}", False
    size = found[SUBJECT]["operation"]
    return f"{'met' if size <= TARGET else 'NOT MET'}: {wanted} ({size:,.0f})", size <= TARGET


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--operations", type=int, default=OPERATIONS, help=f"default: {OPERATIONS}")
    parser.add_argument("--arms", type=lambda text: text.split(","), default=["motorlite", "motorlite-trio", "pymongo"])


if __name__ == "__main__":
    chosen = ARMS[sys.argv[1]]
    chosen.loop.run(partial(weighed, chosen, *sys.argv[2:]))
