from __future__ import annotations

import json

from benchmarks.figures import Round
from benchmarks.speed.report import as_json, as_markdown, overview, render, verdict

ROUNDS = [
    Round("find_one", "bare", 50, 1, 40_000, 2.0, 0.8, 0.001, 0.002),
    Round("find_one", "pymongo", 50, 1, 10_000, 2.0, 1.6, 0.004, 0.0125, 1.0),
    Round("find_one", "pymongo", 50, 2, 12_000, 2.0, 1.2, 0.006, 0.0125, 1.8),
    Round("find_one", "pymongo", 1, 1, 2_000, 2.0, 0.4, 0.004, 0.008),
    Round("insert_many", "motorlite", 1, 1, 4, 2.0, 0.4, 0.004, 0.008),
]


def test_a_row_has_medians_ranges_and_ratios() -> None:
    row = next(line for line in render(ROUNDS).splitlines() if line.startswith("  pymongo"))
    cpu = ["130.0", "(100-160)", "1.00", "6.50"]
    assert row.split() == ["pymongo", "5,500", "(5,000-6,000)", "1.00", "0.28", *cpu, "125.0", "5.00", "12.50"]


def test_every_number_of_tasks_has_its_table_and_a_ratio_without_its_other_half_a_dash() -> None:
    first, second, third = render(ROUNDS).split("\n\n")
    assert first.startswith("find_one by _id, 50 tasks\n")
    assert second.startswith("find_one by _id, 1 task\n")
    assert second.splitlines()[-1].split()[3:5] == ["1.00", "-"]
    assert third.splitlines()[-1].split()[:5] == ["motorlite", "2.00", "(2.00-2.00)", "-", "-"]


def test_the_overview_has_a_column_for_each_arm() -> None:
    head, first, *_ = overview(ROUNDS)
    assert head == ("", "tasks", "bare", "pymongo", "motorlite")
    assert first == ("find_one by _id", "50", "3.64", "1.00", "-")


def test_the_report_has_everything() -> None:
    text = as_markdown("headline", ROUNDS, {"arms": {"bare": "python 3"}}, {"motor": "not there"})
    for words in ("headline", "- bare: python 3", "- motor is not measured: not there", "## insert_many of 20,000"):
        assert words in text
    assert "- not measured: find_one by _id, 50 tasks" in text


def test_json_holds_every_round_and_the_verdict() -> None:
    value = json.loads(json.dumps(as_json(ROUNDS, {"cores": 2}, {"motor": "not there"})))
    assert value["cores"] == 2
    assert value["not_measured"] == {"motor": "not there"}
    assert [one["operations"] for one in value["rounds"]] == [40_000, 10_000, 12_000, 2_000, 4]
    assert all(one["met"] is None for one in value["conditions"])
    assert "not measured" in verdict(ROUNDS)
