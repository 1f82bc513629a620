from __future__ import annotations

from collections import Counter
from itertools import islice

import anyio.lowlevel
import pytest

from benchmarks.documents import DOCUMENTS
from benchmarks.loops import ASYNCIO, TRIO, Loop
from benchmarks.processes import ROOT, Child, ChildFailedError
from benchmarks.speed.worker import run_round, walk


@pytest.fixture
def loop(anyio_backend_name: str) -> Loop:
    return TRIO if anyio_backend_name == "trio" else ASYNCIO


class Collection:
    """Answers at once, and notes what was asked and how many asked at the same time."""

    def __init__(self) -> None:
        self.asked: Counter[int] = Counter()
        self.most = 0
        self._now = 0

    async def find_one(self, number: int) -> None:
        self.asked[number] += 1
        self._now += 1
        self.most = max(self.most, self._now)
        await anyio.lowlevel.checkpoint()
        self._now -= 1


@pytest.mark.anyio
async def test_a_round_of_operations_is_shared_by_its_tasks(loop: Loop) -> None:
    collection = Collection()
    figures = await run_round(collection.find_one, 8, loop, operations=100)
    assert figures["operations"] == sum(collection.asked.values()) == 104  # 13 for each task
    assert collection.most == 8
    assert 0 <= figures["p50"] <= figures["p99"] <= figures["seconds"]


@pytest.mark.anyio
async def test_a_round_in_time_ends_and_every_task_has_had_its_turn(loop: Loop) -> None:
    collection = Collection()
    figures = await run_round(collection.find_one, 3, loop, seconds=0)
    assert figures["operations"] == 3


@pytest.mark.anyio
async def test_a_wrong_result_fails_the_round(loop: Loop) -> None:
    async def find_other(_number: int) -> None:
        raise ValueError("wrong")

    with pytest.raises(ExceptionGroup) as caught:
        await run_round(find_other, 1, loop, operations=1)
    assert caught.group_contains(ValueError, match="wrong")


def test_a_walk_visits_every_document_once_before_it_returns() -> None:
    numbers = list(islice(walk(3), DOCUMENTS + 1))
    assert len(set(numbers)) == DOCUMENTS
    assert numbers[-1] == numbers[0]


@pytest.mark.parametrize(
    ("uri", "operation", "limit", "says"),
    [
        ("mongodb://user:secret@127.0.0.1:1/", "find_one", 30, "without authentication"),
        ("mongodb://127.0.0.1:1/", "find_one", 0, "did not answer"),
    ],
)
def test_the_parent_learns_why_an_arm_failed(uri: str, operation: str, limit: float, says: str) -> None:
    with Child("bare", "benchmarks.speed.worker", "bare", uri) as child:
        child.send({"operation": operation, "tasks": 1, "operations": 1})
        with pytest.raises(ChildFailedError, match=says):
            child.receive(limit)


def test_an_arm_without_the_operation_has_no_figures() -> None:
    with Child("bare", "benchmarks.speed.worker", "bare", "mongodb://127.0.0.1:1/", str(ROOT)) as child:
        child.send({"operation": "insert_one", "tasks": 1, "operations": 1})
        assert child.receive(30) == {}
