"""Pure: figures of rounds, their medians, and the conditions that a run must meet."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SUBJECT = "motorlite"
BASELINE = "pymongo"
RUNNER_UP = "mongojet"
# motorlite from another checkout.
EARLIER = "before"
FLOOR = "bare"
DECISIVE_TASKS = 50
REQUIRED_RATIO = 2.5
HIGHEST_GROWTH = 1.05


@dataclass(frozen=True, slots=True)
class Round:
    """The result of one arm in one round; times in seconds."""

    arm: str
    tasks: int
    number: int
    operations: int
    seconds: float
    cpu_seconds: float
    p50: float
    p99: float

    @property
    def rate(self) -> float:
        return self.operations / self.seconds

    @property
    def cpu(self) -> float:
        """Client CPU per operation, user and system, of all threads of the process."""
        return self.cpu_seconds / self.operations


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with the lowest and the highest value."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class Summary:
    """All rounds of one arm at one number of tasks."""

    arm: str
    tasks: int
    rounds: int
    rate: Spread
    cpu: Spread
    p50: float
    p99: float

    @classmethod
    def of(cls, rounds: Sequence[Round]) -> Summary:
        return cls(
            arm=rounds[0].arm,
            tasks=rounds[0].tasks,
            rounds=len(rounds),
            rate=Spread.of([r.rate for r in rounds]),
            cpu=Spread.of([r.cpu for r in rounds]),
            p50=statistics.median(r.p50 for r in rounds),
            p99=statistics.median(r.p99 for r in rounds),
        )


@dataclass(frozen=True, slots=True)
class Condition:
    """One requirement on the medians; `met` is None if it could not be measured."""

    text: str
    met: bool | None
    required: bool

    @property
    def line(self) -> str:
        word = {True: "met", False: "NOT MET", None: "not measured"}[self.met]
        return f"{word}: {self.text}"


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of the ordered values do not exceed."""
    if not ordered:
        return math.nan
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def summarise(rounds: Sequence[Round]) -> dict[tuple[str, int], Summary]:
    """The summary of every arm and number of tasks, in order of first appearance."""
    groups: dict[tuple[str, int], list[Round]] = {}
    for one in rounds:
        groups.setdefault((one.arm, one.tasks), []).append(one)
    return {key: Summary.of(group) for key, group in groups.items()}


def conditions(summaries: Mapping[tuple[str, int], Summary]) -> list[Condition]:
    """The project's conditions at 50 tasks; the comparison with mongojet may remain unmeasured."""
    subject = summaries.get((SUBJECT, DECISIVE_TASKS))
    earlier = summaries.get((EARLIER, DECISIVE_TASKS))
    floor = summaries.get((FLOOR, DECISIVE_TASKS))
    grown = [] if earlier is None else [_growth(subject, earlier, floor)]
    return [
        *grown,
        _ratio(subject, summaries.get((BASELINE, DECISIVE_TASKS)), BASELINE, REQUIRED_RATIO, required=True),
        _ratio(subject, summaries.get((RUNNER_UP, DECISIVE_TASKS)), RUNNER_UP, 1.0, required=False),
    ]


def _ratio(subject: Summary | None, peer: Summary | None, name: str, least: float, *, required: bool) -> Condition:
    wanted = f"at {DECISIVE_TASKS} tasks {SUBJECT} does at least {least:g} times the operations of {name}"
    if subject is None or peer is None:
        missing = " and ".join(n for n, s in ((SUBJECT, subject), (name, peer)) if s is None)
        return Condition(f"{wanted} ({missing} was not measured)", None, required)
    ratio = subject.rate.median / peer.rate.median
    return Condition(f"{wanted} ({ratio:.2f} times)", ratio >= least, required)


def _growth(subject: Summary | None, earlier: Summary, floor: Summary | None) -> Condition:
    wanted = (
        f"at {DECISIVE_TASKS} tasks the CPU of {SUBJECT}, as a ratio to {FLOOR}, is at most {HIGHEST_GROWTH:g} times "
        f"what it was {EARLIER}"
    )
    if subject is None or floor is None:
        return Condition(f"{wanted} (not all of them were measured)", None, required=True)
    now, then = subject.cpu.median / floor.cpu.median, earlier.cpu.median / floor.cpu.median
    text = f"{wanted} ({now:.2f}, was {then:.2f}: {now / then:.3f} times)"
    return Condition(text, now <= HIGHEST_GROWTH * then, required=True)


def exit_code(found: Sequence[Condition]) -> int:
    """0 if no condition failed and all required ones were measured, else 1."""
    failed = any(c.met is False or (c.met is None and c.required) for c in found)
    return 1 if failed else 0
