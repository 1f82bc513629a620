"""The benchmark of abandoned operations: what is counted, the table and the verdict."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks.overload.abandoned import SCENARIOS, Outcome, Scenario, abandon, render, verdict
from motorlite.errors import NetworkTimeout, OperationFailure

CANCELLED = Scenario("cancelled", 1.0, 0.0, is_cancelled=True, is_answered_in_time=True)
TIMED_OUT = Scenario("timed out", 1.0, 0.0, is_cancelled=False, is_answered_in_time=True)


def outcomes(created: int) -> list[Outcome]:
    return [Outcome("motorlite", SCENARIOS[0], 500, created), Outcome("pymongo", SCENARIOS[0], 500, 250)]


def test_the_table() -> None:
    assert render(outcomes(1)).splitlines()[1:] == [
        "timeouts, answered 30 ms later  motorlite        500                1       2.0",
        "timeouts, answered 30 ms later    pymongo        500              250     500.0",
    ]


def test_the_verdict() -> None:
    line, is_met = verdict(outcomes(2))
    assert is_met
    assert line.startswith("met: ")
    line, is_met = verdict(outcomes(3))
    assert not is_met
    assert line.startswith("NOT MET: ")
    assert not verdict([])[1]


@pytest.mark.parametrize("scenario", [CANCELLED, TIMED_OUT], ids=lambda scenario: scenario.name)
def test_only_what_was_abandoned_counts(scenario: Scenario) -> None:
    calls = 0

    async def find_one() -> None:
        nonlocal calls
        calls += 1
        if calls % 2:
            if scenario.is_cancelled:
                await asyncio.Event().wait()
            raise NetworkTimeout("late")

    assert asyncio.run(abandon(scenario, find_one, 3, 10)) == 5
    assert calls == 10


def test_other_errors_end_it() -> None:
    async def find_one() -> None:
        raise OperationFailure("no", 1)

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(abandon(TIMED_OUT, find_one, 1, 1))
    assert caught.group_contains(OperationFailure)
