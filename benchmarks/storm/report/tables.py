"""Pure: the figures of a session as rows of text."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from benchmarks.storm.published import PUBLISHED
from benchmarks.storm.report import families, wording
from benchmarks.storm.report.conclusions import conclusion
from benchmarks.storm.report.losses import losses

if TYPE_CHECKING:
    from benchmarks.storm.report.session import Group, Session
    from benchmarks.storm.report.wording import Column

SHORT: Final = (
    wording.SHARE,
    wording.AFTER,
    wording.AMPLIFICATION,
    wording.SETTLED,
    wording.PER_SUCCESS,
    wording.ERRORS,
    wording.P50,
    wording.P99,
    wording.OUTCOME,
    wording.RECOVERY,
)
MORE: Final = (wording.GOODPUT, wording.P999, wording.CONNECTIONS, wording.CPU)


def cell(column: Column, group: Group) -> tuple[str, str]:
    """A figure and its interval."""
    estimate = group.estimates[column.figure]
    return wording.value(column, estimate.mean), wording.interval(column, estimate)


def markdown(session: Session) -> str:
    """A table for each scenario and backend, under its question, and a line that says how it was made. No sweeps."""
    parts = []
    for scenario in session.scenarios:
        if scenario.point:
            continue
        for backend in session.backends(scenario.name):
            title = f"### {scenario.name}, {place(backend)}\n\n{scenario.question}\n"
            parts.append(title + "\n" + _markdown_table(session.groups(scenario.name, backend)))
    facts = "; ".join(f"{name}: {text}" for name, text in session.facts.items())
    seeds = sorted({record.run.seed for record in session.records})
    return "\n\n".join([*parts, f"Means over {len(seeds)} seeds with 95 % intervals. {facts}."])


def _markdown_table(groups: list[Group]) -> str:
    lines = [
        f"| arm | {' | '.join(column.title for column in SHORT)} |",
        f"|---|{'---|' * len(SHORT)}",
    ]
    for group in groups:
        if not group.records:
            lines.append(f"| {group.arm} | not valid: {group.invalid[0]} |{' |' * (len(SHORT) - 1)}")
            continue
        cells = [f"{text} ({spread})" if spread else text for text, spread in (cell(c, group) for c in SHORT)]
        lines.append(f"| {group.arm} | {' | '.join(cells)} |")
    return "\n".join(lines)


def conclusions(session: Session) -> str:
    """What each scenario and each sweep showed, in words."""
    parts = []
    for name in dict.fromkeys(scenario.family for scenario in session.scenarios if scenario.point):
        first = next(scenario for scenario in session.scenarios if scenario.family == name)
        for backend in session.backends(first.name):
            quantities = [quantity for quantity, _ in first.point]
            found = families.conclusion(quantities, families.points(session, name, backend), PUBLISHED.get(name))
            parts.append(_paragraph(name, backend, first.question, found))
    for scenario in session.scenarios:
        for backend in session.backends(scenario.name) if not scenario.point else ():
            found = [*conclusion(session, scenario, backend), *losses(session, scenario, backend)]
            parts.append(_paragraph(scenario.name, backend, scenario.question, found))
    return "\n\n".join(parts)


def _paragraph(name: str, backend: str, question: str, sentences: list[str]) -> str:
    text = textwrap.fill(" ".join(sentences), 100, break_long_words=False, break_on_hyphens=False)
    return f"{name}, {place(backend)}: {question}\n{text}"


def place(backend: str) -> str:
    """Where it ran, in words."""
    return {"sockets": "real sockets", "twin": "simulated"}.get(backend, backend)
