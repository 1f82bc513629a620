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

from benchmarks.arms import ARMS, POOL_SIZE, names
from benchmarks.figures import align, judge
from benchmarks.processes import ChildFailedError, ask, say, serving
from benchmarks.speed.rounds import present
from benchmarks.speed.targets import SUBJECT

if TYPE_CHECKING:
    import argparse

    from benchmarks.arms import Arm
    from benchmarks.loops import Work

OPERATIONS: Final = 10_000
QUERY: Final = {"_id": 1}
TARGET: Final = 1500  # bytes
# All tasks wait once the process has used little CPU time for that long, twice in a row. PyMongo always uses some: it
# looks for cancellations twice a second, on each of its connections.
QUIET: Final = 0.5  # seconds
QUIET_CPU: Final = 0.1  # seconds


async def weighed(arm: Arm, port: str, count: str) -> None:
    """Print the bytes for each waiting operation, beyond the caller's task. Nothing that waits is ever released."""
    loop, number = arm.loop, int(count)
    uri = f"mongodb://127.0.0.1:{port}/?maxPoolSize={POOL_SIZE}&heartbeatFrequencyMS=3600000"
    allocated: list[int] = []

    async def beside(tasks: int, work: Work, then: Work) -> None:
        """Start so many tasks; go on once all of them wait."""

        async def go_on() -> None:
            await loop.in_thread(settle)
            if not tracemalloc.is_tracing():
                tracemalloc.start()
            gc.collect()
            allocated.append(tracemalloc.get_traced_memory()[0])
            await then()

        await loop.all_of([go_on, *[work] * tasks])

    async with arm.open(uri) as driver:

        async def operate() -> None:
            await driver.find_one(QUERY)

        async def finish() -> None:
            before, between, after = allocated
            task = (between - before) / number
            print(json.dumps({"task": task, "operation": (after - between) / number - task}), flush=True)
            os._exit(0)

        weigh_operations = partial(beside, number, operate, finish)
        # The first wave opens all connections.
        await beside(2 * POOL_SIZE, operate, partial(beside, number, loop.forever, weigh_operations))


def settle() -> None:
    """Return once nothing has happened in this process for a while."""
    quiet = 0
    while quiet < 2:
        before = time.process_time()
        time.sleep(QUIET)
        quiet = quiet + 1 if time.process_time() - before < QUIET_CPU else 0


def run(arguments: argparse.Namespace) -> int:
    found: dict[str, dict[str, float]] = {}
    for arm in present(arguments.arms)[0]:
        with serving("benchmarks.instructions.peer", "1", "--silent", "find") as port:
            try:
                found[arm] = ask("benchmarks.speed.waiting_memory", arm, str(port), str(arguments.operations))
            except ChildFailedError as error:
                say(str(error))
    print(f"{arguments.operations:,} operations on {POOL_SIZE} connections, none of them answered; bytes for each\n")
    print(f"{render(found)}\n")
    return judge([verdict(found)])


def render(found: dict[str, dict[str, float]]) -> str:
    rows = [("", "beyond the caller's task", "the task itself")]
    rows += [(arm, f"{one['operation']:,.0f}", f"{one['task']:,.0f}") for arm, one in found.items()]
    return align(rows)


def verdict(found: dict[str, Any]) -> tuple[str, bool]:
    wanted = f"a waiting operation of {SUBJECT} takes at most {TARGET:,} bytes beyond its caller's task"
    if SUBJECT not in found:
        return f"{wanted} (not measured)", False
    size = found[SUBJECT]["operation"]
    return f"{wanted} ({size:,.0f})", size <= TARGET


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--operations", type=int, default=OPERATIONS, help=f"default: {OPERATIONS}")
    parser.add_argument("--arms", type=names(ARMS), default=["motorlite", "motorlite-trio", "pymongo"])


if __name__ == "__main__":
    chosen = ARMS[sys.argv[1]]
    chosen.loop.run(partial(weighed, chosen, *sys.argv[2:]))
