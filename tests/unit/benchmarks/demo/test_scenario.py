from __future__ import annotations

import pytest

from benchmarks.demo.scenario import COMPARISON_LOAD, OVERLOADS, Load, capacity, policies


def test_requests_are_due_evenly_over_the_interval() -> None:
    load = Load(interval=2.0, seconds=4, tasks=4)
    due = sorted(load.due(task, request) for task in range(4) for request in range(load.requests_per_task))
    assert due == [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5]
    assert load.rate == 2


def test_an_overload_rejects_60_percent_of_a_load_without_retries() -> None:
    for begin, end in OVERLOADS:
        assert capacity(begin) / COMPARISON_LOAD.rate == pytest.approx(0.4)
        assert capacity(end) == capacity(begin - 0.01) > COMPARISON_LOAD.rate


def test_another_driver_has_a_line_where_it_can_run() -> None:
    assert [policy.name for policy in policies("asyncio")][-1] == "PyMongo Async"
    assert policies("trio") == policies("asyncio")[:-1]
