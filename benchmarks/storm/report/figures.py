"""Pure: the figures of a report: their names, units and intervals, and whether two groups of runs differ in one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from benchmarks.storm.summary import Estimate

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.storm.session import Group

NOTHING: Final = "\N{EN DASH}"
FOREVER: Final = "\N{INFINITY}"
DEFAULT: Final = "default"
"""The arm with which others are compared."""
Verdict = Literal["better", "worse", "same", "unknown"]


def percent(value: float) -> str:
    """A share; with one decimal where that tells something."""
    points = value * 100
    return f"{points:.0f} %" if points >= 100 or points == 0 else f"{points:.1f} %"


def rate(value: float) -> str:
    return f"{value:,.0f}"


def times(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def duration(seconds: float) -> str:
    """Seconds, milliseconds below one."""
    if seconds >= 0.9995:
        return f"{seconds:,.0f} s" if seconds >= 9.95 else f"{seconds:.1f} s"
    milliseconds = seconds * 1e3
    return f"{milliseconds:.0f} ms" if milliseconds >= 9.95 else f"{milliseconds:.1f} ms"


class Figure(NamedTuple):
    """A field of `Summary` in a table."""

    field: str
    title: str
    about: str
    # Makes a text of a value.
    text: Callable[[float], str]
    # The least difference that means anything, in the units of the figure.
    noise: float
    # 1 if more is better, -1 if less is.
    better: int = -1
    # What infinity means.
    infinite: str = FOREVER


_ATTEMPTS = "commands that reached the servers for each"
FIGURES: Final = {
    figure.field: figure
    for figure in (
        Figure(
            "share",
            "goodput",
            "requests that succeeded while overloaded, as a share of what was attainable: what was offered, or the "
            "servers' capacity if that is less",
            percent,
            0.01,
            better=1,
        ),
        Figure("goodput", "goodput/s", "the same per second; a rejection is never part of it", rate, 2.0, better=1),
        Figure("after", "goodput after", "the same share from the end of the overload on", percent, 0.01, better=1),
        Figure("amplification", "attempts per request", f"{_ATTEMPTS} request, since the overload began", times, 0.02),
        Figure("settled", "in the last third", "the same in the last third of the overload", times, 0.02),
        Figure("per_success", "attempts per success", f"{_ATTEMPTS} success, since the overload began", times, 0.02),
        Figure("errors", "failed", "requests of the whole run that did not succeed", percent, 0.002),
        Figure(
            "p50",
            "p50",
            "the median latency of all requests of the run, from the moment when a request was due; failed ones stand "
            "at the upper end",
            duration,
            0.0005,
            infinite="failed",
        ),
        Figure("p99", "p99 of all", "the 99th percentile of the same", duration, 0.001, infinite="failed"),
        Figure("p999", "p99.9", "the 99.9th percentile of the same", duration, 0.002, infinite="failed"),
        Figure(
            "outcome_p99",
            "p99 until an outcome",
            "the 99th percentile of the time until the application knew, whether success or failure",
            duration,
            0.001,
        ),
        Figure(
            "recovery",
            "recovery",
            "from the end of the overload until 95 % of what is attainable succeeds again, for two seconds",
            lambda seconds: f"{seconds:.1f} s",
            0.2,
            infinite="never",
        ),
        Figure("connections", "connections", "opened in the whole run", rate, 3.0),
        Figure(
            "cpu",
            "client CPU",
            "CPU time of the client's process for each success",
            lambda seconds: f"{seconds * 1e6:,.0f} \N{MICRO SIGN}s",
            2e-6,
        ),
    )
}
MORE: Final = tuple(FIGURES[name] for name in ("goodput", "p999", "connections", "cpu"))
SHORT: Final = tuple(figure for figure in FIGURES.values() if figure not in MORE)


def value(figure: Figure, number: float) -> str:
    if math.isnan(number):
        return NOTHING
    return figure.infinite if math.isinf(number) else figure.text(number)


def interval(figure: Figure, estimate: Estimate) -> str:
    """The 95 % interval of an estimate without brackets; empty if there is none, or nothing but one text."""
    if math.isnan(estimate.low) or math.isnan(estimate.mean):
        return ""
    if estimate.infinite:
        all_are = estimate.infinite == estimate.n
        return "" if all_are else f"{figure.infinite} in {estimate.infinite} of {estimate.n}"
    low, high = figure.text(estimate.low), figure.text(estimate.high)
    if low == high:
        return ""
    number, _, unit = low.rpartition(" ")
    return f"{number if number and high.endswith(f' {unit}') else low}\N{EN DASH}{high}"


def cell(figure: Figure, group: Group) -> tuple[str, str]:
    """A figure and its interval."""
    estimate = group.estimates[figure.field]
    return value(figure, estimate.mean), interval(figure, estimate)


# --- differences ---


class Difference(NamedTuple):
    """How one figure of a second group differs from that of a first."""

    figure: Figure
    first: Estimate
    second: Estimate
    # Second minus first; infinite if only one of them is.
    delta: float = math.nan
    # The 95 % interval; NaN: there is none.
    low: float = math.nan
    high: float = math.nan
    # "unknown": one of them has no value, or a single one.
    verdict: Verdict = "unknown"


def difference(figure: Figure, first: Group, second: Group) -> Difference:
    """Compare one figure, seed by seed if both have the same seeds: these have the same requests."""
    old, new = _values(figure, first), _values(figure, second)
    one, other = Estimate.of(list(old.values())), Estimate.of(list(new.values()))
    if math.isnan(one.mean) or math.isnan(other.mean):
        return Difference(figure, one, other)
    if one.infinite or other.infinite:
        return _with_infinity(figure, one, other)
    delta = other.mean - one.mean
    margin = math.hypot(one.high - one.mean, other.high - other.mean)
    if old.keys() == new.keys():
        apart = [new[seed] - old[seed] for seed in new]
        # Estimates end at zero, so the differences are moved away from it.
        paired = Estimate.of([number - min(apart) for number in apart])
        margin = paired.high - paired.mean
    if math.isnan(margin):
        return Difference(figure, one, other, delta)
    is_noise = abs(delta) <= max(margin, figure.noise)
    verdict: Verdict = "same" if is_noise else _direction(figure, delta)
    return Difference(figure, one, other, delta, delta - margin, delta + margin, verdict)


def _values(figure: Figure, group: Group) -> dict[int, float]:
    found = {record.run.seed: float(getattr(record.summary, figure.field)) for record in group.records}
    return {seed: number for seed, number in found.items() if not math.isnan(number)}


def _with_infinity(figure: Figure, one: Estimate, other: Estimate) -> Difference:
    """Only "never" against "always finite" is a difference."""
    share, other_share = one.infinite / one.n, other.infinite / other.n
    delta = 0.0 if share == other_share else math.copysign(math.inf, other_share - share)
    verdict: Verdict = "same"
    if {share, other_share} == {0.0, 1.0}:
        verdict = _direction(figure, delta) if min(one.n, other.n) > 1 else "unknown"
    return Difference(figure, one, other, delta, verdict=verdict)


def _direction(figure: Figure, delta: float) -> Verdict:
    return "better" if delta * figure.better > 0 else "worse"
