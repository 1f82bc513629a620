"""Shell: the plots of README and documentation, from a session's file."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from benchmarks.storm.report.plots import canvas
from benchmarks.storm.report.plots.overtime import bin_width, binned
from benchmarks.storm.report.plots.palette import BLUE, VERMILION, mark

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from benchmarks.storm.report.session import Group, Session

ARMS: Final = {
    "sustained": ("default", "small-budget", "immediate", "pymongo", "mongojet"),
    "metastable": ("default", "small-pool", "adaptive", "pymongo", "mongojet"),
}
"""By scenario. More lines than these cannot be told apart at this size."""
POINTS: Final = 60
LASTING: Final = "lasting"
SIZES: Final = {"": (7.2, 3.0), "-narrow": (3.7, 3.1)}
"""Inches, by the end of the file's name: phones get a plot of their own, whose words they need not shrink."""


def write(session: Session, folder: Path) -> list[Path]:
    """Write the plots of the session's scenarios: one of `lasting` and one for each scenario of `ARMS`."""
    written = []
    for group in _lasting(session):
        for end, size in SIZES.items():
            written.append(folder / f"storm-{LASTING}{end}.svg")
            canvas.write(_draw_attempts(group, *size), written[-1])
    for name, arms in ARMS.items():
        if name not in {scenario.name for scenario in session.scenarios}:
            continue
        for backend in session.backends(name)[:1]:
            groups = [group for group in session.groups(name, backend) if group.records]
            chosen = [group for arm in arms for group in groups if group.arm == arm] or groups
            if chosen:
                written.append(folder / f"storm-{name}.svg")
                canvas.write(_draw(chosen), written[-1])
    return written


def _lasting(session: Session) -> Iterator[dict[str, Group]]:
    """The arms of the scenario `lasting` by name, if the session has it with the two that the plot compares."""
    if LASTING in {scenario.name for scenario in session.scenarios}:
        for backend in session.backends(LASTING)[:1]:
            groups = {group.arm: group for group in session.groups(LASTING, backend) if group.records}
            if groups.keys() >= {"immediate", "default"}:
                yield groups


def _draw_attempts(groups: Mapping[str, Group], wide: float, high: float) -> Any:
    """What reaches the server with and without a budget, each line with its name beside it."""
    immediate, default = groups["immediate"], groups["default"]
    run = default.records[0].run
    start, end = run.overload
    width = max(bin_width(run.seconds), math.ceil(len(run.series["offered"]) / POINTS))
    made, ((axis,),) = canvas.figure(wide, high)
    times, offered = binned(default, "offered", width)
    axis.fill_between(times, offered, color=canvas.SHADE, linewidth=0)
    peaks = {}
    for group, colour in ((immediate, VERMILION), (default, BLUE)):
        times, attempts = binned(group, "attempts", width)
        axis.plot(times, attempts, color=colour, linewidth=2.4)
        peaks[group.arm] = max(attempts)
    times, capacity = binned(default, "capacity", width)
    axis.plot(times, capacity, color=canvas.INK, linewidth=1.0, linestyle="--")
    axis.set_xlim(0, run.seconds)
    axis.set_ylim(0, 1.16 * max(peaks.values()))
    axis.set_ylabel("per second")
    axis.set_xlabel("seconds")
    axis.xaxis.set_major_locator(canvas.round_numbers(6))
    middle, level = (start + end) / 2, max(offered)
    for height, words, colour in (
        (max(peaks.values()), "five immediate retries, no budget", VERMILION),
        (1.09 * level, "motorlite's default", BLUE),
        (0.62 * level, "requests of the application", canvas.INK),
        (capacity[0], "what the server can answer", canvas.INK),
    ):
        # Above its line.
        axis.annotate(
            words,
            (middle, height),
            (0, 4),
            textcoords="offset points",
            ha="center",
            va="bottom",
            color=colour,
            fontweight="bold" if colour != canvas.INK else "normal",
        )
    return made


def _draw(groups: Sequence[Group]) -> Any:
    """Goodput above, attempts below, of all arms in one plot each."""
    run = groups[0].records[0].run
    width = max(bin_width(run.seconds), math.ceil(len(run.series["offered"]) / POINTS))
    made, axes = canvas.figure(7.2, 4.4, 2, 1, sharex=True)
    (top,), (bottom,) = axes
    for axis, name in ((top, "goodput"), (bottom, "attempts")):
        for group in groups:
            look = mark(group.arm)
            times, values = binned(group, name, width)
            axis.plot(times, values, color=look.colour, linestyle=look.dash, linewidth=look.width, label=group.arm)
        times, offered = binned(groups[0], "offered", width)
        axis.plot(times, offered, color=canvas.FAINT, linestyle=":", linewidth=1.4, label="offered")
        axis.set_ylabel(f"{name} per second")
        axis.set_xlim(0, run.seconds)
        axis.set_ylim(bottom=0)
    times, capacity = binned(groups[0], "capacity", width)
    top.plot(times, capacity, color=canvas.INK, linewidth=0.9, label="capacity")
    for axis in (top, bottom):
        axis.axvspan(*run.overload, color=canvas.SHADE, linewidth=0, label="overload", zorder=0)
    # What is offered would flatten the goodput.
    top.set_ylim(0, 1.15 * max(max(binned(group, "goodput", width)[1]) for group in groups))
    bottom.set_xlabel("seconds")
    bottom.xaxis.set_major_locator(canvas.round_numbers(10))
    made.legend(*top.get_legend_handles_labels(), loc="outside right upper", handlelength=2.4)
    return made
