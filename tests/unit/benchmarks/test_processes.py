"""Child processes, and the arms that run in them."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks import processes
from benchmarks.driver import command as driver
from benchmarks.driver.tasks import Scale
from benchmarks.processes import Arms, Child, ChildFailedError, ask
from benchmarks.speed import rounds

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules to run."""
    (tmp_path / "good.py").write_text("import json, sys; print(json.dumps(sys.argv[1:]))")
    (tmp_path / "bad.py").write_text("raise ValueError('no')")
    (tmp_path / "sorry.py").write_text("""print('{"error": "no such driver"}')""")
    (tmp_path / "slow.py").write_text("import threading; threading.Event().wait()")
    monkeypatch.setattr(processes, "ROOT", tmp_path)


@pytest.mark.usefixtures("modules")
def test_the_value_is_what_the_module_prints() -> None:
    assert ask("good", "1", "b") == ["1", "b"]


@pytest.mark.usefixtures("modules")
@pytest.mark.parametrize(
    ("module", "says"),
    [("bad", "bad has ended"), ("sorry", "sorry: no such driver"), ("slow", "slow did not answer within 0 s")],
)
def test_a_module_that_fails_or_does_not_end(module: str, says: str) -> None:
    with pytest.raises(ChildFailedError, match=says):
        ask(module, limit=30 if module != "slow" else 0.4)


@pytest.mark.usefixtures("modules")
def test_a_process_that_has_ended_may_have_said_why() -> None:
    with Child("x", "sorry") as child:
        child._process.wait()
        with pytest.raises(ChildFailedError, match="x: no such driver"):
            child.send({"operation": "find_one"})
    with Child("x", "bad") as child:
        child._process.wait()
        with pytest.raises(ChildFailedError, match="x has ended"):
            child.send({"operation": "find_one"})


# --- arms ---


class FakeChild:
    """Notes the requests of all arms; "bad" fails at its third one, and "lacking" has no operation."""

    log: list[tuple[str, dict[str, Any]]]
    made: dict[str, tuple[str, ...]]

    def __init__(self, name: str, *arguments: str) -> None:
        self.name = name
        FakeChild.made[name] = arguments

    def send(self, request: dict[str, Any]) -> None:
        FakeChild.log.append((self.name, request))

    def receive(self, limit: float) -> dict[str, Any]:
        assert limit > FakeChild.log[-1][1].get("seconds", 0)
        if self.name == "bad" and sum(arm == "bad" for arm, _ in FakeChild.log) == 3:
            raise ChildFailedError("broken")
        if self.name == "lacking" and FakeChild.log[-1][1].get("operation") != "find_one":
            return {}
        if "task" in FakeChild.log[-1][1]:
            return {"seconds": 2.0, "cpu_seconds": 1.0}
        return {"operations": 10, "seconds": 1.0, "cpu_seconds": 0.1, "p50": 0.1, "p99": 0.2}

    def kill(self) -> None:
        FakeChild.log.append((f"kill {self.name}", {}))

    close = kill


# A server that keeps to itself how much it works.
LOADED = rounds.Loaded("7.0", lambda: None, lambda: None)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    monkeypatch.setattr(processes, "Child", FakeChild)
    FakeChild.log, FakeChild.made = [], {}
    return FakeChild.log


def test_an_arm_that_fails_is_ended_and_left_out_altogether(log: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    with Arms({"good": (), "bad": ()}) as arms:
        for _ in range(4):
            found = [SimpleNamespace(arm=arm) for arm in ("good", "bad") if arms.ask(arm, 1.0, task="x")]
            arms.results += found
    assert [one.arm for one in arms.results] == ["good"] * 4
    assert arms.failures == {"bad": "broken"}
    assert [arm for arm, _ in log].count("kill bad") == 1
    assert log[-1] == ("kill good", {})
    assert "broken; bad is left out" in capsys.readouterr().err


def test_several_processes_of_an_arm_work_at_the_same_time(log: list[Any]) -> None:
    with rounds.Run(["a", "b"], "uri", LOADED, copies=3) as run:
        run.once("find_one", 50, 0, {"seconds": 0.5}, title="two processes", copies=2)
    assert [arm for arm, _ in log] == ["a", "a", "b", "b", *["kill a"] * 3, *["kill b"] * 3]
    assert [(one.operation, one.arm, one.operations) for one in run.results] == [
        ("two processes", "a", 20),
        ("two processes", "b", 20),
    ]


def test_every_arm_is_warmed_up_with_10000_operations_before_any_is_measured(log: list[Any]) -> None:
    rounds.Run(["a", "b"], "uri", LOADED).warm_up(500)
    assert log == [(arm, {"operation": "find_one", "tasks": 500, "operations": 10_000}) for arm in ("a", "b")]


@pytest.mark.parametrize("count", range(1, 8))
def test_each_arm_comes_as_often_in_each_place_and_after_each_other_arm(log: list[Any], count: int) -> None:
    arms = Arms(dict.fromkeys("abcdefg"[:count], ()))
    rounds = [arms.turns(number) for number in range(2 * count)]
    assert all(sorted(order) == list("abcdefg"[:count]) for order in rounds)
    places = Counter(place for order in rounds for place in enumerate(order))
    followers = Counter(pair for order in rounds for pair in pairwise(order))
    assert set(places.values()) == {2}
    assert len(places) == count**2
    assert set(followers.values()) <= {2}
    assert len(followers) == count * (count - 1)


def test_rounds_are_interleaved_and_another_arm_goes_first_each_time(log: list[Any], tmp_path: Path) -> None:
    run = rounds.Run(["a", "b"], "uri", LOADED._replace(clean=lambda: log.append(("clean", {}))), tmp_path)
    run.measure([("find_one", 1), ("find_one", 50), ("insert_one", 1)], rounds=2, seconds=0.5)
    before = "before"
    first, second = ["a", "b", before], ["b", before, "a"]
    assert [arm for arm, _ in log] == [*first, *first, "clean", *first, *second, *second, "clean", *second]
    assert [request.get("tasks", 0) for _, request in log[:7]] == [1, 1, 1, 50, 50, 50, 0]
    assert [(one.arm, one.number) for one in run.results[:3]] == [("a", 1), ("b", 1), (before, 1)]
    assert FakeChild.made[before] == ("benchmarks.speed.worker", "motorlite", "uri", str(tmp_path))


def test_an_arm_without_an_operation_has_no_round_of_it(log: list[Any]) -> None:
    run = rounds.Run(["lacking", "a"], "uri", LOADED)
    run.measure([("find_one", 1), ("insert_one", 1)], rounds=1, seconds=0.5)
    assert [(one.operation, one.arm) for one in run.results] == [
        ("find_one", "lacking"),
        ("find_one", "a"),
        ("insert_one", "a"),
    ]
    assert run.failures == {}


def test_a_round_has_the_cpu_that_the_server_used_meanwhile(log: list[Any]) -> None:
    used = iter([1.0, 1.5, 2.0, 4.0])
    run = rounds.Run(["a", "b"], "uri", LOADED._replace(cpu=lambda: next(used)))
    run.once("find_one", 50, 0, {"seconds": 0.5})
    assert [one.server_cpu for one in run.results] == [0.05, 0.2]


class Preparation:
    def set_up(self, task: str) -> None:
        FakeChild.log.append(("set up", {}))

    def before(self, task: str) -> None:
        FakeChild.log.append(("before", {}))


@pytest.mark.parametrize(
    ("arms", "seconds", "least", "calls", "count"),
    [
        (("a", "b"), 0, 1, "ab", 2),
        # The first of several iterations is discarded.
        (("a", "b"), 7, 2, "abab" + "ba" + "ab" + "ba", 8),
        # What cannot do a task is asked no more.
        (("a", "lacking"), 5, 1, "a" + "lacking" + "aa", 3),
    ],
)
def test_iterations_of_the_public_benchmark_are_interleaved_and_each_is_prepared(
    log: list[Any], tmp_path: Path, arms: tuple[str, ...], seconds: float, least: int, calls: str, count: int
) -> None:
    run = driver.Run(arms, "uri", tmp_path, Scale(), Preparation())  # type: ignore[arg-type]
    run.measure("small_bulk_write", seconds, least)
    names = [name for name, _ in log]
    assert names[:2] == ["set up", "before"]
    assert "".join(names[2::2]) == calls
    assert set(names[1::2]) == {"before"}
    assert len(run.results) == count


def test_a_child_is_a_module_of_this_repository() -> None:
    with Child("x", "benchmarks.instructions.peer", "1") as child:
        assert child.receive(30) > 0
