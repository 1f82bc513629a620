from __future__ import annotations

import json

from benchmarks.driver.report import as_json, as_markdown, rows
from benchmarks.driver.tasks import Iteration, Scale

ITERATIONS = [
    Iteration("find_one", "motorlite", 1.0, 0.5),
    Iteration("find_one", "pymongo", 2.0, 0.5),
    Iteration("upload", "motorlite", 2.0, 0.5),
]


def test_the_table_has_a_row_for_each_task_and_composite() -> None:
    head, *table = rows(ITERATIONS, Scale())
    assert head == ("MB/s (x pymongo)", "motorlite", "pymongo")
    assert ("Find one by ID", "16.2 (2.00)", "8.11 (1.00)") in table
    assert ("GridFS upload", "26.2", "-") in table
    assert ("DriverBench", "21.2", "-") in table


def test_the_report_says_what_is_left_out() -> None:
    text = as_markdown(ITERATIONS, Scale(), "headline", {"arms": {"pymongo": "pymongo 4"}}, ["the BSON tasks"])
    for words in (
        "headline",
        "- pymongo: pymongo 4",
        "- the BSON tasks",
        "- met: Find one by ID (2.00 times pymongo)",
        "| GridFS upload | 26.2 | - |",
    ):
        assert words in text


def test_json_has_the_percentiles_of_the_specification() -> None:
    value = json.loads(json.dumps(as_json(ITERATIONS, Scale(), {"cores": 2}, [])))
    assert value["scores"][0]["percentiles"].keys() == {"10", "25", "50", "75", "90", "95", "98", "99"}
    assert len(value["iterations"]) == 3
    assert value["scale"]["operations"] == 10_000
