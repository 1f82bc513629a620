from __future__ import annotations

import json

from benchmarks.figures import Round
from benchmarks.report import align, as_json, render, verdict

ROUNDS = [
    Round("bare", 50, 1, 40_000, 2.0, 0.8, 0.001, 0.002),
    Round("pymongo", 50, 1, 10_000, 2.0, 1.6, 0.004, 0.0125),
    Round("pymongo", 50, 2, 12_000, 2.0, 1.2, 0.006, 0.0125),
    Round("pymongo", 1, 1, 2_000, 2.0, 0.4, 0.004, 0.008),
]


def test_a_row_has_medians_ranges_and_ratios() -> None:
    row = next(line for line in render(ROUNDS).splitlines() if line.startswith("  pymongo"))
    cpu = ["130.0", "(100-160)", "1.00", "6.50"]
    assert row.split() == ["pymongo", "5,500", "(5,000-6,000)", "1.00", "0.28", *cpu, "5.00", "12.50"]


def test_every_number_of_tasks_has_its_table_and_a_ratio_without_its_other_half_a_dash() -> None:
    first, second = render(ROUNDS).split("\n\n")
    assert first.startswith("50 tasks\n")
    assert second.startswith("1 task\n")
    assert second.splitlines()[-1].split()[3:5] == ["1.00", "-"]


def test_columns_are_aligned() -> None:
    assert align([("a", "1"), ("long", "1,000")]) == "a         1\nlong  1,000"


def test_json_holds_every_round_and_the_verdict() -> None:
    value = json.loads(json.dumps(as_json(ROUNDS, {"cores": 2}, {"motor": "not there"})))
    assert value["cores"] == 2
    assert value["not_measured"] == {"motor": "not there"}
    assert [one["operations"] for one in value["rounds"]] == [40_000, 10_000, 12_000, 2_000]
    assert [one["met"] for one in value["conditions"]] == [None, None]
    assert "not measured" in verdict(ROUNDS)
