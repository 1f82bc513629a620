"""Shell: kills the primary under a load of majority writes, and measures lost writes and recovery times.

After an election, a majority write waits until the other member has found its new sync source. By default, members look
for it once a second, which costs half a second regardless of the driver. Here the servers look every 50 ms. In each
round, a bare socket also writes as soon as the new primary accepts writes; no driver can be faster.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.figures import align
from motorlite.errors import PyMongoError
from motorlite.testing import LocalServer
from motorlite.testing.server.local_commands import Access, run_command

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from motorlite._base.values import Address

ARMS = ("motorlite", "pymongo")
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

    arm: str
    number: int
    acknowledged: int
    failed: int
    lost: int
    doubled: int
    kill_to_election: float
    election_to_success: float
    writable_to_success: float
    election_to_bare: float
    # Connections checked out and requests waiting at the end; motorlite only.
    left_over: int | None


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


async def write(collections: Any, task: int, load: Load, base_error: type[Exception]) -> None:
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
        except base_error as error:
            load.uncertain[task] += 1
            load.errors[type(error).__name__] += 1
        else:
            load.successes.append(time.time())
            if load.successes[-1] >= load.writable:
                load.has_recovered.set()


async def kill_once(arm: str, number: int, server: LocalServer, tasks: int) -> Round:
    """Run one round with a new client."""
    module: Any = importlib.import_module(arm)
    errors = importlib.import_module(f"{arm}.errors")
    load = Load()
    async with module.AsyncMongoClient(server.uri, w="majority", maxPoolSize=100) as client:
        database = client[f"{DATABASE}_{arm}_{number}"]
        collections = database.inserts, database.counters
        # The previously killed member must have caught up: without its vote there is no election.
        first = {"insert": "first", "documents": [{}], "writeConcern": {"w": len(server.addresses)}}
        await asyncio.to_thread(server.command, first, database.name)
        async with asyncio.TaskGroup() as group:
            for task in range(tasks):
                group.create_task(write(collections, task, load, errors.PyMongoError))
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
        left_over = _left_over(client) if arm == "motorlite" else None
        ids = {one["_id"] async for one in collections[0].find({}, {"_id": 1})}
        found = {one["_id"]: one["n"] async for one in collections[1].find()}
        await client.drop_database(database.name)
    await asyncio.to_thread(server.restart, killed)
    return Round(
        arm,
        number,
        acknowledged=len(load.inserted) + load.counted.total(),
        failed=load.uncertain.total(),
        lost=lost(load, ids, found),
        doubled=doubled(load, found),
        kill_to_election=elected - killed_at,
        election_to_success=first_after(load.successes, elected),
        writable_to_success=first_after(load.successes, writable),
        election_to_bare=min(task.result() for task in bare) - elected,
        left_over=left_over,
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


def _left_over(client: Any) -> int:
    return sum(one.in_use + one.waiting for one in client.stats().servers.values())


def render(rounds: Sequence[Round]) -> str:
    """One line per kill."""
    head = ("driver", "kill", "writes", "failed", "lost", "doubled")
    times = ("to election", "to success", "since writable", "bare write")
    rows: list[Sequence[str]] = [(*head, *times)]
    for one in rounds:
        counts = (one.arm, one.number, one.acknowledged, one.failed, one.lost, one.doubled)
        seconds = (one.kill_to_election, one.election_to_success, one.writable_to_success, one.election_to_bare)
        rows.append((*map(str, counts), *(f"{each * 1000:,.0f} ms" for each in seconds)))
    return align(rows)


def verdict(rounds: Sequence[Round]) -> tuple[str, bool]:
    """The medians of each driver, and whether motorlite meets its target."""
    lines = []
    is_met = False
    for arm in dict.fromkeys(one.arm for one in rounds):
        ours = [one for one in rounds if one.arm == arm]
        times = [one.election_to_success for one in ours]
        bare = [one.election_to_bare for one in ours]
        harm = sum(one.lost + one.doubled + (one.left_over or 0) for one in ours)
        lines.append(
            f"{arm}: {len(ours)} kills; from the election to the next success: median {median(times) * 1000:.0f} ms, "
            f"maximum {max(times) * 1000:.0f} ms (of a bare write: {median(bare) * 1000:.0f} ms, "
            f"{max(bare) * 1000:.0f} ms); acknowledged writes lost: {sum(one.lost for one in ours)}, "
            f"applied twice: {sum(one.doubled for one in ours)}, operations that failed: {sum(o.failed for o in ours)}"
        )
        if arm == "motorlite":
            is_met = median(times) < TARGET and not harm
    word = "met" if is_met else "NOT MET"
    lines.append(f"{word}: motorlite's median is below {TARGET * 1000:.0f} ms, nothing is lost")
    return "\n".join(lines), is_met


def run(arguments: argparse.Namespace) -> int:
    """Kill, print and judge; return the exit status."""
    rounds = []
    parameters = None if arguments.plain_servers else QUICKLY
    with LocalServer.start("replicaset", nodes=3, own=True, parameters=parameters) as server:
        for number in range(1, arguments.kills + 1):
            for arm in arguments.arms.split(","):
                rounds.append(asyncio.run(kill_once(arm, number, server, arguments.tasks)))
                print(render(rounds[-1:]).splitlines()[1], file=sys.stderr, flush=True)
    line, is_met = verdict(rounds)
    print(f"{arguments.tasks} tasks of majority writes on three members; the primary is killed with SIGKILL")
    pace = "second" if arguments.plain_servers else "50 ms"
    print(f"Members look for a new sync source every {pace}; the bare write includes the time they need for it.\n")
    print(f"{render(rounds)}\n\n{line}")
    return 0 if is_met else 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=20, help="default: 20 per driver")
    parser.add_argument("--tasks", type=int, default=50, help="default: 50")
    parser.add_argument("--plain-servers", action="store_true", help="members look for a sync source at their own pace")
    parser.add_argument("--arms", default="motorlite", help=f"of {', '.join(ARMS)}; default: motorlite")
