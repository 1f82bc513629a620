"""The series of a run on sockets, and the reasons for which it is not valid."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.storm.load import Record
from benchmarks.storm.results import STEP, Request
from benchmarks.storm.scenario import Change, Load, Scenario, Server
from benchmarks.storm.series import invalid, schedule, series

SCENARIO = Scenario(
    "half", "What?", Load(rate=100), 0.4, (Server(admission_rate=300),), changes=(Change(0.2, 0.3, capacity=0.5),)
)


def report(step: int, *, cpu: float = 0.0, late: float = 0.0, **totals: float) -> dict[str, Any]:
    names = ("attempts", "rejected", "connections", "refused", "answered", "answer_seconds", "backlog")
    return {"step": step, "cpu": cpu, "late": late, "figures": [{**dict.fromkeys(names, 0), **totals}]}


def test_series_count_requests_when_they_are_due_and_outcomes_when_they_come() -> None:
    requests = [
        Request(0.05, 0.15, "ok"),
        Request(0.06, 0.16, "rejected"),
        Request(0.11, 0.12, "failed"),
        Request(0.31, 0.45, "ok"),
        Request(0.32, 0.39, "timed_out"),
        Request(0.33, 0.34, "cancelled"),
    ]
    found = series(SCENARIO, Record(requests), [report(step) for step in range(5)])
    assert found["offered"] == [2, 1, 0, 3]
    assert found["goodput"] == [0, 1, 0, 0]  # the last one came after the end
    assert found["failed"] == [0, 2, 0, 0]
    assert found["timed_out"] == found["cancelled"] == [0, 0, 0, 1]
    assert found["capacity"] == pytest.approx([30, 30, 15, 30])


def test_series_are_differences_of_the_ingress_totals() -> None:
    reports = [
        report(0),
        report(1, attempts=10, rejected=4, connections=2, backlog=0.5),
        report(2, attempts=15, rejected=4, connections=2, backlog=0.5),
    ]
    record = Record(values={"tokens": [9.0, 8.0]})
    found = series(SCENARIO, record, reports)
    assert found["attempts"] == [10, 5]
    assert found["rejected"] == [4, 0]
    assert found["connections"] == [2, 0]
    assert found["server_queue"] == pytest.approx([5, 0])
    assert (found["tokens"], found["client_queue"]) == ([9.0, 8.0], [])


def valid_reports(count: int = 21) -> list[dict[str, Any]]:
    return [
        report(step, cpu=step * STEP * 0.1, answered=10 * step, answer_seconds=0.001 * step) for step in range(count)
    ]


def test_a_run_is_valid() -> None:
    record = Record([Request(0, 0.1, "ok")] * 1000, late=10)
    assert invalid(record, valid_reports(), {}) == []


def test_an_ingress_that_is_busy_for_a_second_makes_it_invalid() -> None:
    reports = valid_reports()
    for step in range(5, 21):
        reports[step]["cpu"] += min(1.0, (step - 5) * STEP) * 0.7
    (reason,) = invalid(Record(), reports, {})
    assert "80% of a second" in reason


@pytest.mark.parametrize(
    ("record", "change", "surprises", "says"),
    [
        (Record([Request(0, 0.1, "ok")] * 1000, late=101, latest=0.2), {}, {}, "101 of 1000 requests were sent"),
        (Record(), {"late": 0.11}, {}, "110 ms late"),
        (Record(), {}, {"KeyError: 'x'": 3}, "3 requests ended with an unexpected error: KeyError: 'x'"),
        (Record(), report(20, answered=200, answer_seconds=200 * 0.03), {}, "30 ms for a request"),
    ],
)
def test_other_reasons(record: Record, change: dict[str, Any], surprises: dict[str, int], says: str) -> None:
    reports = valid_reports()
    reports[-1] = {**reports[-1], **change, "cpu": reports[-1]["cpu"]}
    (reason,) = invalid(record, reports, surprises)
    assert says in reason


def test_a_short_run_is_judged_by_its_length() -> None:
    assert invalid(Record(), [report(0), report(1, cpu=0.09)], {})
    assert not invalid(Record(), [report(0), report(1, cpu=0.05)], {})


def orders(scenario: Scenario) -> list[tuple[float, str, int]]:
    return [(time, order["order"], order.get("server", -1)) for time, order in schedule(scenario, 7)]


def test_limits_begin_with_the_run_and_changes_come_and_go() -> None:
    assert orders(SCENARIO) == [(0.0, "reset", -1), (0.2, "change", 0), (0.3, "change", 0)]
    factors = [order["capacity"] for _, order in schedule(SCENARIO, 7)[1:]]
    assert factors == [0.5, 1.0]


def test_a_server_goes_down_and_comes_back() -> None:
    scenario = Scenario(
        "down", "What?", Load(rate=1), 9.0, (Server(), Server()), changes=(Change(3.0, 6.0, servers=(1,), down=True),)
    )
    found = orders(scenario)
    assert (3.0, "down", 1) in found
    assert (6.0, "up", 1) in found
    assert not any(order in ("down", "up") and server == 0 for _, order, server in found)
