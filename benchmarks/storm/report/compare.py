"""Pure: what changed between two sessions, with intervals, and whether it is more than the noise."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from benchmarks.report import align
from benchmarks.storm.report import wording
from benchmarks.storm.report.differences import Difference, difference
from benchmarks.storm.report.settings import changed_fields
from benchmarks.storm.report.tables import SHORT, place

if TYPE_CHECKING:
    from benchmarks.storm.report.session import Group, Session

HEAD: Final = ("", "before", "now", "difference", "95 % interval", "")
SIGNS: Final = {"better": "better", "worse": "WORSE", "changed": "changed", "same": "", "unknown": "?"}


def render(old: Session, new: Session) -> str:
    """A table for each scenario and backend that both have: each arm, each figure."""
    before = {(group.scenario, group.backend, group.arm): group for group in old.all_groups()}
    parts = [_facts(old, new)]
    counts = dict.fromkeys(SIGNS, 0)
    for scenario in new.scenarios:
        for backend in new.backends(scenario.name):
            groups = new.groups(scenario.name, backend)
            pairs = [(before.get((group.scenario, backend, group.arm)), group) for group in groups]
            both = [(one, other) for one, other in pairs if one is not None and one.records and other.records]
            if not both:
                continue
            parts.append(
                f"{scenario.name}, {place(backend)}{_changes(old, new, scenario.name)}\n{_table(both, counts)}"
            )
    if len(parts) == 1:
        return f"{parts[0]}\n\nThe sessions have no valid run in common."
    parts += _alone(old, new)
    verdicts = ", ".join(f"{number} {sign}" for sign, number in counts.items() if number)
    return "\n\n".join([*parts, f"Figures: {verdicts}. Only what is beyond the noise counts as better or worse."])


def _facts(old: Session, new: Session) -> str:
    """What differs in the conditions: figures of different machines are not comparable."""
    names = [name for name in {**old.facts, **new.facts} if name not in ("date", "command", "load average")]
    lines = [
        f"{name}: {old.facts.get(name, wording.NOTHING)} before, {new.facts.get(name, wording.NOTHING)} now"
        for name in names
        if old.facts.get(name) != new.facts.get(name)
    ]
    dates = f"before: {old.facts.get('date', 'no date')}; now: {new.facts.get('date', 'no date')}"
    return "\n".join([dates, *lines])


def _changes(old: Session, new: Session, scenario: str) -> str:
    changed = changed_fields(old.scenario(scenario), new.scenario(scenario))
    return f" (NOT THE SAME EXPERIMENT: {', '.join(changed)} changed)" if changed else ""


def _table(pairs: list[tuple[Group, Group]], counts: dict[str, int]) -> str:
    rows: list[tuple[str, ...]] = [HEAD]
    for before, now in pairs:
        rows.append((now.arm, "", "", "", "", ""))
        for column in SHORT:
            found = difference(column, before, now)
            if found.first.n or found.second.n:
                counts[found.verdict] += 1
                rows.append(_row(found))
    return align(rows)


def _row(found: Difference) -> tuple[str, ...]:
    column = found.column
    return (
        f"  {column.title}",
        wording.value(column, found.first.mean),
        wording.value(column, found.second.mean),
        _signed(found, found.delta),
        "" if math.isnan(found.low) else f"{_signed(found, found.low)} to {_signed(found, found.high)}",
        SIGNS[found.verdict],
    )


def _signed(found: Difference, number: float) -> str:
    if not math.isfinite(number):
        return wording.NOTHING
    text = found.column.text(abs(number))
    is_zero = text == found.column.text(0.0)
    return text if is_zero else f"{'+' if number > 0 else '-'}{text}"


def _alone(old: Session, new: Session) -> list[str]:
    """Which arms only one session has."""
    before = {(group.scenario, group.backend, group.arm) for group in old.all_groups()}
    now = {(group.scenario, group.backend, group.arm) for group in new.all_groups()}
    return [
        f"{text}: {'; '.join(f'{arm} in {scenario} ({backend})' for scenario, backend, arm in sorted(keys))}"
        for text, keys in (("Only before", before - now), ("Only now", now - before))
        if keys
    ]
