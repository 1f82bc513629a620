"""Shell: what happened in the course of a run: one small plot for each arm, all on one scale; and the tokens."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from benchmarks.storm.report.plots import canvas
from benchmarks.storm.report.plots.palette import BLUE, GREEN, ORANGE, PINK, VERMILION, mark
from benchmarks.storm.results import STEP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.storm.report.session import Group

POINTS: Final = 120
"""About as many points has a line: more cannot be seen at this size."""
COLUMNS: Final = 3
WIDTH: Final = 10.5
HEIGHT: Final = 2.25


def rates(groups: Sequence[Group]) -> Any:
    """Offered, attempts, goodput, rejected and timed out per second, means over the seeds."""
    rows = math.ceil(len(groups) / COLUMNS)
    made, axes = canvas.figure(WIDTH, HEIGHT * rows + 0.9, rows, COLUMNS, sharex=True, sharey=True)
    shown: dict[str, Any] = {}
    for axis, group in zip(axes.flat, groups, strict=False):
        _panel(axis, group, shown)
    flat = list(axes.flat)
    for axis in flat[len(groups) :]:
        axis.set_visible(False)
    for axis in flat[max(0, len(groups) - COLUMNS) : len(groups)]:
        axis.set_xlabel("seconds")
        axis.tick_params(labelbottom=True)
    # At last: it ends the scaling to the values, of all panels.
    flat[0].set_ylim(bottom=0)
    flat[0].xaxis.set_major_locator(canvas.round_numbers(5))
    for row in axes:
        row[0].set_ylabel("per second")
    made.legend(shown.values(), shown.keys(), loc="outside upper left", ncols=len(shown), handlelength=1.8)
    return made


def _panel(axis: Any, group: Group, shown: dict[str, Any]) -> None:
    run = group.records[0].run
    width = bin_width(run.seconds)
    start, end = run.overload
    if start > 0 or end < run.seconds:
        shown["overload"] = axis.axvspan(start, end, color=canvas.SHADE, linewidth=0)
    times, goodput = binned(group, "goodput", width)
    shown["goodput"] = axis.fill_between(times, goodput, color=BLUE, alpha=0.55, linewidth=0)
    lines = (
        ("offered", canvas.INK, "--", 1.2),
        ("attempts", VERMILION, "-", 1.6),
        ("rejected", PINK, ":", 1.6),
        ("timed_out", ORANGE, "-.", 1.5),
        ("capacity", GREEN, "-", 1.0),
    )
    for name, colour, dash, thickness in lines:
        times, values = binned(group, name, width)
        if name in ("timed_out", "rejected") and not any(values):
            continue
        (line,) = axis.plot(times, values, color=colour, linestyle=dash, linewidth=thickness)
        shown.setdefault(name.replace("_", " "), line)
    axis.set_title(group.arm)
    axis.set_xlim(0, run.seconds)


def tokens(groups: Sequence[Group]) -> Any | None:
    """The tokens left for retries, means of all clients; None where no arm uses any."""
    having = [group for group in groups if _uses_tokens(group)]
    if not having:
        return None
    made, ((axis,),) = canvas.figure(WIDTH, 2.7)
    run = having[0].records[0].run
    axis.axvspan(*run.overload, color=canvas.SHADE, linewidth=0)
    for group in having:
        times, values = binned(group, "tokens", bin_width(run.seconds), is_mean=True)
        look = mark(group.arm)
        axis.plot(times, values, color=look.colour, linestyle=look.dash, linewidth=look.width, label=group.arm)
    axis.set_xlabel("seconds")
    axis.set_ylabel("tokens per client")
    axis.set_xlim(0, run.seconds)
    axis.xaxis.set_major_locator(canvas.round_numbers(10))
    axis.set_ylim(bottom=0)
    made.legend(loc="outside right upper", handlelength=2.6)
    return made


def _uses_tokens(group: Group) -> bool:
    return any(
        min(values) < 0.98 * max(values) for record in group.records if (values := record.run.series.get("tokens"))
    )


def bin_width(seconds: float) -> int:
    """Steps of a series in one point of a line."""
    return max(1, round(seconds / STEP / POINTS))


def binned(group: Group, name: str, width: int, *, is_mean: bool = False) -> tuple[list[float], list[float]]:
    """The middle of each bin, and the mean over the seeds: per second, or as it is."""
    columns = [record.run.series.get(name) or [] for record in group.records]
    columns = [values for values in columns if values]
    length = min((len(values) for values in columns), default=0)
    times, means = [], []
    for start in range(0, length, width):
        found = [value for values in columns for value in values[start : min(start + width, length)]]
        times.append((start + min(start + width, length)) / 2 * STEP)
        means.append(sum(found) / len(found) / (1.0 if is_mean else STEP))
    return times, means
