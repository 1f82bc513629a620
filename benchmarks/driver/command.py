"""Shell: `python -m benchmarks driver`: the public benchmark, all drivers in one run, interleaved."""

from __future__ import annotations

import json
import os
import platform
import tempfile
import time
from dataclasses import asdict
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pymongo

from benchmarks.arms import POOL_SIZE, arm_uri, names
from benchmarks.driver import data
from benchmarks.driver.adapters import ARMS
from benchmarks.driver.preparing import Preparation
from benchmarks.driver.report import as_json, as_markdown, render
from benchmarks.driver.tasks import CLIENT_BULK_WIRE_VERSION, TASKS, Iteration, Scale, scores, verdict
from benchmarks.processes import ChildFailedError, Worker, say
from benchmarks.speed.rounds import rotated, server

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

FULL: Final = Scale()
# A fifth of the files of the parallel tasks, everything else as the specification has it.
SCALE: Final = Scale(text_files=20, binary_files=10)
QUICK: Final = Scale(operations=200, large_operations=2, text_files=2, binary_files=2)
# No iteration may take longer; in seconds.
LIMIT: Final = 900.0
MOST: Final = 100  # iterations
BSON: Final = "the BSON tasks: they measure the package `bson`, which all Python drivers share"


class Run:
    """The arms' processes, and their iterations so far."""

    def __init__(self, arms: Sequence[str], uri: str, folder: Path, scale: Scale, preparation: Preparation) -> None:
        options = json.dumps(asdict(scale))
        self._workers = {
            arm: Worker(
                arm, uri, module="benchmarks.driver.worker", more=(str(folder), str(folder / f"output-{arm}"), options)
            )
            for arm in arms
        }
        self._preparation = preparation
        self.iterations: list[Iteration] = []
        self.failures: dict[str, str] = {}

    def measure(self, task: str, seconds: float, least: int) -> None:
        """Iterate, the arms in turns, for so many seconds of each arm's time and at least so many times.

        More than one iteration is preceded by one that is discarded: drivers open their connections in it.
        """
        self._preparation.set_up(task)
        if least > 1:
            for arm in list(self._workers):
                self._preparation.before(task)
                self._ask(arm, task)
        spent = dict.fromkeys(self._workers, 0.0)
        for number in range(MOST):
            busy = [arm for arm in rotated(list(self._workers), number) if number < least or spent[arm] < seconds]
            if not busy:
                return
            for arm in busy:
                self._preparation.before(task)
                found = self._ask(arm, task)
                if found:
                    spent[arm] += found["seconds"]
                    self.iterations.append(Iteration(task, arm, **found))
                else:
                    spent[arm] = inf  # it cannot do this task

    def close(self) -> None:
        """End all processes."""
        for worker in self._workers.values():
            worker.close()

    def _ask(self, arm: str, task: str) -> dict[str, Any] | None:
        try:
            return self._workers[arm].run(limit=LIMIT, task=task)
        except ChildFailedError as error:
            say(f"{arm} failed in {task} and is left out: {error}")
            self.failures[arm] = f"failed in {task}: {error}"
            self._workers.pop(arm).close()
            self.iterations = [one for one in self.iterations if one.arm != arm]
            return None


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, write the report and judge; return the exit status."""
    try:
        data.folder()
    except data.DataMissingError as error:
        say(str(error))
        return 1
    scale = QUICK if arguments.quick else FULL if arguments.full else SCALE
    seconds = 0.0 if arguments.quick else 60.0 if arguments.full else arguments.seconds
    least = 1 if arguments.quick else 3
    left_out = [BSON, *_missing(arguments.arms)]
    arms = [arm for arm in arguments.arms if not ARMS[arm].missing()]
    started, busy = time.monotonic(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name, server(arguments.uri) as uri:
        folder = Path(name)
        data.extract(folder, text_files=scale.text_files, binary_files=scale.binary_files)
        with pymongo.MongoClient[dict[str, Any]](uri) as client:
            version = str(client.server_info()["version"])
            tasks = [task for task in arguments.tasks if _is_possible(task, client, left_out)]
            preparation = Preparation(client, data.Data(folder), scale)
            measured = Run(arms, arm_uri(uri), folder, scale, preparation)
            try:
                for task in tasks:
                    say(TASKS[task].title)
                    measured.measure(task, seconds, least)
            finally:
                measured.close()
                preparation.tear_down()
    left_out += [f"{arm}: {why}" for arm, why in measured.failures.items()]
    facts = _facts(arms, version, busy)
    headline = (
        f"MongoDB {version}, Python {facts['python']}, {facts['cores']} cores, load average before {busy:.1f};"
        f" medians of interleaved iterations, at least {least} and {seconds:g} s for each task and driver;"
        f" {scale.operations:,} operations, {scale.text_files} LDJSON files, {scale.binary_files} GridFS files"
    )
    print(f"{headline}\nleft out: {'; '.join(left_out)}\n\n{render(measured.iterations, scale)}")
    print(f"measured in {time.monotonic() - started:.0f} s")
    if arguments.reports is not None:
        text = as_markdown(measured.iterations, scale, headline, facts, left_out)
        _write(arguments.reports, text, as_json(measured.iterations, scale, facts, left_out))
    found = verdict(scores(measured.iterations, scale))
    return 0 if found and all(is_met for _, is_met in found) else 1


def _facts(arms: Sequence[str], version: str, busy: float) -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "load_before": busy,
        "server": version,
        "pool_size": POOL_SIZE,
        "arms": {arm: ARMS[arm].about for arm in arms},
    }


def _write(folder: Path, text: str, value: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "driver.md").write_text(text, encoding="utf-8")
    (folder / "driver.json").write_text(f"{json.dumps(value, indent=1)}\n", encoding="utf-8")
    print(f"written to {folder}")


def _missing(arms: Sequence[str]) -> Iterator[str]:
    for arm in arms:
        if missing := ARMS[arm].missing():
            yield f"{arm}: {', '.join(missing)} cannot be imported"


def _is_possible(task: str, client: pymongo.MongoClient[dict[str, Any]], left_out: list[str]) -> bool:
    if not TASKS[task].needs_client_bulk:
        return True
    is_possible = client.admin.command("hello")["maxWireVersion"] >= CLIENT_BULK_WIRE_VERSION
    if not is_possible:
        left_out.append(f"{TASKS[task].title}: needs MongoDB 8.0")
    return bool(is_possible)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--tasks", type=names(TASKS, "tasks"), default=[*TASKS], help=f"of {', '.join(TASKS)}")
    parser.add_argument("--arms", type=names(ARMS), default=[*ARMS], help=f"of {', '.join(ARMS)}")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each task and arm (default: 5)")
    parser.add_argument("--quick", action="store_true", help="few operations, once: it proves nothing")
    parser.add_argument("--full", action="store_true", help="as the specification has it: a minute, all files (hours)")
    parser.add_argument("--uri", help="measure against this deployment instead of starting a mongod")
    parser.add_argument("--reports", type=Path, default=Path("reports"), help="for driver.md and driver.json")
