"""Shell: how long requests took, failed ones included, and what goodput costs in attempts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from benchmarks.storm.report.plots import canvas
from benchmarks.storm.report.plots.palette import mark
from benchmarks.storm.results import RESOLUTION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.storm.report.session import Group

POINTS: Final = 160
WIDTH: Final = 10.5


def latency(groups: Sequence[Group]) -> Any | None:
    """The share of all requests that succeeded within a time. A curve ends at the share that succeeded at all."""
    curves = [(group, answered(group)) for group in groups]
    curves = [(group, curve) for group, curve in curves if curve]
    if not curves:
        return None
    made, ((axis,),) = canvas.figure(WIDTH, 4.0)
    first = min(curve[0][0] for _, curve in curves)
    last = max(curve[-1][0] for _, curve in curves)
    for group, curve in curves:
        look = mark(group.arm)
        times = [first * 0.8, curve[0][0], *(time for time, _ in curve), last * 1.6]
        shares = [0.0, 0.0, *(share * 100 for _, share in curve), curve[-1][1] * 100]
        axis.plot(times, shares, color=look.colour, linestyle=look.dash, linewidth=look.width, label=group.arm)
        axis.plot(times[-1], shares[-1], color=look.colour, marker=look.marker, clip_on=False, markersize=5)
    axis.set_xscale("log")
    axis.set_xlim(first * 0.8, last * 1.6)
    axis.set_ylim(0, 101)
    axis.xaxis.set_major_formatter(_seconds)
    axis.minorticks_off()
    # Powers of ten alone would leave a short axis without numbers.
    axis.xaxis.set_major_locator(canvas.powers((2.0, 5.0) if last < 300 * first else ()))
    axis.set_xlabel("time since the request was due")
    axis.set_ylabel("% of all requests that succeeded")
    made.legend(loc="outside right upper", handlelength=2.6)
    return made


def answered(group: Group) -> list[tuple[float, float]]:
    """Points of the curve: a latency, and the share of all requests, cancelled ones left out, that took no longer."""
    requests = [request for record in group.records for request in record.run.requests]
    requests = [request for request in requests if request.outcome != "cancelled"]
    took = sorted(max(request.ended - request.due, RESOLUTION) for request in requests if request.outcome == "ok")
    if not took:
        return []
    # More densely at the upper end, where the tail is.
    ranks = sorted({math.ceil(len(took) * (1 - (1 - step / POINTS) ** 2)) for step in range(POINTS + 1)} | {1})
    return [(took[rank - 1], rank / len(requests)) for rank in ranks if rank]


def _seconds(value: float, _position: object = None) -> str:
    return f"{value:g} s" if value >= 1 else f"{value * 1e3:g} ms"


def cost(groups: Sequence[Group]) -> Any | None:
    """Attempts per request against goodput, with intervals: good is up and to the left."""
    points = []
    for group in groups:
        estimates = group.estimates
        across, up = estimates["amplification"], estimates["share"]
        if math.isfinite(across.mean) and math.isfinite(up.mean):
            points.append((group.arm, across, up))
    if not points:
        return None
    made, ((axis,),) = canvas.figure(WIDTH, 3.8)
    for arm, across, up in points:
        look = mark(arm)
        axis.errorbar(
            across.mean,
            up.mean * 100,
            xerr=None if math.isnan(across.high) else across.high - across.mean,
            yerr=None if math.isnan(up.high) else (up.high - up.mean) * 100,
            color=look.colour,
            marker=look.marker,
            markersize=8,
            linestyle="none",
            elinewidth=1.2,
            label=arm,
        )
    axis.set_xlabel("attempts per request since the overload began")
    axis.set_ylabel("% of the attainable goodput")
    axis.set_xlim(left=min(0.9, axis.get_xlim()[0]))
    axis.set_ylim(0, max(104.0, axis.get_ylim()[1]))
    made.legend(loc="outside right upper")
    return made
