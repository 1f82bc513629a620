"""Shell: the curves of the pile-up benchmark as text, the conditions that they must meet, and their picture."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.figures import align, percentile

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# How many times the number of callers may be in progress, and how long after the callers left, in seconds.
MOST_PER_CALLER = 4.0
LONGEST_TAIL = 1.0

HEAD = ("", "in progress", "at the end", "idle after", "sent", "other reads p50", "p99")


@dataclass(frozen=True, slots=True)
class Arm:
    """A driver with the options of its client."""

    name: str
    module: str
    options: tuple[tuple[str, object], ...]
    # Whether an option ends the work on the server.
    is_limited: bool
    is_ours: bool = True


@dataclass(frozen=True, slots=True)
class Curve:
    """The operations in progress on the server, as pairs of seconds since the start and their number.

    Attributes:
        arm: The client.
        callers: The number of tasks that try again and again.
        load: How long they do, in seconds.
        samples: The curve.
        attempts: The operations that were started.
        reads: The durations of another client's point reads meanwhile, in seconds.
    """

    arm: Arm
    callers: int
    load: float
    samples: tuple[tuple[float, int], ...]
    attempts: int
    reads: tuple[float, ...]

    @property
    def peak(self) -> int:
        """The most that were in progress at once."""
        return max((count for _, count in self.samples), default=0)

    @property
    def last(self) -> int:
        """How many were in progress when the callers stopped."""
        return next((count for seconds, count in reversed(self.samples) if seconds <= self.load), 0)

    @property
    def tail(self) -> float | None:
        """Seconds from the end of the load until nothing was in progress; None: something still was at the end."""
        busy = [seconds for seconds, count in self.samples if count]
        if not busy:
            return 0.0
        idle = next((seconds for seconds, _ in self.samples if seconds > busy[-1]), None)
        return None if idle is None else max(0.0, idle - self.load)


def render(curves: Sequence[Curve]) -> str:
    """One line per client."""
    rows = [HEAD, *(_row(curve) for curve in curves)]
    return align(rows)


def _row(curve: Curve) -> tuple[str, ...]:
    ordered = sorted(curve.reads)
    tail = curve.tail
    return (
        curve.arm.name,
        str(curve.peak),
        str(curve.last),
        "not within the run" if tail is None else f"{tail:.1f} s",
        str(curve.attempts),
        f"{percentile(ordered, 0.5) * 1e3:.0f} ms",
        f"{percentile(ordered, 0.99) * 1e3:.0f} ms",
    )


def verdict(curves: Sequence[Curve]) -> tuple[str, bool]:
    """Whether operations of our clients with limits neither pile up nor outlive their callers."""
    ours = [curve for curve in curves if curve.arm.is_ours and curve.arm.is_limited]
    is_met = bool(ours) and all(
        curve.peak <= MOST_PER_CALLER * curve.callers and curve.tail is not None and curve.tail <= LONGEST_TAIL
        for curve in ours
    )
    word = "met" if is_met else "NOT MET"
    wanted = (
        f"with a limit on the server at most {MOST_PER_CALLER:g} operations per caller are in progress, and none is "
        f"{LONGEST_TAIL:g} s after the callers stopped"
    )
    return f"{word}: {wanted}", is_met


def draw(curves: Sequence[Curve], path: Path) -> None:
    """Write the curves into one picture, whose kind is the suffix of `path`. Needs matplotlib.

    Raises:
        ImportError: matplotlib is not installed.
    """
    matplotlib: Any = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    # The same curves make the same file.
    matplotlib.rcParams["svg.hashsalt"] = "pile-up"
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    figure, axes = pyplot.subplots(figsize=(8, 4.2), layout="constrained")
    for curve in curves:
        seconds, counts = zip(*curve.samples, strict=True)
        style = "-" if curve.arm.is_limited else "--"
        (line,) = axes.plot(seconds, counts, style, linewidth=2, label=curve.arm.name)
        line.set_gid(curve.arm.name)
    load, callers = curves[0].load, curves[0].callers
    axes.axvline(load, color="grey", linewidth=1, linestyle=":")
    # Half-way up, between the curves that fall to zero and those that do not.
    place = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "va": "center"}
    axes.annotate("the callers stop", (load, 0.5), (4, 0), color="grey", rotation=90, **place)
    axes.set(
        title=f"{callers} callers give up after 250 ms and try again",
        xlabel="seconds",
        ylabel="operations in progress on the server",
        xlim=(0, None),
        ylim=(0, None),
    )
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="upper left", fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"Date": None} if path.suffix == ".svg" else None
    figure.savefig(path, metadata=metadata, dpi=150)
    pyplot.close(figure)
