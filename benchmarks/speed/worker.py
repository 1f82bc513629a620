"""Shell: the process of one arm: reads a request line, runs a round, writes an answer line.

`python -m benchmarks.speed.worker ARM URI [CHECKOUT]`; with a checkout, its motorlite is used.
"""

from __future__ import annotations

import json
import math
import sys
from functools import partial
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING, Any

from benchmarks.documents import DOCUMENTS, STRIDE
from benchmarks.figures import percentile
from benchmarks.processes import answer, cpu_seconds, describe
from benchmarks.speed.sampling import Sampler

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.arms import Arm
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
    cpu = cpu_seconds()
    start = perf_counter()
    end = start + seconds
    await loop.all_of(partial(repeat, islice(walk(task), each)) for task in range(tasks))
    elapsed = perf_counter() - start
    cpu = cpu_seconds() - cpu
    latencies.sort()
    return {
        "operations": len(latencies),
        "seconds": elapsed,
        "cpu_seconds": cpu,
        "p50": percentile(latencies, 0.50),
        "p99": percentile(latencies, 0.99),
    }


async def serve(arm: Arm, uri: str) -> None:
    """Answer requests until standard input ends, which also happens when the parent is killed."""
    from benchmarks.speed.workloads import performers

    try:
        async with arm.open(uri) as driver:
            known = performers(driver)
            # Read in a thread, so that the driver's monitors keep running while other arms are measured.
            while line := await arm.loop.in_thread(sys.stdin.readline):
                request = json.loads(line)
                perform = known.get(request.pop("operation"))
                if perform is None:
                    answer({})
                elif request.pop("sample", False):
                    with Sampler() as sampler:
                        figures = await run_round(perform, loop=arm.loop, **request)
                    answer({**figures, "layers": sampler.layers})
                else:
                    answer(await run_round(perform, loop=arm.loop, **request))
    except Exception as error:  # the parent decides what a failed arm means
        answer({"error": describe(error)})


def main() -> None:
    name, uri, *root = sys.argv[1:]
    sys.path[:0] = root
    from benchmarks.arms import ARMS

    if root:
        import motorlite  # before the modules beside this one, which come first from now on

        assert motorlite.__file__.startswith(root[0])
        sys.path.remove(root[0])
    arm = ARMS[name]
    arm.loop.run(partial(serve, arm, uri))


if __name__ == "__main__":
    main()
