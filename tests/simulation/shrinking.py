"""Pure: makes a case that fails shorter: fewer faults, fewer tasks, less time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LEAST_SECONDS: Final = 2.0
_MOST_RUNS: Final = 200


@dataclass(frozen=True, slots=True)
class Case:
    """What is run.

    Attributes:
        seed: The seed of everything.
        faults: The numbers of the faults of the plan that happen; None: all.
        tasks: The numbers of the tasks that run; None: all.
        seconds: How long the workload runs, in virtual seconds.
        routers: Whether there are routers.
        bug: The bug that is planted in the driver.
    """

    seed: int
    faults: Sequence[int] | None
    tasks: Sequence[int] | None
    seconds: float
    routers: bool = False
    bug: str | None = None

    def __str__(self) -> str:
        words = ["python -m tests.simulate --seed", str(self.seed)]
        for option, numbers in (("--only", self.faults), ("--tasks", self.tasks)):
            if numbers is not None:
                words += [option, ",".join(map(str, numbers)) or "-"]
        words += ["--seconds", f"{self.seconds:g}"]
        words += ["--routers"] if self.routers else []
        words += [] if self.bug is None else ["--bug", self.bug]
        return " ".join(words)


def shrink(case: Case, faults: int, tasks: int, fails: Callable[[Case], bool]) -> Case:
    """The shortest case that still fails, as far as removing one thing after another shows.

    Args:
        case: One that fails.
        faults: The number of faults in its plan.
        tasks: The number of tasks.
        fails: Runs a case.
    """
    left = _MOST_RUNS

    def still_fails(candidate: Case) -> bool:
        nonlocal left
        left -= 1
        return left >= 0 and fails(candidate)

    case = replace(
        case,
        faults=tuple(range(faults)) if case.faults is None else tuple(case.faults),
        tasks=tuple(range(tasks)) if case.tasks is None else tuple(case.tasks),
    )
    while case.seconds / 2 >= _LEAST_SECONDS and still_fails(replace(case, seconds=case.seconds / 2)):
        case = replace(case, seconds=case.seconds / 2)
    before = None
    while before != case:
        before = case
        case = _fewer(case, case.faults or (), lambda case, faults: replace(case, faults=faults), still_fails)
        case = _fewer(case, case.tasks or (), lambda case, tasks: replace(case, tasks=tasks), still_fails)
    return case


def _fewer(
    case: Case,
    items: Sequence[int],
    make: Callable[[Case, Sequence[int]], Case],
    fails: Callable[[Case], bool],
) -> Case:
    """Remove as many items as possible: halves first, then quarters, down to single ones."""
    size = max(1, len(items) // 2)
    while items:
        start = 0
        while start < len(items):
            fewer = (*items[:start], *items[start + size :])
            if fails(make(case, fewer)):
                items = fewer
            else:
                start += size
        if size == 1:
            break
        size = max(1, size // 2)
    return make(case, tuple(items))
