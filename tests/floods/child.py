"""One flood on one event loop: ``python -m tests.floods.child CASE LOOP OPERATIONS URI`` prints its figures."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.loops import ASYNCIO, TRIO, UVLOOP, Loop
from benchmarks.speed.stalls import Watch
from motorlite import AsyncMongoClient
from motorlite.errors import PyMongoError
from tests.support.faulty_server import DATABASE

if TYPE_CHECKING:
    from collections.abc import Mapping

LOOPS: Final[Mapping[str, Loop]] = {loop.name: loop for loop in (ASYNCIO, UVLOOP, TRIO)}
# The collection, which tells the server how to behave, and the options: the time limit of an operation above all.
CASES: Final[Mapping[str, tuple[str, dict[str, Any]]]] = {
    "refusing": ("ok", {"serverSelectionTimeoutMS": 3000}),
    "black hole": ("ok", {"serverSelectionTimeoutMS": 3000, "connectTimeoutMS": 1000}),
    "silent": ("silent", {"timeoutMS": 5000}),
    "slow": ("very_slow", {"timeoutMS": 5000}),
    "lying": ("lying", {"timeoutMS": 5000}),
    "overloaded": ("overloaded", {"serverSelectionTimeoutMS": 3000}),
}
# Operations that are started in one step.
PART: Final = 500
COMMON: Final[dict[str, Any]] = {"maxPoolSize": 100}


@dataclass
class Figures:
    """What a flood cost.

    Attributes:
        seconds: Until the last operation ended.
        cpu: Seconds of the processor.
        memory: Bytes of the process at its peak, beyond those before the flood, for each operation.
        step: The longest step of the event loop, seconds of the processor; -1 where it cannot be seen (uvloop).
        step_without_collector: The same without Python's cyclic garbage collector.
        outcomes: How many operations ended how.
        unexpected: The errors that are not documented.
        unrest: What was in use afterwards.
    """

    seconds: float
    cpu: float
    memory: float
    step: float
    step_without_collector: float
    outcomes: dict[str, int]
    unexpected: list[str]
    unrest: dict[str, int]


def watch(loop: Loop) -> Watch | None:
    """Time the steps of the event loop from now on."""
    if loop is UVLOOP:
        return None
    if loop is TRIO:
        import trio

        class Instrument(Watch, trio.abc.Instrument):
            """A watch that trio knows."""

        watching = Instrument()
        trio.lowlevel.add_instrument(watching)
        return watching
    timed = Watch()
    timed.watch_asyncio()
    return timed


def peak() -> int:
    """The largest size of the process so far, bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def size() -> int:
    """The present size of the process, bytes."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()


async def flood(case: str, loop: Loop, operations: int, uri: str) -> None:
    """Print what so many operations at once cost."""
    collection, options = CASES[case]
    outcomes: Counter[str] = Counter()
    unexpected: list[str] = []
    async with AsyncMongoClient[dict[str, Any]](uri, **COMMON, **options) as client:
        target = client[DATABASE][collection]

        async def operate() -> None:
            try:
                await target.find_one({"_id": 1})
            except PyMongoError as error:
                outcomes[type(error).__name__] += 1
            except Exception as error:  # the test says so
                unexpected.append(repr(error))
            else:
                outcomes["success"] += 1

        if case in ("slow", "silent", "lying", "overloaded"):
            await client[DATABASE].ok.find_one({"_id": 1})
        timed = watch(loop)
        before, cpu, started = size(), time.process_time(), time.perf_counter()
        # In parts: to start ten thousand tasks of trio in one step takes 50 ms.
        parts = range(0, operations, PART)
        await loop.all_of([partial(loop.all_of, [operate] * min(PART, operations - start)) for start in parts])
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        memory = (max(peak(), size()) - before) / operations
        stall = None if timed is None else timed.stall
        unrest = await at_rest(client, loop)
    figures = Figures(
        seconds,
        cpu,
        memory,
        -1 if stall is None else stall.longest_cpu,
        -1 if stall is None else stall.longest_without_collector,
        dict(outcomes),
        unexpected[:10],
        unrest,
    )
    print(json.dumps(asdict(figures)), flush=True)


async def at_rest(client: AsyncMongoClient[dict[str, Any]], loop: Loop) -> dict[str, int]:
    """Wait until nothing is in use; return what is in the end."""
    busy: dict[str, int] = {}
    for _ in range(100):
        (server,) = client.stats().servers.values()
        busy = {name: getattr(server, name) for name in ("in_use", "pending", "waiting", "connecting", "operations")}
        if not any(busy.values()):
            return {}
        await loop.in_thread(lambda: time.sleep(0.1))
    return {name: number for name, number in busy.items() if number}


def main() -> None:
    case, name, operations, uri = sys.argv[1:]
    loop = LOOPS[name]

    async def run() -> None:
        await flood(case, loop, int(operations), uri)

    loop.run(run)


if __name__ == "__main__":
    main()
