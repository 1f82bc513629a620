"""Shell: the process of one arm: reads a request line, runs a round, writes an answer line."""

from __future__ import annotations

import json
import math
import resource
import sys
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from benchmarks.arms import ARMS
from benchmarks.documents import DOCUMENTS, STRIDE
from benchmarks.figures import percentile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.arms import Arm, FindOne


def walk(task: int) -> Iterator[int]:
    """An endless walk over all documents for one task."""
    number = task * 61 % DOCUMENTS
    while True:
        yield number
        number = (number + STRIDE) % DOCUMENTS


async def run_round(
    find_one: FindOne, tasks: int, *, seconds: float = math.inf, operations: int | None = None
) -> dict[str, Any]:
    """Read documents with concurrent tasks, for a duration or up to a number of operations.

    Raises:
        ValueError: A reply was not the requested document.
    """
    latencies: list[float] = []

    async def read(numbers: Iterator[int]) -> None:
        before = perf_counter()
        for number in numbers:
            found = await find_one({"_id": number})
            if found is None or found["_id"] != number:
                raise ValueError(f"asked for document {number}, got {found!r}")
            now = perf_counter()
            latencies.append(now - before)
            if now >= end:
                return
            before = now

    each = None if operations is None else -(-operations // tasks)
    cpu = _cpu_seconds()
    start = perf_counter()
    end = start + seconds
    async with anyio.create_task_group() as group:
        for task in range(tasks):
            group.start_soon(read, islice(walk(task), each))
    elapsed = perf_counter() - start
    cpu = _cpu_seconds() - cpu
    latencies.sort()
    return {
        "operations": len(latencies),
        "seconds": elapsed,
        "cpu_seconds": cpu,
        "p50": percentile(latencies, 0.50),
        "p99": percentile(latencies, 0.99),
    }


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def serve(arm: Arm, uri: str) -> None:
    """Answer requests until standard input ends, which also happens when the parent is killed."""
    try:
        async with arm.open(uri) as find_one:
            # Read in a thread, so that the driver's monitors keep running while other arms are measured.
            while line := await anyio.to_thread.run_sync(sys.stdin.readline):
                answer(await run_round(find_one, **json.loads(line)))
    except Exception as error:  # the parent decides what a failed arm means
        answer({"error": _describe(error)})


def answer(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def _describe(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def main() -> None:
    arm = ARMS[sys.argv[1]]
    options = {"use_uvloop": True} if arm.uvloop else {}
    anyio.run(serve, arm, sys.argv[2], backend=arm.backend, backend_options=options)


if __name__ == "__main__":
    main()
