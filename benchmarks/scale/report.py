"""Shell: the results of `scale` as Markdown, JSON and one plot."""

from __future__ import annotations

from dataclasses import asdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from benchmarks.figures import markdown, summarise
from benchmarks.scale.sections import GROWTH, NAMES
from benchmarks.speed.report import HEAD, row
from benchmarks.speed.targets import FLOOR, best_peer
from benchmarks.speed.workloads import at
from benchmarks.storm.report.plots import BLUE, GREEN, GREY, INK, PINK, SKY, WIDTH, Mark, figure, mark

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.figures import Round, Summary
    from benchmarks.scale.growth import Series

    Rows = Sequence[Sequence[str]]

# By letter: the rounds, and why an arm is not measured.
Results = dict[str, tuple[list["Round"], dict[str, str]]]
MARKS: Final = {
    "bare": Mark(GREY, ":", "s"),
    "motorlite": Mark(BLUE, width=2.4),
    "motorlite-uvloop": Mark(SKY, "-", "^"),
    "motorlite-trio": Mark(GREEN, "-.", "D"),
    "motorlite-anyio": Mark(PINK, ":", "D"),
}


def as_markdown(headline: str, facts: Mapping[str, Any], results: Results, growth: Sequence[Series]) -> str:
    """The report: how it was measured, the plot if there is a section for it, and a table for each section."""
    parts = ["# Scale", headline, "\n".join(f"- {arm}: {about}" for arm, about in facts["arms"].items())]
    if facts["plot"]:
        parts.append(f"![Operations per second and p99 over the number of tasks, for each arm]({facts['plot']})")
    for letter, (rounds, failures) in results.items():
        parts += [f"## {NAMES[letter]}", markdown(table(rounds)) if rounds else "Nothing was measured."]
        if failures:
            parts.append("\n".join(f"- {arm} is not measured: {why}" for arm, why in failures.items()))
    if growth:
        parts += [f"## {NAMES[GROWTH]}", markdown(growth_table(growth))]
    return "\n\n".join(parts) + "\n"


def table(rounds: Sequence[Round]) -> Rows:
    """One row for each case and arm; ratios are those of the medians."""
    summaries = summarise(rounds)
    rows = []
    for title, tasks in dict.fromkeys((one.operation, one.tasks) for one in rounds):
        best, floor = best_peer(summaries, title, tasks), summaries.get((title, FLOOR, tasks))
        for one in summaries.values():
            if (one.operation, one.tasks) == (title, tasks):
                arm, *figures = row(one, best, floor)
                rows.append((at(title, tasks), arm.strip(), *figures))
    return [("", "arm", *HEAD[1:]), *rows]


def growth_table(growth: Sequence[Series]) -> Rows:
    """One row for each series: its values, and what each further thing costs."""
    rows = []
    for one in growth:
        values = "; ".join(f"{number:,}: {value:,.0f}" for number, value in one.values.items())
        each = "-" if one.each is None else f"{one.each:,.1f}"
        rows.append((one.what, one.unit, one.things, values or f"not measured: {one.why}", each))
    return [("", "unit", "number of", "values", "each further one"), *rows]


def as_json(facts: Mapping[str, Any], results: Results, growth: Sequence[Series]) -> dict[str, Any]:
    """All measurements, including every round; times in seconds."""
    sections = {
        letter: {
            "title": NAMES[letter],
            "not_measured": failures,
            "medians": [asdict(one) for one in summarise(rounds).values()],
            "rounds": [asdict(one) for one in rounds],
        }
        for letter, (rounds, failures) in results.items()
    }
    return {**facts, "sections": sections, "growth": [{**asdict(one), "each": one.each} for one in growth]}


# --- the plot ---


def plot(rounds: Sequence[Round]) -> Any:
    """Operations per second above, p99 below, over the number of tasks: a column for each operation."""
    summaries = list(summarise(rounds).values())
    titles = list(dict.fromkeys(one.operation for one in summaries))
    tasks = sorted({one.tasks for one in summaries})
    made, axes = figure(WIDTH, 7.2, 2, len(titles), sharex=True)
    for (top, bottom), title in zip(axes.T, titles, strict=True):
        top.set_title(title, fontsize=9.0)
        bottom.set(xlabel="tasks", yscale="log")
        for axis, name in ((top, "operations per second"), (bottom, "p99, milliseconds (logarithmic)")):
            axis.set_ylabel(name if title == titles[0] else "")
            lines = _lines([one for one in summaries if one.operation == title], is_rate=axis is top)
            _draw(axis, lines, tasks)
        bottom.yaxis.set_major_formatter(lambda value, _=None: f"{value:,g}")
        top.yaxis.set_major_formatter(lambda value, _=None: f"{value:,.0f}")
    return made


def _lines(summaries: Sequence[Summary], *, is_rate: bool) -> dict[str, list[tuple[int, float]]]:
    """The points of each arm."""
    found: dict[str, list[tuple[int, float]]] = {}
    for one in summaries:
        found.setdefault(one.arm, []).append((one.tasks, one.rate.median if is_rate else one.p99 * 1000))
    return found


def _draw(axis: Any, lines: Mapping[str, Sequence[tuple[int, float]]], tasks: Sequence[int]) -> None:
    """The lines, each with its name beside its end; names that would be on top of each other move apart."""
    axis.set_xscale("log")
    axis.set_xlim(tasks[0] * 0.8, tasks[-1] * (tasks[-1] / tasks[0]) ** 0.42)
    axis.set_xticks(tasks, [f"{count:,}" for count in tasks])
    axis.minorticks_off()
    for arm, points in lines.items():
        look = MARKS.get(arm) or mark(arm)
        axis.plot(*zip(*points, strict=True), **look.line, marker=look.marker, markersize=4.5)
    if axis.get_yscale() != "log":
        axis.set_ylim(bottom=0)
    transform = axis.transData + axis.transAxes.inverted()
    ends = {arm: transform.transform(points[-1])[1] for arm, points in lines.items()}
    places = dict(zip(ends, spread(list(ends.values()), 0.075), strict=True))
    for arm, points in lines.items():
        at_text = (transform.transform(points[-1])[0] + 0.06, places[arm])
        leader = {
            "arrowstyle": "-",
            "color": (MARKS.get(arm) or mark(arm)).colour,
            "shrinkA": 1,
            "shrinkB": 4,
            "relpos": (0, 0.5),
        }
        axis.annotate(
            arm,
            points[-1],
            at_text,
            textcoords="axes fraction",
            va="center",
            color=INK,
            fontsize=8.5,
            arrowprops=leader,
        )


def spread(places: Sequence[float], gap: float, highest: float = 1.0) -> list[float]:
    """The places, moved so that each is at least `gap` above the one below it, in the same order, up to `highest`."""
    order = sorted(range(len(places)), key=places.__getitem__)
    moved = list(places)
    for below, above in pairwise(order):
        moved[above] = max(moved[above], moved[below] + gap)
    limit = highest
    for one in reversed(order):
        moved[one] = min(moved[one], limit)
        limit = moved[one] - gap
    return moved
