"""Shell: counts the connections that each driver opens for operations that are cancelled or time out."""

from __future__ import annotations

import asyncio
import importlib
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from benchmarks.figures import align, judge
from benchmarks.processes import say
from motorlite.testing import LocalServer, failpoints

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable, Iterator, Sequence

ARMS = ("motorlite", "pymongo")
TARGET = 5.0  # new connections per 1000 operations that the server answers in time
DATABASE, COLLECTION = "motorlite_abandoned", "c"


@dataclass(frozen=True, slots=True)
class Scenario:
    """The server's delay and the caller's limit, in seconds."""

    name: str
    server_takes: float
    caller_waits: float
    is_cancelled: bool
    is_answered_in_time: bool


SCENARIOS = (
    Scenario("timeouts, answered 30 ms later", 0.06, 0.03, is_cancelled=False, is_answered_in_time=True),
    Scenario("cancellations, answered 30 ms later", 0.06, 0.03, is_cancelled=True, is_answered_in_time=True),
    Scenario("timeouts, answered 5 s later", 5.0, 0.03, is_cancelled=False, is_answered_in_time=False),
    Scenario("cancellations, answered 5 s later", 5.0, 0.03, is_cancelled=True, is_answered_in_time=False),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one driver in one scenario."""

    arm: str
    scenario: Scenario
    abandoned: int
    created: int

    @property
    def per_thousand(self) -> float:
        return self.created * 1000 / self.abandoned


@contextmanager
def slowed(server: LocalServer, seconds: float) -> Iterator[None]:
    """Let each find take so long."""
    server.command(failpoints.fail_command(["find"], block_ms=round(seconds * 1000)))
    try:
        yield
    finally:
        server.command(failpoints.off())


def connections_created(server: LocalServer) -> int:
    """The server's count of connections that were ever created."""
    return int(server.command({"serverStatus": 1})["connections"]["totalCreated"])


async def drive(tasks: int, operations: int, one: Callable[[], Awaitable[bool]]) -> int:
    """Run `operations` operations in `tasks` tasks; return how many of them were answered in time."""
    left, answered = operations, 0

    async def work() -> None:
        nonlocal left, answered
        while left > 0:
            left -= 1
            is_answered = await one()
            answered += is_answered

    async with asyncio.TaskGroup() as group:
        for _ in range(tasks):
            group.create_task(work())
    return answered


async def attempt(limit: str, seconds: float, module: Any, find_one: Callable[[], Awaitable[Any]]) -> bool:
    """Run one operation under a limit; return whether its reply arrived in time."""
    if limit == "anyio scope":
        with anyio.move_on_after(seconds) as scope:
            await find_one()
        return not scope.cancelled_caught
    try:
        if limit == "asyncio.timeout":
            async with asyncio.timeout(seconds):
                await find_one()
        else:
            with module.timeout(seconds):
                await find_one()
    except Exception as error:
        if not (isinstance(error, TimeoutError) or getattr(error, "timeout", False)):
            raise
        return False
    return True


async def measure(arm: str, scenario: Scenario, server: LocalServer, tasks: int, count: int) -> Outcome:
    module: Any = importlib.import_module(arm)
    async with module.AsyncMongoClient(server.uri) as client:
        collection = client[DATABASE][COLLECTION]
        await asyncio.gather(*(collection.find_one() for _ in range(tasks)))
        limit = "asyncio.timeout" if scenario.is_cancelled else "driver's timeout"
        one = partial(attempt, limit, scenario.caller_waits, module, collection.find_one)

        async def abandon(operations: int) -> int:
            return operations - await drive(tasks, operations, one)

        with slowed(server, scenario.server_takes):
            # First let the pool grow to the scenario's size: connections in use, and those with a pending reply.
            await abandon(tasks * (20 if scenario.is_answered_in_time else 2))
            before = await asyncio.to_thread(connections_created, server)
            abandoned = await abandon(count)
            created = await asyncio.to_thread(connections_created, server) - before
    return Outcome(arm, scenario, abandoned, created)


def render(outcomes: Sequence[Outcome]) -> str:
    head = ("", "driver", "abandoned", "new connections", "per 1000")
    rows = [
        (one.scenario.name, one.arm, str(one.abandoned), str(one.created), f"{one.per_thousand:.1f}")
        for one in outcomes
    ]
    return align([head, *rows])


def verdict(outcomes: Sequence[Outcome]) -> tuple[str, bool]:
    """Whether motorlite stays below the target in the scenarios where the server answers in time."""
    ours = [one for one in outcomes if one.arm == "motorlite" and one.scenario.is_answered_in_time]
    is_met = bool(ours) and all(one.abandoned and one.per_thousand < TARGET for one in ours)
    return f"motorlite opens fewer than {TARGET:g} connections per 1000 abandoned operations that are answered", is_met


def run(arguments: argparse.Namespace) -> int:
    outcomes = []
    with LocalServer.start("standalone", own=True) as server:
        server.command({"insert": COLLECTION, "documents": [{"_id": 1}]}, DATABASE)
        for scenario in SCENARIOS:
            count = arguments.operations if scenario.is_answered_in_time else arguments.operations // 4
            for arm in ARMS:
                say(f"{scenario.name}: {arm}")
                outcomes.append(asyncio.run(measure(arm, scenario, server, arguments.tasks, count)))
    print(f"{arguments.tasks} tasks, one standalone server, connections as the server counts them\n")
    print(f"{render(outcomes)}\n")
    return judge([verdict(outcomes)])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--operations", type=int, default=1000, help="default: 1000 per scenario")
    parser.add_argument("--tasks", type=int, default=20, help="default: 20")
