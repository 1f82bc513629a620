"""The command, on scenarios that are simulated in a moment."""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.storm import command
from benchmarks.storm.session import load, save
from tests.unit.benchmarks.storm_runs import SUSTAINED, Shape, make_session

MINE = """
from benchmarks.storm.scenario import Change, Load, Scenario
SCENARIO = Scenario(
    name="mine",
    question="Mine?",
    load=Load(rate=100, clients=2, patience=0.5, warm=5),
    seconds=4.0,
    changes=(Change(1.0, 2.0, load=8.0),),
    arms=("no-retry", "default"),
    quick_seconds=2.0,
)
"""


def run(path: Path, *options: str) -> int:
    scenario = path / "mine.py"
    scenario.write_text(MINE)
    return read(scenario, "--processes", 1, "--out", path / "out", *options)


def test_a_session_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "--seeds", "2") == 0
    session = load(tmp_path / "out" / "storm.json.gz")
    assert [(record.run.arm, record.run.seed) for record in session.records] == [
        ("no-retry", 1),
        ("default", 1),
        ("no-retry", 2),
        ("default", 2),
    ]
    assert session.scenarios[0].seconds == 4.0
    assert "mine, simulated: Mine?" in capsys.readouterr().out


def test_the_shape_of_another_deployment(tmp_path: Path) -> None:
    code = run(
        tmp_path, "--quick", "--capacity", "50", "--clients", "3", "--policy", "default:tokens=5", "--seeds", "1"
    )
    assert code == 0
    session = load(tmp_path / "out" / "storm.json.gz")
    (scenario,) = session.scenarios
    assert (scenario.seconds, scenario.load.rate, scenario.load.clients) == (2.0, 10.0, 3)
    assert [arm.name for arm in session.arms] == ["default:tokens=5"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--policy", "default:x=1"], "a policy has no 'x'"),
        (["--arms", "sead"], "there is no policy 'sead'"),
        (["--capacity", "0"], "capacity must be positive"),
        (["--compare", "none.json"], "No such file"),
    ],
)
def test_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str) -> None:
    assert run(tmp_path, *options) == 2
    assert message in capsys.readouterr().err


def test_the_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "--list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("burst: ") for line in lines)
    assert "    failure-rates-0.5" in lines


# --- files of finished sessions ---


def read(*words: object) -> int:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args([*map(str, words)]))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save(make_session({"default": Shape(tokens=True), "pymongo": Shape(0.8, 2.0)}, seeds=2), tmp_path / "s.json.gz")
    return tmp_path / "s.json.gz"


def test_markdown(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert read("--markdown", path) == 0
    assert capsys.readouterr().out.startswith("### sustained, simulated\n")


def test_tables_and_what_changed(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(make_session({"default": Shape(0.6, 3.0)}, seeds=2), tmp_path / "old.json")
    assert read("--read", path, "--compare", tmp_path / "old.json") == 0
    text = capsys.readouterr().out
    assert "better and worse than the arm default" in text
    assert "Only what is beyond the noise counts" in text
    assert "Only now: pymongo" in text


def test_a_page(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    assert read("--page", path) == 0
    assert capsys.readouterr().out.strip() == str(path.parent / "s.html")
    assert "<svg" in (path.parent / "s.html").read_text(encoding="utf-8")


def test_plots(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(command, "DOCS", tmp_path / "docs")
    assert read("--plots", path) == 0
    first = (tmp_path / "docs" / "storm-sustained.svg").read_text(encoding="utf-8")
    assert capsys.readouterr().out.strip() == str(tmp_path / "docs" / "storm-sustained.svg")
    assert "var(" not in first
    assert len(first) < 60_000
    assert read("--plots", path) == 0
    assert (tmp_path / "docs" / "storm-sustained.svg").read_text(encoding="utf-8") == first


@pytest.mark.parametrize("words", [("--page",), ("--markdown",), ("--read",), ("--plots",)])
def test_a_file_that_is_no_session(words: tuple[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert read(*words, tmp_path / "none.json") == 2
    (tmp_path / "s.json").write_text("{}", encoding="utf-8")
    assert read(*words, tmp_path / "s.json") == 2
    assert "is not a session" in capsys.readouterr().err


def test_the_plot_of_the_start_page_names_its_lines_where_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one size for a screen and one for a phone; without both policies there is nothing to compare."""
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(command, "DOCS", tmp_path / "docs")
    lasting = replace(SUSTAINED, name="lasting")
    save(make_session({"default": Shape()}, lasting, seeds=2), tmp_path / "one.json")
    assert read("--plots", tmp_path / "one.json") == 0
    assert capsys.readouterr().out.strip() == "The session has no such scenario."
    save(make_session({"default": Shape(), "immediate": Shape(0.8, 2.0)}, lasting, seeds=2), tmp_path / "two.json")
    assert read("--plots", tmp_path / "two.json") == 0
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
