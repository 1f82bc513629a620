"""Shell: the process of one arm's clients. Messages are pickled objects on its standard streams.

It does runs until standard input ends, as when its parent is killed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import sys
import warnings
from time import monotonic
from typing import TYPE_CHECKING, Any

from benchmarks.processes import cpu_seconds, describe
from benchmarks.storm.drivers import DRIVERS
from benchmarks.storm.load import Application
from benchmarks.storm.sockets.processes import Done

if TYPE_CHECKING:
    from benchmarks.storm.sockets.processes import Task


async def do(task: Task) -> None:
    """Make clients, announce that they are ready, wait for the time of the beginning, run, and say what became of it.

    The clients are closed when the parent has the last report of the ingress: they end their sessions, which must not
    count as attempts.
    """
    driver = DRIVERS[task.arm.driver](task.uri, task.arm, task.scenario)
    try:
        await driver.open(task.scenario.load.clients)
        await driver.warm_up(task.scenario.load)
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


def say(message: Any) -> None:
    data = pickle.dumps(message)
    while data:
        data = data[os.write(1, data) :]


def main() -> None:
    # The driver's warnings about errors would be printed, where the application has no logging of its own.
    logging.getLogger().addHandler(logging.NullHandler())
    # An arm may combine options on purpose that the driver warns about.
    warnings.simplefilter("ignore")
    while True:
        try:
            task = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        began = monotonic()
        try:
            asyncio.run(do(task))
        except Exception as error:  # the parent decides what a failed run means
            say({"error": f"after {monotonic() - began:.1f} s: {describe(error)}"})
        else:
            say("closed")


if __name__ == "__main__":
    main()
