"""The command, on scenarios that are simulated in a moment."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import pytest

from benchmarks.storm import command
from benchmarks.storm.report.session import load

if TYPE_CHECKING:
    from pathlib import Path

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
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    arguments = [str(scenario), "--processes", "1", "--out", str(path / "out"), *options]
    return command.run(parser.parse_args(arguments))


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


def test_an_earlier_session_for_comparison(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "--quick", "--seeds", "1") == 0
    old = tmp_path / "old.json.gz"
    (tmp_path / "out" / "storm.json.gz").rename(old)
    capsys.readouterr()
    assert run(tmp_path, "--quick", "--seeds", "1", "--compare", str(old)) == 0
    assert "no-retry" in capsys.readouterr().out
    assert run(tmp_path, "--quick", "--seeds", "1", "--compare", str(tmp_path / "none.json")) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--policy", "default:x=1"], "a policy has no 'x'"),
        (["--arms", "sead"], "there is no policy 'sead'"),
        (["--capacity", "0"], "capacity must be positive"),
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
