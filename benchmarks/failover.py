"""Shell: kills the primary under a load of majority writes, and measures lost writes and recovery times.

After an election, a majority write waits until the other member has found its new sync source. By default, members look
for it once a second, which costs half a second regardless of the driver. Here the servers look every 50 ms. In each
round, a bare socket also writes as soon as the new primary accepts writes; no driver can be faster.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.figures import align, judge
from benchmarks.processes import say
from motorlite import AsyncMongoClient
from motorlite.errors import PyMongoError
from motorlite.testing import LocalServer
from motorlite.testing.server.local_commands import Access, run_command

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from motorlite._base.values import Address

TARGET = 0.3  # seconds from the election to the next success, the median of all rounds
DATABASE = "motorlite_failover"
ELECTED = 21450  # "Election succeeded, assuming primary role"
WRITABLE = 21331  # "Transition to primary complete; database writes are now permitted"
# Members without a sync source look for one every 50 ms instead of every second.
QUICKLY = {"failpoint.forceBgSyncSyncSourceRetryWaitMS": "{mode: 'alwaysOn', data: {sleepMS: 50}}"}
_BEFORE, _AFTER = 0.5, 1.0  # seconds of load around each kill


@dataclass(slots=True)
class Load:
    """The writes of one round; each task inserts documents and increments a counter document of its own."""

    inserted: list[str] = field(default_factory=list)
    counted: Counter[int] = field(default_factory=Counter)
    # Operations with an unknown outcome, by task.
    uncertain: Counter[int] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    # Wall-clock times, for comparison with the servers' logs.
    successes: list[float] = field(default_factory=list)
    # When the new primary began to accept writes, once known; the event is set after the first success since then.
    writable: float = inf
    has_recovered: asyncio.Event = field(default_factory=asyncio.Event)
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class Round:
    """One kill. Times in seconds."""

    number: int
    acknowledged: int
    failed: int
    lost: int
    doubled: int
    # Connections checked out and requests waiting at the end.
    left_over: int
    kill_to_election: float
    election_to_success: float
    writable_to_success: float
    election_to_bare: float

    @property
    def counts(self) -> tuple[int, ...]:
        return self.acknowledged, self.failed, self.lost, self.doubled, self.left_over

    @property
    def times(self) -> tuple[float, ...]:
        return self.kill_to_election, self.election_to_success, self.writable_to_success, self.election_to_bare


def log_time(lines: Iterable[str], log_id: int, after: float) -> float | None:
    """The time of the first log message `log_id` later than `after`, as seconds since the epoch."""
    for line in lines:
        entry = json.loads(line)
        if entry.get("id") == log_id:
            moment = datetime.fromisoformat(entry["t"]["$date"]).timestamp()
            if moment > after:
                return moment
    return None


def first_after(moments: Sequence[float], moment: float) -> float:
    """Seconds from `moment` to the first of `moments` at or after it."""
    return min(one for one in moments if one >= moment) - moment


def doubled(load: Load, found: dict[int, int]) -> int:
    """The number of increments in the documents that no operation accounts for."""
    return sum(max(0, found.get(task, 0) - load.counted[task] - load.uncertain[task]) for task in found)


def lost(load: Load, ids: set[str], found: dict[int, int]) -> int:
    """The number of missing acknowledged writes."""
    missing = sum(1 for one in load.inserted if one not in ids)
    return missing + sum(max(0, count - found.get(task, 0)) for task, count in load.counted.items())


async def write(collections: Any, task: int, load: Load) -> None:
    """Alternate inserts and increments until the round is over."""
    inserts, counters = collections
    number = 0
    while not load.is_over:
        number += 1
        try:
            if number % 2:
                name = f"{task}-{number}"
                await inserts.insert_one({"_id": name})
                load.inserted.append(name)
            else:
                await counters.update_one({"_id": task}, {"$inc": {"n": 1}}, upsert=True)
                load.counted[task] += 1
        except PyMongoError as error:
            load.uncertain[task] += 1
            load.errors[type(error).__name__] += 1
        else:
            load.successes.append(time.time())
            if load.successes[-1] >= load.writable:
                load.has_recovered.set()


async def kill_once(number: int, server: LocalServer, tasks: int) -> Round:
    load = Load()
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(server.uri, w="majority", maxPoolSize=100)
    async with client:
        database = client[f"{DATABASE}_{number}"]
        collections = database.inserts, database.counters
        # The previously killed member must have caught up: without its vote there is no election.
        first = {"insert": "first", "documents": [{}], "writeConcern": {"w": len(server.addresses)}}
        await asyncio.to_thread(server.command, first, database.name)
        async with asyncio.TaskGroup() as group:
            for task in range(tasks):
                group.create_task(write(collections, task, load))
            await asyncio.sleep(_BEFORE)
            killed = await asyncio.to_thread(server.wait_for_primary)
            killed_at = time.time()
            await asyncio.to_thread(server.kill, killed)
            bare = [
                group.create_task(asyncio.to_thread(_bare_write, address, database.name, load))
                for address in server.addresses
                if address != killed
            ]
            elected, writable = await _election(server, killed, killed_at)
            load.writable = writable
            await load.has_recovered.wait()
            await asyncio.sleep(_AFTER)
            load.is_over = True
        left_over = sum(one.in_use + one.waiting for one in client.stats().servers.values())
        ids = {one["_id"] async for one in collections[0].find({}, {"_id": 1})}
        found = {one["_id"]: one["n"] async for one in collections[1].find()}
        await client.drop_database(database.name)
    await asyncio.to_thread(server.restart, killed)
    return Round(
        number,
        acknowledged=len(load.inserted) + load.counted.total(),
        failed=load.uncertain.total(),
        lost=lost(load, ids, found),
        doubled=doubled(load, found),
        left_over=left_over,
        kill_to_election=elected - killed_at,
        election_to_success=first_after(load.successes, elected),
        writable_to_success=first_after(load.successes, writable),
        election_to_bare=min(task.result() for task in bare) - elected,
    )


def _bare_write(address: Address, database: str, load: Load) -> float:
    """The time of the first majority write over a bare socket; infinity if this member did not become primary."""
    insert = {"insert": "bare", "documents": [{}], "writeConcern": {"w": "majority"}}
    while not load.is_over:
        try:
            run_command(address, insert, database, Access())
        except (OSError, PyMongoError):
            time.sleep(0.005)
        else:
            return time.time()
    return inf


async def _election(server: LocalServer, killed: Address, killed_at: float) -> tuple[float, float]:
    """When the new primary was elected and when it began to accept writes, according to its log."""
    others = [address for address in server.addresses if address != killed]
    while True:
        for address in others:
            log = await asyncio.to_thread(server.command, {"getLog": "global"}, address=address)
            elected = log_time(log["log"], ELECTED, killed_at)
            writable = log_time(log["log"], WRITABLE, killed_at)
            if elected is not None and writable is not None:
                return elected, writable
        await asyncio.sleep(0.05)


def render(rounds: Sequence[Round]) -> str:
    """One line per kill, and one with the medians of the times and the sums of the counts."""
    head = ("kill", "writes", "failed", "lost", "doubled", "left over")
    times = ("to election", "to success", "since writable", "bare write")
    rows: list[Sequence[str]] = [(*head, *times)]
    rows += [
        (str(one.number), *map(str, one.counts), *(f"{each * 1000:,.0f} ms" for each in one.times)) for one in rounds
    ]
    sums = (str(sum(each)) for each in zip(*(one.counts for one in rounds), strict=True))
    medians = (f"{median(each) * 1000:,.0f} ms" for each in zip(*(one.times for one in rounds), strict=True))
    return align([*rows, ("all", *sums, *medians)])


def verdict(rounds: Sequence[Round]) -> tuple[str, bool]:
    harm = sum(one.lost + one.doubled + one.left_over for one in rounds)
    is_met = median(one.election_to_success for one in rounds) < TARGET and not harm
    return f"the median from the election to the next success is below {TARGET * 1000:.0f} ms, nothing is lost", is_met


def run(arguments: argparse.Namespace) -> int:
    rounds = []
    with LocalServer.start("replicaset", nodes=3, own=True, parameters=QUICKLY) as server:
        for number in range(1, arguments.kills + 1):
            rounds.append(asyncio.run(kill_once(number, server, arguments.tasks)))
            say(render(rounds[-1:]).splitlines()[1])
    print(f"{arguments.tasks} tasks of majority writes on three members; the primary is killed with SIGKILL")
    print("Members look for a new sync source every 50 ms; the bare write includes the time they need for it.\n")
    print(f"{render(rounds)}\n")
    return judge([verdict(rounds)])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=20, help="default: 20")
    parser.add_argument("--tasks", type=int, default=50, help="default: 50")
