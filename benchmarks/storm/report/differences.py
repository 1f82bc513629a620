"""Pure: whether two arms, or two sessions, differ by more than the noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from benchmarks.storm.summary import Estimate

if TYPE_CHECKING:
    from benchmarks.storm.report.session import Group
    from benchmarks.storm.report.wording import Column

Verdict = Literal["better", "worse", "changed", "same", "unknown"]


@dataclass(frozen=True, slots=True)
class Difference:
    """How one figure of a second group differs from that of a first.

    Attributes:
        delta: Second minus first; infinite if only one of them is.
        low: The lower end of the 95 % interval of `delta`; NaN: there is none.
        high: The upper end.
        verdict: "unknown": one of them has no value, or a single one.
    """

    column: Column
    first: Estimate
    second: Estimate
    delta: float
    low: float
    high: float
    verdict: Verdict


def difference(column: Column, first: Group, second: Group) -> Difference:
    """Compare one figure, seed by seed if both have the same seeds: these have the same requests."""
    old, new = _values(column, first), _values(column, second)
    one, other = Estimate.of(list(old.values())), Estimate.of(list(new.values()))
    if math.isnan(one.mean) or math.isnan(other.mean):
        return Difference(column, one, other, math.nan, math.nan, math.nan, "unknown")
    if one.infinite or other.infinite:
        return _with_infinity(column, one, other)
    delta = other.mean - one.mean
    margin = _margin([new[seed] - old[seed] for seed in new]) if old.keys() == new.keys() else _apart(one, other)
    if math.isnan(margin):
        return Difference(column, one, other, delta, math.nan, math.nan, "unknown")
    is_noise = abs(delta) <= max(margin, column.noise)
    verdict: Verdict = "same" if is_noise else _direction(column, delta)
    return Difference(column, one, other, delta, delta - margin, delta + margin, verdict)


def _values(column: Column, group: Group) -> dict[int, float]:
    found = {record.run.seed: float(getattr(record.summary, column.figure)) for record in group.records}
    return {seed: value for seed, value in found.items() if not math.isnan(value)}


def _with_infinity(column: Column, one: Estimate, other: Estimate) -> Difference:
    """Only "never" against "always finite" is a difference."""
    share, other_share = one.infinite / one.n, other.infinite / other.n
    delta = 0.0 if share == other_share else math.copysign(math.inf, other_share - share)
    verdict: Verdict = "same"
    if {share, other_share} == {0.0, 1.0}:
        verdict = _direction(column, delta) if min(one.n, other.n) > 1 else "unknown"
    return Difference(column, one, other, delta, math.nan, math.nan, verdict)


def _margin(differences: list[float]) -> float:
    """Half the interval of the mean of paired differences; NaN for a single pair."""
    # Estimates end at zero, so they are moved away from it.
    found = Estimate.of([value - min(differences) for value in differences])
    return found.high - found.mean


def _apart(one: Estimate, other: Estimate) -> float:
    return math.hypot(one.high - one.mean, other.high - other.mean)


def _direction(column: Column, delta: float) -> Verdict:
    if not column.better:
        return "changed"
    return "better" if delta * column.better > 0 else "worse"
