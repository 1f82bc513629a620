"""The JSON of a run of a storm."""

from __future__ import annotations

import json

import pytest

from benchmarks.storm.results import OUTCOMES, Request, Run
from tests.unit.benchmarks.storm_runs import Shape, make_run


def test_a_run_survives_its_json() -> None:
    run = make_run(shape=Shape(tokens=True))
    again = Run.from_json(json.loads(json.dumps(run.to_json())))
    assert [request.outcome for request in again.requests] == [request.outcome for request in run.requests]
    for name in ("due", "ended"):
        expected = [getattr(request, name) for request in run.requests]
        assert [getattr(request, name) for request in again.requests] == pytest.approx(expected, abs=1e-4)
    run.requests = again.requests = []
    assert again == run


def test_requests_need_not_be_in_order() -> None:
    requests = [
        Request(due, due + 0.5, outcome) for due, outcome in zip((2.0, 0.5, 1.5, 0.0, 9.0), OUTCOMES, strict=True)
    ]
    run = Run("s", "a", 1, "twin", 1.0, (0.0, 1.0), 500.0, {}, requests)
    assert Run.from_json(run.to_json()) == run


def test_a_request_takes_few_bytes() -> None:
    run = make_run()
    assert len(json.dumps(run.to_json()["requests"], separators=(",", ":"))) < 8 * len(run.requests)
