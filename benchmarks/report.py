"""Pure: renders the point-read results as text and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from benchmarks.figures import BASELINE, FLOOR, conditions, summarise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.figures import Round, Spread, Summary

COLUMNS = ("", "ops/s", "(min-max)", "x pymongo", "x bare", "CPU us/op", "(min-max)", "x pymongo", "x bare")
HEAD = (*COLUMNS, "p50 ms", "p99 ms")


def render(rounds: Sequence[Round]) -> str:
    """One table per number of tasks; ratios are those of the medians."""
    summaries = summarise(rounds)
    tables = []
    for tasks in dict.fromkeys(one.tasks for one in rounds):
        rows = [HEAD, *(_row(s, summaries) for s in summaries.values() if s.tasks == tasks)]
        tables.append(f"{tasks} task{'s' if tasks > 1 else ''}\n{align(rows)}")
    return "\n\n".join(tables)


def verdict(rounds: Sequence[Round]) -> str:
    return "\n".join(condition.line for condition in conditions(summarise(rounds)))


def as_json(rounds: Sequence[Round], facts: Mapping[str, Any], failures: Mapping[str, str]) -> dict[str, Any]:
    """All measurements, including every round; times in seconds."""
    summaries = summarise(rounds)
    return {
        **facts,
        "not_measured": dict(failures),
        "medians": [asdict(summary) for summary in summaries.values()],
        "conditions": [asdict(condition) for condition in conditions(summaries)],
        "rounds": [asdict(one) for one in rounds],
    }


def align(rows: Sequence[Sequence[str]]) -> str:
    """Rows with columns as wide as their widest cell; the first is left-aligned, the others right-aligned."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _row(summary: Summary, summaries: Mapping[tuple[str, int], Summary]) -> tuple[str, ...]:
    baseline = summaries.get((BASELINE, summary.tasks))
    floor = summaries.get((FLOOR, summary.tasks))
    return (
        f"  {summary.arm}",
        f"{summary.rate.median:,.0f}",
        _range(summary.rate, 1),
        _ratio(summary.rate, baseline.rate if baseline else None),
        _ratio(summary.rate, floor.rate if floor else None),
        f"{summary.cpu.median * 1e6:.1f}",
        _range(summary.cpu, 1e6),
        _ratio(summary.cpu, baseline.cpu if baseline else None),
        _ratio(summary.cpu, floor.cpu if floor else None),
        f"{summary.p50 * 1e3:.2f}",
        f"{summary.p99 * 1e3:.2f}",
    )


def _range(spread: Spread, factor: float) -> str:
    return f"({spread.low * factor:,.0f}-{spread.high * factor:,.0f})"


def _ratio(one: Spread, other: Spread | None) -> str:
    return "-" if other is None else f"{one.median / other.median:.2f}"
