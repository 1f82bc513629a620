from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, cast

import anyio
import pymongo.errors
import pytest

from benchmarks.demo.load import run_load, send
from benchmarks.demo.scenario import Load
from benchmarks.demo.tables import Tally
from motorlite.errors import OperationFailure

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.demo.load import Items

pytestmark = pytest.mark.anyio

OVERLOADED = {"ok": 0, "code": 462, "errorLabels": ["SystemOverloadedError", "RetryableError"]}


class Collection:
    """Takes every request; `answer` says after how long, or raises."""

    def __init__(self, answer: Callable[[], float]) -> None:
        self.times: list[float] = []
        self._answer = answer

    async def _request(self, *_arguments: Any) -> Collection:
        self.times.append(anyio.current_time())
        await anyio.sleep(self._answer())
        return self

    find_one = update_one = update_many = insert_one = aggregate = _request

    async def to_list(self) -> list[Any]:
        return []

    @property
    def items(self) -> Items:
        return cast("Items", self)


def failing(*errors: Exception | None) -> Callable[[], float]:
    """Fails with these errors one after the other; None succeeds."""
    left = iter(errors)

    def answer() -> float:
        error = next(left)
        if error is not None:
            raise error
        return 0.0

    return answer


def overloaded() -> OperationFailure:
    return OperationFailure("overloaded", 462, OVERLOADED)


async def test_requests_start_when_they_are_due() -> None:
    collection, tally = Collection(lambda: 0.1), Tally()
    start = anyio.current_time()
    await run_load(collection.items, tally, Load(interval=1.0, seconds=2, tasks=4))
    assert [time - start for time in collection.times] == pytest.approx([0.25 * n for n in range(8)])
    assert tally.now.served == 8
    assert tally.now.latencies == pytest.approx([0.1] * 8)


async def test_a_late_task_catches_up() -> None:
    delays = iter([2.5, 0.0, 0.0, 0.0])
    collection = Collection(lambda: next(delays))
    start = anyio.current_time()
    await run_load(collection.items, Tally(), Load(interval=1.0, seconds=4, tasks=1))
    assert [time - start for time in collection.times] == pytest.approx([0, 2.5, 2.5, 3])


async def test_every_policy_gets_the_same_requests() -> None:
    kinds: list[list[str]] = []
    for _ in range(2):
        names: list[str] = []

        class Noting(Collection):
            def __getattribute__(self, name: str, names: list[str] = names) -> Any:
                if name in {"find_one", "update_one", "update_many", "insert_one", "aggregate"}:
                    names.append(name)
                return super().__getattribute__(name)

        await run_load(Noting(lambda: 0.0).items, Tally(), Load(interval=0.1, seconds=5, tasks=5))
        kinds.append(names)
    assert kinds[0] == kinds[1]
    assert set(kinds[0]) == {"find_one", "update_one", "update_many", "insert_one", "aggregate"}


async def test_a_rejected_request_is_sent_again_at_once_as_often_as_the_application_wants() -> None:
    tally = Tally()
    served = Collection(failing(overloaded(), overloaded(), None))
    await send(served.items, tally, random.Random(1), 2)
    assert (tally.now.served, tally.now.failed, tally.now.retries) == (1, 0, 2)
    failed = Collection(failing(overloaded(), overloaded(), overloaded()))
    await send(failed.items, tally, random.Random(1), 2)
    assert (tally.now.served, tally.now.failed, tally.now.retries) == (1, 1, 4)
    assert len(tally.now.latencies) == 2  # the caller waits for an error too
    assert tally.surprises == []


async def test_an_error_that_nobody_ordered_is_reported_and_not_retried() -> None:
    tally = Tally()
    collection = Collection(failing(OperationFailure("no such thing", 59, {"ok": 0, "code": 59})))
    await send(collection.items, tally, random.Random(1), 5)
    assert (tally.now.failed, tally.now.retries) == (1, 0)
    assert len(tally.surprises) == 1
    assert "no such thing" in tally.surprises[0]


async def test_errors_of_another_driver_count_like_ours() -> None:
    tally = Tally()
    theirs = pymongo.errors.OperationFailure("overloaded", 462, OVERLOADED)
    other = pymongo.errors.OperationFailure("no such thing", 59, {"ok": 0, "code": 59})
    for error in (theirs, other):
        await send(Collection(failing(error)).items, tally, random.Random(1), 0)
    assert (tally.now.failed, len(tally.surprises)) == (2, 1)
