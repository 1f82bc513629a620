from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from benchmarks.figures import Round
from benchmarks.scale.growth import Series
from benchmarks.scale.report import as_json, as_markdown, growth_table, plot, spread, table
from benchmarks.storm.report.plots import write

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS = [
    Round(title, arm, tasks, 1, rate, 1.0, 0.5, 0.001, tasks / rate)
    for title in ("find_one by _id", "mixed operations")
    for arm, rate in (("bare", 9000), ("motorlite", 6000), ("pymongo", 1500))
    for tasks in (1, 50, 500)
    if (title, arm) != ("mixed operations", "bare")
]
GROWTH = [
    Series("an idle connection", "bytes", "connections", {100: 70_850.2, 1000: 70_874.6}),
    Series("find_one", "instructions", "listeners", {0: 145_000.0, 16: 305_000.0}, is_total=True),
    Series("find_one, nearest", "instructions", "members", why="valgrind is missing"),
]
FACTS = {"arms": {"bare": "python 3"}, "plot": "scale.svg"}


def test_a_row_for_each_case_and_arm_has_its_ratios() -> None:
    head, *rows = table(ROUNDS)
    assert head[:3] == ("", "arm", "ops/s")
    assert len(rows) == len(ROUNDS)
    assert rows[1][:6] == ("find_one by _id, 1 task", "motorlite", "6,000", "(6,000-6,000)", "4.00", "0.67")
    assert {len(row) for row in rows} == {len(head)}


def test_growth_has_its_values_and_the_cost_of_each() -> None:
    assert growth_table(GROWTH)[1:] == [
        ("an idle connection", "bytes", "connections", "100: 70,850; 1,000: 70,875", "-"),
        ("find_one", "instructions", "listeners", "0: 145,000; 16: 305,000", "10,000.0"),
        ("find_one, nearest", "instructions", "members", "not measured: valgrind is missing", "-"),
    ]


def test_the_report_has_a_section_for_all_that_was_measured() -> None:
    text = as_markdown("headline", FACTS, {"a": (ROUNDS, {}), "d": ([], {"mongojet with zlib": "no"})}, GROWTH)
    for words in ("headline", "- bare: python 3", "(scale.svg)", "## Tasks\n\n| ", "## Growth"):
        assert words in text
    assert "## TLS and compression\n\nNothing was measured.\n\n- mongojet with zlib is not measured: no" in text
    assert "## Growth" not in as_markdown("headline", {**FACTS, "plot": None}, {}, [])


def test_json_holds_every_round_and_all_series() -> None:
    value = json.loads(json.dumps(as_json(FACTS, {"a": (ROUNDS, {"motor": "gone"})}, GROWTH)))
    section = value["sections"]["a"]
    assert [Round(**one) for one in section["rounds"]] == ROUNDS
    assert section["not_measured"] == {"motor": "gone"}
    assert [one["each"] for one in value["growth"]] == [None, 10_000.0, None]


# --- the plot ---


@pytest.mark.parametrize(
    ("places", "moved"),
    [
        ([0.1, 0.5, 0.9], [0.1, 0.5, 0.9]),
        ([0.5, 0.5, 0.1], [0.5, 0.6, 0.1]),
        ([0.98, 0.3, 0.97], [1.0, 0.3, 0.9]),
        ([], []),
    ],
)
def test_names_keep_their_distance_and_their_order(places: list[float], moved: list[float]) -> None:
    assert spread(places, 0.1) == pytest.approx(moved)


def test_the_plot_names_each_line_in_each_of_its_parts(tmp_path: Path) -> None:
    text = write(plot(ROUNDS), tmp_path / "scale.svg").read_text(encoding="utf-8")
    counts = {arm: text.count(f">{arm}</text>") for arm in ("bare", "motorlite", "pymongo")}
    assert counts == {"bare": 2, "motorlite": 4, "pymongo": 4}
    assert ">500</text>" in text
