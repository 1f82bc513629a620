from __future__ import annotations

from typing import Any

import pymongo.results
import pytest

from motorlite import results
from motorlite.errors import InvalidOperation
from motorlite.results import BulkWriteResult, DeleteResult, InsertManyResult, InsertOneResult, UpdateResult

BULK = {
    "writeErrors": [],
    "writeConcernErrors": [],
    "nInserted": 1,
    "nUpserted": 2,
    "nMatched": 3,
    "nModified": 4,
    "nRemoved": 5,
    "upserted": [{"index": 3, "_id": "a"}, {"index": 8, "_id": None}],
}


def public(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


@pytest.mark.parametrize("name", results.__all__)
def test_the_properties_are_those_of_pymongo(name: str) -> None:
    assert public(getattr(results, name)) == public(getattr(pymongo.results, name))


def test_insert_one() -> None:
    result = InsertOneResult(5, acknowledged=True)
    assert (result.inserted_id, result.acknowledged) == (5, True)
    assert repr(result) == "InsertOneResult(5, acknowledged=True)"


def test_insert_many() -> None:
    result = InsertManyResult([1, 2], acknowledged=True)
    assert result.inserted_ids == [1, 2]
    assert repr(result) == "InsertManyResult([1, 2], acknowledged=True)"


def test_ids_are_known_without_an_acknowledgement() -> None:
    assert InsertOneResult(5, acknowledged=False).inserted_id == 5
    assert InsertManyResult([1], acknowledged=False).inserted_ids == [1]


def test_update() -> None:
    raw = {"n": 3, "nModified": 2, "ok": 1, "updatedExisting": True}
    result = UpdateResult(raw, acknowledged=True)
    assert (result.matched_count, result.modified_count) == (3, 2)
    assert result.upserted_id is None
    assert not result.did_upsert
    assert result.raw_result is raw
    assert repr(result) == f"UpdateResult({raw!r}, acknowledged=True)"


@pytest.mark.parametrize("identifier", ["x", 0, None])
def test_upsert(identifier: Any) -> None:
    result = UpdateResult({"n": 1, "nModified": 0, "upserted": identifier}, acknowledged=True)
    assert result.matched_count == 0
    assert result.modified_count == 0
    assert result.upserted_id == identifier
    assert result.did_upsert


def test_delete() -> None:
    result = DeleteResult({"n": 2, "ok": 1}, acknowledged=True)
    assert result.deleted_count == 2
    assert result.raw_result == {"n": 2, "ok": 1}
    assert repr(result) == "DeleteResult({'n': 2, 'ok': 1}, acknowledged=True)"


def test_bulk_write() -> None:
    result = BulkWriteResult(BULK, acknowledged=True)
    assert result.inserted_count == 1
    assert result.upserted_count == 2
    assert result.matched_count == 3
    assert result.modified_count == 4
    assert result.deleted_count == 5
    assert result.upserted_ids == {3: "a", 8: None}
    assert result.bulk_api_result is BULK
    assert repr(result) == f"BulkWriteResult({BULK!r}, acknowledged=True)"


UNACKNOWLEDGED: list[tuple[Any, list[str]]] = [
    (UpdateResult(None, False), ["matched_count", "modified_count", "upserted_id", "did_upsert"]),
    (DeleteResult(None, False), ["deleted_count"]),
    (
        BulkWriteResult({}, False),
        [
            "inserted_count",
            "matched_count",
            "modified_count",
            "deleted_count",
            "upserted_count",
            "upserted_ids",
        ],
    ),
]


@pytest.mark.parametrize(("result", "name"), [(result, name) for result, names in UNACKNOWLEDGED for name in names])
def test_what_is_unknown_without_an_acknowledgement(result: Any, name: str) -> None:
    assert not result.acknowledged
    with pytest.raises(InvalidOperation, match=f"{name} is unknown because the write was not acknowledged"):
        getattr(result, name)


def test_raw_results_without_an_acknowledgement() -> None:
    assert UpdateResult(None, False).raw_result is None
    assert DeleteResult(None, False).raw_result is None
    assert repr(UpdateResult(None, False)) == "UpdateResult(None, acknowledged=False)"


def test_no_other_attributes() -> None:
    with pytest.raises(AttributeError):
        DeleteResult({}, True).typo = 1  # type: ignore[attr-defined]  # the point of the test
