"""Pure: figures as words: units, intervals, and names."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.storm.summary import Estimate

NOTHING: Final = "\N{EN DASH}"
FOREVER: Final = "\N{INFINITY}"


@dataclass(frozen=True, slots=True)
class Column:
    """A figure of `Summary` in a table.

    Attributes:
        figure: The field.
        title: The head of the column.
        about: What it is, in a sentence without its full stop.
        text: Makes a text of a value.
        infinite: What infinity means.
        better: 1 if more is better, -1 if less is, 0 if neither.
        noise: The least difference that means anything, in the units of the figure.
    """

    figure: str
    title: str
    about: str
    text: Callable[[float], str]
    infinite: str = FOREVER
    better: int = -1
    noise: float = 0.0


def percent(value: float) -> str:
    """A share; with one decimal where that tells something."""
    points = value * 100
    return f"{points:.0f} %" if points >= 100 or points == 0 else f"{points:.1f} %"


def threshold(value: float) -> str:
    """A share that is not measured."""
    return f"{value * 100:g} %"


def rate(value: float) -> str:
    return f"{value:,.0f}"


def times(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def duration(seconds: float) -> str:
    """Seconds, milliseconds below one."""
    if seconds >= 9.95:
        return f"{seconds:,.0f} s"
    if seconds >= 0.9995:
        return f"{seconds:.1f} s"
    milliseconds = seconds * 1e3
    return f"{milliseconds:.0f} ms" if milliseconds >= 9.95 else f"{milliseconds:.1f} ms"


def recovered(seconds: float) -> str:
    return f"{seconds:.1f} s"


def microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f} \N{MICRO SIGN}s"


SHARE: Final = Column(
    "share",
    "goodput",
    "requests that succeeded while overloaded, as a share of what was attainable: what was offered, or the servers' "
    "capacity if that is less",
    percent,
    better=1,
    noise=0.01,
)
GOODPUT: Final = Column(
    "goodput", "goodput/s", "the same per second; a rejection is never part of it", rate, better=1, noise=2.0
)
AFTER: Final = Column(
    "after",
    "goodput after",
    "the same share from the end of the overload to that of the run",
    percent,
    better=1,
    noise=0.01,
)
AMPLIFICATION: Final = Column(
    "amplification",
    "attempts per request",
    "commands that reached the servers for each request, since the overload began",
    times,
    noise=0.02,
)
SETTLED: Final = Column(
    "settled",
    "in the last third",
    "the same in the last third of the overload, when budgets of retries have long been empty",
    times,
    noise=0.02,
)
PER_SUCCESS: Final = Column(
    "per_success",
    "attempts per success",
    "commands that reached the servers for each success, since the overload began",
    times,
    noise=0.02,
)
ERRORS: Final = Column("errors", "failed", "requests of the whole run that did not succeed", percent, noise=0.002)
P50: Final = Column(
    "p50",
    "p50",
    "the median latency of all requests of the run, from the moment when a request was due; failed ones stand at the "
    "upper end",
    duration,
    infinite="failed",
    noise=0.0005,
)
P99: Final = Column("p99", "p99 of all", "the 99th percentile of the same", duration, infinite="failed", noise=0.001)
P999: Final = Column("p999", "p99.9", "the 99.9th percentile of the same", duration, infinite="failed", noise=0.002)
OUTCOME: Final = Column(
    "outcome_p99",
    "p99 until an outcome",
    "the 99th percentile of the time until the application knew, whether success or failure",
    duration,
    noise=0.001,
)
RECOVERY: Final = Column(
    "recovery",
    "recovery",
    "from the end of the overload until 95 % of what is attainable succeeds again, for two seconds",
    recovered,
    infinite="never",
    noise=0.2,
)
CONNECTIONS: Final = Column("connections", "connections", "opened in the whole run", rate, noise=3.0)
CPU: Final = Column("cpu", "client CPU", "CPU time of the client's process for each success", microseconds, noise=2e-6)
COLUMNS: Final = (
    SHARE,
    GOODPUT,
    AFTER,
    AMPLIFICATION,
    SETTLED,
    PER_SUCCESS,
    ERRORS,
    P50,
    P99,
    P999,
    OUTCOME,
    RECOVERY,
    CONNECTIONS,
    CPU,
)


def value(column: Column, number: float) -> str:
    """One number as a cell."""
    if math.isnan(number):
        return NOTHING
    return column.infinite if math.isinf(number) else column.text(number)


def interval(column: Column, estimate: Estimate) -> str:
    """The 95 % interval of an estimate without brackets; empty if there is none, or nothing but one text."""
    if math.isnan(estimate.low) or math.isnan(estimate.mean):
        return ""
    if estimate.infinite:
        if estimate.infinite == estimate.n:
            return ""
        return f"{column.infinite} in {estimate.infinite} of {estimate.n}"
    low, high = column.text(estimate.low), column.text(estimate.high)
    if low == high:
        return ""
    number, _, unit = low.rpartition(" ")
    if number and high.endswith(f" {unit}"):
        low = number
    return f"{low}\N{EN DASH}{high}"


def arm(name: str) -> str:
    """An arm in a sentence: in backticks, which a page turns into emphasis."""
    return f"`{name}`"


def listed(words: Sequence[str]) -> str:
    """ "a, b and c"."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
