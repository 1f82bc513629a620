"""The page of a session."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from benchmarks.storm.report.page import page, write
from tests.unit.benchmarks.storm_runs import SUSTAINED, Shape, make_run, make_runs, make_session

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.storm.session import Session

pytest.importorskip("matplotlib")
VOID = frozenset({"meta", "input", "br", "hr", "link", "img"})
LOADS = frozenset({"src", "srcset", "data", "poster", "action", "background"})


class Reader(HTMLParser):
    """Checks that all elements are closed in order, and collects what could load something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.loads: list[str] = []
        self.tags: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in LOADS or (name in ("href", "xlink:href") and tag != "a" and not (value or "").startswith("#")):
                self.loads.append(f"{tag} {name}={value}")
            if name in ("href", "xlink:href") and (value or "").startswith("#"):
                self.references.append((value or "")[1:])
            self.references += re.findall(r"url\(#([^)]+)\)", value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def session() -> Session:
    shapes = {"default": Shape(tokens=True), "no-retry": Shape(0.99, 1.0), "immediate": Shape(0.4, 5.0, recovery=None)}
    made = make_session(shapes, seeds=2)
    run = make_run("pymongo")
    run.invalid = ["<b>too slow</b> & busy"]
    made.add(run)
    maps = [
        replace(SUSTAINED, name=f"map-{load}-{time}", family="map", point=(("load", load), ("seconds", time)))
        for load in (0.8, 0.9)
        for time in (1.0, 5.0)
    ]
    sweep = [replace(SUSTAINED, name=f"n-{n}", family="n", point=(("clients", n),)) for n in (1.0, 1000.0)]
    made.scenarios += [*maps, *sweep]
    for scenario in (*maps, *sweep):
        for one in make_runs({"default": Shape(), "immediate": Shape(0.4, 5.0, recovery=None)}, scenario, seeds=1):
            made.add(one)
    return made


@pytest.fixture(scope="module")
def text(session: Session) -> str:
    return page(session)


def test_it_is_well_formed(text: str) -> None:
    reader = Reader(text)
    assert not reader.open
    assert len(set(reader.ids)) == len(reader.ids)
    assert set(reader.references) <= set(reader.ids)
    assert reader.tags.count("svg") == 6
    assert reader.tags.count("section") == 4


def test_it_needs_nothing_else(text: str) -> None:
    reader = Reader(text)
    assert not reader.loads
    assert "script" not in reader.tags
    assert "http" not in re.sub(r'<a href="https://[^"]+">', "", text)
    assert "@import" not in text
    assert len(text.encode()) < 500_000


def test_it_says_what_was_found_and_its_plots_follow_its_colours(text: str) -> None:
    assert {"var(--ink)", "var(--shade)"} <= set(re.findall(r"var\(--[a-z]+\)", text))
    assert '<tr class="default"><th scope="row">default</th>' in text
    assert re.search(r'<td class="worse">40\.\d %<small>', text)
    assert '<td class="bad worse">never</td>' in text


def test_texts_are_escaped(text: str) -> None:
    assert "not valid: &lt;b&gt;too slow&lt;/b&gt; &amp; busy" in text
    assert "<li>pymongo, seed 1: &lt;b&gt;too slow&lt;/b&gt; &amp; busy</li>" in text
    assert "<b>" not in text


def test_a_session_without_a_valid_run(tmp_path: Path) -> None:
    empty = make_session({})
    run = make_run()
    run.invalid = ["too slow"]
    empty.add(run)
    write(empty, tmp_path / "new" / "page.html")
    found = (tmp_path / "new" / "page.html").read_text(encoding="utf-8")
    assert "not valid: too slow" in found
    assert "svg" not in Reader(found).tags
    assert not Reader(page(make_session({}))).open
