"""Shell: `python -m benchmarks <benchmark>`."""

from __future__ import annotations

import argparse
import sys

from benchmarks import (
    abandoned,
    concurrency,
    failover,
    oversubscribed,
    pile_up,
    point_reads,
    prefetch,
    standing_queue,
)
from benchmarks.storm import command as storm


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="motorlite against its peers")
    commands = parser.add_subparsers(required=True, metavar="benchmark")
    reads = commands.add_parser(
        "point-reads",
        help="find_one by _id; exits 1 if motorlite is below 2.5 times PyMongo Async, or behind mongojet, "
        "at 50 tasks, or if motorlite or PyMongo Async could not be measured",
    )
    point_reads.add_arguments(reads)
    reads.set_defaults(run=point_reads.run)
    late = commands.add_parser(
        "abandoned",
        help="connections opened for operations that are cancelled or time out; exits 1 if motorlite opens 5 or "
        "more per 1000 that the server answers within a second",
    )
    abandoned.add_arguments(late)
    late.set_defaults(run=abandoned.run)
    crowd = commands.add_parser(
        "oversubscribed",
        help="more callers than connections, each with little time; exits 1 if motorlite has fewer successes than "
        "PyMongo Async, uses less than 80 %% of the connections' capacity, or opens over 10 connections per 1000",
    )
    oversubscribed.add_arguments(crowd)
    crowd.set_defaults(run=oversubscribed.run)
    kills = commands.add_parser(
        "failover",
        help="kills the primary under load, twenty times; exits 1 if a write is lost or applied twice, or if "
        "the median from the election to the next success is 300 ms or more",
    )
    failover.add_arguments(kills)
    kills.set_defaults(run=failover.run)
    avalanche = commands.add_parser(
        "pile-up",
        help="callers that give up early and try again: operations in progress on the server over time; exits 1 if "
        "they pile up, or outlive their callers, with a limit on the server",
    )
    pile_up.add_arguments(avalanche)
    avalanche.set_defaults(run=pile_up.run)
    limits = commands.add_parser(
        "concurrency", help="adaptive concurrency limits on a modelled server, in simulated time; needs no server"
    )
    concurrency.add_arguments(limits)
    limits.set_defaults(run=concurrency.run)
    standing = commands.add_parser(
        "standing-queue",
        help="simulates more callers than connections in virtual time, for each order of the wait queue",
    )
    standing_queue.add_arguments(standing)
    standing.set_defaults(run=standing_queue.run)
    ahead = commands.add_parser(
        "prefetch",
        help="reading a long cursor with and without prefetch; exits 1 if it is less than 1.3 times as fast where "
        "server and program take equally long",
    )
    prefetch.add_arguments(ahead)
    ahead.set_defaults(run=prefetch.run)
    storms = commands.add_parser("storm", help="retry storms: what a policy does to goodput, on sockets and simulated")
    storm.add_arguments(storms)
    storms.set_defaults(run=storm.run)
    arguments = parser.parse_args()
    return int(arguments.run(arguments))


if __name__ == "__main__":
    sys.exit(main())
