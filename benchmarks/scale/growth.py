"""Shell: what each further client, connection, waiter, member or listener costs motorlite.

`python -m benchmarks.scale.growth clients PORT COUNT`, `connections PORT COUNT KIND` and `members COUNT` print the
answer of one process.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import shutil
import sys
import tracemalloc
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from resource import getpagesize
from statistics import mean
from typing import TYPE_CHECKING, Any, Final

from benchmarks.arms import POOL_SIZE
from benchmarks.instructions.counting import CountingError, Job, compile_driver
from benchmarks.instructions.marks import POOL, without_marks
from benchmarks.processes import ROOT, ChildFailedError, Stopwatch, ask, say, serving
from benchmarks.speed.targets import SUBJECT
from benchmarks.virtual import run as in_virtual_time

if TYPE_CHECKING:
    from collections.abc import Callable

MODULE: Final = "benchmarks.scale.growth"
PEER: Final = "benchmarks.instructions.peer"
# Of clients, connections, waiters, members and listeners.
NUMBERS: Final = ((100, 1000), (100, 1000), (1000, 10_000), (1, 3, 10, 50), (0, 1, 4, 16))
SMALL: Final = ((10,), (20,), (200,), (3,), (0, 1))
# Virtual, of heartbeats.
MINUTES: Final = 20


@dataclass(frozen=True, slots=True)
class Series:
    """What something costs at several numbers of things."""

    what: str
    unit: str
    # What there are numbers of.
    things: str
    # By the number of things.
    values: dict[int, float] = field(default_factory=dict)
    # Whether the values are of all things together, not of each.
    is_total: bool = False
    # Why it is not measured.
    why: str = ""

    @property
    def each(self) -> float | None:
        """What each further thing costs, between the two highest numbers: the first often costs more."""
        if not self.is_total or len(self.values) < 2:
            return None
        low, high = sorted(self.values)[-2:]
        return (self.values[high] - self.values[low]) / (high - low)


def measure(*, quick: bool) -> list[Series]:
    """All series; a quick run stops at small numbers, and leaves out what callgrind takes longest to count."""
    clients, connections, waiters, members, listeners = SMALL if quick else NUMBERS
    find_one = f"find_one of {SUBJECT}"
    found = [
        _series("an idle client, with one connection", "bytes", "clients", clients, _client),
        _series(
            "an idle connection, allocated", "bytes", "connections", connections, partial(_connection, "allocated")
        ),
        _series("an idle connection, resident", "bytes", "connections", connections, partial(_connection, "resident")),
        _series("a waiting operation, beyond its task", "bytes", "waiters", waiters, _waiter),
    ]
    for what in ("discovery", "heartbeats"):
        title = {"discovery": "discovery, for each member", "heartbeats": "heartbeats, for each member and minute"}[
            what
        ]
        found.append(_series(title, "us CPU", "members", members, partial(_member, what)))
    jobs: list[tuple[str, str, tuple[int, ...], Callable[[int], float]]] = [
        (f"{find_one}, {POOL_SIZE} run", "waiters", (0, *waiters), lambda n: _instructions(_job(tasks=POOL_SIZE + n))),
        (f"{find_one}, nearest", "members", members, lambda n: _instructions(_job(members=n))),
        (f"{POOL} of it", "members", members, lambda n: _selection(_job(members=n))),
        (find_one, "listeners", listeners, lambda n: _instructions(_job(listeners=n))),
    ]
    lacking = next((f"{name} is missing" for name in ("valgrind", "vgdb") if shutil.which(name) is None), "")
    if not lacking:
        compile_driver(ROOT)
    for what, things, numbers, of in jobs[2:] if quick else jobs:
        if lacking:
            found.append(Series(what, "instructions", things, why=lacking))
        else:
            found.append(_series(what, "instructions", things, numbers, of, is_total=True))
    return found


def _series(
    what: str, unit: str, things: str, numbers: tuple[int, ...], of: Callable[[int], float], *, is_total: bool = False
) -> Series:
    say(f"{what}: {', '.join(map(str, numbers))} {things}")
    try:
        return Series(what, unit, things, {number: of(number) for number in numbers}, is_total)
    except (ChildFailedError, CountingError) as error:
        say(str(error))
        return Series(what, unit, things, why=str(error))


def _client(count: int) -> float:
    with serving(PEER, "1") as port:
        return float(sum(ask(MODULE, "clients", str(port), str(count)).values()))


def _connection(kind: str, count: int) -> float:
    with serving(PEER, "1") as port:
        return float(ask(MODULE, "connections", str(port), str(count), kind))


def _waiter(count: int) -> float:
    with serving(PEER, "1", "--silent", "find") as port:
        found = ask("benchmarks.speed.waiting_memory", SUBJECT, str(port), str(count))
    return float(found["operation"])


def _member(what: str, count: int) -> float:
    """The least of three: other load on the machine makes it only more."""
    return float(min(ask(MODULE, "members", str(count))[what] for _ in range(3)))


def _job(tasks: int = 1, members: int = 0, listeners: int = 0) -> Job:
    warm_up, each = 300 + 200 * min(tasks, POOL_SIZE), max(200, tasks)
    return Job(SUBJECT, "find_one", tasks, 1, warm_up, each, 2, members=members, listeners=listeners)


def _instructions(job: Job) -> float:
    return mean(job.count())


def _selection(job: Job) -> float:
    return without_marks(job.parts()[0], _instructions(job))[POOL]


# --- in the child ---


async def clients(port: str, count: str) -> None:
    """Print the bytes of an idle client with one connection, by the part of the driver that allocates them."""
    from motorlite import AsyncMongoClient

    number = int(count)
    made: list[Any] = []
    # The first loads what every client needs.
    for at in range(1 + number):
        if at == 1:
            gc.collect()
            tracemalloc.start()
        made.append(AsyncMongoClient(f"mongodb://127.0.0.1:{port}/?heartbeatFrequencyMS=3600000"))
        await made[-1].admin.command("ping")
    gc.collect()
    found: Counter[str] = Counter()
    for part in tracemalloc.take_snapshot().statistics("filename"):
        folder = Path(part.traceback[0].filename).parent
        found[str(folder.relative_to(ROOT)) if folder.is_relative_to(ROOT) else folder.name] += part.size
    print(json.dumps({folder: size / number for folder, size in found.most_common()}), flush=True)
    os._exit(0)


async def connections(port: str, count: str, kind: str) -> None:
    """Print the bytes of an idle connection: what a client with many has more than one with a single connection."""
    from motorlite import AsyncMongoClient

    sizes, clients = [], []
    if kind == "allocated":
        tracemalloc.start()
    # The first loads what every client needs.
    for number in (1, 1, 1 + int(count)):
        uri = f"mongodb://127.0.0.1:{port}/?heartbeatFrequencyMS=3600000"
        client: Any = AsyncMongoClient(uri, minPoolSize=number, maxPoolSize=number)
        await client.admin.command("ping")
        while sum(one.idle for one in client.stats().servers.values()) < number:  # noqa: ASYNC110  # it has no event
            await asyncio.sleep(0.05)
        clients.append(client)
        gc.collect()
        sizes.append(tracemalloc.get_traced_memory()[0] if kind == "allocated" else resident())
    print(json.dumps((sizes[2] - 2 * sizes[1] + sizes[0]) / int(count)), flush=True)


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * getpagesize()


async def members(count: str) -> None:
    """Print the CPU time, in microseconds for each member, of discovery and of a minute of streamed heartbeats.

    The servers are in this process too, and take about a fifth of the time.
    """
    from motorlite.testing.scripted import ScriptedDeployment

    number = int(count)
    hosts = [f"member{at}:1" for at in range(number)]
    async with (
        ScriptedDeployment(hosts, replica_set="rs0", streaming=True) as deployment,
        deployment.client() as client,
    ):
        discovery = Stopwatch()
        await client.admin.command("ping")
        await asyncio.sleep(5)  # virtual, as everything here
        discovered, heartbeats = discovery.figures(), Stopwatch()
        await asyncio.sleep(MINUTES * 60)
        beaten = heartbeats.figures()
    cpu = {"discovery": discovered["cpu_seconds"], "heartbeats": beaten["cpu_seconds"] / MINUTES}
    print(json.dumps({what: seconds * 1e6 / number for what, seconds in cpu.items()}), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "members":
        in_virtual_time(members(*sys.argv[2:]))
    else:
        asyncio.run((clients if sys.argv[1] == "clients" else connections)(*sys.argv[2:]))
