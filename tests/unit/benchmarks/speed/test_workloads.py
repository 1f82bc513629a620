from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import pytest

from benchmarks.arms import Driver
from benchmarks.documents import EACH_SIZE, numbers_of
from benchmarks.speed.worker import walk
from benchmarks.speed.workloads import BULK, INSERTED, WORKLOADS, performers


@dataclass
class Result:
    matched_count: int = 1
    inserted_ids: list[int] = field(default_factory=lambda: [0] * INSERTED)
    inserted_count: int = BULK


class Collection:
    """Answers what is right, or nothing."""

    def __init__(self, found: int, result: Any) -> None:
        self.found = found
        self.calls: list[str] = []
        self._result = result

    def find(self, query: Any) -> list[int]:
        self.calls.append("find")
        return [0] * (self.found if query else 100_000)

    def aggregate(self, _pipeline: Any) -> list[int]:
        self.calls.append("aggregate")
        return [0] * 100_000

    async def _write(self, *_arguments: Any) -> Any:
        self.calls.append("write")
        return self._result

    insert_one = insert_many = update_one = replace_one = bulk_write = _write


class Models:
    @staticmethod
    def InsertOne(document: Any) -> Any:
        return document


async def read_all(found: Any) -> list[Any]:
    return list(found)


async def find_one(query: Any) -> Any:
    return {"_id": query["_id"]}


def driver(found: int = 10, result: Any = None, models: Any = Models) -> Driver:
    collection = Collection(found, Result() if result is None else result)
    return Driver(find_one, dict.fromkeys(("point_reads", "many", "written"), collection), read_all, models)


def test_a_driver_can_do_all_workloads() -> None:
    known = performers(driver())
    assert set(known) == set(WORKLOADS)
    for perform in known.values():
        asyncio.run(perform(9_999))


def test_what_a_driver_cannot_do_is_missing() -> None:
    assert set(WORKLOADS) - set(performers(driver(models=None))) == {"bulk_write"}
    replies = {"reply_100", "reply_1000", "reply_10000", "reply_100000"}
    assert set(performers(Driver(find_one))) == {"find_one", *replies}


def test_twenty_mixed_operations_have_all_shares() -> None:
    mixing = driver()
    read: list[int] = []

    async def find_one(query: Any) -> Any:
        read.append(query["_id"])
        return {"_id": query["_id"]}

    perform = performers(replace(mixing, find_one=find_one))["mixed"]
    for number in islice(walk(3), 20):
        asyncio.run(perform(number))
    calls = mixing.database["written"].calls
    assert (len(read), calls.count("write"), calls.count("find")) == (14, 5, 1)


def test_a_reply_has_a_document_of_its_size() -> None:
    read: list[int] = []

    async def find_one(query: Any) -> Any:
        read.append(query["_id"])
        return {"_id": query["_id"]}

    perform = performers(Driver(find_one))["reply_1000"]
    for number in range(2 * EACH_SIZE):
        asyncio.run(perform(number))
    assert read == [*numbers_of(1000), *numbers_of(1000)]


def test_results_may_be_dictionaries() -> None:
    known = performers(driver(result={"matched_count": 1, "inserted_ids": [0] * INSERTED}, models=None))
    for name in ("update_one", "replace_one", "insert_many"):
        asyncio.run(known[name](3))


@pytest.mark.parametrize("name", ["find_10", "update_one", "replace_one", "insert_many", "bulk_write"])
def test_a_wrong_result_is_an_error(name: str) -> None:
    wrong = driver(9, Result(0, [], 0))
    with pytest.raises(ValueError, match=r"expected [0-9,]+, got"):
        asyncio.run(performers(wrong)[name](3))


def test_a_wrong_document_is_an_error() -> None:
    async def find_other(_query: Any) -> Any:
        return {"_id": 5}

    with pytest.raises(ValueError, match="asked for document 3"):
        asyncio.run(performers(Driver(find_other))["find_one"](3))
