"""Shell: the process of one arm: reads a request line, runs a round, writes an answer line.

`python -m benchmarks.speed.worker ARM URI [CHECKOUT]`; with a checkout, its motorlite is used.
"""

from __future__ import annotations

import math
import sys
from functools import partial
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING, Any

from benchmarks.documents import DOCUMENTS, STRIDE
from benchmarks.figures import percentile
from benchmarks.processes import Stopwatch, serve

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from benchmarks.arms import Driver
    from benchmarks.loops import Loop
    from benchmarks.speed.workloads import Perform


def walk(task: int) -> Iterator[int]:
    """An endless walk over all documents for one task."""
    number = task * 61 % DOCUMENTS
    while True:
        yield number
        number = (number + STRIDE) % DOCUMENTS


async def run_round(
    perform: Perform, tasks: int, loop: Loop, *, seconds: float = math.inf, operations: int | None = None
) -> dict[str, Any]:
    """Perform with concurrent tasks, for a duration or up to a number of operations; each task at least once.

    Raises:
        ValueError: A result was not the expected one.
    """
    latencies: list[float] = []

    async def repeat(numbers: Iterator[int]) -> None:
        before = perf_counter()
        for number in numbers:
            await perform(number)
            now = perf_counter()
            latencies.append(now - before)
            if now >= end:
                return
            before = now

    each = None if operations is None else -(-operations // tasks)
    watch = Stopwatch()
    end = perf_counter() + seconds
    await loop.all_of(partial(repeat, islice(walk(task), each)) for task in range(tasks))
    figures = watch.figures()
    latencies.sort()
    percentiles = {"p50": percentile(latencies, 0.50), "p99": percentile(latencies, 0.99)}
    return {"operations": len(latencies), **figures, **percentiles}


def responder(driver: Driver, loop: Loop) -> Callable[..., Awaitable[dict[str, Any]]]:
    """What answers a request; with nothing if the driver does not have the operation."""
    from benchmarks.speed.workloads import performers

    known = performers(driver)

    async def respond(operation: str, **extent: Any) -> dict[str, Any]:
        return await run_round(known[operation], loop=loop, **extent) if operation in known else {}

    return respond


def main() -> None:
    name, uri, *root = sys.argv[1:]
    sys.path[:0] = root
    from benchmarks.arms import ARMS

    if root:
        import motorlite  # before the modules beside this one, which come first from now on

        assert motorlite.__file__.startswith(root[0])
        sys.path.remove(root[0])
    arm = ARMS[name]
    arm.loop.run(partial(serve, arm, uri, partial(responder, loop=arm.loop)))


if __name__ == "__main__":
    main()
