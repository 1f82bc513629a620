"""Shell: point reads with all arms against one server, interleaved by round."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bson
import pymongo

from benchmarks.arms import ARMS, DEFAULT_ARMS, POOL_SIZE, arm_uri
from benchmarks.documents import COLLECTION, DATABASE, DOCUMENTS, document
from benchmarks.figures import EARLIER, SUBJECT, Round, conditions, exit_code, summarise
from benchmarks.report import as_json, render, verdict
from benchmarks.workers import ArmFailedError, Worker

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WARM_UP_OPERATIONS = 10_000
GRACE = 60.0  # seconds that an arm may exceed its round before it is killed


class Run:
    """The arms' processes and their measurements so far."""

    def __init__(self, arms: Sequence[str], uri: str, before: Path | None = None) -> None:
        self._workers = {arm: Worker(arm, uri) for arm in arms}
        if before is not None:
            self._workers[EARLIER] = Worker(SUBJECT, uri, before)
        self.rounds: list[Round] = []
        self.failures: dict[str, str] = {}

    def warm_up(self, tasks: int) -> None:
        """Run 10,000 discarded operations per arm, at the highest concurrency so that its pool is full."""
        for arm in list(self._workers):
            self._ask(arm, tasks=tasks, operations=WARM_UP_OPERATIONS)

    def measure(self, tasks: Sequence[int], rounds: int, seconds: float) -> None:
        for number in range(rounds):
            for count in tasks:
                for arm in _rotated(list(self._workers), number):
                    figures = self._ask(arm, tasks=count, seconds=seconds)
                    if figures is not None:
                        self.rounds.append(Round(arm=arm, tasks=count, number=number + 1, **figures))
            _say(f"round {number + 1} of {rounds} done")

    def close(self) -> None:
        for worker in self._workers.values():
            worker.close()

    def _ask(self, arm: str, **request: Any) -> dict[str, Any] | None:
        try:
            return self._workers[arm].run(limit=request.get("seconds", 0) + GRACE, **request)
        except ArmFailedError as error:
            _say(f"{arm} failed and is left out: {error}")
            self.failures[arm] = str(error)
            self._workers.pop(arm).close()
            # The medians of an arm that failed midway are not comparable.
            self.rounds = [one for one in self.rounds if one.arm != arm]
            return None


def run(arguments: argparse.Namespace) -> int:
    """Measure, print and judge; return the exit status."""
    missing = {arm: ", ".join(ARMS[arm].missing()) for arm in arguments.arms if ARMS[arm].missing()}
    for arm, what in missing.items():
        _say(f"{arm} is not measured: {what} cannot be imported")
    arms = [arm for arm in arguments.arms if arm not in missing]
    if not arms:
        _say("there is no arm left to measure")
        return 1
    started = time.monotonic()
    busy = os.getloadavg()[0]
    with _server(arguments.uri) as uri, _documents(uri) as server:
        measured = Run(arms, arm_uri(uri), arguments.before)
        try:
            _say(f"warming up {', '.join(arms)} with {WARM_UP_OPERATIONS:,} operations each")
            measured.warm_up(max(arguments.tasks))
            measured.measure(arguments.tasks, arguments.rounds, arguments.seconds)
        finally:
            measured.close()
    facts = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "load_before": busy,
        "server": server,
        "arms": {arm: ARMS[arm].version() for arm in arms},
        "pool_size": POOL_SIZE,
        "documents": DOCUMENTS,
        "document_bytes": len(bson.encode(document(1))),
        "warm_up_operations": WARM_UP_OPERATIONS,
        "seconds_per_round": arguments.seconds,
    }
    failures = {**missing, **measured.failures}
    print(_headline(facts, arguments))
    print("\n" + render(measured.rounds))
    print(f"\n{verdict(measured.rounds)}\nmeasured in {time.monotonic() - started:.0f} s")
    if arguments.json is not None:
        text = json.dumps(as_json(measured.rounds, facts, failures), indent=1)
        Path(arguments.json).write_text(text + "\n", encoding="utf-8")
    return exit_code(conditions(summarise(measured.rounds)))


def _headline(facts: dict[str, Any], arguments: argparse.Namespace) -> str:
    return "\n".join(
        (
            f"find_one by _id: {DOCUMENTS:,} documents of about {facts['document_bytes']} bytes, pools of"
            f" {POOL_SIZE}, medians of {arguments.rounds} interleaved rounds of {arguments.seconds:g} s",
            f"MongoDB {facts['server']}, Python {facts['python']}, {facts['cores']} cores; "
            + "; ".join(facts["arms"].values()),
            f"load average before the run {facts['load_before']:.1f}"
            + (": the machine was busy, so the figures are noisy" if facts["load_before"] > 0.5 else ""),
        )
    )


def _rotated(arms: list[str], by: int) -> list[str]:
    """The arms, rotated: a different arm starts each round."""
    at = by % len(arms) if arms else 0
    return arms[at:] + arms[:at]


@contextlib.contextmanager
def _server(uri: str | None) -> Iterator[str]:
    if uri is not None:
        yield uri
        return
    from motorlite.testing import LocalServer

    with LocalServer.start(topology="standalone") as server:
        yield server.uri


@contextlib.contextmanager
def _documents(uri: str) -> Iterator[str]:
    """Insert the documents for the run and yield the server's version."""
    with pymongo.MongoClient[dict[str, Any]](uri) as client:
        client.drop_database(DATABASE)
        client[DATABASE][COLLECTION].insert_many(document(number) for number in range(DOCUMENTS))
        version = str(client.server_info()["version"])
    try:
        yield version
    finally:
        with pymongo.MongoClient[dict[str, Any]](uri) as client:
            client.drop_database(DATABASE)


def _say(line: str) -> None:
    """Print progress to standard error; standard output holds only the result."""
    print(line, file=sys.stderr, flush=True)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tasks", type=_counts, default=[1, 8, 50, 500], help="default: 1,8,50,500")
    parser.add_argument("--rounds", type=_positive, default=5, help="default: 5, the minimum for a verdict")
    parser.add_argument("--seconds-per-round", dest="seconds", type=float, default=1.5, help="default: 1.5")
    parser.add_argument("--arms", type=_arms, default=list(DEFAULT_ARMS), help=f"of {', '.join(ARMS)}")
    parser.add_argument(
        "--before",
        type=_checkout,
        metavar="PATH",
        help="another checkout, whose motorlite is measured for comparison",
    )
    parser.add_argument("--uri", help="measure against this deployment instead of starting a mongod")
    parser.add_argument("--json", metavar="FILE", help="write every round to this file")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def _checkout(text: str) -> Path:
    path = Path(text).resolve()
    if not (path / "benchmarks" / "worker.py").is_file():
        raise argparse.ArgumentTypeError(f"{text} is not a checkout of motorlite")
    return path


def _counts(text: str) -> list[int]:
    return [_positive(part) for part in text.split(",")]


def _arms(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in ARMS]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown arms: {', '.join(unknown)}; choose from {', '.join(ARMS)}")
    return names
