from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import pytest

from benchmarks.arms import ARMS, Arm
from benchmarks.processes import ROOT
from benchmarks.speed import command
from benchmarks.speed.workloads import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Add = Callable[[argparse.ArgumentParser], None]


def arguments(*words: str, add: Add = command.add_bench) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add(parser)
    return parser.parse_args(words)


def test_the_defaults_are_those_of_a_verdict() -> None:
    found = arguments()
    assert (found.tasks, found.rounds) == (None, 5)
    # Mixtures and sizes belong to `scale`.
    assert set(WORKLOADS) - {*found.operations} == {"mixed", *(f"reply_{10**power}" for power in (2, 3, 4, 5))}
    assert {"bare", "motorlite", "motorlite-uvloop", "motorlite-trio", "pymongo", "motor", "mongojet"} == set(
        found.arms
    )
    assert str(found.reports) == "reports"


def test_the_two_halves_leave_no_report_unless_asked() -> None:
    reads, writes = arguments(add=command.add_point_reads), arguments(add=command.add_point_writes)
    assert (reads.operations, reads.tasks, reads.reports) == (["find_one"], [1, 8, 50, 500], None)
    assert (writes.operations, writes.reports) == (
        ["insert_one", "update_one", "replace_one", "bulk_write", "insert_many"],
        None,
    )


def test_operations_run_at_the_numbers_of_tasks_that_make_sense() -> None:
    assert command.plan(["find_one"], None) == [("find_one", tasks) for tasks in (1, 8, 50, 500, 10_000)]
    assert command.plan(["insert_many", "find_10"], [1, 50]) == [("insert_many", 1), ("find_10", 1), ("find_10", 50)]


@pytest.mark.parametrize("words", [("--tasks", "0"), ("--rounds", "-1")])
def test_wrong_arguments_are_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(argparse.ArgumentError):
        arguments(*words)


def test_with_nothing_to_measure_no_server_is_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lacking = Arm("gone", ("no_such_module",), ARMS["bare"].open)
    monkeypatch.setitem(ARMS, "gone", lacking)
    assert command.run(arguments("--arms", "gone", "--quick")) == 1
    assert "there is no arm left to measure" in capsys.readouterr().err


def test_what_is_no_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(argparse.ArgumentError, match="not a checkout"):
        arguments("--before", str(tmp_path))
    assert arguments("--before", str(ROOT)).before == ROOT
