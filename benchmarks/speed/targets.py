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
        yield (
            (operation, tasks),
            _rate(summaries, operation, tasks, name, summaries.get((operation, name, tasks)), least),
        )
    for (operation, tasks), least in TO_BEST_PEER.items():
        best = best_peer(summaries, operation, tasks)
        yield (operation, tasks), _rate(summaries, operation, tasks, "the best peer", best, least)
    for targets, arm, other in ((CPU_TO_BARE, SUBJECT, FLOOR), (CPU_OF_TRIO, ON_TRIO, SUBJECT)):
        for (operation, tasks), most in targets.items():
            one, to = summaries.get((operation, arm, tasks)), summaries.get((operation, other, tasks))
            ratio = one.cpu.median / to.cpu.median if one and to else None
            wanted = f"the CPU of {arm} is at most {most:g} times that of {other}"
            found = "not both were measured" if ratio is None else f"{ratio:.2f} times"
            yield (operation, tasks), _condition(operation, tasks, wanted, found, ratio and ratio <= most)
    for operation, tasks in BEST_P99:
        subject = summaries.get((operation, SUBJECT, tasks))
        peers = {summaries[key].p99: peer for peer in PEERS if (key := (operation, peer, tasks)) in summaries}
        found, met = "not measured", None
        if subject is not None and peers:
            best_p99 = min(peers)
            found = f"{subject.p99 * 1000:.1f} ms; {peers[best_p99]} {best_p99 * 1000:.1f} ms"
            met = subject.p99 <= best_p99
        yield (
            (operation, tasks),
            _condition(operation, tasks, f"{SUBJECT} has the shortest p99 of all drivers", found, met),
        )


def _condition(
    operation: str, tasks: int, wanted: str, found: str, met: bool | float | None, *, required: bool = False
) -> Condition:
    where = f"{WORKLOADS[operation].title}, {tasks:,} task{'s' if tasks > 1 else ''}"
    return Condition(f"{where}: {wanted} ({found})", None if met is None else bool(met), required)


def _rate(
    summaries: Mapping[Key, Summary], operation: str, tasks: int, name: str, peer: Summary | None, least: float
) -> Condition:
    wanted = f"{SUBJECT} does at least {least:g} times the operations of {name}"
    subject = summaries.get((operation, SUBJECT, tasks))
    if subject is None or peer is None:
        lacking = " and ".join(arm for arm, one in ((SUBJECT, subject), (name, peer)) if one is None)
        return _condition(operation, tasks, wanted, f"{lacking} was not measured", None, required=name == BASELINE)
    ratio = subject.rate.median / peer.rate.median
    found = f"{ratio:.2f} times{'' if name == peer.arm else f', {peer.arm}'}"
    return _condition(operation, tasks, wanted, found, ratio >= least, required=name == BASELINE)


def _growth(summaries: Mapping[Key, Summary], earlier: Summary) -> Condition:
    operation, tasks = earlier.operation, earlier.tasks
    wanted = f"the CPU of {SUBJECT}, as a ratio to {FLOOR}, is at most {HIGHEST_GROWTH:g} times what it was {EARLIER}"
    subject, floor = (summaries.get((operation, arm, tasks)) for arm in (SUBJECT, FLOOR))
    if subject is None or floor is None:
        return _condition(operation, tasks, wanted, "not all of them were measured", None)
    now, then = subject.cpu.median / floor.cpu.median, earlier.cpu.median / floor.cpu.median
    found = f"{now:.2f}, was {then:.2f}: {now / then:.3f} times"
    return _condition(operation, tasks, wanted, found, now <= HIGHEST_GROWTH * then, required=True)
