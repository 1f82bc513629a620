"""Shell: `python -m benchmarks bench`, and `point-reads` and `point-writes`, which measure a part of it."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import bson

from benchmarks.arms import ARMS, DEFAULT_ARMS, POOL_SIZE, arm_uri, names
from benchmarks.documents import DOCUMENTS, document
from benchmarks.figures import summarise, write_report
from benchmarks.processes import say
from benchmarks.speed.report import as_json, as_markdown, render, verdict
from benchmarks.speed.rounds import WARM_UP_OPERATIONS, Run, documents, facts, present, server
from benchmarks.speed.targets import conditions, exit_code
from benchmarks.speed.workloads import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Sequence

WRITES: Final = [name for name, workload in WORKLOADS.items() if workload.is_write and workload.tasks]
# A short run: few tasks, one short round. It shows that everything works, and says nothing about speed.
QUICK: Final[dict[str, Any]] = {"tasks": [1, 50], "rounds": 1, "seconds": 0.2}
POINT_TASKS: Final = (1, 8, 50, 500)


def plan(operations: Sequence[str], tasks: Sequence[int] | None) -> list[tuple[str, int]]:
    """The operations, each with the numbers of tasks that were asked for and make sense."""
    return [(name, count) for name in operations for count in WORKLOADS[name].tasks if tasks is None or count in tasks]


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, write the report and judge; return the exit status."""
    if arguments.quick:
        vars(arguments).update(QUICK)
    arms, lacking = present(arguments.arms)
    if not arms:
        say("there is no arm left to measure")
        return 1
    chosen = plan(arguments.operations, arguments.tasks)
    started, busy = time.monotonic(), os.getloadavg()[0]
    has_many = any(name.endswith("_100k") for name, _ in chosen)
    with (
        server(arguments.uri) as uri,
        documents(uri, many=has_many) as loaded,
        Run(arms, arm_uri(uri), loaded, arguments.before) as measured,
    ):
        say(f"warming up {', '.join(arms)} with {WARM_UP_OPERATIONS:,} operations each")
        measured.warm_up(min(500, max(tasks for _, tasks in chosen)))
        measured.measure(chosen, arguments.rounds, seconds=arguments.seconds)
    found = {
        **facts(arms, loaded.version, busy),
        "documents": DOCUMENTS,
        "document_bytes": len(bson.encode(document(1))),
        "warm_up_operations": WARM_UP_OPERATIONS,
        "rounds": arguments.rounds,
        "seconds_per_round": arguments.seconds,
    }
    failures = {**lacking, **measured.failures}
    rounds, headline = measured.results, _headline(found)
    print(f"{headline}\n\n{render(rounds)}\n\n{verdict(rounds)}")
    print(f"measured in {time.monotonic() - started:.0f} s")
    if arguments.reports is not None:
        text = as_markdown(headline, rounds, found, failures)
        write_report(arguments.reports, "bench", text, as_json(rounds, found, failures))
    return exit_code(conditions(summarise(rounds)))


def _headline(found: dict[str, Any]) -> str:
    return "\n".join(
        (
            f"{DOCUMENTS:,} documents of about {found['document_bytes']} bytes, pools of {POOL_SIZE},"
            f" medians of {found['rounds']} interleaved rounds of {found['seconds_per_round']:g} s,"
            f" after {WARM_UP_OPERATIONS:,} discarded operations of each arm",
            f"MongoDB {found['server']}, Python {found['python']}, {found['cores']} cores; "
            + "; ".join(f"{arm}: {about}" for arm, about in found["arms"].items()),
            f"load average before the run {found['load_before']:.1f}"
            + (": the machine was busy, so the figures are noisy" if found["load_before"] > 0.5 else ""),
        )
    )


def add_bench(parser: argparse.ArgumentParser) -> None:
    """All operations at all numbers of tasks, with a report."""
    _add_arguments(parser, [name for name, workload in WORKLOADS.items() if workload.tasks], None, Path("reports"))


def add_point_reads(parser: argparse.ArgumentParser) -> None:
    """find_one alone."""
    _add_arguments(parser, ["find_one"], POINT_TASKS, None)


def add_point_writes(parser: argparse.ArgumentParser) -> None:
    _add_arguments(parser, WRITES, POINT_TASKS, None)


def _add_arguments(
    parser: argparse.ArgumentParser, operations: list[str], tasks: Sequence[int] | None, reports: Path | None
) -> None:
    add = parser.add_argument
    add("--operations", type=names(WORKLOADS, "operations"), default=operations, help=f"of {', '.join(WORKLOADS)}")
    default = "1,8,50,500,10000" if tasks is None else ",".join(map(str, tasks))
    add("--tasks", type=_counts, default=tasks and list(tasks), help=f"default: {default}")
    add("--rounds", type=_positive, default=5, help="default: 5, the minimum for a verdict")
    add("--seconds-per-round", dest="seconds", type=float, default=1.5, help="default: 1.5")
    add("--quick", action="store_true", help="one short round at few tasks, which proves nothing")
    add("--arms", type=names(ARMS), default=list(DEFAULT_ARMS), help=f"of {', '.join(ARMS)}")
    add("--before", type=_checkout, metavar="PATH", help="another checkout, whose motorlite is measured for comparison")
    add("--uri", help="measure against this deployment instead of starting a mongod")
    where = "none" if reports is None else str(reports)
    add("--reports", type=Path, default=reports, metavar="DIR", help=f"for bench.md and bench.json (default: {where})")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def _checkout(text: str) -> Path:
    path = Path(text).resolve()
    if not (path / "motorlite" / "__init__.py").is_file():
        raise argparse.ArgumentTypeError(f"{text} is not a checkout of motorlite")
    return path


def _counts(text: str) -> list[int]:
    return [_positive(part) for part in text.split(",")]
