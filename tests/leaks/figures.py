"""What a process holds at one moment: memory, descriptors, tasks, timers, threads and objects."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import tracemalloc
from collections import Counter
from dataclasses import dataclass, fields
from typing import Any, Final

import sniffio

# Bytes, objects: what may be left behind besides a part for each operation. Caches of the standard library fill up.
SPARE_BYTES: Final = 100_000
SPARE_OBJECTS: Final = 2_000
# Monitoring may be at another point.
SPARE_WORK: Final = 5
# What one operation may leave behind.
BYTES: Final = 1.0
OBJECTS: Final = 0.01


@dataclass(frozen=True)
class Figures:
    """One moment; without what is garbage.

    Attributes:
        bytes: Allocated by Python (tracemalloc).
        objects: Known to the garbage collector.
        descriptors: Open file descriptors, sockets among them.
        sockets: Open sockets.
        tasks: Tasks of the event loop.
        timers: Timers of the event loop that are not cancelled; -1 where they cannot be seen (uvloop).
        threads: Threads.
        of_driver: Objects of each type of the driver.
    """

    bytes: int
    objects: int
    descriptors: int
    sockets: int
    tasks: int
    timers: int
    threads: int
    of_driver: dict[str, int]


def figures(*, connections: int = 0) -> Figures:
    """The figures of this moment; `connections` are expected to be open, and are not counted."""
    if sniffio.current_async_library() == "trio":
        # It keeps the scopes of up to a thousand timers that were cancelled.
        _runner().deadlines._prune()
    for _ in range(3):
        gc.collect()
    size = tracemalloc.get_traced_memory()[0]
    found = gc.get_objects()
    kinds = Counter(type(each) for each in found)
    ours = {f"{kind.__module__}.{kind.__qualname__}": number for kind, number in kinds.items() if _is_ours(kind)}
    del found
    links = [_link(name) for name in os.listdir("/proc/self/fd")]
    return Figures(
        size,
        sum(kinds.values()),
        len(links) - connections,
        sum("socket:" in link for link in links) - connections,
        *_of_loop(connections),
        threading.active_count(),
        ours,
    )


def _is_ours(kind: type) -> bool:
    # Of some built-in types it is a descriptor.
    module: object = kind.__module__
    return isinstance(module, str) and module.partition(".")[0] == "motorlite"


def _link(name: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{name}")
    except OSError:  # that of the listing itself
        return ""


def _runner() -> Any:
    """What runs trio."""
    import trio

    return trio._core._run.GLOBAL_RUN_CONTEXT.runner  # private


def _of_loop(connections: int) -> tuple[int, int]:
    """The number of tasks, and of timers; on asyncio, each connection may have one, which its next reply moves."""
    if sniffio.current_async_library() == "trio":
        import trio

        return trio.lowlevel.current_statistics().tasks_living, _runner().deadlines._active
    timers: Any = getattr(asyncio.get_running_loop(), "_scheduled", None)
    if timers is None:
        return len(asyncio.all_tasks()), -1
    return len(asyncio.all_tasks()), max(0, sum(not timer.cancelled() for timer in timers) - connections)


def complaints(before: Figures, after: Figures, operations: int) -> list[str]:
    """What grew more than it may during so many operations."""
    allowed = {
        "bytes": SPARE_BYTES + BYTES * operations,
        "objects": SPARE_OBJECTS + OBJECTS * operations,
        "tasks": SPARE_WORK,
        "timers": SPARE_WORK,
    }
    wrong = [
        f"{each.name} grew by {growth}"
        for each in fields(Figures)
        if each.name != "of_driver"
        and (growth := getattr(after, each.name) - getattr(before, each.name)) > allowed.get(each.name, 0)
    ]
    for name, number in after.of_driver.items():
        growth = number - before.of_driver.get(name, 0)
        # Connections and what they hold come and go.
        if growth > 100 + OBJECTS * operations:
            wrong.append(f"{growth} more of {name}")
    return wrong
