"""The simulation: its determinism, a few seeds of each kind, and that a broken world is found out."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import nullcontext, suppress
from itertools import count
from pathlib import Path

import pytest

from tests.simulation import run
from tests.simulation.command import main
from tests.simulation.commands import FORGETS_RETRIES, LOSES_COMMITTED
from tests.simulation.faults import draw
from tests.simulation.planting import search, watched
from tests.simulation.run import SECONDS, Simulation
from tests.simulation.shrinking import Case, shrink
from tests.simulation.workload import KINDS
from tests.torture.workload import Task

REPOSITORY = Path(__file__).resolve().parents[2]
SHORT = 20.0
BUG = "number-of-a-retry"


# Bugs of several invariants, which the first seeds with routers find.
OF_ROUTERS = ("waiter-sleeps", "session-dirty", "retry-of-anything", "max-time-whole", "cluster-time-of-the-last-reply")


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_ROUTERS)
def test_invariants_are_checked_behind_routers(name: str) -> None:
    assert search(name, range(1, 4), seconds=30.0, routers=True).finding is not None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 101))
def test_nothing_is_lost(seed: int) -> None:
    """A third of the seeds have routers."""
    outcome = watched(seed, seconds=30.0, routers=seed % 3 == 0)
    assert not outcome.findings, "\n".join(outcome.findings)


@pytest.mark.parametrize("routers", [False, True], ids=["members", "routers"])
def test_a_seed_is_one_run(routers: bool) -> None:
    first, second = (Simulation(7, seconds=SHORT, routers=routers).run() for _ in range(2))
    assert first.trace == second.trace
    assert first.digest == second.digest
    assert first.entries == second.entries
    assert Simulation(8, seconds=SHORT, routers=routers).run().digest != first.digest


@pytest.mark.slow
def test_a_seed_is_one_run_in_every_process() -> None:
    """Neither the addresses of objects nor the order of sets has an effect."""
    program = f"from tests.simulation.run import Simulation; print(Simulation(7, seconds={SHORT}).run().digest)"
    digests = {
        subprocess.run(
            [sys.executable, *options, "-c", program],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed, options in (("1", ()), ("2", ("-X", "dev", "-W", "ignore")))
    }
    assert digests == {f"{Simulation(7, seconds=SHORT).run().digest}\n"}


@pytest.mark.slow
@pytest.mark.parametrize("rule", [FORGETS_RETRIES, LOSES_COMMITTED])
def test_a_broken_rule_of_servers_is_found(rule: str) -> None:
    """The account of a world in which servers do not keep their word is not empty."""
    assert any(Simulation(seed, rules=frozenset({rule})).run().findings for seed in range(1, 20))


def test_every_kind_of_fault_is_drawn() -> None:
    from random import Random

    from tests.simulation.faults import _KINDS

    drawn = {fault.kind for seed in range(30) for fault in draw(Random(seed), SECONDS)}
    assert drawn == {kind for kinds in _KINDS.values() for kind in kinds}


def test_a_plan_is_shrunk_to_what_matters() -> None:
    """Only the faults 3 and 8 together, with the task 5, fail."""
    runs = []

    def fails(case: Case) -> bool:
        runs.append(case)
        assert case.faults is not None
        assert case.tasks is not None
        return {3, 8} <= set(case.faults) and 5 in case.tasks and case.seconds >= 30

    shortest = shrink(Case(1, None, None, 120.0), 20, 16, fails)
    assert shortest == Case(1, (3, 8), (5,), 30.0)
    assert str(shortest) == "python -m tests.simulate --seed 1 --only 3,8 --tasks 5 --seconds 30"
    assert len(runs) < 80


PAUSES = {"computes": None, "does not wait": 0.0, "hardly waits": 1e-6, "survives": 10.0}


class Stuck(Task):
    """A task with a mistake, of each kind that keeps a program from ending."""

    how = ""

    async def step(self) -> None:
        pause = PAUSES[self.how]
        for _ in count():
            if pause is not None:
                with suppress(asyncio.CancelledError) if self.how == "survives" else nullcontext():
                    await asyncio.sleep(pause)


@pytest.mark.parametrize(
    ("how", "found"),
    [
        ("computes", "HungError"),
        ("does not wait", "LivelockError"),
        ("hardly waits", "LivelockError"),
        ("survives", "these tasks do not end"),
    ],
)
def test_a_run_ends_in_any_case(how: str, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stuck, "how", how)
    monkeypatch.setattr(run, "KINDS", (Stuck,))
    monkeypatch.setattr(run, "_CPU", (0.5 if how == "computes" else 60.0, 0.0))
    monkeypatch.setattr(run, "_STEPS", (50_000, 0))
    findings = Simulation(1, seconds=1.0, only=()).run().findings
    assert any(found in finding for finding in findings), findings


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "3", "--only", "-", "--tasks", "0,5", "--seconds", "5", "--trace"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1].startswith("1 seeds, 0.0")
    assert any(" role " in line and " primary " in line for line in printed)


@pytest.mark.slow
def test_a_planted_bug_is_shrunk(capsys: pytest.CaptureFixture[str]) -> None:
    """The shortest plan is shorter than the whole one, and its command line fails as well."""
    assert main(["--seed", "1", "--bug", BUG, "--seconds", "10"]) == 1
    shown = [line.split() for line in capsys.readouterr().out.splitlines() if "-m tests.simulate" in line]
    whole, shortest = (line[line.index("tests.simulate") + 1 :] for line in shown)
    assert whole == ["--seed", "1", "--seconds", "10", "--bug", BUG]
    tasks = shortest[shortest.index("--tasks") + 1].split(",")
    assert 0 < len(tasks) < len(KINDS) / 2
    assert main([*shortest, "--keep"]) == 1
    assert main([*shortest[: shortest.index("--bug")], "--keep"]) == 0
