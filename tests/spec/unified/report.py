"""Prints the table of a run, and writes its records."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import asdict
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from tests.spec.unified.judge import Outcome, Record

_HEAD: Final = ("suite", "backend", "passed", "failed", "skipped", "runs", "seconds")


def merged(records: Iterable[Record]) -> Outcome:
    """How a test ended that ran on several deployments: it passed when it passed on all that it ran on."""
    outcomes = {record.outcome for record in records}
    return "failed" if "failed" in outcomes else "passed" if "passed" in outcomes else "skipped"


def print_table(records: Sequence[Record], out: TextIO) -> None:
    """Print how many tests of each suite passed, failed and were skipped, and why."""
    by_suite: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        by_suite[record.suite, record.backend].append(record)
    rows = [_HEAD, *(_row(suite, backend, found) for (suite, backend), found in by_suite.items())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    for row in rows:
        cells = [f"{cell:{'<' if column < 2 else '>'}{widths[column]}}" for column, cell in enumerate(row)]
        print("  ".join(cells).rstrip(), file=out)
    _print_skips(records, out)
    _print_failures(records, out)


def _row(suite: str, backend: str, records: Sequence[Record]) -> tuple[str, ...]:
    by_test: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        by_test[record.file, record.test].append(record)
    outcomes = Counter(merged(found) for found in by_test.values())
    counts = (outcomes["passed"], outcomes["failed"], outcomes["skipped"])
    runs = sum(record.outcome != "skipped" for record in records)
    return (suite, backend, *map(str, counts), str(runs), f"{sum(record.seconds for record in records):.1f}")


def _print_skips(records: Sequence[Record], out: TextIO) -> None:
    reasons = Counter((record.suite, record.kind, record.reason) for record in records if record.outcome == "skipped")
    if reasons:
        print("\nskipped:", file=out)
    for (suite, kind, reason), count in sorted(reasons.items()):
        print(f"  {count:4} {suite}: {kind}: {reason}", file=out)


def _print_failures(records: Sequence[Record], out: TextIO) -> None:
    failed = [record for record in records if record.outcome == "failed"]
    if failed:
        print("\nfailed:", file=out)
    for record in failed:
        print(f"  {record.file}: {record.test} [{record.backend}, {record.deployment}]", file=out)
        print("".join(f"      {line}\n" for line in record.reason.splitlines()[:30]), end="", file=out)


def write(records: Iterable[Record], file: Path) -> None:
    """Write one JSON object per execution of a test, in a list."""
    file.write_text(json.dumps([asdict(record) for record in records], indent=1), encoding="utf-8")
