"""Pure: the results of a run as text, Markdown and JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from benchmarks.figures import align, markdown, summarise
from benchmarks.speed.targets import FLOOR, PEERS, best_peer, conditions
from benchmarks.speed.workloads import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from benchmarks.figures import Key, Round, Spread, Summary

    Rows = Sequence[Sequence[str]]

COLUMNS = ("", "ops/s", "(min-max)", "x best peer", "x bare", "CPU us/op", "(min-max)", "x best peer", "x bare")
HEAD = (*COLUMNS, "server us/op", "p50 ms", "p99 ms")


def tables(rounds: Sequence[Round]) -> Iterator[tuple[str, Rows]]:
    """A title and the rows for every operation and number of tasks; ratios are those of the medians."""
    summaries = summarise(rounds)
    for operation, tasks in dict.fromkeys((one.operation, one.tasks) for one in rounds):
        best = best_peer(summaries, operation, tasks)
        rows = [
            row(summary, best, summaries.get((operation, FLOOR, tasks)))
            for summary in summaries.values()
            if (summary.operation, summary.tasks) == (operation, tasks)
        ]
        yield WORKLOADS[operation].at(tasks), [HEAD, *rows]


def render(rounds: Sequence[Round]) -> str:
    return _joined(rounds, align, "{}")


def verdict(rounds: Sequence[Round]) -> str:
    return "\n".join(condition.line for condition in conditions(summarise(rounds)))


def as_markdown(headline: str, rounds: Sequence[Round], facts: Mapping[str, Any], failures: Mapping[str, str]) -> str:
    """The report: what was measured and how, the conditions, an overview, and all tables."""
    notes = [f"- {arm}: {about}" for arm, about in facts["arms"].items()]
    notes += [f"- {arm} is not measured: {why}" for arm, why in failures.items()]
    conditions_ = [f"- {line}" for line in verdict(rounds).splitlines()]
    parts = [
        "# Point operations, writes and cursors",
        headline,
        "\n".join(notes),
        "Ratios are those of the medians. The best peer is the fastest of " + ", ".join(PEERS) + ".",
        "## Conditions",
        "\n".join(conditions_) or "None applies.",
        "## Operations per second, to the best peer",
        markdown(overview(rounds)),
        _joined(rounds, markdown, "## {}\n"),
    ]
    return "\n\n".join(parts) + "\n"


def overview(rounds: Sequence[Round]) -> Rows:
    """One row for each operation and number of tasks, one column for each arm: the ratio to the best peer."""
    summaries = summarise(rounds)
    arms = list(dict.fromkeys(one.arm for one in rounds))
    rows = []
    for operation, tasks in dict.fromkeys((one.operation, one.tasks) for one in rounds):
        best = best_peer(summaries, operation, tasks)
        found = (summaries.get((operation, arm, tasks)) for arm in arms)
        cells = ("-" if one is None else _ratio(one.rate, None if best is None else best.rate) for one in found)
        rows.append((WORKLOADS[operation].title, f"{tasks:,}", *cells))
    return [("", "tasks", *arms), *rows]


def as_json(rounds: Sequence[Round], facts: Mapping[str, Any], failures: Mapping[str, str]) -> dict[str, Any]:
    """All measurements, including every round; times in seconds."""
    summaries: Mapping[Key, Summary] = summarise(rounds)
    return {
        **facts,
        "not_measured": dict(failures),
        "medians": [asdict(summary) for summary in summaries.values()],
        "conditions": [asdict(condition) for condition in conditions(summaries)],
        "rounds": [asdict(one) for one in rounds],
    }


def _joined(rounds: Sequence[Round], draw: Callable[[Rows], str], title: str) -> str:
    return "\n\n".join(f"{title.format(name)}\n{draw(rows)}" for name, rows in tables(rounds))


def row(summary: Summary, best: Summary | None, floor: Summary | None) -> tuple[str, ...]:
    """The cells below `HEAD`."""
    return (
        f"  {summary.arm}",
        f"{summary.rate.median:,.0f}" if summary.rate.median >= 100 else f"{summary.rate.median:.2f}",
        _range(summary.rate, 1),
        _ratio(summary.rate, best.rate if best else None),
        _ratio(summary.rate, floor.rate if floor else None),
        f"{summary.cpu.median * 1e6:,.1f}",
        _range(summary.cpu, 1e6),
        _ratio(summary.cpu, best.cpu if best else None),
        _ratio(summary.cpu, floor.cpu if floor else None),
        "-" if summary.server_cpu is None else f"{summary.server_cpu * 1e6:,.1f}",
        f"{summary.p50 * 1e3:,.2f}",
        f"{summary.p99 * 1e3:,.2f}",
    )


def _range(spread: Spread, factor: float) -> str:
    digits = 0 if spread.high * factor >= 100 else 2
    return f"({spread.low * factor:,.{digits}f}-{spread.high * factor:,.{digits}f})"


def _ratio(one: Spread, other: Spread | None) -> str:
    return "-" if other is None else f"{one.median / other.median:.2f}"
