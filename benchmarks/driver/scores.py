"""Pure: scores, composites and the verdict of the public benchmark."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Final

from benchmarks.driver.tasks import COMPOSITES, TASKS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from benchmarks.driver.tasks import Scale

SUBJECT: Final = "motorlite"
BASELINE: Final = "pymongo"
# No task may be slower than with one of these.
PYTHON_PEERS: Final = ("pymongo", "pymongo-sync", "motor")
PERCENTILES: Final = (10, 25, 50, 75, 90, 95, 98, 99)


@dataclass(frozen=True, slots=True)
class Iteration:
    """One timed iteration; seconds."""

    task: str
    arm: str
    seconds: float
    cpu_seconds: float


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The specification's nearest rank: `int(N * p / 100) - 1`, and never before the first."""
    return ordered[max(0, int(len(ordered) * percent / 100) - 1)]


def scores(iterations: Sequence[Iteration], scale: Scale) -> dict[tuple[str, str], float]:
    """Megabytes per second by task and arm: the size of the task over the median time."""
    times: dict[tuple[str, str], list[float]] = {}
    for one in iterations:
        times.setdefault((one.task, one.arm), []).append(one.seconds)
    return {
        (task, arm): TASKS[task].megabytes(scale) / percentile(sorted(seconds), 50)
        for (task, arm), seconds in times.items()
    }


def composites(found: Mapping[tuple[str, str], float], arm: str, tasks: Collection[str]) -> dict[str, float]:
    """The composite scores of an arm from the measured tasks; without those for which it lacks one."""
    values: dict[str, float] = {}
    for name, members in COMPOSITES.items():
        measured = [member for member in members if member in tasks]
        if measured and all((member, arm) in found for member in measured):
            values[name] = fmean(found[member, arm] for member in measured)
    if "ReadBench" in values and "WriteBench" in values:
        values["DriverBench"] = fmean((values["ReadBench"], values["WriteBench"]))
    return values


def verdict(found: Mapping[tuple[str, str], float]) -> list[tuple[str, bool]]:
    """One line for each task with a Python peer: whether motorlite on asyncio is at least as fast as all of them."""
    lines = []
    for task in TASKS.values():
        subject = found.get((task.name, SUBJECT))
        peers = {peer: found[task.name, peer] for peer in PYTHON_PEERS if (task.name, peer) in found}
        if subject is None or not peers:
            continue
        best = max(peers, key=lambda peer: peers[peer])
        is_met = subject >= peers[best]
        word = "met" if is_met else "NOT MET"
        lines.append((f"{word}: {task.title} ({subject / peers[best]:.2f} times {best})", is_met))
    return lines
