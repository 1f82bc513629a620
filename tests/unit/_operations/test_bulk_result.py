from __future__ import annotations

from typing import Any

from motorlite._operations.bulk import BulkResult, BulkRun, ordered_runs, unordered_runs
from motorlite._operations.slices import all_at_once
from motorlite.operations import DeleteOne, InsertOne, UpdateOne

REQUESTS = [
    InsertOne({"_id": 0}),
    UpdateOne({"x": 1}, {"$set": {"y": 1}}),
    InsertOne({"_id": 2}),
    DeleteOne({"x": 3}),
    UpdateOne({"x": 4}, {"$set": {"y": 1}}),
    InsertOne({"_id": 5}),
    UpdateOne({"x": 6}, {"$set": {"y": 1}}),
]


def duplicate(index: int) -> dict[str, Any]:
    return {"index": index, "code": 11000, "errmsg": f"duplicate {index}"}


def test_counts() -> None:
    inserts, updates, deletes = all_at_once(unordered_runs(REQUESTS))
    result = BulkResult(ordered=False)
    result.merge(inserts, 0, {"n": 2, "ok": 1})
    result.merge(inserts, 2, {"n": 1, "ok": 1})
    result.merge(updates, 0, {"n": 2, "nModified": 1, "ok": 1})
    result.merge(deletes, 0, {"n": 1, "ok": 1})
    assert result.details == {
        "writeErrors": [],
        "writeConcernErrors": [],
        "nInserted": 3,
        "nUpserted": 0,
        "nMatched": 2,
        "nModified": 1,
        "nRemoved": 1,
        "upserted": [],
    }
    assert result.can_continue
    assert result.error is None


def test_upserts_keep_the_indexes_of_the_requests() -> None:
    updates = all_at_once(unordered_runs(REQUESTS))[1]
    result = BulkResult(ordered=False)
    result.merge(updates, 0, {"n": 2, "nModified": 1, "upserted": [{"index": 1, "_id": "four"}]})
    result.merge(updates, 2, {"n": 1, "nModified": 0, "upserted": [{"index": 0, "_id": None}]})
    assert result.details["upserted"] == [{"index": 4, "_id": "four"}, {"index": 6, "_id": None}]
    assert result.details["nUpserted"] == 2
    assert result.details["nMatched"] == 1
    assert result.details["nModified"] == 1


def test_write_errors_keep_the_indexes_of_the_requests() -> None:
    inserts, updates, _ = all_at_once(unordered_runs(REQUESTS))
    result = BulkResult(ordered=False)
    reply = {"n": 0, "writeErrors": [duplicate(1)], "ok": 1}
    result.merge(inserts, 1, reply)
    result.merge(updates, 0, {"n": 1, "nModified": 0, "writeErrors": [duplicate(0), duplicate(2)]})
    assert result.can_continue
    assert reply["writeErrors"] == [duplicate(1)], "listeners are shown the reply as it was"
    error = result.error
    assert error is not None
    assert error.details is result.details
    assert [(entry["index"], entry["op"]) for entry in result.details["writeErrors"]] == [
        (1, {"q": {"x": 1}, "u": {"$set": {"y": 1}}, "multi": False, "upsert": False}),
        (5, {"_id": 5}),
        (6, {"q": {"x": 6}, "u": {"$set": {"y": 1}}, "multi": False, "upsert": False}),
    ]


def test_an_ordered_write_ends_at_its_first_error() -> None:
    runs = all_at_once(ordered_runs(REQUESTS))
    result = BulkResult(ordered=True)
    result.merge(runs[0], 0, {"n": 1})
    assert result.can_continue
    result.merge(runs[1], 0, {"n": 0, "nModified": 0, "writeErrors": [duplicate(0)]})
    assert not result.can_continue
    error = result.error
    assert error is not None
    assert error.details is not None
    assert error.details["nInserted"] == 1
    assert [entry["index"] for entry in error.details["writeErrors"]] == [1]
    assert error.code == 65


def test_write_concern_errors_do_not_end_an_ordered_write() -> None:
    run = BulkRun("insert", [{"_id": 0}, {"_id": 1}], range(2))
    result = BulkResult(ordered=True)
    first = {"code": 64, "errmsg": "slow"}
    result.merge(run, 0, {"n": 1, "writeConcernError": first})
    reply: dict[str, Any] = {
        "n": 1,
        "writeConcernError": {"code": 91, "errmsg": "down"},
        "errorLabels": ["RetryableWriteError"],
    }
    result.merge(run, 1, reply)
    assert result.can_continue
    assert result.details["nInserted"] == 2
    assert result.details["writeConcernErrors"] == [
        first,
        {"code": 91, "errmsg": "down", "errorLabels": ["RetryableWriteError"]},
    ]
    assert "errorLabels" not in reply["writeConcernError"]
    error = result.error
    assert error is not None
    assert error.has_error_label("RetryableWriteError")
