"""Shell: the two plots of the README, from a session's file."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from benchmarks.storm.report.plots import canvas
from benchmarks.storm.report.plots.overtime import bin_width, binned
from benchmarks.storm.report.plots.palette import mark

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.storm.report.session import Group, Session

ARMS: Final = {
    "sustained": ("default", "small-budget", "immediate", "pymongo", "mongojet"),
    "metastable": ("default", "small-pool", "adaptive", "pymongo", "mongojet"),
}
"""By scenario. More lines than these cannot be told apart at this size."""
POINTS: Final = 60


def write(session: Session, folder: Path) -> list[Path]:
    """Write `storm-sustained.svg` and `storm-metastable.svg`, as far as the session has the scenarios."""
    written = []
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
