"""Shell: the figures of rounds, their medians, tables of text, verdicts and reports."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# Operation, arm and number of tasks.
Key: TypeAlias = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Round:
    """The result of one arm in one round; times in seconds."""

    operation: str
    arm: str
    tasks: int
    number: int
    operations: int
    seconds: float
    cpu_seconds: float
    p50: float
    p99: float
    # Of the server, which other clients may have used, too; None: unknown.
    server_cpu_seconds: float | None = None

    @property
    def rate(self) -> float:
        return self.operations / self.seconds

    @property
    def cpu(self) -> float:
        """Client CPU per operation, user and system, of all threads of the process."""
        return self.cpu_seconds / self.operations

    @property
    def server_cpu(self) -> float | None:
        """The server's CPU per operation."""
        return None if self.server_cpu_seconds is None else self.server_cpu_seconds / self.operations


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with the lowest and the highest value."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class Summary:
    """All rounds of one arm with one operation at one number of tasks."""

    operation: str
    arm: str
    tasks: int
    rounds: int
    rate: Spread
    cpu: Spread
    server_cpu: float | None
    p50: float
    p99: float

    @classmethod
    def of(cls, rounds: Sequence[Round]) -> Summary:
        server = [r.server_cpu for r in rounds if r.server_cpu is not None]
        return cls(
            operation=rounds[0].operation,
            arm=rounds[0].arm,
            tasks=rounds[0].tasks,
            rounds=len(rounds),
            rate=Spread.of([r.rate for r in rounds]),
            cpu=Spread.of([r.cpu for r in rounds]),
            server_cpu=statistics.median(server) if server else None,
            p50=statistics.median(r.p50 for r in rounds),
            p99=statistics.median(r.p99 for r in rounds),
        )


def together(answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The figures of processes that worked at the same time: sums, the median p50 and the worst p99.

    Empty if there is no process, or one of them has no figures.
    """
    if len(answers) < 2 or not all(answers):
        return answers[0] if len(answers) == 1 else {}
    of = {name: [answer[name] for answer in answers] for name in answers[0]}
    return {
        "operations": sum(of["operations"]),
        "seconds": max(of["seconds"]),
        "cpu_seconds": sum(of["cpu_seconds"]),
        "p50": statistics.median(of["p50"]),
        "p99": max(of["p99"]),
    }


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of the ordered values do not exceed."""
    if not ordered:
        return math.nan
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def summarise(rounds: Sequence[Round]) -> dict[Key, Summary]:
    """The summary of every operation, arm and number of tasks, in order of first appearance."""
    groups: dict[Key, list[Round]] = {}
    for one in rounds:
        groups.setdefault((one.operation, one.arm, one.tasks), []).append(one)
    return {key: Summary.of(group) for key, group in groups.items()}


# --- tables ---


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


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Rows as a table in Markdown; the first is the head."""
    head, *body = rows
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *body))


# --- reports ---


def line(condition: str, is_met: bool | None) -> str:
    """A condition, and whether it is met; None: it was not measured."""
    word = {True: "met", False: "NOT MET", None: "not measured"}[is_met]
    return f"{word}: {condition}"


def judge(conditions: Sequence[tuple[str, bool]]) -> int:
    """Print the conditions; return the exit status, which is 1 if one is not met, or there are none."""
    for condition in conditions:
        print(line(*condition))
    return 0 if conditions and all(is_met for _, is_met in conditions) else 1


def write_report(folder: Path, name: str, text: str, value: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(text, encoding="utf-8")
    (folder / f"{name}.json").write_text(f"{json.dumps(value, indent=1)}\n", encoding="utf-8")
    print(f"written to {folder}")
