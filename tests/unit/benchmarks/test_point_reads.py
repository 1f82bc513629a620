from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks import point_reads
from benchmarks.arms import ARMS, Arm
from benchmarks.workers import ROOT, ArmFailedError

if TYPE_CHECKING:
    from pathlib import Path


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    point_reads.add_arguments(parser)
    return parser.parse_args(words)


class Worker:
    """Notes the requests of all arms; one arm fails in its third round."""

    log: list[tuple[str, dict[str, Any]]]
    roots: list[Path | None]

    def __init__(self, arm: str, _uri: str, root: Path | None = None) -> None:
        self.arm = arm
        Worker.roots.append(root)

    def run(self, *, limit: float, **request: Any) -> dict[str, Any]:
        assert limit > request.get("seconds", 0)
        Worker.log.append((self.arm, request))
        if self.arm == "bad" and sum(arm == "bad" for arm, _ in Worker.log) == 3:
            raise ArmFailedError("broken")
        return {"operations": 10, "seconds": 1.0, "cpu_seconds": 0.1, "p50": 0.1, "p99": 0.2}

    def close(self) -> None:
        Worker.log.append((self.arm, {}))


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    monkeypatch.setattr(point_reads, "Worker", Worker)
    Worker.log, Worker.roots = [], []
    return Worker.log


def test_the_defaults_are_those_of_a_verdict() -> None:
    found = arguments()
    assert (found.tasks, found.rounds) == ([1, 8, 50, 500], 5)
    assert found.arms == ["bare", "motorlite", "pymongo", "motor", "mongojet"]


@pytest.mark.parametrize("words", [("--tasks", "0"), ("--rounds", "-1"), ("--arms", "bare,nobody")])
def test_wrong_arguments_are_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(argparse.ArgumentError):
        arguments(*words)


def test_every_arm_is_warmed_up_with_10000_operations_before_any_is_measured(log: list[Any]) -> None:
    point_reads.Run(["a", "b"], "uri").warm_up(500)
    assert log == [(arm, {"tasks": 500, "operations": 10_000}) for arm in ("a", "b")]


def test_rounds_are_interleaved_and_another_arm_goes_first_each_time(log: list[Any]) -> None:
    run = point_reads.Run(["a", "b", "c"], "uri")
    run.measure([1, 50], rounds=2, seconds=0.5)
    assert "".join(arm for arm, _ in log) == "abcabcbcabca"
    assert [request["tasks"] for _, request in log] == [1, 1, 1, 50, 50, 50] * 2
    assert [(one.arm, one.number) for one in run.rounds[:3]] == [("a", 1), ("b", 1), ("c", 1)]


def test_an_arm_that_fails_is_closed_and_left_out_altogether(
    log: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    run = point_reads.Run(["good", "bad"], "uri")
    run.measure([50], rounds=4, seconds=0.5)
    assert {one.arm for one in run.rounds} == {"good"}
    assert len(run.rounds) == 4
    assert run.failures == {"bad": "broken"}
    assert log.count(("bad", {})) == 1
    assert "bad failed and is left out: broken" in capsys.readouterr().err


def test_with_nothing_to_measure_no_server_is_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lacking = Arm("gone", ("no_such_module",), ARMS["bare"].open)
    monkeypatch.setitem(ARMS, "gone", lacking)
    assert point_reads.run(argparse.Namespace(arms=["gone"], uri=None)) == 1
    assert "gone is not measured: no_such_module cannot be imported" in capsys.readouterr().err


def test_an_earlier_checkout_is_one_more_arm(log: list[Any], tmp_path: Path) -> None:
    point_reads.Run(["bare"], "uri", tmp_path).measure([50], rounds=1, seconds=0.5)
    assert [arm for arm, _ in log] == ["bare", "motorlite"]
    assert Worker.roots == [None, tmp_path]


def test_what_is_no_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(argparse.ArgumentError, match="not a checkout"):
        arguments("--before", str(tmp_path))
    assert arguments("--before", str(ROOT)).before == ROOT
