"""Runs specification tests: ``python -m tests.spec [PATH ...]`` (spec-tests/README.md)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.spec.unified import cases, report
from tests.spec.unified.judge import Deployments, judge_all
from tests.support import specifications

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.spec.unified.environment import Topology
    from tests.spec.unified.judge import Record

BACKENDS = {"asyncio": ("asyncio",), "trio": ("trio",), "both": ("asyncio", "trio")}
TOPOLOGIES: dict[str, tuple[Topology, ...]] = {
    "single": ("single",),
    "replicaset": ("replicaset",),
    "both": ("single", "replicaset"),
}


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.spec", description="Run specification tests.")
    parser.add_argument("paths", metavar="PATH", nargs="*", type=Path, help="files and folders; default: all suites")
    parser.add_argument("--backend", choices=BACKENDS, default="both")
    parser.add_argument("--topology", choices=TOPOLOGIES, default="both")
    parser.add_argument(
        "--auth",
        action=argparse.BooleanOptionalAction,
        help="with or without authentication; default: with it where a test needs it",
    )
    parser.add_argument("--match", metavar="TEXT", default="", help="only tests whose file or description has this")
    parser.add_argument("--report", metavar="FILE.json", type=Path, help="write one record per test")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is 1 when a test failed, 2 when none was found."""
    given = _arguments(arguments)
    if not given.paths and (reason := specifications.not_run()):
        print(reason, file=sys.stderr)
        return 2
    try:
        found = list(cases.find(given.paths or None, given.match))
    except (FileNotFoundError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    if not found:
        print("there is no such test", file=sys.stderr)
        return 2
    records: list[Record] = []
    with Deployments(TOPOLOGIES[given.topology], auth=given.auth) as deployments:
        for record in judge_all(found, deployments, BACKENDS[given.backend]):
            records.append(record)
            _show_progress(records)
    report.print_table(records, sys.stdout)
    if given.report is not None:
        report.write(records, given.report)
    return int(any(record.outcome == "failed" for record in records))


def _show_progress(records: Sequence[Record]) -> None:
    last, count = records[-1], len(records)
    failed = sum(record.outcome == "failed" for record in records)
    if last.outcome == "failed" or count % 100 == 0:
        print(f"{count} run, {failed} failed; {last.outcome}: {last.file}: {last.test}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
