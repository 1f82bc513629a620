"""What the results of writes say, with and without an acknowledgement."""

from __future__ import annotations

from typing import Any

import pytest

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
BULK_COUNTS = {
    "inserted_count": 1,
    "upserted_count": 2,
    "matched_count": 3,
    "modified_count": 4,
    "deleted_count": 5,
    "upserted_ids": {3: "a", 8: None},
}
UPDATE = {"n": 3, "nModified": 2, "ok": 1, "updatedExisting": True}


def updated(matched: int, modified: int, did_upsert: bool, upserted: Any = None) -> dict[str, Any]:
    counts = {"matched_count": matched, "modified_count": modified}
    return {**counts, "upserted_id": upserted, "did_upsert": did_upsert}


@pytest.mark.parametrize(
    ("kind", "argument", "acknowledged", "expected"),
    [
        # Ids are known without an acknowledgement.
        *((InsertOneResult, 5, acknowledged, {"inserted_id": 5}) for acknowledged in (True, False)),
        *((InsertManyResult, [1, 2], acknowledged, {"inserted_ids": [1, 2]}) for acknowledged in (True, False)),
        (UpdateResult, UPDATE, True, updated(3, 2, False) | {"raw_result": UPDATE}),
        *(
            (UpdateResult, {"n": 1, "nModified": 0, "upserted": _id}, True, updated(0, 0, True, _id))
            for _id in ("x", 0)
        ),
        (UpdateResult, {"n": 1, "nModified": 0, "upserted": None}, True, updated(0, 0, True)),
        (UpdateResult, None, False, {"raw_result": None}),
        (DeleteResult, {"n": 2, "ok": 1}, True, {"deleted_count": 2, "raw_result": {"n": 2, "ok": 1}}),
        (DeleteResult, None, False, {"raw_result": None}),
        (BulkWriteResult, BULK, True, {**BULK_COUNTS, "bulk_api_result": BULK}),
    ],
)
def test_values(kind: type[Any], argument: Any, acknowledged: bool, expected: dict[str, Any]) -> None:
    result = kind(argument, acknowledged=acknowledged)
    assert {name: getattr(result, name) for name in expected} == expected
    assert result.acknowledged is acknowledged
    assert repr(result) == f"{kind.__name__}({argument!r}, acknowledged={acknowledged})"
    with pytest.raises(AttributeError):
        result.typo = 1


@pytest.mark.parametrize(
    ("result", "name"),
    [
        *((UpdateResult(None, False), name) for name in updated(0, 0, False)),
        (DeleteResult(None, False), "deleted_count"),
        *((BulkWriteResult({}, False), name) for name in BULK_COUNTS),
    ],
)
def test_what_is_unknown_without_an_acknowledgement(result: Any, name: str) -> None:
    with pytest.raises(InvalidOperation, match=f"{name} is unknown because the write was not acknowledged"):
        getattr(result, name)
