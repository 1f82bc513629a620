"""The benchmark of oversubscribed pools: what is counted, the table and the verdict."""

from __future__ import annotations

import asyncio
import importlib
from dataclasses import replace

import pytest

from benchmarks.overload.abandoned import attempt, drive
from benchmarks.overload.oversubscribed import LIMITS, Outcome, misses, render
from motorlite.errors import NetworkTimeout, OperationFailure

OURS = Outcome("motorlite", "anyio scope", 20, 1000, 620, 1, 2.0, 0.03)
THEIRS = replace(OURS, arm="pymongo", succeeded=610, created=20)


def test_the_table() -> None:
    assert render([OURS, THEIRS]).splitlines()[1:] == [
        "anyio scope     20  motorlite        620          93%                         1",
        "anyio scope     20    pymongo        610          91%                        20",
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, []),
        ({"succeeded": 609}, ["anyio scope, 20 tasks: 609 succeeded, pymongo: 610"]),
        ({"elapsed": 2.4}, ["anyio scope, 20 tasks: 78% of the capacity of 10 connections"]),
        ({"created": 11}, ["anyio scope, 20 tasks: 11 new connections per 1000 operations"]),
    ],
)
def test_what_falls_short(change: dict[str, float], words: list[str]) -> None:
    assert misses([replace(OURS, **change), THEIRS]) == words  # type: ignore[arg-type]  # fields of different types


def test_no_more_than_all_operations_is_possible() -> None:
    assert replace(OURS, succeeded=1000, elapsed=9.0).share == 1.0


@pytest.mark.parametrize("limit", LIMITS)
def test_an_attempt_says_whether_it_was_answered_in_time(limit: str) -> None:
    async def at_once() -> None:
        pass

    async def too_late() -> None:
        if limit == "driver's timeout":
            raise NetworkTimeout("late")
        await asyncio.Event().wait()

    async def both() -> tuple[bool, bool]:
        module = importlib.import_module("motorlite")
        return await attempt(limit, 0.05, module, at_once), await attempt(limit, 0.05, module, too_late)

    assert asyncio.run(both()) == (True, False)


def test_other_errors_end_it() -> None:
    async def find_one() -> None:
        raise OperationFailure("no", 1)

    with pytest.raises(OperationFailure):
        asyncio.run(attempt("driver's timeout", 0.05, importlib.import_module("motorlite"), find_one))


def test_every_operation_is_made_once() -> None:
    calls = 0

    async def one() -> bool:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0)
        return calls % 2 == 0

    succeeded = asyncio.run(drive(3, 10, one))
    assert calls == 10
    assert 0 < succeeded < 10
