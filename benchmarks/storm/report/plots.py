"""Shell: the plots of a session, made with matplotlib, as SVG that follows the colours of the page around it.

The colours are those of Okabe and Ito. No two arms differ in colour alone: dashes and markers differ too.
"""

from __future__ import annotations

import functools
import importlib
import io
import math
import re
from html import escape
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from benchmarks.storm.report.tables import axis_name, tick
from benchmarks.storm.results import RESOLUTION, STEP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from benchmarks.storm.results import Run
    from benchmarks.storm.session import Group, Session
    from benchmarks.storm.summary import Estimate

    Sweep = Mapping[str, Mapping[tuple[float, ...], Group]]

BLUE, SKY, GREEN, ORANGE = "#0072b2", "#56b4e9", "#009e73", "#e69f00"
VERMILION, PINK, GREY = "#d55e00", "#cc79a7", "#7f858f"
INK, FAINT, GRID, PAPER, SHADE = "#1b1d21", "#8a8f98", "#d9dce1", "#fefefe", "#f3e3c3"
# What a page sets for light and dark. In a file of its own the plot has the colours above.
VARIABLES: Final = {
    INK: "--ink",
    FAINT: "--faint",
    GRID: "--grid",
    PAPER: "--paper",
    SHADE: "--shade",
    BLUE: "--blue",
    GREEN: "--green",
    VERMILION: "--vermilion",
}
STYLE: Final = {
    "svg.fonttype": "none",
    "svg.hashsalt": "storm",
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9.5,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.frameon": False,
    "legend.fontsize": 9.0,
    "figure.facecolor": "none",
    "path.simplify_threshold": 0.3,
    "hatch.linewidth": 0.7,
    "hatch.color": FAINT,
}
COLUMNS: Final = 3
WIDTH: Final = 10.5
POINTS: Final = 120
"""About as many points has a line: more cannot be seen at this size."""


class Mark(NamedTuple):
    """How an arm looks in every plot."""

    colour: str
    dash: str = "-"
    marker: str = "o"
    width: float = 1.7

    @property
    def line(self) -> dict[str, Any]:
        return {"color": self.colour, "linestyle": self.dash, "linewidth": self.width}


ARMS: Final = {
    "default": Mark(BLUE, width=2.6),
    "no-retry": Mark(GREY, "--", "d"),
    "immediate": Mark(VERMILION, "-", "v"),
    "fixed": Mark(ORANGE, "-", "^"),
    "revision": Mark(PINK, "-", "D"),
    "per-server": Mark(SKY, "--", "s"),
    "shared": Mark(GREEN, "--", "P"),
    "small-budget": Mark(GREEN, "-", "*"),
    "three": Mark(VERMILION, "-", "v"),
    "bucket": Mark(BLUE, "-", "o"),
    "published-bucket": Mark(GREEN, "-", "*"),
    "retry-breaker": Mark(ORANGE, "-", "h"),
    "breaker": Mark(BLUE, ":", "h"),
    "queue": Mark(SKY, "-.", "p"),
    "adaptive": Mark(GREEN, "-.", "8"),
    "pymongo": Mark(VERMILION, "--", "<"),
    "motor": Mark(PINK, "--", ">"),
    "mongojet": Mark(ORANGE, "--", "X"),
}
OTHERS: Final = (Mark(BLUE, ":", "1"), Mark(VERMILION, ":", "2"), Mark(GREEN, ":", "3"), Mark(PINK, ":", "4"))


def mark(arm: str) -> Mark:
    """That of an arm; the same name always looks the same, an unknown one too."""
    return ARMS.get(arm) or OTHERS[sum(arm.encode()) % len(OTHERS)]


# --- matplotlib ---


@functools.cache
def library() -> Any:
    """`matplotlib.pyplot`, with the style of these plots, without a display.

    Raises:
        ImportError: matplotlib is not installed; it is in the extra `bench`.
    """
    matplotlib = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    matplotlib.rcParams.update(STYLE)
    return importlib.import_module("matplotlib.pyplot")


def figure(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Any, Any]:
    """A figure of so many inches, and its axes as an array of rows."""
    made, axes = library().subplots(
        rows, columns, figsize=(width, height), squeeze=False, layout="constrained", **options
    )
    return made, axes


def panels(count: int, height: float, **options: Any) -> tuple[Any, Any, list[Any]]:
    """A figure with so many small plots, three in a row: it, all axes, and those that are used."""
    rows = math.ceil(count / COLUMNS)
    made, axes = figure(WIDTH, height * rows + 0.9, rows, COLUMNS, sharex=True, **options)
    flat = list(axes.flat)
    for axis in flat[count:]:
        axis.set_visible(False)
    for axis in flat[max(0, count - COLUMNS) : count]:
        axis.tick_params(labelbottom=True)
    return made, axes, flat[:count]


def render(made: Any) -> str:
    """The figure as SVG in its own colours; the figure is then closed."""
    stream = io.StringIO()
    # No date and no version: the same figure makes the same text.
    made.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    library().close(made)
    return stream.getvalue()


def inline(svg: str, name: str, description: str) -> str:
    """The same as an element of an HTML page, in colours that the page may change, with short numbers.

    Args:
        svg: From `render`.
        name: Unique in the page: all identifiers begin with it.
        description: For readers who do not see the plot.
    """
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    used = set(re.findall(r"#([\w.-]+)", svg))
    svg = re.sub(r' id="([^"]+)"', lambda match: f' id="{name}-{match[1]}"' if match[1] in used else "", svg)
    svg = svg.replace("url(#", f"url(#{name}-").replace('xlink:href="#', f'href="#{name}-')
    svg = re.sub(r"-?\d+\.\d{2,}", lambda match: f"{float(match[0]):.1f}".removesuffix(".0"), svg)
    svg = re.sub(r"stroke-line(?:cap|join): [a-z]+;? ?", "", svg)
    svg = re.sub(r"font: (?:(?:bold|700) )?([\d.]+px) [^;\"]*", _font, svg)
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    opening = re.search(r'viewBox="[^"]+"', svg)
    assert opening is not None
    title = f"<title>{escape(description)}</title>"
    return f'<svg {opening[0]} role="img" class="plot">{title}{svg[svg.index(">") + 1 :]}'


def _font(match: re.Match[str]) -> str:
    is_bold = "bold" in match[0] or "700" in match[0]
    return f"{'font-weight: 700; ' if is_bold else ''}font-size: {match[1]}"


def write(made: Any, path: Path) -> Path:
    """The figure as a file of its own, on white."""
    made.set_facecolor("#ffffff")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(line.rstrip() for line in render(made).splitlines()) + "\n", encoding="utf-8")
    return path


def over_time(axis: Any, run: Run, name: str, ticks: int = 10) -> None:
    """Seconds across, from the beginning of a run to its end, and something that begins at zero up."""
    axis.set(xlabel="seconds", ylabel=name, xlim=(0, run.seconds))
    axis.xaxis.set_major_locator(importlib.import_module("matplotlib.ticker").MaxNLocator(ticks, steps=[1, 2, 5, 10]))
    axis.set_ylim(bottom=0)


def explain(made: Any, axis: Any) -> None:
    """A legend for the lines of an axis, beside it."""
    made.legend(*axis.get_legend_handles_labels(), loc="outside right upper", handlelength=2.6)


# --- one scenario ---


def rates(groups: Sequence[Group]) -> Any:
    """Offered, attempts, goodput, rejected and timed out per second, means over the seeds."""
    made, axes, flat = panels(len(groups), 2.25, sharey=True)
    shown: dict[str, Any] = {}
    for axis, group in zip(flat, groups, strict=True):
        _panel(axis, group, shown)
    for axis in flat[max(0, len(groups) - COLUMNS) :]:
        axis.set_xlabel("seconds")
    # At last: it ends the scaling to the values, of all panels.
    over_time(flat[0], groups[0].records[0].run, "", 5)
    flat[0].set_xlabel("seconds" if len(groups) <= COLUMNS else "")
    for row in axes:
        row[0].set_ylabel("per second")
    made.legend(shown.values(), shown.keys(), loc="outside upper left", ncols=len(shown), handlelength=1.8)
    return made


def _panel(axis: Any, group: Group, shown: dict[str, Any]) -> None:
    run = group.records[0].run
    start, end = run.overload
    if start > 0 or end < run.seconds:
        shown["overload"] = axis.axvspan(start, end, color=SHADE, linewidth=0)
    times, goodput = binned(group, "goodput")
    shown["goodput"] = axis.fill_between(times, goodput, color=BLUE, alpha=0.55, linewidth=0)
    for name, colour, dash, thickness in (
        ("offered", INK, "--", 1.2),
        ("attempts", VERMILION, "-", 1.6),
        ("rejected", PINK, ":", 1.6),
        ("timed_out", ORANGE, "-.", 1.5),
        ("capacity", GREEN, "-", 1.0),
    ):
        times, values = binned(group, name)
        if any(values) or name not in ("timed_out", "rejected"):
            (line,) = axis.plot(times, values, color=colour, linestyle=dash, linewidth=thickness)
            shown.setdefault(name.replace("_", " "), line)
    axis.set_title(group.arm)
    axis.set_xlim(0, run.seconds)


def tokens(groups: Sequence[Group]) -> Any | None:
    """The tokens left for retries, means of all clients; None where no arm uses any."""
    having = [
        group
        for group in groups
        if any(min(values) < 0.98 * max(values) for one in group.records if (values := one.run.series.get("tokens")))
    ]
    if not having:
        return None
    made, ((axis,),) = figure(WIDTH, 2.7)
    run = having[0].records[0].run
    axis.axvspan(*run.overload, color=SHADE, linewidth=0)
    for group in having:
        axis.plot(*binned(group, "tokens", is_mean=True), **mark(group.arm).line, label=group.arm)
    over_time(axis, run, "tokens per client")
    explain(made, axis)
    return made


def binned(group: Group, name: str, points: int = POINTS, *, is_mean: bool = False) -> tuple[list[float], list[float]]:
    """The middle of each bin, and the mean over the seeds: per second, or as it is."""
    columns = [values for record in group.records if (values := record.run.series.get(name))]
    length = min((len(values) for values in columns), default=0)
    seconds = group.records[0].run.seconds
    width = max(1, round(seconds / STEP / POINTS), math.ceil(length / points) if points < POINTS else 1)
    times, means = [], []
    for start in range(0, length, width):
        end = min(start + width, length)
        found = [value for values in columns for value in values[start:end]]
        times.append((start + end) / 2 * STEP)
        means.append(sum(found) / len(found) / (1.0 if is_mean else STEP))
    return times, means


def latency(groups: Sequence[Group]) -> Any | None:
    """The share of all requests that succeeded within a time. A curve ends at the share that succeeded at all."""
    curves = [(group, curve) for group in groups if (curve := answered(group))]
    if not curves:
        return None
    made, ((axis,),) = figure(WIDTH, 4.0)
    first, last = min(curve[0][0] for _, curve in curves), max(curve[-1][0] for _, curve in curves)
    for group, curve in curves:
        times = [first * 0.8, curve[0][0], *(time for time, _ in curve), last * 1.6]
        shares = [0.0, 0.0, *(share * 100 for _, share in curve), curve[-1][1] * 100]
        look = mark(group.arm)
        axis.plot(times, shares, **look.line, label=group.arm)
        axis.plot(times[-1], shares[-1], color=look.colour, marker=look.marker, clip_on=False, markersize=5)
    axis.set(xscale="log", xlim=(first * 0.8, last * 1.6), ylim=(0, 101))
    axis.xaxis.set_major_formatter(lambda value, _=None: f"{value:g} s" if value >= 1 else f"{value * 1e3:g} ms")
    axis.minorticks_off()
    # Powers of ten alone would leave a short axis without numbers.
    between = (1.0, 2.0, 5.0) if last < 300 * first else (1.0,)
    axis.xaxis.set_major_locator(importlib.import_module("matplotlib.ticker").LogLocator(subs=between))
    axis.set(xlabel="time since the request was due", ylabel="% of all requests that succeeded")
    explain(made, axis)
    return made


def answered(group: Group) -> list[tuple[float, float]]:
    """Points of the curve: a latency, and the share of all requests, cancelled ones left out, that took no longer."""
    requests = [r for record in group.records for r in record.run.requests if r.outcome != "cancelled"]
    took = sorted(max(request.ended - request.due, RESOLUTION) for request in requests if request.outcome == "ok")
    # More densely at the upper end, where the tail is.
    shares = (1 - (1 - step / 160) ** 2 for step in range(161))
    ranks = sorted({max(1, math.ceil(len(took) * share)) for share in shares})
    return [(took[rank - 1], rank / len(requests)) for rank in ranks] if took else []


def cost(groups: Sequence[Group]) -> Any | None:
    """Attempts per request against goodput, with intervals: good is up and to the left."""
    points = [(one.arm, one.estimates["amplification"], one.estimates["share"]) for one in groups]
    points = [point for point in points if math.isfinite(point[1].mean) and math.isfinite(point[2].mean)]
    if not points:
        return None
    made, ((axis,),) = figure(WIDTH, 3.8)
    for arm, across, up in points:
        look = {"color": mark(arm).colour, "marker": mark(arm).marker, "markersize": 8, "linestyle": "none"}
        spread = [_spread(across), 100 * _spread(up)]
        axis.errorbar(across.mean, 100 * up.mean, spread[1], spread[0], **look, elinewidth=1.2, label=arm)
    axis.set(xlabel="attempts per request since the overload began", ylabel="% of the attainable goodput")
    axis.set_xlim(left=min(0.9, axis.get_xlim()[0]))
    axis.set_ylim(0, max(104.0, axis.get_ylim()[1]))
    explain(made, axis)
    return made


def _spread(estimate: Estimate) -> float:
    return estimate.high - estimate.mean if math.isfinite(estimate.high) else 0.0


OF_ONE_SCENARIO: Final[tuple[tuple[Callable[[Sequence[Group]], Any | None], str], ...]] = (
    (rates, "Per second, means over the seeds. Attempts above what is offered are retries; all arms have one scale."),
    (latency, "All requests: a curve ends at the share that succeeded at all; what is missing to 100 % failed."),
    (cost, "What goodput costs while the servers are overloaded: good is up and left."),
    (tokens, "Tokens left for retries, means of all clients."),
)


# --- sweeps ---


def heat_map(names: Sequence[str], arms: Sweep, left: float) -> Any:
    """Seconds to recovery for each pair of values: one map for each arm.

    Args:
        names: The two quantities: up and across.
        arms: From `Session.sweep`.
        left: Seconds of a run after the overload: the end of the scale.
    """
    ups = sorted({place[0] for found in arms.values() for place in found}, reverse=True)
    acrosses = sorted({place[1] for found in arms.values() for place in found})
    made, axes, flat = panels(len(arms), 0.42 * len(ups) + 0.75)
    image = None
    for axis, (arm, found) in zip(flat, arms.items(), strict=True):
        values = [[_recovery(found.get((up, across))) for across in acrosses] for up in ups]
        # Infinity is drawn over, NaN left empty.
        shown = [[value if math.isfinite(value) else math.nan for value in row] for row in values]
        image = axis.pcolormesh(shown, cmap="cividis_r", vmin=0, vmax=left, edgecolors=PAPER, linewidth=0.8)
        axis.invert_yaxis()
        _numbers(axis, values, left)
        axis.set_title(arm)
        axis.grid(visible=False)
        axis.set_xticks([n + 0.5 for n in range(len(acrosses))], [tick(names[1], value) for value in acrosses])
        axis.set_yticks([n + 0.5 for n in range(len(ups))], [tick(names[0], value) for value in ups])
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
    made.supxlabel(axis_name(names[1]), fontsize=9.5)
    made.supylabel(axis_name(names[0]), fontsize=9.5)
    bar = made.colorbar(image, ax=axes, shrink=0.9, aspect=30, pad=0.01)
    bar.set_label("seconds to recovery (\N{MULTIPLICATION SIGN}: never)")
    bar.outline.set_visible(False)
    # Else it is an embedded picture of pixels.
    bar.solids.set(rasterized=False, edgecolor="face")
    return made


def _recovery(group: Group | None) -> float:
    return math.nan if group is None else group.estimates["recovery"].mean


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


def curves(name: str, arms: Sweep) -> Any:
    """Successes or goodput, and attempts, over one quantity."""
    made, ((left, right),) = figure(WIDTH, 3.5, 1, 2, sharex=True)
    if name == "failure_rate":
        _curve(left, arms, "errors", lambda value: (1 - value) * 100)
        left.set_ylabel("% of all requests that succeed")
    else:
        _curve(left, arms, "share", lambda value: value * 100)
        left.set_ylabel("% of the attainable goodput")
    _curve(right, arms, "amplification", lambda value: value)
    right.set_ylabel("attempts per request")
    _scale(left, name, arms)
    explain(made, left)
    for axis in (left, right):
        axis.set_xlabel(axis_name(name))
        axis.set_ylim(bottom=0)
    return made


def _scale(axis: Any, name: str, arms: Sweep) -> None:
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


def _curve(axis: Any, arms: Sweep, field: str, of: Callable[[float], float]) -> None:
    for arm, found in arms.items():
        places = sorted(found)
        estimates = [found[place].estimates[field] for place in places]
        spreads = [abs(of(_spread(estimate)) - of(0.0)) for estimate in estimates]
        look = {**mark(arm).line, "marker": mark(arm).marker, "markersize": 5, "elinewidth": 1.0}
        axis.errorbar([place[0] for place in places], [of(one.mean) for one in estimates], spreads, **look, label=arm)


# --- README and documentation ---

IN_DOCS: Final = {
    "sustained": ("default", "small-budget", "immediate", "pymongo", "mongojet"),
    "metastable": ("default", "small-pool", "adaptive", "pymongo", "mongojet"),
}
"""By scenario. More lines than these cannot be told apart at this size."""
FEW: Final = 60
LASTING: Final = "lasting"
SIZES: Final = {"": (7.2, 3.0), "-narrow": (3.7, 3.1)}
"""Inches, by the end of the file's name: phones get a plot of their own, whose words they need not shrink."""


def for_docs(session: Session, folder: Path) -> Iterator[Path]:
    """Write the plots of the session's scenarios: one of `lasting` and one for each scenario of `IN_DOCS`."""
    for name in (LASTING, *IN_DOCS):
        groups = {}
        if name in {scenario.name for scenario in session.scenarios}:
            for backend in session.backends(name)[:1]:
                groups = {group.arm: group for group in session.groups(name, backend) if group.records}
        if name == LASTING and groups.keys() >= {"immediate", "default"}:
            for end, size in SIZES.items():
                yield write(_draw_attempts(groups, *size), folder / f"storm-{name}{end}.svg")
        elif name != LASTING and groups:
            chosen = [groups[arm] for arm in IN_DOCS[name] if arm in groups] or list(groups.values())
            yield write(_draw(chosen), folder / f"storm-{name}.svg")


def _draw_attempts(groups: Mapping[str, Group], wide: float, high: float) -> Any:
    """What reaches the server with and without a budget, each line with its name beside it."""
    immediate, default = groups["immediate"], groups["default"]
    run = default.records[0].run
    made, ((axis,),) = figure(wide, high)
    times, offered = binned(default, "offered", FEW)
    axis.fill_between(times, offered, color=SHADE, linewidth=0)
    peak = 0.0
    for group, colour in ((immediate, VERMILION), (default, BLUE)):
        times, attempts = binned(group, "attempts", FEW)
        axis.plot(times, attempts, color=colour, linewidth=2.4)
        peak = max(peak, *attempts)
    times, capacity = binned(default, "capacity", FEW)
    axis.plot(times, capacity, color=INK, linewidth=1.0, linestyle="--")
    over_time(axis, run, "per second", 6)
    axis.set_ylim(0, 1.16 * peak)
    middle, level = sum(run.overload) / 2, max(offered)
    for height, words, colour in (
        (peak, "five immediate retries, no budget", VERMILION),
        (1.09 * level, "motorlite's default", BLUE),
        (0.62 * level, "requests of the application", INK),
        (capacity[0], "what the server can answer", INK),
    ):
        # Above its line.
        look = {"color": colour, "fontweight": "bold" if colour != INK else "normal", "ha": "center", "va": "bottom"}
        axis.annotate(words, (middle, height), (0, 4), textcoords="offset points", **look)
    return made


def _draw(groups: Sequence[Group]) -> Any:
    """Goodput above, attempts below, of all arms in one plot each."""
    run = groups[0].records[0].run
    made, ((top,), (bottom,)) = figure(7.2, 4.4, 2, 1, sharex=True)
    for axis, name in ((top, "goodput"), (bottom, "attempts")):
        for group in groups:
            axis.plot(*binned(group, name, FEW), **mark(group.arm).line, label=group.arm)
        axis.plot(*binned(groups[0], "offered", FEW), color=FAINT, linestyle=":", linewidth=1.4, label="offered")
        over_time(axis, run, f"{name} per second")
    top.plot(*binned(groups[0], "capacity", FEW), color=INK, linewidth=0.9, label="capacity")
    for axis in (top, bottom):
        axis.axvspan(*run.overload, color=SHADE, linewidth=0, label="overload", zorder=0)
    # What is offered would flatten the goodput.
    top.set_ylim(0, 1.15 * max(max(binned(group, "goodput", FEW)[1]) for group in groups))
    top.set_xlabel("")
    explain(made, top)
    return made
