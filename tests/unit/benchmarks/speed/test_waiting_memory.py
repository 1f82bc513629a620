from __future__ import annotations

import pytest

from benchmarks.processes import ask, serving
from benchmarks.speed.waiting_memory import render, verdict

FOUND = {"motorlite": {"operation": 1500.0, "task": 900.4}, "pymongo": {"operation": 9000.0, "task": 900.0}}


def test_the_table_has_bytes() -> None:
    assert render(FOUND).splitlines()[2].split() == ["pymongo", "9,000", "900"]


def test_the_target_is_that_of_the_document() -> None:
    assert verdict(FOUND)[1]
    assert not verdict({"motorlite": {"operation": 1501.0}})[1]
    assert verdict({})[0].endswith("(not measured)")


@pytest.mark.slow
@pytest.mark.parametrize("arm", ["motorlite", "motorlite-trio"])
def test_waiting_operations_are_weighed(arm: str) -> None:
    with serving("benchmarks.instructions.peer", "1", "--silent", "find") as port:
        found = ask("benchmarks.speed.waiting_memory", arm, str(port), "500", limit=50)
    assert 100 < found["task"] < 5000
    assert 100 < found["operation"] < 10_000
