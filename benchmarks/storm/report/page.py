"""Shell: one HTML page for a session. It needs no network, no script and no other file."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.storm import agreement
from benchmarks.storm.published import PUBLISHED
from benchmarks.storm.report import families, tables, wording
from benchmarks.storm.report.conclusions import DEFAULT, conclusion
from benchmarks.storm.report.losses import losses
from benchmarks.storm.report.plots import canvas, distributions, overtime, sweeps
from benchmarks.storm.report.settings import describe

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.storm.report.session import Group, Session
    from benchmarks.storm.report.wording import Column
    from benchmarks.storm.scenario import Scenario

CSS: Final = Path(__file__).with_name("page.css")
EXPLAINED: Final = """
<p>An <em>arm</em> is a driver with a policy for retries. Every arm gets the same requests at the same moments, for
each of the seeds. In an open loop, requests are due whether or not earlier ones have ended, and latency counts from
the moment when a request was due, so that nothing waits unseen. A request that failed counts in every percentile as
one that took longer than any success. Requests that the application itself cancelled are in no percentile. A rejection
is an attempt, and never goodput. Intervals are 95 % (Student) over the seeds; <q>never in 2 of 5</q> says how many
seeds never had the value.</p>
"""


def write(session: Session, path: Path) -> None:
    """Write the page."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(session), encoding="utf-8")


def page(session: Session) -> str:
    """The whole document."""
    parts = _Parts(session)
    sections = [parts.family(name) for name in dict.fromkeys(s.family for s in session.scenarios if s.point)]
    sections = [
        *[parts.section(scenario) for scenario in session.scenarios if not scenario.point],
        *sections,
    ]
    return "\n".join(
        (
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>Retry storms</title><style>{CSS.read_text(encoding='utf-8')}</style></head><body>",
            *_head(session),
            *[section for section in sections if section],
            *_foot(session),
            "</body></html>",
            "",
        )
    )


def _head(session: Session) -> Iterable[str]:
    yield (
        '<fieldset class="theme"><label><input type="radio" name="theme" id="auto" checked> as the system</label>'
        '<label><input type="radio" name="theme" id="light"> light</label>'
        '<label><input type="radio" name="theme" id="dark"> dark</label></fieldset>'
    )
    runs = len(session.records)
    seeds = len({record.run.seed for record in session.records})
    yield "<h1>Retry storms</h1>"
    yield (
        f'<p class="faint">What drivers and their retry policies do to a server that has too much to do: {runs} runs, '
        f"{seeds} {'seed' if seeds == 1 else 'seeds'}. {escape('; '.join(session.facts.values()))}.</p>"
    )
    yield EXPLAINED
    if len(session.scenarios) > 1:
        names = [(s.name, s.question) for s in session.scenarios if not s.point]
        families = dict.fromkeys(s.family for s in session.scenarios if s.point)
        names += [(name, next(s.question for s in session.scenarios if s.family == name)) for name in families]
        items = "".join(
            f'<li><a href="#{_slug(name)}">{escape(question)}</a>{_in_short(session, name)}</li>'
            for name, question in names
        )
        yield f"<nav><ol>{items}</ol></nav>"


def _in_short(session: Session, name: str) -> str:
    """The first sentence about a scenario."""
    backends = session.backends(name)
    if not backends:
        return ""
    sentence = conclusion(session, session.scenario(name), backends[0])[0]
    return f'<br><span class="faint">{_emphasised(sentence)}</span>'


def _foot(session: Session) -> Iterable[str]:
    yield '<section id="about"><h2>How to read this</h2><h3>Arms</h3><dl>'
    used = {record.run.arm for record in session.records}
    for arm in session.arms:
        if arm.name in used:
            yield f"<dt>{escape(arm.name)}</dt><dd>{escape(arm.about)}</dd>"
    yield "</dl><h3>Figures</h3><dl>"
    for column in wording.COLUMNS:
        yield f"<dt>{escape(column.title)}</dt><dd>{escape(column.about)}</dd>"
    yield "</dl><h3>Made with</h3><dl>"
    for name, text in {**session.facts, **versions(session)}.items():
        yield f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>"
    yield "</dl></section>"


def versions(session: Session) -> dict[str, str]:
    """What the runs say of the programs that took part."""
    return {name: text for record in session.records for name, text in record.run.versions.items()}


class _Parts:
    """Makes the sections; numbers the plots, so that their identifiers are unique in the page."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._plots = 0

    def section(self, scenario: Scenario) -> str:
        """One scenario on all its backends; empty without runs."""
        backends = self._session.backends(scenario.name)
        if not backends:
            return ""
        lines = [*_title(scenario.name, scenario.question)]
        for backend in backends:
            if len(backends) > 1:
                lines.append(f"<h3>On {tables.place(backend)}</h3>")
            lines += self._backend(scenario, backend)
        lines += _agreement(self._session, scenario.name)
        lines += _conditions(scenario, backends)
        return "\n".join([*lines, "</section>"])

    def family(self, name: str) -> str:
        """All scenarios of a sweep: a heat map or curves, and each one's table."""
        members = [s for s in self._session.scenarios if s.family == name and self._session.backends(s.name)]
        if not members:
            return ""
        lines = [*_title(name, members[0].question)]
        quantities = [quantity for quantity, _ in members[0].point]
        for backend in sorted({b for s in members for b in self._session.backends(s.name)}):
            arms = families.points(self._session, name, backend)
            sentences = _emphasised(" ".join(families.conclusion(quantities, arms, PUBLISHED.get(name))))
            if not sentences:
                continue
            lines.append(f'<div class="conclusion"><p>{sentences}</p></div>')
            if len(quantities) == 2:
                left = max(s.seconds - s.overload[1] for s in members)
                made = sweeps.heat_map(quantities, arms, left)
                text = "Seconds from the end of the trigger until goodput has recovered, for each arm."
            else:
                made = sweeps.curves(quantities[0], arms, PUBLISHED.get(name))
                text = f"What is left, and what it costs, over: {families.axis_name(quantities[0])}."
            lines.append(self._figure(made, f"{text} {tables.place(backend).capitalize()}."))
        lines += _source(name)
        lines.append("<details><summary>All figures</summary>")
        for scenario in members:
            point = ", ".join(families.phrase(quantity, value) for quantity, value in scenario.point)
            lines += [
                _table(self._session.groups(scenario.name, backend), tables.SHORT, f"{point}, {tables.place(backend)}")
                for backend in self._session.backends(scenario.name)
            ]
        lines += ["</details>", *_conditions(members[0], self._session.backends(members[0].name))]
        return "\n".join([*lines, "</section>"])

    def _backend(self, scenario: Scenario, backend: str) -> Iterable[str]:
        groups = self._session.groups(scenario.name, backend)
        invalid = any(group.left_out for group in groups)
        sentences = _emphasised(" ".join(conclusion(self._session, scenario, backend)))
        yield f'<div class="conclusion{" warning" if invalid else ""}"><p>{sentences}</p></div>'
        lost = "".join(f"<li>{_emphasised(text)}</li>" for text in losses(self._session, scenario, backend))
        if lost:
            yield f"<h3>Where motorlite's default loses</h3><ul>{lost}</ul>"
        yield _table(groups, tables.SHORT, f"Means over the seeds and 95 % intervals, {tables.place(backend)}.")
        yield from _left_out(self._session, scenario.name, backend)
        yield f"<details><summary>More figures</summary>{_table(groups, tables.MORE, 'The same.')}</details>"
        valid = [group for group in groups if group.records]
        if not valid:
            return
        yield self._figure(
            overtime.rates(valid),
            "Per second, means over the seeds. Attempts above what is offered are retries; all arms have one scale.",
        )
        yield self._figure(
            distributions.latency(valid),
            "All requests: a curve ends at the share that succeeded at all; what is missing to 100 % failed.",
        )
        yield self._figure(
            distributions.cost(valid), "What goodput costs while the servers are overloaded: good is up and left."
        )
        yield self._figure(overtime.tokens(valid), "Tokens left for retries, means of all clients.")

    def _figure(self, made: Any | None, caption: str) -> str:
        if made is None:
            return ""
        self._plots += 1
        svg = canvas.inline(canvas.render(made), f"p{self._plots}", caption)
        return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def _title(name: str, question: str) -> Iterable[str]:
    yield f'<section id="{_slug(name)}"><p class="kicker">{escape(name)}</p><h2>{escape(question)}</h2>'


def _source(family: str) -> Iterable[str]:
    """Where the published curves beside ours come from."""
    found = PUBLISHED.get(family)
    if found is not None:
        link = f'<a href="{escape(found.source)}">{escape(found.title)}</a>'
        yield f'<p class="faint">Below: {link}. {escape(found.note)}</p>'


def _slug(name: str) -> str:
    return "s-" + "".join(letter if letter.isalnum() else "-" for letter in name)


def _conditions(scenario: Scenario, backends: list[str]) -> Iterable[str]:
    yield "<details><summary>Conditions</summary><dl>"
    where = wording.listed([tables.place(backend) for backend in backends])
    for name, text in [*describe(scenario), ("where", where)]:
        yield f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>"
    yield "</dl></details>"


def _agreement(session: Session, scenario: str) -> Iterable[str]:
    """How far the simulation is from the sockets, where a session has both."""
    found = list(agreement.rows(session.groups(scenario, "sockets"), session.groups(scenario, "twin")))
    if not found:
        return
    apart = sum(not row.agrees for row in found)
    verdict = "All figures agree" if not apart else f"{apart} of {len(found)} figures do not agree"
    yield f"<h3>Simulation and sockets</h3><p>{verdict} within the allowed differences.</p>"
    heads = "".join(f'<th scope="col">{head}</th>' for head in agreement.HEAD)
    yield f'<div class="table"><table><thead><tr>{heads}</tr></thead><tbody>'
    for row in found:
        arm, *cells = row.cells
        yield f'<tr><th scope="row">{escape(arm)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>'
    yield "</tbody></table></div>"


def _left_out(session: Session, scenario: str, backend: str) -> Iterable[str]:
    """Each run that is not valid, with all reasons."""
    runs = [record.run for record in session.records if record.run.invalid]
    runs = [run for run in runs if (run.scenario, run.backend) == (scenario, backend)]
    if runs:
        yield "<details><summary>Runs that were left out</summary><ul>"
        for run in runs:
            yield f"<li>{escape(run.arm)}, seed {run.seed}: {escape('; '.join(run.invalid))}</li>"
        yield "</ul></details>"


def _emphasised(text: str) -> str:
    """With arms, which are in backticks, set off."""
    return re.sub("`([^`]+)`", r"<strong>\1</strong>", escape(text))


def _table(groups: list[Group], wanted: Sequence[Column], caption: str) -> str:
    columns = [c for c in wanted if any(group.estimates[c.figure].n for group in groups)]
    heads = "".join(f'<th scope="col" title="{escape(c.about)}">{escape(c.title)}</th>' for c in columns)
    lines = [
        f'<div class="table"><table><caption>{escape(caption)}</caption>',
        f'<thead><tr><th scope="col">arm</th>{heads}</tr></thead><tbody>',
    ]
    for group in groups:
        row = "".join(_cell(*tables.cell(column, group)) for column in columns)
        if not group.records:
            row = f'<td colspan="{len(columns)}">not valid: {escape(group.invalid[0])}</td>'
        mark = ' class="default"' if group.arm == DEFAULT else ""
        lines.append(f'<tr{mark}><th scope="row">{escape(group.arm)}</th>{row}</tr>')
    return "\n".join([*lines, "</tbody></table></div>"])


def _cell(text: str, spread: str) -> str:
    look = ' class="bad"' if text in ("failed", "never", wording.FOREVER) else ""
    return f"<td{look}>{escape(text)}{f'<small>{escape(spread)}</small>' if spread else ''}</td>"
