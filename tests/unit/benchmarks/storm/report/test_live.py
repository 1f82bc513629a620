"""A session while it goes on."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from benchmarks.storm.report.live import Step, View, clock_time
from benchmarks.storm.results import STEP
from benchmarks.storm.scenario import Change
from tests.support.storm_runs import SUSTAINED, Shape, make_run

if TYPE_CHECKING:
    from benchmarks.storm.scenario import Scenario

SHORT = replace(SUSTAINED, seconds=3.0, changes=(Change(1.0, 2.0, load=3.75),))
LONG = replace(SHORT, name="a-scenario-with-a-name-that-is-much-too-long-for-a-terminal")
CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Watched:
    """A view on a console in memory, with a clock of its own."""

    def __init__(self, plan: list[Step], *, terminal: bool, width: int = 80) -> None:
        self.file = io.StringIO()
        console = Console(file=self.file, width=width, height=40, force_terminal=terminal, color_system=None)
        self.now = 0.0
        self.view = View(console, plan, clock=lambda: self.now)

    def run(self, scenario: Scenario, arm: str, seed: int, reason: str = "", factor: float = 1.0) -> None:
        run = make_run(arm, Shape(tokens=True), seed, scenario)
        run.invalid = [reason] if reason else []
        self.view.begin(scenario, arm, seed)
        for step in range(len(run.series["offered"])):
            self.now += STEP
            values = {name: series[step] * factor for name, series in run.series.items()}
            self.view.step((step + 1) * STEP, values)
        self.view.finish(run)

    @property
    def lines(self) -> list[str]:
        return CONTROLS.sub("", self.file.getvalue()).replace("\r", "\n").splitlines()


def plan(scenario: Scenario, arms: tuple[str, ...] = ("default", "pymongo"), seeds: int = 2) -> list[Step]:
    return [(scenario, arm, seed, "twin") for arm in arms for seed in range(1, seeds + 1)]


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("scenario", [SHORT, LONG], ids=["short", "long"])
def test_no_line_is_longer_than_the_terminal(scenario: Scenario, terminal: bool) -> None:
    arms = ("default", "an-arm-with-a-long-name-of-its-own")
    watched = Watched(plan(scenario, arms), terminal=terminal)
    with watched.view:
        for _, arm, seed, _ in plan(scenario, arms):
            watched.run(scenario, arm, seed, "for a reason that needs many more words than a line has room " * 2, 1e4)
    assert max(map(len, watched.lines)) <= 80
    assert any("left out: for a reason" in line for line in watched.lines)


def test_a_terminal_shows_the_running_arm() -> None:
    watched = Watched(plan(SUSTAINED), terminal=True)
    with watched.view:
        watched.run(SUSTAINED, "default", 1)
    text = "\n".join(watched.lines)
    assert "sustained, default, seed 1: 7 of 20 s, overloaded" in text
    assert re.search(r"^ +7 +300 +315 +9\d +2\d\d +0 +\d{3} +0", text, re.MULTILINE)
    assert re.search(r"^  default +9\d\.\d % +1\.03 +1\.8\d +37\.\d % +\d\.\d ms +0\.0 s", text, re.MULTILINE)


def test_a_series_that_nobody_knows_is_empty() -> None:
    watched = Watched(plan(SUSTAINED), terminal=True)
    with watched.view:
        watched.view.begin(SUSTAINED, "mongojet", 1)
        for step in range(10):
            watched.now += 1.0
            watched.view.step((step + 1) * STEP, {"offered": 40.0})
    assert re.search(r"^ +1 +400( +\N{EN DASH}){6}", "\n".join(watched.lines), re.MULTILINE)


def test_a_file_gets_a_line_for_each_arm() -> None:
    watched = Watched(plan(SUSTAINED), terminal=False)
    with watched.view:
        for _, arm, seed, _ in plan(SUSTAINED):
            watched.run(SUSTAINED, arm, seed)
    found = [line.split()[0] for line in watched.lines if line]
    assert found == ["sustained", "arm", "default", "2", "pymongo", "4"]
    assert watched.lines[4] == "  2 of 4 runs, 0:40, about 0:40 left"


def test_an_arm_without_a_valid_run_has_no_figures() -> None:
    watched = Watched(plan(SUSTAINED, ("default",)), terminal=False)
    with watched.view:
        for seed in (1, 2):
            watched.run(SUSTAINED, "default", seed, "too slow")
    assert "  default            not valid" in watched.lines
    assert "    left out: too slow" in watched.lines


def test_runs_that_were_not_begun_are_counted() -> None:
    watched = Watched(plan(SUSTAINED, ("default",)), terminal=True)
    with watched.view:
        watched.now = 30.0
        watched.view.finish(make_run())
    assert any("1 of 2 runs, 0:30, about 0:30 left" in line for line in watched.lines)


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (3725, "62:05")])
def test_times(seconds: float, text: str) -> None:
    assert clock_time(seconds) == text
