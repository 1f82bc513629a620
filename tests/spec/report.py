"""Prints the table of a run, and writes its records."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import asdict
from typing import TYPE_CHECKING, Final, TextIO

from tests.spec.unified.outcomes import SkipKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from tests.spec.unified.judge import Outcome, Record

_HEAD: Final = ("suite", "backend", "files", "tests", "passed", "failed", "skipped", "pending", "runs", "seconds")
_TEXTS: Final = 2


def merged(records: Iterable[Record]) -> Outcome:
    """How a test ended that ran several times: it passed when it passed wherever it ran."""
    outcomes = {record.outcome for record in records}
    return "failed" if "failed" in outcomes else "passed" if "passed" in outcomes else "skipped"


def counted(records: Iterable[Record]) -> Counter[str]:
    """How many files and tests there are, how many of these passed, failed and were skipped, and all executions.

    Pending tests are those that were skipped because they wait for what is not built yet.
    """
    by_test: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        by_test[record.file, record.test].append(record)
    counts: Counter[str] = Counter(merged(found) for found in by_test.values())
    counts["files"] = len({file for file, _ in by_test})
    counts["tests"] = len(by_test)
    counts["pending"] = sum(
        merged(found) == "skipped" and any(record.kind == SkipKind.PENDING for record in found)
        for found in by_test.values()
    )
    counts["runs"] = sum(record.outcome != "skipped" for found in by_test.values() for record in found)
    return counts


def print_table(records: Sequence[Record], out: TextIO) -> None:
    """Print how many tests of each suite passed, failed and were skipped, and why; the last line is for all of them."""
    by_suite: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        by_suite[record.suite, record.backend].append(record)
    rows = [_HEAD, *(_row(suite, backend, found) for (suite, backend), found in by_suite.items())]
    rows.append(_row("total", "", records))
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    for row in rows:
        cells = [f"{cell:{'<' if column < _TEXTS else '>'}{widths[column]}}" for column, cell in enumerate(row)]
        print("  ".join(cells).rstrip(), file=out)
    _print_reasons("skipped", records, lambda record: record.outcome == "skipped", out)
    _print_reasons("asserted to differ", records, lambda record: record.outcome == "passed" and bool(record.kind), out)
    _print_failures(records, out)
    _print_total(records, out)


def _row(suite: str, backend: str, records: Sequence[Record]) -> tuple[str, ...]:
    counts = counted(records)
    return (suite, backend, *(str(counts[name]) for name in _HEAD[_TEXTS:-1]), f"{_seconds(records):.1f}")


def _seconds(records: Iterable[Record]) -> float:
    return sum(record.seconds for record in records)


def _print_reasons(title: str, records: Iterable[Record], is_meant: Callable[[Record], bool], out: TextIO) -> None:
    tests: dict[tuple[str, str, str], set[tuple[str, str]]] = defaultdict(set)
    for record in filter(is_meant, records):
        tests[record.suite, record.kind, record.reason].add((record.file, record.test))
    if tests:
        print(f"\n{title}, in tests:", file=out)
    for (suite, kind, reason), found in sorted(tests.items()):
        print(f"  {len(found):4} {suite}: {kind}: {reason}", file=out)


def _print_failures(records: Sequence[Record], out: TextIO) -> None:
    failed = [record for record in records if record.outcome == "failed"]
    if failed:
        print("\nfailed:", file=out)
    for record in failed:
        where = ", ".join(name for name in (record.backend, record.deployment) if name.strip("-"))
        print(f"  {record.file}: {record.test}" + (f" [{where}]" if where else ""), file=out)
        print("".join(f"      {line}\n" for line in record.reason.splitlines()[:30]), end="", file=out)


def _print_total(records: Sequence[Record], out: TextIO) -> None:
    counts = counted(records)
    print(
        f"\n{counts['tests']} tests in {counts['files']} files, {counts['runs']} runs: {counts['passed']} passed, "
        f"{counts['failed']} failed, {counts['skipped']} skipped ({counts['pending']} of them pending) "
        f"in {_seconds(records):.0f} s",
        file=out,
    )


def write(records: Iterable[Record], file: Path) -> None:
    """Write one JSON object per execution of a test, in a list."""
    file.write_text(json.dumps([asdict(record) for record in records], indent=1) + "\n", encoding="utf-8")
