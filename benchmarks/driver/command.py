"""Shell: `python -m benchmarks driver`: the public benchmark, all drivers in one run, interleaved."""

from __future__ import annotations

import json
import os
import tempfile
import time
from dataclasses import asdict
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pymongo

from benchmarks.arms import arm_uri, names
from benchmarks.driver import data
from benchmarks.driver.adapters import ARMS
from benchmarks.driver.preparing import Preparation
from benchmarks.driver.report import as_json, as_markdown, rows
from benchmarks.driver.tasks import CLIENT_BULK_WIRE_VERSION, TASKS, Iteration, Scale, scores, verdict
from benchmarks.figures import align, judge, write_report
from benchmarks.processes import Arms, say
from benchmarks.speed.rounds import facts, present, server

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

FULL: Final = Scale()
# A fifth of the files of the parallel tasks, everything else as the specification has it.
SCALE: Final = Scale(text_files=20, binary_files=10)
QUICK: Final = Scale(operations=200, large_operations=2, text_files=2, binary_files=2)
# No iteration may take longer; in seconds.
LIMIT: Final = 900.0
MOST: Final = 100  # iterations
# Imports by one driver vary by half, so the median of a few says little.
LEAST: Final = 9
BSON: Final = "the BSON tasks: they measure the package `bson`, which all Python drivers share"


class Run(Arms):
    """The arms, and their iterations so far."""

    def __init__(self, arms: Sequence[str], uri: str, folder: Path, scale: Scale, preparation: Preparation) -> None:
        options = json.dumps(asdict(scale))
        super().__init__(
            {
                arm: ("benchmarks.driver.worker", arm, uri, str(folder), str(folder / f"output-{arm}"), options)
                for arm in arms
            }
        )
        self._preparation = preparation

    def measure(self, task: str, seconds: float, least: int) -> None:
        """Iterate, the arms in turns, for so many seconds of each arm's time and at least so many times.

        More than one iteration is preceded by one that is discarded: drivers open their connections in it.
        """
        self._preparation.set_up(task)
        if least > 1:
            for arm in self.turns(0):
                self._iterate(arm, task)
        spent = dict.fromkeys(self.turns(0), 0.0)
        for number in range(MOST):
            busy = [arm for arm in self.turns(number) if number < least or spent[arm] < seconds]
            if not busy:
                return
            for arm in busy:
                found = self._iterate(arm, task)
                spent[arm] += found.get("seconds", inf)  # infinite: it cannot do this task
                if found:
                    self.results.append(Iteration(task, arm, **found))

    def _iterate(self, arm: str, task: str) -> dict[str, Any]:
        self._preparation.before(task)
        return self.ask(arm, LIMIT, task=task)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, write the report and judge; return the exit status."""
    try:
        data.folder()
    except data.DataMissingError as error:
        say(str(error))
        return 1
    scale = QUICK if arguments.quick else FULL if arguments.full else SCALE
    seconds = 0.0 if arguments.quick else 60.0 if arguments.full else arguments.seconds
    least = 1 if arguments.quick else LEAST
    arms, lacking = present(arguments.arms, ARMS)
    started, busy = time.monotonic(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name, server(arguments.uri) as uri:
        folder = Path(name)
        data.extract(folder, text_files=scale.text_files, binary_files=scale.binary_files)
        with pymongo.MongoClient[dict[str, Any]](uri) as client:
            version = str(client.server_info()["version"])
            has_bulk = client.admin.command("hello")["maxWireVersion"] >= CLIENT_BULK_WIRE_VERSION
            tasks = [task for task in arguments.tasks if has_bulk or not TASKS[task].needs_client_bulk]
            preparation = Preparation(client, data.Data(folder), scale)
            try:
                with Run(arms, arm_uri(uri), folder, scale, preparation) as measured:
                    for task in tasks:
                        say(TASKS[task].title)
                        measured.measure(task, seconds, least)
            finally:
                preparation.tear_down()
    iterations = measured.results
    left_out = [BSON, *(f"{TASKS[task].title}: needs MongoDB 8.0" for task in arguments.tasks if task not in tasks)]
    left_out += [f"{arm}: {why}" for arm, why in {**lacking, **measured.failures}.items()]
    found = facts(arms, version, busy, ARMS)
    headline = (
        f"MongoDB {version}, Python {found['python']}, {found['cores']} cores, load average before {busy:.1f};"
        f" medians of interleaved iterations, at least {least} and {seconds:g} s for each task and driver;"
        f" {scale.operations:,} operations, {scale.text_files} LDJSON files, {scale.binary_files} GridFS files"
    )
    print(f"{headline}\nleft out: {'; '.join(left_out)}\n\n{align(rows(iterations, scale))}\n")
    status = judge(verdict(scores(iterations, scale)))
    print(f"measured in {time.monotonic() - started:.0f} s")
    if arguments.reports is not None:
        text = as_markdown(iterations, scale, headline, found, left_out)
        write_report(arguments.reports, "driver", text, as_json(iterations, scale, found, left_out))
    return status


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--tasks", type=names(TASKS, "tasks"), default=[*TASKS], help=f"of {', '.join(TASKS)}")
    add("--arms", type=names(ARMS), default=[*ARMS], help=f"of {', '.join(ARMS)}")
    add("--seconds", type=float, default=5.0, help="for each task and arm (default: 5)")
    add("--quick", action="store_true", help="few operations, once: it proves nothing")
    add("--full", action="store_true", help="as the specification has it: a minute, all files (hours)")
    add("--uri", help="measure against this deployment instead of starting a mongod")
    add("--reports", type=Path, default=Path("reports"), help="for driver.md and driver.json")
