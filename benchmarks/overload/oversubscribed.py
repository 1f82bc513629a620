"""Shell: a pool with more callers than connections, where each caller has less time than waiting and working take.

Every caller gives up after a while and tries again. The benchmark measures how much of the connections' capacity
produces replies that a caller still waits for, and how many connections are opened for it.
"""

from __future__ import annotations

import asyncio
import importlib
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.figures import align, judge
from benchmarks.overload.abandoned import ARMS, attempt, connections_created, drive, slowed
from benchmarks.processes import say
from motorlite.testing import LocalServer

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

DATABASE, COLLECTION = "motorlite_oversubscribed", "c"
CONNECTIONS = 10
SERVER_TAKES, CALLER_WAITS = 0.03, 0.05  # seconds
TASKS = (10, 13, 20, 40)
LIMITS = ("asyncio.timeout", "anyio scope", "driver's timeout")
LEAST_SHARE = 0.8  # of the connections' capacity
MOST_CREATED = 10.0  # connections per 1000 operations


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one driver with one kind of limit and one number of tasks."""

    arm: str
    limit: str
    tasks: int
    operations: int
    succeeded: int
    created: int
    # Seconds: the run, and one server operation with as many tasks as connections.
    elapsed: float
    duration: float

    @property
    def share(self) -> float:
        """Successes relative to the connections' capacity in that time, or to all operations if those are fewer."""
        return self.succeeded / min(self.operations, CONNECTIONS * self.elapsed / self.duration)

    @property
    def per_thousand(self) -> float:
        return self.created * 1000 / self.operations


async def measure(arm: str, limit: str, tasks: int, operations: int, server: LocalServer) -> Outcome:
    module: Any = importlib.import_module(arm)
    async with module.AsyncMongoClient(server.uri, maxPoolSize=CONNECTIONS) as client:
        collection = client[DATABASE][COLLECTION]

        async def unlimited() -> bool:
            await collection.find_one()
            return True

        await drive(CONNECTIONS, 10 * CONNECTIONS, unlimited)
        with slowed(server, SERVER_TAKES):
            started = time.perf_counter()
            await drive(CONNECTIONS, 5 * CONNECTIONS, unlimited)
            alone = (time.perf_counter() - started) / 5
            before = await asyncio.to_thread(connections_created, server)
            started = time.perf_counter()
            one = partial(attempt, limit, CALLER_WAITS, module, collection.find_one)
            succeeded = await drive(tasks, operations, one)
            took = time.perf_counter() - started
            created = await asyncio.to_thread(connections_created, server) - before
    return Outcome(arm, limit, tasks, operations, succeeded, created, took, alone)


def render(outcomes: Sequence[Outcome]) -> str:
    head = ("limit", "tasks", "driver", "succeeded", "of capacity", "new connections per 1000")
    rows = [
        (one.limit, str(one.tasks), one.arm, str(one.succeeded), f"{one.share:.0%}", f"{one.per_thousand:.0f}")
        for one in outcomes
    ]
    return align([head, *rows])


def misses(outcomes: Sequence[Outcome]) -> list[str]:
    """A line for each condition that a run of motorlite misses."""
    peers = {(one.limit, one.tasks): one for one in outcomes if one.arm != "motorlite"}
    found = []
    for one in outcomes:
        if one.arm != "motorlite":
            continue
        where = f"{one.limit}, {one.tasks} tasks"
        peer = peers[one.limit, one.tasks]
        if one.succeeded < peer.succeeded:
            found.append(f"{where}: {one.succeeded} succeeded, {peer.arm}: {peer.succeeded}")
        if one.share < LEAST_SHARE:
            found.append(f"{where}: {one.share:.0%} of the capacity of {CONNECTIONS} connections")
        if one.per_thousand > MOST_CREATED:
            found.append(f"{where}: {one.per_thousand:.0f} new connections per 1000 operations")
    return found


def run(arguments: argparse.Namespace) -> int:
    outcomes = []
    with LocalServer.start("standalone", own=True) as server:
        server.command({"insert": COLLECTION, "documents": [{"_id": 1}]}, DATABASE)
        for limit in LIMITS:
            for tasks in TASKS:
                for arm in ARMS:
                    say(f"{limit}, {tasks} tasks: {arm}")
                    outcomes.append(asyncio.run(measure(arm, limit, tasks, arguments.operations, server)))
    print(
        f"{CONNECTIONS} connections, the server takes {SERVER_TAKES * 1000:.0f} ms, the caller waits "
        f"{CALLER_WAITS * 1000:.0f} ms\n\n{render(outcomes)}\n"
    )
    target = (
        f"at least as many successes as PyMongo Async, {LEAST_SHARE:.0%} of the capacity, at most "
        f"{MOST_CREATED:.0f} new connections per 1000 operations"
    )
    return judge([(line, False) for line in misses(outcomes)] or [(target, True)])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--operations", type=int, default=1000, help="default: 1000 per run")
