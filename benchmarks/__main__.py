"""Shell: `python -m benchmarks <benchmark>`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from benchmarks import arrow, failover, prefetch
from benchmarks.driver import command as driver
from benchmarks.instructions import command as instructions
from benchmarks.overload import abandoned, concurrency, oversubscribed, pile_up, standing_queue
from benchmarks.scale import command as scale
from benchmarks.speed import command as speed
from benchmarks.speed import import_time, smoke, stalls, waiting_memory
from benchmarks.storm import command as storm

if TYPE_CHECKING:
    from collections.abc import Callable

    # Adds the options to a parser; runs, and returns the exit status; and what it measures.
    Benchmark = tuple[Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], int], str]

BENCHMARKS: dict[str, Benchmark] = {
    "bench": (
        speed.add_bench,
        speed.run,
        "point reads and writes, bulk writes and cursors of all drivers, with a report",
    ),
    "point-reads": (speed.add_point_reads, speed.run, "find_one by _id"),
    "point-writes": (speed.add_point_writes, speed.run, "the writes of `bench`"),
    **{
        name: (module.add_arguments, module.run, about)
        for name, module, about in (
            ("smoke", smoke, "the client's CPU per find_one: at most 2.2 times the bare protocol's"),
            ("scale", scale, "more tasks, processes, members and bytes, TLS and compression, with a report and a plot"),
            ("driver", driver, "the public benchmark of drivers, with a report"),
            ("stalls", stalls, "the longest step that keeps the event loop busy: at most 50 ms"),
            ("waiting-memory", waiting_memory, "memory of operations that wait for a connection: at most 1 KB"),
            ("import-time", import_time, "how long a fresh interpreter imports the driver: at most 120 ms"),
            ("instructions", instructions, "instructions per operation, by callgrind: free of noise, for any commit"),
            ("storm", storm, "retry storms: what policies do to the goodput of an overloaded server; a report"),
            ("abandoned", abandoned, "connections opened for operations that are cancelled or time out"),
            ("oversubscribed", oversubscribed, "more callers than connections, each with little time"),
            ("failover", failover, "kills the primary under load, twenty times: no write is lost"),
            ("pile-up", pile_up, "callers that give up early and try again: operations in progress on the server"),
            ("concurrency", concurrency, "adaptive concurrency limits on a modelled server, in simulated time"),
            ("standing-queue", standing_queue, "more callers than connections in virtual time, for each order"),
            ("prefetch", prefetch, "reading a long cursor with and without prefetch"),
            ("arrow", arrow, "a scan into an Arrow table: time, memory, and how late the event loop is"),
        )
    },
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="motorlite against its peers; exits 1 if a target is missed"
    )
    commands = parser.add_subparsers(required=True, metavar="benchmark")
    for name, (add_arguments, run, description) in BENCHMARKS.items():
        command = commands.add_parser(name, help=description, description=description)
        add_arguments(command)
        command.set_defaults(run=run)
    arguments = parser.parse_args()
    return int(arguments.run(arguments))


if __name__ == "__main__":
    sys.exit(main())
