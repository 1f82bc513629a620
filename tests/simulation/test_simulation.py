"""The simulation: its determinism, a few seeds of each kind, and that a broken world is found out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.command import main
from tests.simulation.commands import FORGETS_RETRIES, LOSES_COMMITTED
from tests.simulation.faults import draw
from tests.simulation.run import SECONDS, Simulation
from tests.simulation.shrinking import Case, shrink

REPOSITORY = Path(__file__).resolve().parents[2]
SHORT = 20.0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 9))
@pytest.mark.parametrize("routers", [False, True], ids=["members", "routers"])
def test_nothing_is_lost(seed: int, routers: bool) -> None:
    outcome = Simulation(seed, routers=routers).run()
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


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "3", "--only", "-", "--tasks", "0,5", "--seconds", "5", "--trace"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1].startswith("1 seeds, 0.0")
    assert any(" role " in line and " primary " in line for line in printed)
