"""A session while it goes on."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from benchmarks.storm.arms import ARMS, Arm
from benchmarks.storm.plan import Step
from benchmarks.storm.report.live import View
from benchmarks.storm.results import STEP
from benchmarks.storm.scenario import Change
from benchmarks.storm.summary import summarize
from tests.unit.benchmarks.storm_runs import SUSTAINED, Shape, make_run

SHORT = replace(SUSTAINED, seconds=3.0, changes=(Change(1.0, 2.0, load=3.75),))
LONG = replace(SHORT, name="a-scenario-with-a-name-that-is-much-too-long-for-a-terminal")
CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Watched:
    """A view on a console in memory."""

    def __init__(self, plan: list[Step], *, terminal: bool) -> None:
        self.file = io.StringIO()
        console = Console(file=self.file, width=80, height=40, force_terminal=terminal, color_system=None)
        self.view = View(console, plan)

    def run(self, step: Step, reason: str = "") -> None:
        run = make_run(step.arm.name, Shape(tokens=True), step.seed, step.scenario)
        run.invalid = [reason] if reason else []
        self.view.begin(step)
        for number in range(len(run.series["offered"])):
            values = {name: series[number] for name, series in run.series.items()}
            self.view.step((number + 1) * STEP, values)
        self.view.finish(run, summarize(run))

    @property
    def lines(self) -> list[str]:
        return CONTROLS.sub("", self.file.getvalue()).replace("\r", "\n").splitlines()


def plan(scenario: object = SUSTAINED, arms: tuple[str, ...] = ("default", "pymongo"), seeds: int = 2) -> list[Step]:
    assert scenario in (SUSTAINED, SHORT, LONG)
    chosen = [ARMS.get(name) or Arm(name, "of its own") for name in arms]
    return [Step(scenario, arm, seed, "twin") for arm in chosen for seed in range(1, seeds + 1)]


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("scenario", [SHORT, LONG], ids=["short", "long"])
def test_no_line_is_longer_than_the_terminal(scenario: object, terminal: bool) -> None:
    steps = plan(scenario, ("default", "an-arm-with-a-long-name-of-its-own"))
    watched = Watched(steps, terminal=terminal)
    with watched.view:
        for step in steps:
            watched.run(step, "for a reason that needs many more words than a line has room " * 2)
    assert max(map(len, watched.lines)) <= 80
    assert any("left out: " in line for line in watched.lines)


def test_a_terminal_shows_the_running_arm_and_those_that_are_finished() -> None:
    watched = Watched(plan(), terminal=True)
    with watched.view:
        watched.run(plan()[0])
    text = "\n".join(watched.lines)
    assert "sustained, default, seed 1" in text
    assert re.search(r"^7 +300 +315 +9\d +2\d\d +0 +\d{3} +0", text, re.MULTILINE)
    assert re.search(r"^sustained, default +9\d\.\d % +1\.03 +1\.8\d +37\.\d % +\d\.\d ms +0\.0 s", text, re.MULTILINE)


def test_a_series_without_values_is_empty() -> None:
    watched = Watched(plan(), terminal=True)
    with watched.view:
        watched.view.begin(plan()[0])
        for number in range(10):
            watched.view.step((number + 1) * STEP, {"offered": 40.0})
    assert re.search(r"^1 +400( +\N{EN DASH}){6}", "\n".join(watched.lines), re.MULTILINE)


def test_a_file_gets_a_line_for_each_arm() -> None:
    watched = Watched(plan(), terminal=False)
    with watched.view:
        for step in plan():
            watched.run(step)
    found = [line.split()[0] for line in watched.lines if line]
    assert found == ["sustained", "arm", "default", "pymongo"]


def test_an_arm_without_a_valid_run_has_no_figures() -> None:
    watched = Watched(plan(arms=("default",)), terminal=False)
    with watched.view:
        for step in plan(arms=("default",)):
            watched.run(step, "too slow")
    assert "default            not valid" in watched.lines
    assert "left out: too slow" in watched.lines
