"""docs/storms.md: its example runs, and it leaves no scenario, arm or figure out."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Final

from benchmarks.storm.arms import ARMS
from benchmarks.storm.report.figures import FIGURES
from benchmarks.storm.report.tables import text
from benchmarks.storm.results import SERIES
from benchmarks.storm.scenario import Server, shortened
from benchmarks.storm.scenarios import everything, load
from benchmarks.storm.session import Session
from benchmarks.storm.twin import simulate

TEXT: Final = (Path(__file__).parents[4] / "docs" / "storms.md").read_text(encoding="utf-8")
EXAMPLE: Final = re.compile(r"<!-- scenario -->\n```python\n(.*?)```", re.DOTALL)


def test_the_example_is_short_and_runs(tmp_path: Path) -> None:
    (source,) = EXAMPLE.findall(TEXT)
    assert len(source.splitlines()) < 40
    (tmp_path / "nightly_report.py").write_text(source, encoding="utf-8")
    (scenario,) = load(tmp_path / "nightly_report.py")
    short = shortened(replace(scenario, load=replace(scenario.load, warm=5)), 3.0)
    session = Session([short], list(ARMS.values()))
    for arm in scenario.arms:
        summary = session.add(simulate(short, ARMS[arm], 1))
        assert summary.requests > 900
        assert summary.share > 0.2
    assert scenario.question in text(session)


def rows(head: str) -> dict[str, str]:
    """The first two cells of a table, by its head."""
    table = TEXT.split(f"| {head} |")[1].split("\n\n")[0]
    return dict(re.findall(r"^\| `?([^`|]+?)`? \| (.*) \|$", table, re.MULTILINE))


def test_scenarios_and_arms_are_listed() -> None:
    assert rows("scenario | question") == {name: found[0].question for name, found in everything().items()}
    assert rows("arm | policy") == {arm.name: arm.about for arm in ARMS.values()}


def test_figures_and_series_are_explained() -> None:
    figures = ", ".join(rows("figure | meaning"))
    for figure in FIGURES.values():
        assert figure.title.removesuffix("/s") in figures
    series = TEXT.split("value per 100 ms (")[1].split(")")[0]
    for name in SERIES:
        assert name.replace("_", " ").replace("server queue", "queues").replace("client queue", "client") in series


def test_the_fields_of_servers_are_real() -> None:
    known = {field.name for field in fields(Server)}
    section = TEXT.split("### Servers")[1].split("\n## ")[0]
    named = set(re.findall(r"`([a-z]+_[a-z_]+)`", section))
    assert named
    assert named <= known
