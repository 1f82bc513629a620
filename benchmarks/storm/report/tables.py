"""Pure: the figures of a session as rows of text, and what changed since an earlier one."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING, Final

from benchmarks.figures import align, markdown
from benchmarks.storm.report.figures import DEFAULT, NOTHING, SHORT, cell, difference, value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from benchmarks.storm.report.figures import Difference, Figure, Verdict
    from benchmarks.storm.scenario import Scenario
    from benchmarks.storm.session import Group, Session

MARKS: Final[dict[Verdict, str]] = {"better": " +", "worse": " -", "same": "", "unknown": ""}
"""Behind a figure that differs from the default arm's by more than the noise."""
SIGNS: Final[dict[Verdict, str]] = {"better": "better", "worse": "WORSE", "same": "", "unknown": "?"}
PLACES: Final = {"sockets": "real sockets", "twin": "simulated"}
LEGEND: Final = "+ and -: better and worse than the arm default, beyond the noise"
# The quantity of a sweep: its axis, and one value of it.
AXES: Final = {
    "load": "load before the trigger, % of the capacity",
    "seconds": "seconds for which the capacity is halved",
    "failure_rate": "failure rate, %",
    "clients": "clients, at the same total rate",
    "factor": "load, as a multiple of the capacity",
}


def axis_name(quantity: str) -> str:
    return AXES.get(quantity, quantity.replace("_", " "))


def tick(quantity: str, number: float) -> str:
    return f"{number * 100:g}" if quantity in ("load", "failure_rate") else f"{number:g}"


def title(scenario: Scenario, backend: str) -> str:
    """The name of a scenario, its place in a sweep, and where it ran."""
    point = "".join(f", {axis_name(name)}: {tick(name, number)}" for name, number in scenario.point)
    return f"{scenario.family or scenario.name}{point}, {PLACES[backend]}"


def conditions(scenario: Scenario) -> list[tuple[str, str]]:
    """What is not as usual in the values of a scenario, as pairs of name and text."""
    rows = [("load", _changed(scenario.load))]
    for number, server in enumerate(scenario.servers):
        if number == 0 or server != scenario.servers[number - 1]:
            rows.append((f"{scenario.servers.count(server)} x server", _changed(server)))
    rows += [("read preference", scenario.read_preference)] if len(scenario.servers) > 1 else []
    rows += [(f"{change.start:g} to {change.end:g} s", _changed(change, "start", "end")) for change in scenario.changes]
    return [*rows, ("duration", f"{scenario.seconds:g} s")]


def _changed(part: object, *known: str) -> str:
    shown = [
        f"{field.name} {getattr(part, field.name)!r}"
        for field in fields(part)  # type: ignore[arg-type]  # a dataclass
        if field.name not in known and getattr(part, field.name) != field.default
    ]
    return ", ".join(shown) or "as usual"


def verdicts(groups: Iterable[Group], figure: Figure) -> dict[str, Verdict]:
    """How each arm's figure compares with that of the default arm."""
    found = {group.arm: group for group in groups if group.records}
    if DEFAULT not in found:
        return {}
    return {arm: difference(figure, found[DEFAULT], group).verdict for arm, group in found.items() if arm != DEFAULT}


def experiments(session: Session) -> Iterator[tuple[Scenario, str, list[Group]]]:
    """Each scenario on each backend, and its groups."""
    for scenario in session.scenarios:
        for backend in session.backends(scenario.name):
            yield scenario, backend, session.groups(scenario.name, backend)


def text(session: Session) -> str:
    """A table for each scenario and backend, with marks for what differs from the default arm."""
    parts = []
    for scenario, backend, groups in experiments(session):
        marks = {figure.field: verdicts(groups, figure) for figure in SHORT}
        rows: list[tuple[str, ...]] = [("", *(figure.title for figure in SHORT))]
        for group in groups:
            found = ((cell(figure, group)[0], marks[figure.field].get(group.arm, "same")) for figure in SHORT)
            rows.append((group.arm, *(f"{one}{MARKS[verdict]}" for one, verdict in found)))
        left_out = [f"left out: {one.left_out} of {one.arm}: {one.invalid[0]}" for one in groups if one.invalid]
        parts.append("\n".join((f"{title(scenario, backend)}: {scenario.question}", align(rows), *left_out)))
    return "\n\n".join((*parts, LEGEND))


def as_markdown(session: Session) -> str:
    """A table for each scenario and backend, under its question, and a line that says how it was made. No sweeps."""
    parts = []
    for scenario, backend, groups in experiments(session):
        if scenario.point:
            continue
        rows = [("arm", *(figure.title for figure in SHORT))]
        for group in groups:
            found = [f"{one} ({spread})" if spread else one for one, spread in (cell(each, group) for each in SHORT)]
            if not group.records:
                found = [f"not valid: {group.invalid[0]}", *[""] * (len(SHORT) - 1)]
            rows.append((group.arm, *found))
        parts.append(f"### {title(scenario, backend)}\n\n{scenario.question}\n\n{markdown(rows)}")
    facts = "; ".join(f"{name}: {fact}" for name, fact in session.facts.items())
    seeds = {record.run.seed for record in session.records}
    return "\n\n".join([*parts, f"Means over {len(seeds)} seeds with 95 % intervals. {facts}."])


# --- two sessions ---


def compare(old: Session, new: Session) -> str:
    """A table for each scenario and backend that both have: each arm, each figure; what only one has is named."""
    before, now = (
        {(one.scenario, one.backend, one.arm): one for one in session.all_groups()} for session in (old, new)
    )
    # Figures of different machines are not comparable.
    facts = [
        f"{name}: {old.facts.get(name, NOTHING)} before, {new.facts.get(name, NOTHING)} now"
        for name in {**old.facts, **new.facts}
        if name not in ("command", "load average") and (name == "date" or old.facts.get(name) != new.facts.get(name))
    ]
    parts = ["\n".join(facts)]
    for scenario, backend, groups in experiments(new):
        rows: list[tuple[str, ...]] = [("", "before", "now", "difference", "95 % interval", "")]
        for group in groups:
            earlier = before.get((group.scenario, backend, group.arm))
            if earlier is not None and earlier.records and group.records:
                found = (difference(figure, earlier, group) for figure in SHORT)
                rows += [(group.arm, *[""] * 5), *(_row(one) for one in found if one.first.n or one.second.n)]
        if len(rows) > 1:
            changes = _changes(old.scenario(scenario.name), scenario)
            parts.append(f"{title(scenario, backend)}{changes}\n{align(rows)}")
    for word, keys in (("before", before.keys() - now.keys()), ("now", now.keys() - before.keys())):
        named = "; ".join(f"{arm} in {scenario} ({backend})" for scenario, backend, arm in sorted(keys))
        parts += [f"Only {word}: {named}"] if named else []
    return "\n\n".join([*parts, "Only what is beyond the noise counts as better or worse."])


def _changes(old: Scenario, new: Scenario) -> str:
    changed = [field.name for field in fields(new) if getattr(old, field.name) != getattr(new, field.name)]
    return f" (NOT THE SAME EXPERIMENT: {', '.join(changed)} changed)" if changed else ""


def _row(found: Difference) -> tuple[str, ...]:
    figure = found.figure
    return (
        f"  {figure.title}",
        value(figure, found.first.mean),
        value(figure, found.second.mean),
        _signed(figure, found.delta),
        "" if math.isnan(found.low) else f"{_signed(figure, found.low)} to {_signed(figure, found.high)}",
        SIGNS[found.verdict],
    )


def _signed(figure: Figure, number: float) -> str:
    if not math.isfinite(number):
        return NOTHING
    shown = figure.text(abs(number))
    return shown if shown == figure.text(0.0) else f"{'+' if number > 0 else '-'}{shown}"
