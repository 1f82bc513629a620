"""Shell: scenarios of one family: heat maps over two quantities, curves over one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from benchmarks.storm.report.families import axis_name, tick, upper
from benchmarks.storm.report.plots import canvas
from benchmarks.storm.report.plots.palette import mark
from benchmarks.storm.report.wording import AMPLIFICATION, ERRORS, RECOVERY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.storm.published import Points, Published
    from benchmarks.storm.report.families import Point
    from benchmarks.storm.report.session import Group

COLUMNS: Final = 3
WIDTH: Final = 10.5


def heat_map(names: Sequence[str], arms: Mapping[str, Mapping[Point, Group]], left: float) -> Any:
    """Seconds to recovery for each pair of values: one map for each arm.

    Args:
        names: The two quantities: up and across.
        arms: From `points`.
        left: Seconds of a run after the overload: the end of the scale.
    """
    rows = math.ceil(len(arms) / COLUMNS)
    ups = sorted({place[0] for found in arms.values() for place in found}, reverse=True)
    acrosses = sorted({place[1] for found in arms.values() for place in found})
    made, axes = canvas.figure(WIDTH, (0.42 * len(ups) + 0.75) * rows + 0.9, rows, COLUMNS, sharex=True)
    flat = list(axes.flat)
    image = None
    for axis, (arm, found) in zip(flat, arms.items(), strict=False):
        values = [[_recovery(found.get((up, across))) for across in acrosses] for up in ups]
        # Infinity is drawn over, NaN left empty.
        shown = [[value if math.isfinite(value) else math.nan for value in row] for row in values]
        image = axis.pcolormesh(shown, cmap="cividis_r", vmin=0, vmax=left, edgecolors=canvas.PAPER, linewidth=0.8)
        axis.invert_yaxis()
        _numbers(axis, values, left)
        axis.set_title(arm)
        axis.grid(visible=False)
        axis.set_xticks([n + 0.5 for n in range(len(acrosses))], [tick(names[1], value) for value in acrosses])
        axis.set_yticks([n + 0.5 for n in range(len(ups))], [tick(names[0], value) for value in ups])
        axis.tick_params(length=0)
        for spine in axis.spines.values():
            spine.set_visible(False)
    for axis in flat[len(arms) :]:
        axis.set_visible(False)
    for axis in flat[max(0, len(arms) - COLUMNS) : len(arms)]:
        axis.tick_params(labelbottom=True)
    made.supxlabel(axis_name(names[1]), fontsize=9.5)
    made.supylabel(axis_name(names[0]), fontsize=9.5)
    bar = made.colorbar(image, ax=axes, shrink=0.9, aspect=30, pad=0.01)
    bar.set_label("seconds to recovery (\N{MULTIPLICATION SIGN}: never)")
    bar.outline.set_visible(False)
    # Else it is an embedded picture of pixels.
    bar.solids.set(rasterized=False, edgecolor="face")
    return made


def _recovery(group: Group | None) -> float:
    return math.nan if group is None else group.estimates[RECOVERY.figure].mean


def _numbers(axis: Any, values: Sequence[Sequence[float]], left: float) -> None:
    """The number in each cell; a cross on black for "never"."""
    for row, numbers in enumerate(values):
        for column, number in enumerate(numbers):
            if math.isinf(number):
                axis.fill_between((column, column + 1), row, row + 1, color="#5b1a00", linewidth=0)
            if not math.isnan(number):
                text = "\N{MULTIPLICATION SIGN}" if math.isinf(number) else f"{number:.1f}" if number else "0"
                colour = "#ffffff" if math.isinf(number) or number > left / 2 else "#111111"
                axis.text(column + 0.5, row + 0.5, text, ha="center", va="center", color=colour, fontsize=8.5)


def curves(name: str, arms: Mapping[str, Mapping[Point, Group]], published: Published | None = None) -> Any:
    """Successes or goodput, and attempts, over one quantity; below, the same as somebody else published it."""
    rows = 1 if published is None else 2
    made, axes = canvas.figure(WIDTH, 3.5 * rows, rows, 2, sharex=True, sharey="col")
    (left, right) = axes[0]
    column = upper(name)
    _curve(left, arms, column.figure, lambda value: (1 - value if column is ERRORS else value) * 100)
    _curve(right, arms, AMPLIFICATION.figure, lambda value: value)
    _scale(left, name, arms)
    left.set_title("this driver" if published else "")
    _legend(made, left, "outside right upper")
    if published is not None:
        _theirs(axes[1][0], published.success, published, 100.0)
        _theirs(axes[1][1], published.attempts, published, 1.0)
        axes[1][0].set_title(published.title)
        _legend(made, axes[1][0], "outside right lower")
    for success, attempts in axes:
        success.set_ylabel("% of all requests that succeed" if column is ERRORS else "% of the attainable goodput")
        attempts.set_ylabel("attempts per request")
    for axis in axes[-1]:
        axis.set_xlabel(axis_name(name))
        axis.set_ylim(bottom=0)
    return made


def _legend(made: Any, axis: Any, place: str) -> None:
    handles, labels = axis.get_legend_handles_labels()
    made.legend(handles, labels, loc=place, handlelength=2.6)


def _theirs(axis: Any, lines: Mapping[str, Points], published: Published, factor: float) -> None:
    for policy, found in lines.items():
        look = mark(published.ours[policy])
        axis.plot(
            [x for x, _ in found],
            [y * factor for _, y in found],
            color=look.colour,
            linestyle=look.dash,
            marker=look.marker,
            markersize=5,
            markerfacecolor=canvas.PAPER,
            label=policy,
        )


def _scale(axis: Any, name: str, arms: Mapping[str, Mapping[Point, Group]]) -> None:
    """Ticks at the values; a logarithmic scale where they span more than a factor of thirty."""
    values = sorted({place[0] for found in arms.values() for place in found})
    shown = values
    if values[0] > 0 and values[-1] / values[0] > 30:
        axis.set_xscale("log")
    else:
        shown = values[-1:]
        for value in reversed(values):
            # Numbers that are closer than this run into each other.
            if shown[0] - value >= (values[-1] - values[0]) / 20:
                shown = [value, *shown]
    axis.set_xticks(shown, [tick(name, value) for value in shown])
    axis.minorticks_off()


def _curve(axis: Any, arms: Mapping[str, Mapping[Point, Group]], figure: str, of: Callable[[float], float]) -> None:
    for arm, found in arms.items():
        look = mark(arm)
        places = sorted(found)
        estimates = [found[place].estimates[figure] for place in places]
        axis.errorbar(
            [place[0] for place in places],
            [of(estimate.mean) for estimate in estimates],
            yerr=[abs(of(e.high) - of(e.mean)) if math.isfinite(e.high) else 0.0 for e in estimates],
            color=look.colour,
            linestyle=look.dash,
            linewidth=look.width,
            marker=look.marker,
            markersize=5,
            elinewidth=1.0,
            label=arm,
        )
