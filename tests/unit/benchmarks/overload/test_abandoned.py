"""The benchmark of abandoned operations: what is counted, the table and the verdict."""

from __future__ import annotations

from benchmarks.overload.abandoned import SCENARIOS, Outcome, render, verdict


def outcomes(created: int) -> list[Outcome]:
    return [Outcome("motorlite", SCENARIOS[0], 500, created), Outcome("pymongo", SCENARIOS[0], 500, 250)]


def test_the_table() -> None:
    assert render(outcomes(1)).splitlines()[1:] == [
        "timeouts, answered 30 ms later  motorlite        500                1       2.0",
        "timeouts, answered 30 ms later    pymongo        500              250     500.0",
    ]


def test_the_verdict() -> None:
    assert verdict(outcomes(2))[1]
    assert not verdict(outcomes(3))[1]
    assert not verdict([])[1]
