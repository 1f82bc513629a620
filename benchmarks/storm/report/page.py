"""Shell: one HTML page for a session. It needs no network, no script and no other file."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.storm.report import plots
from benchmarks.storm.report.figures import DEFAULT, FIGURES, FOREVER, MORE, SHORT, cell
from benchmarks.storm.report.tables import PLACES, axis_name, conditions, title, verdicts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.storm.report.figures import Figure
    from benchmarks.storm.scenario import Scenario
    from benchmarks.storm.session import Group, Session

CSS: Final = Path(__file__).with_name("page.css")
EXPLAINED: Final = """
<p>An <em>arm</em> is a driver with a policy for retries. Every arm gets the same requests at the same moments, for
each of the seeds. In an open loop, requests are due whether or not earlier ones have ended, and latency counts from
the moment when a request was due, so that nothing waits unseen. A request that failed counts in every percentile as
one that took longer than any success. Requests that the application itself cancelled are in no percentile. A rejection
is an attempt, and never goodput. Intervals are 95 % (Student) over the seeds; <q>never in 2 of 5</q> says how many
seeds never had the value. A figure that is better or worse than the default's, seed by seed and by more than the noise,
is marked &#9650; or &#9660;.</p>
"""
THEMES: Final = "".join(
    f'<label><input type="radio" name="theme" id="{name}"{checked}> {text}</label>'
    for name, checked, text in (("auto", " checked", "as the system"), ("light", "", "light"), ("dark", "", "dark"))
)


def write(session: Session, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(session), encoding="utf-8")


def page(session: Session) -> str:
    parts = _Parts(session)
    sections = {(s.family or s.name): s for s in sorted(session.scenarios, key=lambda s: bool(s.point))}
    shown = {name: parts.family(name) if s.point else parts.section(s) for name, s in sections.items()}
    items = [
        f'<li><a href="#{_slug(name)}">{escape(sections[name].question)}</a></li>' for name in shown if shown[name]
    ]
    runs, seeds = len(session.records), len({record.run.seed for record in session.records})
    lines = (
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>Retry storms</title><style>{CSS.read_text(encoding='utf-8')}</style></head><body>",
        f'<fieldset class="theme">{THEMES}</fieldset>',
        "<h1>Retry storms</h1>",
        f'<p class="faint">What drivers and their retry policies do to a server that has too much to do: {runs} runs, '
        f"{seeds} {'seed' if seeds == 1 else 'seeds'}. {escape('; '.join(session.facts.values()))}.</p>",
        EXPLAINED,
        f"<nav><ol>{''.join(items)}</ol></nav>" if len(items) > 1 else "",
        *shown.values(),
        *_foot(session),
        "</body></html>\n",
    )
    return "\n".join(line for line in lines if line)


def _foot(session: Session) -> Iterable[str]:
    used = {record.run.arm for record in session.records}
    versions = {name: text for record in session.records for name, text in record.run.versions.items()}
    yield '<section id="about"><h2>How to read this</h2><h3>Arms</h3>'
    yield _pairs((arm.name, arm.about) for arm in session.arms if arm.name in used)
    yield f"<h3>Figures</h3>{_pairs((figure.title, figure.about) for figure in FIGURES.values())}"
    yield f"<h3>Made with</h3>{_pairs({**session.facts, **versions}.items())}</section>"


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    return f"<dl>{''.join(f'<dt>{escape(name)}</dt><dd>{escape(text)}</dd>' for name, text in pairs)}</dl>"


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
                lines.append(f"<h3>On {PLACES[backend]}</h3>")
            lines += self._backend(scenario, backend)
        return "\n".join([*lines, _conditions(scenario), "</section>"])

    def family(self, name: str) -> str:
        """All scenarios of a sweep: a heat map or curves, and each one's table."""
        members = [s for s in self._session.scenarios if s.family == name and self._session.backends(s.name)]
        if not members:
            return ""
        lines = [*_title(name, members[0].question)]
        quantities = [quantity for quantity, _ in members[0].point]
        for backend in sorted({b for s in members for b in self._session.backends(s.name)}):
            arms = self._session.sweep(name, backend)
            if not arms:
                continue
            if len(quantities) == 2:
                made = plots.heat_map(quantities, arms, max(s.seconds - s.overload[1] for s in members))
                text = "Seconds from the end of the trigger until goodput has recovered, for each arm."
            else:
                made = plots.curves(quantities[0], arms)
                text = f"What is left, and what it costs, over: {axis_name(quantities[0])}."
            lines.append(self._figure(made, f"{text} {PLACES[backend].capitalize()}."))
        tables = [
            _table(self._session.groups(scenario.name, backend), SHORT, f"{title(scenario, backend)}.")
            for scenario in members
            for backend in self._session.backends(scenario.name)
        ]
        return "\n".join([*lines, _details("All figures", "\n".join(tables)), _conditions(members[0]), "</section>"])

    def _backend(self, scenario: Scenario, backend: str) -> Iterable[str]:
        groups = self._session.groups(scenario.name, backend)
        yield _table(groups, SHORT, f"Means over the seeds and 95 % intervals, {PLACES[backend]}.")
        runs = [record.run for record in self._session.records if record.run.invalid]
        runs = [run for run in runs if (run.scenario, run.backend) == (scenario.name, backend)]
        if runs:
            items = (f"{escape(run.arm)}, seed {run.seed}: {escape('; '.join(run.invalid))}" for run in runs)
            yield _details("Runs that were left out", f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>")
        yield _details("More figures", _table(groups, MORE, "The same."))
        valid = [group for group in groups if group.records]
        for make, caption in plots.OF_ONE_SCENARIO if valid else ():
            yield self._figure(make(valid), caption)

    def _figure(self, made: Any | None, caption: str) -> str:
        if made is None:
            return ""
        self._plots += 1
        svg = plots.inline(plots.render(made), f"p{self._plots}", caption)
        return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def _title(name: str, question: str) -> Iterable[str]:
    yield f'<section id="{_slug(name)}"><p class="kicker">{escape(name)}</p><h2>{escape(question)}</h2>'


def _slug(name: str) -> str:
    return "s-" + "".join(letter if letter.isalnum() else "-" for letter in name)


def _details(summary: str, content: str) -> str:
    return f"<details><summary>{summary}</summary>{content}</details>"


def _conditions(scenario: Scenario) -> str:
    return _details("Conditions", _pairs(conditions(scenario)))


def _table(groups: list[Group], wanted: Sequence[Figure], caption: str) -> str:
    figures = [figure for figure in wanted if any(group.estimates[figure.field].n for group in groups)]
    heads = "".join(f'<th scope="col" title="{escape(one.about)}">{escape(one.title)}</th>' for one in figures)
    compared = {figure.field: verdicts(groups, figure) for figure in figures}
    body = []
    for group in groups:
        row = "".join(_cell(figure, group, compared[figure.field].get(group.arm, "")) for figure in figures)
        if not group.records:
            row = f'<td colspan="{len(figures)}">not valid: {escape(group.invalid[0])}</td>'
        mark = ' class="default"' if group.arm == DEFAULT else ""
        body.append(f'<tr{mark}><th scope="row">{escape(group.arm)}</th>{row}</tr>')
    head = f'<caption>{escape(caption)}</caption><thead><tr><th scope="col">arm</th>{heads}</tr></thead>'
    return f'<div class="table"><table>{head}<tbody>{"".join(body)}</tbody></table></div>'


def _cell(figure: Figure, group: Group, verdict: str) -> str:
    text, spread = cell(figure, group)
    looks = [*(["bad"] if text in ("failed", "never", FOREVER) else []), *({verdict} & {"better", "worse"})]
    look = f' class="{" ".join(looks)}"' if looks else ""
    return f"<td{look}>{escape(text)}{f'<small>{escape(spread)}</small>' if spread else ''}</td>"
