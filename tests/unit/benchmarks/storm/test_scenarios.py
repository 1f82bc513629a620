"""The shipped scenarios, and how they are found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.storm.arms import ARMS
from benchmarks.storm.scenarios import NoScenarioError, everything, find

if TYPE_CHECKING:
    from pathlib import Path

OWN = """
from benchmarks.storm.scenario import Load, Scenario
SCENARIO = Scenario(name="mine", question="Mine?", load=Load(rate=10), seconds=1.0)
"""


def test_scenarios_have_questions_and_known_arms() -> None:
    names = []
    for group in everything().values():
        for scenario in group:
            names.append(scenario.name)
            assert scenario.question.endswith("?")
            assert set(scenario.arms) <= set(ARMS)
            assert scenario.quick_seconds <= scenario.seconds
            assert all(change.end <= scenario.seconds for change in scenario.changes)
            assert bool(scenario.family) is bool(scenario.point)
    assert len(names) == len(set(names))


def test_scenarios_are_found_by_name_by_sweep_and_once() -> None:
    assert [scenario.name for scenario in find(["standard"])] == ["burst", "metastable", "sustained"]
    rates = find(["failure-rates"])
    assert len(rates) == 9
    assert find(["failure-rates-0.5", "failure-rates", "failure-rates-0.5"]) == [rates[-1], *rates[:-1]]
    assert len(find(["all"])) > len(rates) + 3


def test_a_scenario_of_the_user(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(OWN)
    (scenario,) = find([str(path)])
    assert scenario.name == "mine"
    for text in ("", "SCENARIO = 1", "SCENARIOS = []"):
        path.write_text(text)
        with pytest.raises(NoScenarioError, match="defines neither SCENARIO nor SCENARIOS"):
            find([str(path)])


def test_unknown_names() -> None:
    with pytest.raises(NoScenarioError, match="there is no scenario 'brust'; there are standard, all, bad-node"):
        find(["brust"])
    with pytest.raises(NoScenarioError, match="no Python file"):
        find(["nowhere.py"])
