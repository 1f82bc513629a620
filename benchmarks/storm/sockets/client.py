"""Shell: what the process of one arm's clients does in a run. Messages are pickled objects on its standard streams."""

from __future__ import annotations

import asyncio
import os
import pickle
import resource
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.storm.sockets.drivers import DRIVERS
from benchmarks.storm.sockets.load import DOCUMENTS, Application

if TYPE_CHECKING:
    from benchmarks.storm.arms import Arm
    from benchmarks.storm.scenario import Load, Scenario
    from benchmarks.storm.sockets.drivers import Driver
    from benchmarks.storm.sockets.load import Record


@dataclass(frozen=True, slots=True)
class Task:
    """A run to do."""

    scenario: Scenario
    arm: Arm
    seed: int
    uri: str


@dataclass(frozen=True, slots=True)
class Done:
    """What became of it."""

    record: Record
    cpu_seconds: float
    versions: dict[str, str]
    surprises: dict[str, int]


async def do(task: Task) -> None:
    """Make clients, announce that they are ready, wait for the time of the beginning, run, and say what became of it.

    The clients are closed when the parent has the last report of the ingress: they end their sessions, which must not
    count as attempts.
    """
    driver = DRIVERS[task.arm.driver](task.uri, task.arm, task.scenario)
    try:
        await driver.open(task.scenario.load.clients)
        await warm_up(driver, task.scenario.load, task.arm.max_pool_size)
        say("ready")
        # The answer comes at once: nothing else runs meanwhile but the drivers' monitors.
        start: float = pickle.load(sys.stdin.buffer)
        before = cpu_seconds()
        application = Application(task.scenario, task.seed, driver, start)
        record = await application.run(lambda step, values: say((step, values)))
        say(Done(record, cpu_seconds() - before, driver.version(), dict(driver.surprises)))
        pickle.load(sys.stdin.buffer)  # "close", at once
    finally:
        await driver.close()


async def warm_up(driver: Driver, load: Load, max_pool_size: int) -> None:
    """Let each client find its servers, and open its connections: the ingress holds back its requests until then."""
    each = min(load.warm, max_pool_size)
    with driver.unhurried():
        await asyncio.gather(
            *(driver.read(client, number % DOCUMENTS) for client in range(load.clients) for number in range(each))
        )


def cpu_seconds() -> float:
    """The CPU time of this process so far, user and system, of all threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def say(message: Any) -> None:
    """Send a message to the parent."""
    data = pickle.dumps(message)
    while data:
        data = data[os.write(1, data) :]
