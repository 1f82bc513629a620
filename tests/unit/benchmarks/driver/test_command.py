from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from benchmarks.driver import command, data
from benchmarks.driver.adapters import ARMS
from benchmarks.driver.tasks import TASKS, Scale
from benchmarks.processes import ChildFailedError


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    command.add_arguments(parser)
    return parser.parse_args(words)


class Worker:
    log: list[str]

    def __init__(self, arm: str, _uri: str, *, module: str, more: tuple[str, ...]) -> None:
        assert module == "benchmarks.driver.worker"
        assert len(more) == 3
        self.arm = arm

    def run(self, *, limit: float, task: str) -> dict[str, Any]:
        Worker.log.append(self.arm)
        if self.arm == "bad" and Worker.log.count("bad") == 2:
            raise ChildFailedError("broken")
        if self.arm == "lacking":
            return {}
        return {"seconds": 2.0, "cpu_seconds": 1.0}

    def close(self) -> None:
        Worker.log.append(f"close {self.arm}")


class Preparation:
    def set_up(self, task: str) -> None:
        Worker.log.append(f"set up {task}")

    def before(self, task: str) -> None:
        Worker.log.append("before")


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    Worker.log = []
    monkeypatch.setattr(command, "Worker", Worker)
    return Worker.log


def run(*arms: str) -> command.Run:
    return command.Run(arms, "uri", Path("folder"), Scale(), Preparation())  # type: ignore[arg-type]


def test_iterations_are_interleaved_and_each_is_prepared(log: list[str]) -> None:
    measured = run("a", "b")
    measured.measure("find_one", seconds=0, least=1)
    assert log == ["set up find_one", "before", "a", "before", "b"]
    assert [(one.arm, one.seconds) for one in measured.iterations] == [("a", 2.0), ("b", 2.0)]


def test_the_first_of_several_iterations_is_discarded(log: list[str]) -> None:
    measured = run("a", "b")
    measured.measure("find_one", seconds=7, least=2)
    assert [entry for entry in log if len(entry) == 1] == ["a", "b", "a", "b", "b", "a", "a", "b", "b", "a"]
    assert len(measured.iterations) == 8


def test_an_arm_that_cannot_do_a_task_is_asked_no_more(log: list[str]) -> None:
    measured = run("a", "lacking")
    measured.measure("small_bulk_write", seconds=5, least=1)
    assert log.count("lacking") == 1
    assert {one.arm for one in measured.iterations} == {"a"}
    assert measured.failures == {}


def test_an_arm_that_fails_is_left_out_altogether(log: list[str]) -> None:
    measured = run("bad", "good")
    measured.measure("find_one", seconds=5, least=1)
    assert {one.arm for one in measured.iterations} == {"good"}
    assert measured.failures == {"bad": "failed in find_one: broken"}
    assert "close bad" in log


def test_everything_is_measured_by_default() -> None:
    found = arguments()
    assert (found.tasks, found.arms, found.seconds) == ([*TASKS], [*ARMS], 5.0)


@pytest.mark.parametrize("words", [("--tasks", "sing"), ("--arms", "other")])
def test_unknown_names_are_rejected(words: tuple[str, ...]) -> None:
    with pytest.raises(argparse.ArgumentError, match="unknown"):
        arguments(*words)


def test_without_the_data_nothing_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(data.VARIABLE, str(tmp_path))
    assert command.run(arguments("--quick")) == 1
    assert "the data of the public benchmark is not there" in capsys.readouterr().err


class Client:
    def __init__(self, wire_version: int) -> None:
        self._wire_version = wire_version

    @property
    def admin(self) -> Client:
        return self

    def command(self, name: str) -> dict[str, int]:
        assert name == "hello"
        return {"maxWireVersion": self._wire_version}


def test_a_client_bulk_write_needs_a_new_server() -> None:
    left_out: list[str] = []
    assert command._is_possible("small_client_bulk_write", Client(25), left_out)  # type: ignore[arg-type]
    assert command._is_possible("find_one", Client(17), left_out)  # type: ignore[arg-type]
    assert left_out == []
    assert not command._is_possible("small_client_bulk_write", Client(24), left_out)  # type: ignore[arg-type]
    assert left_out == ["Small doc Client BulkWrite insert: needs MongoDB 8.0"]
