"""Pure: what motorlite should reach, as conditions on the medians of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from benchmarks.speed.workloads import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from benchmarks.figures import Key, Summary

SUBJECT, ON_TRIO = "motorlite", "motorlite-trio"
FLOOR, BASELINE = "bare", "pymongo"
PEERS: Final = ("pymongo", "motor", "mongojet")
# motorlite from another checkout.
EARLIER = "before"
HIGHEST_GROWTH = 1.05

# Operations per second, as a ratio to one peer; the second in each pair are the tasks.
TO_PEER: Final = {
    ("find_one", 50, "pymongo"): 4.5,
    ("find_one", 50, "mongojet"): 1.6,
    ("find_one", 500, "mongojet"): 1.0,
}
TO_BEST_PEER: Final = {
    ("find_10", 50): 1.3,
    ("find_100k", 1): 1.3,
    ("aggregate_100k", 1): 1.3,
    ("insert_one", 50): 1.3,
    ("update_one", 50): 1.3,
    ("bulk_write", 1): 1.3,
    ("insert_many", 1): 1.3,
}
# Client CPU per operation, as a ratio to the bare protocol, at most.
CPU_TO_BARE: Final = {("find_one", 1): 1.7, ("find_one", 50): 1.4, ("find_one", 500): 1.4}
CPU_OF_TRIO: Final = {("find_one", 50): 1.3}
BEST_P99: Final = (("find_one", 50), ("find_one", 500))


@dataclass(frozen=True, slots=True)
class Condition:
    """One requirement on the medians; `met` is None if it could not be measured."""

    text: str
    met: bool | None
    required: bool = False

    @property
    def line(self) -> str:
        """The outcome and the requirement."""
        word = {True: "met", False: "NOT MET", None: "not measured"}[self.met]
        return f"{word}: {self.text}"


def conditions(summaries: Mapping[Key, Summary]) -> list[Condition]:
    """The conditions for every operation and number of tasks that were measured.

    A comparison with PyMongo Async must have been possible; others may remain unmeasured.
    """
    measured = {(operation, tasks) for operation, _, tasks in summaries}
    return [condition for at, condition in _all(summaries) if at in measured]


def best_peer(summaries: Mapping[Key, Summary], operation: str, tasks: int) -> Summary | None:
    """The peer with the most operations per second."""
    found = [summaries[key] for peer in PEERS if (key := (operation, peer, tasks)) in summaries]
    return max(found, key=lambda summary: summary.rate.median, default=None)


def exit_code(found: Sequence[Condition]) -> int:
    """0 if no condition failed and all required ones were measured, else 1."""
    failed = any(c.met is False or (c.met is None and c.required) for c in found)
    return 1 if failed else 0


def _all(summaries: Mapping[Key, Summary]) -> Iterator[tuple[tuple[str, int], Condition]]:
    for (operation, arm, tasks), earlier in summaries.items():
        if arm == EARLIER:
            yield (operation, tasks), _growth(summaries, earlier)
    for (operation, tasks, name), least in TO_PEER.items():
        peer = summaries.get((operation, name, tasks))
        yield (operation, tasks), _ratio(summaries, operation, tasks, peer, name, least)
    for (operation, tasks), least in TO_BEST_PEER.items():
        best = best_peer(summaries, operation, tasks)
        yield (operation, tasks), _ratio(summaries, operation, tasks, best, "the best peer", least)
    for (operation, tasks), most in CPU_TO_BARE.items():
        yield (operation, tasks), _cpu(summaries, operation, tasks, SUBJECT, FLOOR, most)
    for (operation, tasks), most in CPU_OF_TRIO.items():
        yield (operation, tasks), _cpu(summaries, operation, tasks, ON_TRIO, SUBJECT, most)
    for operation, tasks in BEST_P99:
        yield (operation, tasks), _p99(summaries, operation, tasks)


def _where(operation: str, tasks: int) -> str:
    return f"{WORKLOADS[operation].title}, {tasks:,} task{'s' if tasks > 1 else ''}"


def _ratio(
    summaries: Mapping[Key, Summary], operation: str, tasks: int, peer: Summary | None, name: str, least: float
) -> Condition:
    wanted = f"{_where(operation, tasks)}: {SUBJECT} does at least {least:g} times the operations of {name}"
    subject = summaries.get((operation, SUBJECT, tasks))
    is_required = name == BASELINE
    if subject is None or peer is None:
        missing = " and ".join(arm for arm, one in ((SUBJECT, subject), (name, peer)) if one is None)
        return Condition(f"{wanted} ({missing} was not measured)", None, is_required)
    ratio = subject.rate.median / peer.rate.median
    which = "" if name == peer.arm else f", {peer.arm}"
    return Condition(f"{wanted} ({ratio:.2f} times{which})", ratio >= least, is_required)


def _cpu(summaries: Mapping[Key, Summary], operation: str, tasks: int, arm: str, other: str, most: float) -> Condition:
    wanted = f"{_where(operation, tasks)}: the CPU of {arm} is at most {most:g} times that of {other}"
    one, to = summaries.get((operation, arm, tasks)), summaries.get((operation, other, tasks))
    if one is None or to is None:
        return Condition(f"{wanted} (not both were measured)", None)
    ratio = one.cpu.median / to.cpu.median
    return Condition(f"{wanted} ({ratio:.2f} times)", ratio <= most)


def _p99(summaries: Mapping[Key, Summary], operation: str, tasks: int) -> Condition:
    wanted = f"{_where(operation, tasks)}: {SUBJECT} has the shortest p99 of all drivers"
    subject = summaries.get((operation, SUBJECT, tasks))
    peers = {peer: summaries[key].p99 for peer in PEERS if (key := (operation, peer, tasks)) in summaries}
    if subject is None or not peers:
        return Condition(f"{wanted} (not measured)", None)
    best = min(peers, key=lambda peer: peers[peer])
    found = f"{subject.p99 * 1000:.1f} ms; {best} {peers[best] * 1000:.1f} ms"
    return Condition(f"{wanted} ({found})", subject.p99 <= peers[best])


def _growth(summaries: Mapping[Key, Summary], earlier: Summary) -> Condition:
    operation, tasks = earlier.operation, earlier.tasks
    wanted = (
        f"{_where(operation, tasks)}: the CPU of {SUBJECT}, as a ratio to {FLOOR}, is at most {HIGHEST_GROWTH:g} times "
        f"what it was {EARLIER}"
    )
    subject, floor = summaries.get((operation, SUBJECT, tasks)), summaries.get((operation, FLOOR, tasks))
    if subject is None or floor is None:
        return Condition(f"{wanted} (not all of them were measured)", None)
    now, then = subject.cpu.median / floor.cpu.median, earlier.cpu.median / floor.cpu.median
    text = f"{wanted} ({now:.2f}, was {then:.2f}: {now / then:.3f} times)"
    return Condition(text, now <= HIGHEST_GROWTH * then, required=True)
