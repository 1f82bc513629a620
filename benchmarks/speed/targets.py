"""Pure: what motorlite should reach, as conditions on the medians of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks.figures import line
from benchmarks.speed.workloads import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.figures import Key, Summary

SUBJECT, ON_TRIO = "motorlite", "motorlite-trio"
FLOOR = "bare"
PEERS: Final = ("pymongo", "motor", "mongojet")
# Instead of one peer: the best of them in that figure.
BEST: Final = "the best peer"
# motorlite from another checkout.
EARLIER = "before"


class Target(NamedTuple):
    """A figure of one arm as a ratio to another's: at least `limit` for operations per second, else at most."""

    operation: str
    tasks: int
    figure: str  # "operations", "CPU" or "p99"
    other: str
    limit: float
    arm: str = SUBJECT


TARGETS: Final = (
    Target("find_one", 50, "operations", FLOOR, 0.95),
    Target("find_one", 500, "operations", FLOOR, 0.9),
    *(Target("find_one", tasks, "operations", BEST, 1.0) for tasks in (1, 50, 500, 10_000)),
    *(
        Target(operation, tasks, "operations", BEST, 1.3)
        for operation, tasks in (
            ("find_10", 50),
            ("find_100k", 1),
            ("aggregate_100k", 1),
            ("insert_one", 50),
            ("update_one", 50),
            ("bulk_write", 1),
            ("insert_many", 1),
        )
    ),
    Target("find_one", 1, "CPU", FLOOR, 1.7),
    Target("find_one", 50, "CPU", FLOOR, 1.2),
    Target("find_one", 500, "CPU", FLOOR, 1.35),
    Target("find_one", 50, "CPU", SUBJECT, 1.3, ON_TRIO),
    *(Target("find_one", tasks, "p99", BEST, 1.0) for tasks in (1, 50, 500, 10_000)),
)
HIGHEST_GROWTH = 1.05


@dataclass(frozen=True, slots=True)
class Condition:
    """One requirement on the medians; `met` is None if it could not be measured."""

    text: str
    met: bool | None
    required: bool = False

    @property
    def line(self) -> str:
        return line(self.text, self.met)


def conditions(summaries: Mapping[Key, Summary]) -> list[Condition]:
    """The conditions for every operation and number of tasks that were measured.

    Comparisons with peers, and with an earlier version, must have been possible; others may remain unmeasured.
    """
    growth = [
        Target(operation, tasks, "CPU", EARLIER, HIGHEST_GROWTH)
        for operation, arm, tasks in summaries
        if arm == EARLIER
    ]
    measured = {(operation, tasks) for operation, _, tasks in summaries}
    return [
        _condition(target, summaries) for target in (*growth, *TARGETS) if (target.operation, target.tasks) in measured
    ]


def best_peer(
    summaries: Mapping[Key, Summary], operation: str, tasks: int, figure: str = "operations"
) -> Summary | None:
    """The peer with the most operations per second, or the least of another figure."""
    found = [summaries[key] for peer in PEERS if (key := (operation, peer, tasks)) in summaries]
    best = max if figure == "operations" else min
    return best(found, key=lambda summary: _value(summary, figure), default=None)


def exit_code(found: Sequence[Condition]) -> int:
    """0 if no condition failed and all required ones were measured, else 1."""
    failed = any(c.met is False or (c.met is None and c.required) for c in found)
    return 1 if failed else 0


def _value(summary: Summary, figure: str) -> float:
    return {"operations": summary.rate.median, "CPU": summary.cpu.median, "p99": summary.p99}[figure]


def _condition(target: Target, summaries: Mapping[Key, Summary]) -> Condition:
    operation, tasks, figure, name, limit, arm = target
    one = summaries.get((operation, arm, tasks))
    peer = best_peer(summaries, operation, tasks, figure)
    other = peer if name == BEST else summaries.get((operation, name, tasks))
    is_rate = figure == "operations"
    verb = "are at least" if is_rate else "is at most"
    wanted = f"{WORKLOADS[operation].at(tasks)}: the {figure} of {arm} {verb} {limit:g} times that of {name}"
    required = name in (BEST, EARLIER)
    if one is None or other is None:
        lacking = " and ".join(who for who, summary in ((arm, one), (name, other)) if summary is None)
        return Condition(f"{wanted} ({lacking} was not measured)", None, required)
    ratio = _value(one, figure) / _value(other, figure)
    found = f"{ratio:.2f} times{f', {other.arm}' if name == BEST else ''}"
    return Condition(f"{wanted} ({found})", ratio >= limit if is_rate else ratio <= limit, required)
