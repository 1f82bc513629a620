"""Pure: the figures of a run, and their means over seeds with 95 % intervals."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

from benchmarks.figures import percentile
from benchmarks.storm.results import STEP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.storm.results import Run

RECOVERED: Final = 0.95
"""The share of what was attainable that a run must answer again."""
HOLD: Final = 2.0
"""Seconds for which it must."""
SETTLED: Final = 1 / 3
"""The last part of an overload, in which a budget of retries has long been empty."""
BOUNDS: Final = {"after": 1.0, "errors": 1.0}
"""Figures that cannot be larger."""
# The two-sided 95 % quantile of Student's distribution, from so many degrees of freedom on.
STUDENT: Final = {
    **dict(enumerate((12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262), start=1)),
    11: 2.201,
    14: 2.145,
    19: 2.093,
    29: 2.045,
    59: 2.001,
}


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of one run; `report.figures` says what each of them is, and in which unit it is shown.

    Times are in seconds, shares of 1. Infinity: it never happened, or took longer than anything; NaN: there is no such
    figure, as of what follows an overload in a run that ends with it. Cancelled requests are in no percentile, and
    failed ones stand at the upper end, with infinity. `after` is not more than 1, even if a backlog is answered then.
    """

    requests: int
    goodput: float
    share: float
    after: float
    amplification: float
    settled: float
    per_success: float
    errors: float
    p50: float
    p99: float
    p999: float
    outcome_p99: float
    recovery: float
    connections: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """One figure over all seeds.

    Attributes:
        mean: The mean, or the median if some values are infinite. NaN: there is no value.
        low: The lower end of its 95 % interval (Student), not below zero; the lowest value if some are infinite. NaN:
            there is only one value.
        high: The upper end.
        n: The number of values.
        infinite: How many of them are infinite.
        missing: The seeds without a value.
    """

    mean: float
    low: float
    high: float
    n: int
    infinite: int = 0
    missing: int = 0

    @classmethod
    def of(cls, values: Sequence[float], most: float = math.inf) -> Estimate:
        """Estimate a figure that cannot be above `most`."""
        found = [value for value in values if not math.isnan(value)]
        missing = len(values) - len(found)
        infinite = sum(map(math.isinf, found))
        if infinite:
            return cls(statistics.median(found), min(found), max(found), len(found), infinite, missing)
        if len(found) < 2:
            return cls(found[0] if found else math.nan, math.nan, math.nan, len(found), 0, missing)
        mean = statistics.fmean(found)
        margin = student(len(found) - 1) * statistics.stdev(found) / math.sqrt(len(found))
        return cls(mean, max(0.0, mean - margin), min(most, mean + margin), len(found), 0, missing)


def student(freedom: int) -> float:
    """The two-sided 95 % quantile; of fewer degrees of freedom, and so never too small, where the table has gaps."""
    return STUDENT[max(known for known in STUDENT if known <= freedom)]


def summarize(run: Run) -> Summary:
    start, end = run.overload
    goodput = total(run, "goodput", start, end)
    since = {name: total(run, name, start, run.seconds) for name in ("offered", "goodput", "attempts")}
    late = end - SETTLED * (end - start)
    after = _share(run, end, run.seconds)
    kept = [request for request in run.requests if request.outcome != "cancelled"]
    latencies = sorted(request.ended - request.due if request.outcome == "ok" else math.inf for request in kept)
    successes = sum(request.outcome == "ok" for request in kept)
    failures = len(latencies) - successes
    return Summary(
        requests=len(run.requests),
        goodput=_ratio(goodput, min(end, run.seconds) - start),
        share=_share(run, start, end),
        after=after if math.isnan(after) else min(1.0, after),
        amplification=_ratio(since["attempts"], since["offered"]),
        settled=_ratio(total(run, "attempts", late, end), total(run, "offered", late, end)),
        per_success=_ratio(since["attempts"], since["goodput"]),
        errors=_ratio(failures, len(latencies)),
        p50=percentile(latencies, 0.5),
        p99=percentile(latencies, 0.99),
        p999=percentile(latencies, 0.999),
        outcome_p99=percentile(sorted(request.ended - request.due for request in kept), 0.99),
        recovery=recovery(run),
        connections=total(run, "connections", 0.0, run.seconds),
        cpu=_ratio(run.cpu.get("client", math.nan), successes),
    )


def over_seeds(summaries: Sequence[Summary]) -> dict[str, Estimate]:
    """Each figure of `Summary` over all seeds."""
    return {
        field.name: Estimate.of(
            [float(getattr(summary, field.name)) for summary in summaries], BOUNDS.get(field.name, math.inf)
        )
        for field in fields(Summary)
    }


def recovery(run: Run) -> float:
    """Seconds after the overload until goodput has come back, and stays for `HOLD` (one second in a short run).

    What is attainable is what is offered, or the capacity if that is less. Where less than 90 % of the goodput before
    the overload is offered, that counts instead: the callers of a closed loop that are stuck offer little.
    """
    start, end = run.overload
    hold = HOLD if run.seconds - end >= 1.5 * HOLD else HOLD / 2
    if run.seconds - end < hold - STEP / 2:
        return math.nan
    before = 0.9 * total(run, "goodput", 0.0, start) / start if start else 0.0
    seconds = round(hold)
    first, last = round(end / STEP), round((run.seconds - hold) / STEP)
    for step in range(first, last + 1):
        if all(_is_back(run, step * STEP + second, before) for second in range(seconds)):
            return (step - first) * STEP
    return math.inf


def _is_back(run: Run, at: float, before: float) -> bool:
    offered, goodput, capacity = (total(run, name, at, at + 1.0) for name in ("offered", "goodput", "capacity"))
    return goodput >= RECOVERED * min(max(offered, before), capacity)


def _share(run: Run, start: float, end: float) -> float:
    """Goodput as a share of what was attainable."""
    offered, goodput, capacity = (total(run, name, start, end) for name in ("offered", "goodput", "capacity"))
    return _ratio(goodput, min(offered, capacity))


def total(run: Run, name: str, start: float, end: float) -> float:
    """The sum of a series from `start` to `end`, in seconds."""
    return sum(run.series.get(name, ())[round(start / STEP) : round(end / STEP)])


def _ratio(part: float, whole: float) -> float:
    if whole:
        return part / whole
    return math.inf if part > 0 else math.nan
