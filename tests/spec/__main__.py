"""Runs specification tests: ``python -m tests.spec [PATH ...]`` (spec-tests/README.md)."""

from __future__ import annotations

import argparse
import sys
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from tests.spec import finding, report
from tests.spec.finding import NotRun
from tests.spec.formats import cases as format_cases
from tests.spec.formats.cases import FormatCase
from tests.spec.unified import schema
from tests.spec.unified.environment import FACADES
from tests.spec.unified.judge import Deployments, judge_all
from tests.support import specifications

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.spec.finding import Found
    from tests.spec.unified.environment import Topology
    from tests.spec.unified.judge import Record

BACKENDS = {"asyncio": ("asyncio",), "trio": ("trio",), "both": ("asyncio", "trio")}
TOPOLOGIES: dict[str, tuple[Topology, ...]] = {
    "single": ("single",),
    "replicaset": ("replicaset",),
    "sharded": ("sharded",),
    "load-balanced": ("load-balanced",),
    "sharded-8.0": ("sharded-8.0",),
    "both": ("single", "replicaset"),
    "all": ("single", "replicaset", *FACADES),
}
# Of a replica set, that can vote.
_MOST_MEMBERS = 7

# Exit statuses.
FAILED = 1
NOT_RUN = 2

_EPILOG = """\
PATH may also be given as it is called below the public suites ("crud", "crud/tests/unified/find.json") or below
spec-tests. The exit status is 0 when nothing failed, 1 when a test failed, 2 when the public suites or the files that
were asked for are not there, or are in no format that is known."""


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.spec", description="Run specification tests.", epilog=_EPILOG
    )
    parser.add_argument("paths", metavar="PATH", nargs="*", type=Path, help="files and folders; default: all suites")
    parser.add_argument("--backend", choices=BACKENDS, default="both", help="the event loop; default: %(default)s")
    parser.add_argument(
        "--topology",
        choices=TOPOLOGIES,
        default="all",
        help="the servers for tests in the unified format, the others need none; default: %(default)s",
    )
    parser.add_argument(
        "--auth",
        action=argparse.BooleanOptionalAction,
        help="servers with or without authentication; default: with it where a test needs it",
    )
    parser.add_argument(
        "--members",
        metavar="NUMBER",
        type=int,
        choices=range(1, _MOST_MEMBERS + 1),
        help="how many members replica sets have; default: three where a test needs a secondary, one elsewhere",
    )
    parser.add_argument("--match", metavar="TEXT", default="", help="only tests whose file or description has this")
    parser.add_argument("--report", metavar="FILE.json", type=Path, help="write one record per test")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit status."""
    given = _arguments(arguments)
    missing = specifications.not_run()
    if missing:
        print(missing, file=sys.stderr)
        print(schema.UNCHECKED, file=sys.stderr)
    try:
        found = list(finding.find(given.paths or None, given.match))
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return NOT_RUN
    if not found:
        print("there is no such test", file=sys.stderr)
        return NOT_RUN
    records: list[Record] = []
    with Deployments(TOPOLOGIES[given.topology], auth=given.auth, members=given.members) as deployments:
        for record in judged(found, deployments, BACKENDS[given.backend]):
            records.append(record)
            _show_progress(records)
    report.print_table(records, sys.stdout)
    if given.report is not None:
        report.write(records, given.report)
    if not given.paths and missing:
        print(f"\n{missing}")
    if any(record.outcome == "failed" for record in records):
        return FAILED
    return NOT_RUN if not given.paths and missing else 0


def judged(found: Sequence[Found], deployments: Deployments, backends: Sequence[str]) -> Iterator[Record]:
    """Run tests of every kind and record how they ended."""
    for suite, cases in groupby(found, lambda case: case.suite):
        print(f"{suite.name} ...", file=sys.stderr)
        for case in cases:
            if isinstance(case, NotRun):
                yield case.record
            elif isinstance(case, FormatCase):
                yield from (format_cases.judge(case, backend) for backend in case.backends(backends))
            else:
                yield from judge_all([case], deployments, backends)


def _show_progress(records: Sequence[Record]) -> None:
    last, count = records[-1], len(records)
    failed = sum(record.outcome == "failed" for record in records)
    if last.outcome == "failed" or count % 100 == 0:
        print(f"{count} run, {failed} failed; {last.outcome}: {last.file}: {last.test}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
