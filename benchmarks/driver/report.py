"""Pure: the tables and the report of the public benchmark."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from benchmarks.driver.tasks import (
    BASELINE,
    COMPOSITES,
    PERCENTILES,
    TASKS,
    composites,
    percentile,
    scores,
    times_of,
    verdict,
)
from benchmarks.figures import line, markdown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.driver.tasks import Iteration, Scale

    Rows = Sequence[Sequence[str]]


def rows(iterations: Sequence[Iteration], scale: Scale) -> Rows:
    """Megabytes per second and the ratio to PyMongo Async: a row for each task and composite, a column for each arm."""
    found = scores(iterations, scale)
    arms = list(dict.fromkeys(one.arm for one in iterations))
    tasks = list(dict.fromkeys(one.task for one in iterations))
    table: list[Sequence[str]] = [("MB/s (x " + BASELINE + ")", *arms)]
    table += [
        (TASKS[task].title, *(_cell(found.get((task, arm)), found.get((task, BASELINE))) for arm in arms))
        for task in tasks
    ]
    values = {arm: composites(found, arm, tasks) for arm in arms}
    for name in (*COMPOSITES, "DriverBench"):
        if any(name in one for one in values.values()):
            base = values.get(BASELINE, {}).get(name)
            table.append((name, *(_cell(values[arm].get(name), base) for arm in arms)))
    return table


def as_markdown(
    iterations: Sequence[Iteration], scale: Scale, headline: str, facts: Mapping[str, Any], left_out: Sequence[str]
) -> str:
    arms = [f"- {arm}: {about}" for arm, about in facts["arms"].items()]
    lines = [f"- {line(*condition)}" for condition in verdict(scores(iterations, scale))]
    parts = (
        "# The public benchmark of drivers",
        headline,
        "\n".join(arms),
        "Left out:\n\n" + "\n".join(f"- {what}" for what in left_out),
        markdown(rows(iterations, scale)),
        "At least as fast as every Python peer:",
        "\n".join(lines) or "Not measured.",
    )
    return "\n\n".join(parts) + "\n"


def as_json(
    iterations: Sequence[Iteration], scale: Scale, facts: Mapping[str, Any], left_out: Sequence[str]
) -> dict[str, Any]:
    """All iterations, with the percentiles of the specification; times in seconds."""
    found = scores(iterations, scale)
    return {
        **facts,
        "scale": asdict(scale),
        "left_out": list(left_out),
        "scores": [
            {
                "task": task,
                "arm": arm,
                "megabytes_per_second": found[task, arm],
                "percentiles": {str(one): percentile(seconds, one) for one in PERCENTILES},
            }
            for (task, arm), seconds in times_of(iterations).items()
        ],
        "verdict": [line(*condition) for condition in verdict(found)],
        "iterations": [asdict(one) for one in iterations],
    }


def _cell(score: float | None, base: float | None) -> str:
    if score is None:
        return "-"
    return (f"{score:.0f}" if score >= 100 else f"{score:.3g}") + ("" if base is None else f" ({score / base:.2f})")
