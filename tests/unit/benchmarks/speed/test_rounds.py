from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.arms import ARMS, Arm
from benchmarks.processes import ChildFailedError
from benchmarks.speed import rounds

if TYPE_CHECKING:
    from pathlib import Path


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
            raise ChildFailedError("broken")
        if self.arm == "bare" and request["operation"] != "find_one":
            return {}
        return {"operations": 10, "seconds": 1.0, "cpu_seconds": 0.1, "p50": 0.1, "p99": 0.2}

    def close(self) -> None:
        Worker.log.append((self.arm, {}))


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    monkeypatch.setattr(rounds, "Worker", Worker)
    Worker.log, Worker.roots = [], []
    return Worker.log


def test_every_arm_is_warmed_up_with_10000_operations_before_any_is_measured(log: list[Any]) -> None:
    rounds.Run(["a", "b"], "uri").warm_up(500)
    assert log == [(arm, {"operation": "find_one", "tasks": 500, "operations": 10_000}) for arm in ("a", "b")]


def test_rounds_are_interleaved_and_another_arm_goes_first_each_time(log: list[Any]) -> None:
    run = rounds.Run(["a", "b", "c"], "uri")
    run.measure([("find_one", 1), ("find_one", 50)], rounds=2, seconds=0.5)
    assert "".join(arm for arm, _ in log) == "abcabcbcabca"
    assert [request["tasks"] for _, request in log] == [1, 1, 1, 50, 50, 50] * 2
    assert [(one.arm, one.number) for one in run.rounds[:3]] == [("a", 1), ("b", 1), ("c", 1)]


def test_what_a_write_leaves_is_removed_before_all_arms_together(log: list[Any]) -> None:
    run = rounds.Run(["a", "b"], "uri", clean=lambda: log.append(("clean", {})))
    run.measure([("find_one", 1), ("insert_one", 1)], rounds=1, seconds=0.5)
    assert [arm for arm, _ in log] == ["a", "b", "clean", "a", "b"]


def test_an_arm_without_an_operation_has_no_round_of_it(log: list[Any]) -> None:
    run = rounds.Run(["bare", "a"], "uri")
    run.measure([("find_one", 1), ("insert_one", 1)], rounds=1, seconds=0.5)
    assert [(one.operation, one.arm) for one in run.rounds] == [
        ("find_one", "bare"),
        ("find_one", "a"),
        ("insert_one", "a"),
    ]
    assert run.failures == {}


def test_an_arm_that_fails_is_closed_and_left_out_altogether(
    log: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    run = rounds.Run(["good", "bad"], "uri")
    run.measure([("find_one", 50)], rounds=4, seconds=0.5)
    assert {one.arm for one in run.rounds} == {"good"}
    assert len(run.rounds) == 4
    assert run.failures == {"bad": "broken"}
    assert log.count(("bad", {})) == 1
    assert "bad failed and is left out: broken" in capsys.readouterr().err


def test_an_earlier_checkout_is_one_more_arm(log: list[Any], tmp_path: Path) -> None:
    rounds.Run(["bare"], "uri", tmp_path).measure([("find_one", 50)], rounds=1, seconds=0.5)
    assert [arm for arm, _ in log] == ["bare", "motorlite"]
    assert Worker.roots == [None, tmp_path]


def test_what_an_arm_lacks_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(ARMS, "gone", Arm("gone", ("no_such_module",), ARMS["bare"].open))
    assert rounds.missing(["bare", "gone"]) == {"gone": "no_such_module cannot be imported"}
    assert "gone is not measured: no_such_module cannot be imported" in capsys.readouterr().err
