"""Pure: the scenarios of a sweep: what they have in common, and what they show, in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from benchmarks.storm.report import wording
from benchmarks.storm.report.wording import listed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.storm.published import Points, Published
    from benchmarks.storm.report.session import Group, Session
    from benchmarks.storm.report.wording import Column

    Point = tuple[float, ...]
    Arms = Mapping[str, Mapping[Point, Group]]

# The quantity of a sweep: its axis, and one value of it.
AXES: Final = {
    "load": ("load before the trigger, % of the capacity", "a load of {:.0f} %"),
    "seconds": ("seconds for which the capacity is halved", "{:g} s"),
    "failure_rate": ("failure rate, %", "a failure rate of {:g} %"),
    "clients": ("clients, at the same total rate", "{:g} clients"),
    "factor": ("load, as a multiple of the capacity", "{:g} times the capacity"),
}
# Values that are shares.
PERCENT: Final = ("load", "failure_rate", "cancelled")


def points(session: Session, family: str, backend: str) -> dict[str, dict[Point, Group]]:
    """The groups of a family by arm and by their place in the sweep."""
    found: dict[str, dict[Point, Group]] = {}
    for scenario in session.scenarios:
        if scenario.family == family and scenario.point:
            place = tuple(value for _, value in scenario.point)
            for group in session.groups(scenario.name, backend):
                if group.records:
                    found.setdefault(group.arm, {})[place] = group
    return found


def axis_name(quantity: str) -> str:
    """For an axis, with its unit."""
    return AXES[quantity][0] if quantity in AXES else quantity.replace("_", " ")


def tick(quantity: str, value: float) -> str:
    """A value on an axis."""
    return f"{value * 100:g}" if quantity in PERCENT else f"{value:g}"


def phrase(quantity: str, value: float) -> str:
    """A value in a sentence."""
    if quantity in AXES:
        text = AXES[quantity][1].format(value * 100 if quantity in PERCENT else value)
        return text.removesuffix("s") if text == "1 clients" else text
    return f"{quantity.replace('_', ' ')} {value:g}"


def upper(quantity: str) -> Column:
    """What is shown of a sweep besides attempts: failures if it is about them, else goodput."""
    return wording.ERRORS if quantity == "failure_rate" else wording.SHARE


def conclusion(names: list[str], arms: Arms, published: Published | None = None) -> list[str]:
    """Sentences about a sweep over one or two quantities; empty without runs."""
    if not arms:
        return []
    if len(names) > 1:
        return [_recoveries(arm, names, found) for arm, found in arms.items()]
    (name,) = names
    ends = sorted({place[0] for found in arms.values() for place in found})
    sentences = [_at(name, end, arms) for end in dict.fromkeys((ends[0], ends[-1]))]
    return [*sentences, *(_beside(arms, published) if published else ())]


def _recoveries(arm: str, names: list[str], found: Mapping[Point, Group]) -> str:
    """In how many places an arm recovers, how long that takes, and where it first does not."""
    estimates = {place: group.estimates["recovery"] for place, group in sorted(found.items())}
    lost = [place for place, estimate in estimates.items() if estimate.infinite]
    finite = {place: e.mean for place, e in estimates.items() if not e.infinite and not math.isnan(e.mean)}
    name = wording.arm(arm)
    if not finite and not lost:
        return f"Of {name} there are no figures."
    text = (
        f"{name} recovers in all {len(finite)} cases"
        if not lost
        else (f"{name} recovers in {len(finite)} of {len(finite) + len(lost)} cases")
    )
    if finite:
        place = max(finite, key=lambda key: finite[key])
        text += f", in at most {finite[place]:.1f} s"
        text += f" ({_place(names, place)})" if finite[place] > 0 else ""
    if lost:
        # That with the shortest and mildest trigger.
        text += f"; the mildest case in which it does not is {_place(names, min(lost, key=lambda key: key[::-1]))}"
    return f"{text}."


def _place(names: list[str], place: Point) -> str:
    return listed([phrase(name, value) for name, value in zip(names, place, strict=True)])


def _at(name: str, value: float, arms: Arms) -> str:
    """What the arms have at one end of the sweep."""
    column = upper(name)
    parts = []
    for arm, found in arms.items():
        group = found.get((value,))
        if group is not None:
            share, attempts = group.estimates[column.figure].mean, group.estimates["amplification"].mean
            share = 1 - share if column is wording.ERRORS else share
            texts = wording.value(wording.SHARE, share), wording.value(wording.AMPLIFICATION, attempts)
            parts.append(f"{wording.arm(arm)} {texts[0]}, {texts[1]}")
    what = "The share of requests that succeed" if column is wording.ERRORS else "Goodput"
    return f"{what} and attempts per request at {phrase(name, value)}: {'; '.join(parts)}."


def _beside(arms: Arms, published: Published) -> list[str]:
    """The largest difference between each published curve and the arm that is most like it."""
    texts = []
    for policy, arm in published.ours.items():
        if arm not in arms:
            continue
        success = _apart(arms[arm], published.success[policy], "errors")
        attempts = _apart(arms[arm], published.attempts[policy], "amplification")
        if not math.isnan(success):
            texts.append(f"{wording.arm(arm)} {success * 100:.1f} points of success, {attempts:.2f} attempts")
    return [f"The largest differences from the published curves: {'; '.join(texts)}."] if texts else []


def _apart(found: Mapping[Point, Group], curve: Points, figure: str) -> float:
    differences = []
    for x, y in curve:
        if (x,) in found:
            value = found[(x,)].estimates[figure].mean
            differences.append(abs((1 - value if figure == "errors" else value) - y))
    return max(differences, default=math.nan)
