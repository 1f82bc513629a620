"""Shell: `python -m benchmarks <benchmark>`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from benchmarks import failover, prefetch
from benchmarks.driver import command as driver
from benchmarks.instructions import command as instructions
from benchmarks.overload import abandoned, concurrency, oversubscribed, pile_up, standing_queue
from benchmarks.speed import command as speed
from benchmarks.speed import import_time, overhead, smoke, stalls, waiting_memory
from benchmarks.storm import command as storm

if TYPE_CHECKING:
    from collections.abc import Callable

    # Adds the options to a parser; runs, and returns the exit status; and what it measures.
    Benchmark = tuple[Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], int], str]

BENCHMARKS: dict[str, Benchmark] = {
    "bench": (
        speed.add_bench,
        speed.run,
        "point reads and writes, bulk writes and cursors against the other drivers, with a report; exits 1 if a "
        "target is missed",
    ),
    "point-reads": (
        speed.add_point_reads,
        speed.run,
        "find_one by _id; exits 1 if a target is missed, or if motorlite or PyMongo Async could not be measured",
    ),
    "point-writes": (speed.add_point_writes, speed.run, "the writes of `bench`; exits 1 if a target is missed"),
    "driver": (
        driver.add_arguments,
        driver.run,
        "the public benchmark of drivers, with a report; exits 1 if a task is slower than with a Python peer",
    ),
    "overhead": (overhead.add_arguments, overhead.run, "where the client's CPU time of one find_one goes, by layer"),
    "stalls": (
        stalls.add_arguments,
        stalls.run,
        "the longest step that keeps the event loop busy, for a reply of 16 MB and 100,000 inserts; exits 1 over 50 ms",
    ),
    "waiting-memory": (
        waiting_memory.add_arguments,
        waiting_memory.run,
        "memory of operations that wait for a connection; exits 1 over 1 KB",
    ),
    "import-time": (
        import_time.add_arguments,
        import_time.run,
        "how long a fresh interpreter needs to import the driver; exits 1 over 120 ms",
    ),
    "smoke": (
        smoke.add_arguments,
        smoke.run,
        "exits 1 if the client's CPU per find_one is over 2.2 times the bare protocol's",
    ),
    "instructions": (
        instructions.add_arguments,
        instructions.run,
        "instructions per operation, by callgrind: free of noise, for any commit",
    ),
    "storm": (
        storm.add_arguments,
        storm.run,
        "retry storms: what policies do to the goodput of an overloaded server, on sockets and simulated; a report",
    ),
    "abandoned": (
        abandoned.add_arguments,
        abandoned.run,
        "connections opened for operations that are cancelled or time out; exits 1 if motorlite opens 5 or "
        "more per 1000 that the server answers within a second",
    ),
    "oversubscribed": (
        oversubscribed.add_arguments,
        oversubscribed.run,
        "more callers than connections, each with little time; exits 1 if motorlite has fewer successes than "
        "PyMongo Async, uses less than 80 %% of the connections' capacity, or opens over 10 connections per 1000",
    ),
    "failover": (
        failover.add_arguments,
        failover.run,
        "kills the primary under load, twenty times; exits 1 if a write is lost or applied twice, or if "
        "the median from the election to the next success is 300 ms or more",
    ),
    "pile-up": (
        pile_up.add_arguments,
        pile_up.run,
        "callers that give up early and try again: operations in progress on the server over time; exits 1 if "
        "they pile up, or outlive their callers, with a limit on the server",
    ),
    "concurrency": (
        concurrency.add_arguments,
        concurrency.run,
        "adaptive concurrency limits on a modelled server, in simulated time; needs no server",
    ),
    "standing-queue": (
        standing_queue.add_arguments,
        standing_queue.run,
        "simulates more callers than connections in virtual time, for each order of the wait queue",
    ),
    "prefetch": (
        prefetch.add_arguments,
        prefetch.run,
        "reading a long cursor with and without prefetch; exits 1 if it is less than 1.3 times as fast where "
        "server and program take equally long",
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="motorlite against its peers")
    commands = parser.add_subparsers(required=True, metavar="benchmark")
    for name, (add_arguments, run, description) in BENCHMARKS.items():
        command = commands.add_parser(name, help=description)
        add_arguments(command)
        command.set_defaults(run=run)
    arguments = parser.parse_args()
    return int(arguments.run(arguments))


if __name__ == "__main__":
    sys.exit(main())
