"""Pure: which runs a command stands for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from benchmarks.storm.arms import ARMS, Arm
from benchmarks.storm.scenarios import STANDARD

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.storm.scenario import Scenario

    Backend = Literal["sockets", "twin"]

SEEDS: Final = 5
QUICK_SEEDS: Final = 2
QUICK_SCENARIO: Final = "sustained"
"""The only standard scenario that runs on sockets with `--quick`, with these arms and one seed."""
QUICK_ARMS: Final = ("no-retry", "default", "small-budget", "pymongo")


@dataclass(frozen=True, slots=True)
class Step:
    """One run."""

    scenario: Scenario
    arm: Arm
    seed: int
    backend: Backend


def plan(
    scenarios: Sequence[Scenario],
    arms: Sequence[Arm] | None,
    seeds: int,
    backend: Backend | None,
    *,
    is_quick: bool = False,
) -> Iterator[Step]:
    """Yield all runs: those on sockets first, arm by arm within a seed, so that drifts of the machine hit all arms.

    `arms` and `backend` replace those of the scenarios: sockets for the standard ones, the simulation for the others,
    and with `is_quick` for most of the standard ones too.
    """
    later: list[Step] = []
    for scenario in scenarios:
        chosen = arms or [ARMS[name] for name in scenario.arms]
        where, numbers = backend or ("sockets" if STANDARD in scenario.tags else "twin"), seeds
        if is_quick and backend is None and where == "sockets":
            if scenario.name == QUICK_SCENARIO:
                chosen, numbers = arms or [ARMS[name] for name in QUICK_ARMS], 1
            else:
                where = "twin"
        steps = [Step(scenario, arm, seed, where) for seed in range(1, numbers + 1) for arm in chosen]
        if where == "sockets":
            yield from steps
        else:
            later += [step for step in steps if step.arm.driver != "mongojet"]
    yield from later
