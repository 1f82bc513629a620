"""What the command does with the file of a finished session."""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.storm.report import reading
from benchmarks.storm.report.session import save
from tests.support.storm_runs import SUSTAINED, Shape, make_session


def run(*words: object) -> int | None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--compare", type=Path)
    reading.add_arguments(parser)
    return reading.run(parser.parse_args([str(word) for word in words]))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save(make_session({"default": Shape(tokens=True), "pymongo": Shape(0.8, 2.0)}, seeds=2), tmp_path / "s.json.gz")
    return tmp_path / "s.json.gz"


def test_without_a_file_there_is_nothing_to_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() is None
    assert not capsys.readouterr().out


def test_markdown(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--markdown", path) == 0
    assert capsys.readouterr().out.startswith("### sustained, simulated\n")


def test_conclusions_and_what_changed(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(make_session({"default": Shape(0.6, 3.0)}, seeds=2), tmp_path / "old.json")
    assert run("--read", path, "--compare", tmp_path / "old.json") == 0
    text = capsys.readouterr().out
    assert "While the servers are overloaded" in text
    assert "better" in text
    assert "Only now: pymongo" in text


def test_a_page(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    assert run("--page", path) == 0
    assert capsys.readouterr().out.strip() == str(path.parent / "s.html")
    assert "<svg" in (path.parent / "s.html").read_text(encoding="utf-8")


def test_plots(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(reading, "DOCS", tmp_path / "docs")
    assert run("--plots", path) == 0
    first = (tmp_path / "docs" / "storm-sustained.svg").read_text(encoding="utf-8")
    assert capsys.readouterr().out.strip() == str(tmp_path / "docs" / "storm-sustained.svg")
    assert "var(" not in first
    assert len(first) < 60_000
    assert run("--plots", path) == 0
    assert (tmp_path / "docs" / "storm-sustained.svg").read_text(encoding="utf-8") == first


def test_no_plots(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    session = make_session({})
    session.scenarios = []
    save(session, tmp_path / "s.json")
    assert run("--plots", tmp_path / "s.json") == 0
    assert capsys.readouterr().out == "The session has no such scenario.\n"


@pytest.mark.parametrize("words", [("--page",), ("--markdown",), ("--read",), ("--plots",)])
def test_a_file_that_is_no_session(words: tuple[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*words, tmp_path / "none.json") == 2
    (tmp_path / "s.json").write_text("{}", encoding="utf-8")
    assert run(*words, tmp_path / "s.json") == 2
    assert "is not a session" in capsys.readouterr().err


def test_the_plot_of_the_start_page_names_its_lines_where_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one size for a screen and one for a phone; without both policies there is nothing to compare."""
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(reading, "DOCS", tmp_path / "docs")
    lasting = replace(SUSTAINED, name="lasting")
    save(make_session({"default": Shape()}, lasting, seeds=2), tmp_path / "one.json")
    assert run("--plots", tmp_path / "one.json") == 0
    assert capsys.readouterr().out.strip() == "The session has no such scenario."
    save(make_session({"default": Shape(), "immediate": Shape(0.8, 2.0)}, lasting, seeds=2), tmp_path / "two.json")
    assert run("--plots", tmp_path / "two.json") == 0
    wide, narrow = (Path(line) for line in capsys.readouterr().out.splitlines())
    assert (wide.name, narrow.name) == ("storm-lasting.svg", "storm-lasting-narrow.svg")
    for path in (wide, narrow):
        text = path.read_text(encoding="utf-8")
        for name in ("motorlite's default", "five immediate retries, no budget", "what the server can answer"):
            assert f">{name}</text>" in text
    (size,), (smaller,) = (
        re.findall(r'^<svg.* width="([\d.]+)pt"', path.read_text("utf-8"), re.M) for path in (wide, narrow)
    )
    assert float(smaller) < 0.6 * float(size)
