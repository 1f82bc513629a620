"""The failover benchmark: how losses, doubled writes and times are found, the table and the verdict."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest

from benchmarks.failover import Load, Round, doubled, first_after, log_time, lost, render, verdict

ROUND = Round(1, 100, 2, 0, 0, 0, 1.0, 0.2, 0.1, 0.15)


def line(log_id: int, moment: str) -> str:
    return json.dumps({"t": {"$date": moment}, "id": log_id})


def test_the_moment_of_a_log_message() -> None:
    lines = [
        line(7, "1970-01-01T00:00:10.500+00:00"),
        line(8, "1970-01-01T00:00:11.000+00:00"),
        line(7, "1970-01-01T01:00:12.250+01:00"),
    ]
    assert log_time(lines, 7, 0) == 10.5
    assert log_time(lines, 7, 11) == 12.25
    assert log_time(lines, 7, 13) is None


def test_the_next_success() -> None:
    assert first_after([1.0, 2.0, 3.5, 2.5], 2.25) == 0.25


def test_writes_that_are_lost_or_doubled() -> None:
    load = Load(inserted=["a", "b"], counted=Counter({1: 5, 2: 3}), uncertain=Counter({2: 1}))
    assert lost(load, {"a", "b", "c"}, {1: 5, 2: 4}) == 0
    assert lost(load, {"a"}, {1: 4}) == 1 + 1 + 3
    assert doubled(load, {1: 5, 2: 4}) == 0
    assert doubled(load, {1: 6, 2: 5}) == 2


def test_the_table_has_a_line_for_each_kill_and_one_for_all() -> None:
    one, _, both = render([ROUND, replace(ROUND, number=2, kill_to_election=2.0)]).splitlines()[1:]
    assert one.split() == ["1", "100", "2", "0", "0", "0", "1,000", "ms", "200", "ms", "100", "ms", "150", "ms"]
    assert both.split() == ["all", "200", "4", "0", "0", "0", "1,500", "ms", "200", "ms", "100", "ms", "150", "ms"]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [({}, True), ({"election_to_success": 0.3}, False), ({"lost": 1}, False), ({"doubled": 1}, False)],
)
def test_the_verdict(changed: dict[str, float], expected: bool) -> None:
    assert verdict([replace(ROUND, **changed)])[1] is expected  # type: ignore[arg-type]  # fields of different types
    assert not verdict([replace(ROUND, left_over=1)])[1]
