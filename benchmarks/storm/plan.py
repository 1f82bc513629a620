"""Pure: which runs a command stands for."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin, get_type_hints

from benchmarks.storm.arms import ARMS, Arm
from benchmarks.storm.catalogue import STANDARD

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.storm.scenario import Scenario

    Backend = Literal["sockets", "twin"]

SEEDS: Final = 5
QUICK_SEEDS: Final = 2
QUICK_SCENARIO: Final = "sustained"
"""The only standard scenario that runs on sockets with `--quick`, with these arms and one seed."""
QUICK_ARMS: Final = ("no-retry", "default", "small-budget", "pymongo")
WORDS: Final = {
    name: get_args(kind)
    for name, kind in get_type_hints(Arm).items()
    if get_origin(kind) is Literal and name != "driver"
}
YES_OR_NO: Final = {"yes": True, "true": True, "no": False, "false": False}


class WrongPolicyError(Exception):
    """A policy on the command line is none."""


@dataclass(frozen=True, slots=True)
class Step:
    """One run."""

    scenario: Scenario
    arm: Arm
    seed: int
    backend: Backend


def parse_arm(text: str) -> Arm:
    """Return an arm by its name, or one that differs from it: ``default:tokens=50,max_pool_size=20``.

    Raises:
        WrongPolicyError: There is no such arm or field, or the value has another type.
    """
    name, _, changes = text.partition(":")
    if name not in ARMS:
        raise WrongPolicyError(f"there is no policy {name!r}; there are {', '.join(ARMS)}")
    arm = ARMS[name]
    if not changes:
        return arm
    values: dict[str, Any] = {}
    for change in changes.split(","):
        field, _, value = change.partition("=")
        values[field] = _value(arm, field, value)
    return replace(arm, name=text, about=f"{arm.about}; {changes}", **values)


def _value(arm: Arm, name: str, text: str) -> Any:
    allowed = [field.name for field in fields(arm) if field.name not in ("name", "about", "driver")]
    if name not in allowed:
        raise WrongPolicyError(f"a policy has no {name!r}; it has {', '.join(allowed)}")
    if name in WORDS:
        if text not in WORDS[name]:
            raise WrongPolicyError(f"{name}={text} is not one of {', '.join(WORDS[name])}")
        return text
    kind = type(getattr(arm, name))
    try:
        value = YES_OR_NO[text.lower()] if kind is bool else kind(text)
    except (ValueError, KeyError):
        value = math.nan
    if math.isnan(value):
        raise WrongPolicyError(f"{name}={text} is not {kind.__name__}")
    if value < 0:
        raise WrongPolicyError(f"{name}={text} is negative")
    return value


def plan(
    scenarios: Sequence[Scenario],
    arms: Sequence[Arm] | None,
    seeds: int,
    backend: Backend | None,
    *,
    is_quick: bool = False,
) -> Iterator[Step]:
    """Yield all runs: those on sockets first, arm by arm within a seed, so that drifts of the machine hit all arms.

    Args:
        scenarios: In the order of the report.
        arms: Instead of those that the scenarios name.
        seeds: How many.
        backend: Instead of the scenarios' own: sockets for the standard ones, the simulation for the others.
        is_quick: Leave most to the simulation, unless `backend` says otherwise.
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
