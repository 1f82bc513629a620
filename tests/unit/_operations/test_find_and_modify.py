from __future__ import annotations

from typing import Any

import pytest

from motorlite._operations.find_and_modify import FindAndModify
from motorlite.errors import ConfigurationError, WriteConcernError
from motorlite.write_concern import WriteConcern
from tests.support.servers import V4_2, V4_4, V5_0, sent

SET = {"$set": {"x": 1}}


def test_find_one_and_delete() -> None:
    assert sent(FindAndModify("db", "coll", {"a": 1})) == {
        "findAndModify": "coll",
        "query": {"a": 1},
        "remove": True,
    }


def test_find_one_and_replace() -> None:
    assert sent(FindAndModify("db", "coll", {}, replacement={})) == {
        "findAndModify": "coll",
        "query": {},
        "update": {},
    }


def test_find_one_and_update_with_all_options() -> None:
    operation: FindAndModify[Any] = FindAndModify(
        "db",
        "coll",
        {"a": 1},
        update=SET,
        upsert=True,
        return_new=True,
        projection={"_id": 0},
        sort={"a": 1},
        array_filters=[{"e": 1}],
        hint="a_1",
        collation={"locale": "de"},
        let={"v": 1},
        comment="c",
        max_time_ms=5,
        bypass_document_validation=False,
        write_concern=WriteConcern("majority"),
        options={"serverOption": 1},
    )
    assert sent(operation) == {
        "findAndModify": "coll",
        "query": {"a": 1},
        "update": SET,
        "arrayFilters": [{"e": 1}],
        "new": True,
        "upsert": True,
        "fields": {"_id": 0},
        "sort": {"a": 1},
        "hint": "a_1",
        "collation": {"locale": "de"},
        "let": {"v": 1},
        "comment": "c",
        "maxTimeMS": 5,
        "bypassDocumentValidation": False,
        "serverOption": 1,
        "writeConcern": {"w": "majority"},
    }


def test_without_acknowledgement_it_is_not_retryable() -> None:
    unacknowledged: FindAndModify[Any] = FindAndModify("db", "coll", {}, update=SET, write_concern=WriteConcern(0))
    assert not unacknowledged.is_retryable
    assert not unacknowledged.is_acknowledged


@pytest.mark.parametrize("write_concern", [None, WriteConcern(0)])
def test_hint_needs_4_4(write_concern: WriteConcern | None) -> None:
    operation: FindAndModify[Any] = FindAndModify("db", "coll", {}, hint="a_1", write_concern=write_concern)
    with pytest.raises(ConfigurationError, match=r"hint of findAndModify needs MongoDB 4\.4"):
        operation.command(V4_2)
    assert sent(operation, V4_4)["hint"] == "a_1"


def test_let_without_an_answer_needs_5_0() -> None:
    sent(FindAndModify("db", "coll", {}, let={"a": 1}), V4_4)
    operation: FindAndModify[Any] = FindAndModify("db", "coll", {}, let={"a": 1}, write_concern=WriteConcern(0))
    with pytest.raises(ConfigurationError, match=r"let of an unacknowledged write needs MongoDB 5\.0"):
        operation.command(V4_4)
    sent(operation, V5_0)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"update": {"x": 1}}, ValueError),
        ({"update": {}}, ValueError),
        ({"update": "x"}, TypeError),
        ({"replacement": SET}, ValueError),
        ({"replacement": []}, TypeError),
        ({"update": SET, "array_filters": {}}, TypeError),
    ],
)
def test_wrong_changes(options: dict[str, Any], expected: type[Exception]) -> None:
    with pytest.raises(expected):
        FindAndModify("db", "coll", {}, **options)


def test_a_wrong_filter() -> None:
    with pytest.raises(TypeError, match="filter must be a mapping"):
        FindAndModify("db", "coll", 5)  # type: ignore[arg-type]  # the point of the test


def test_replies() -> None:
    operation: FindAndModify[Any] = FindAndModify("db", "coll", {}, update=SET)
    assert operation.parse({"value": {"_id": 1}, "lastErrorObject": {}, "ok": 1}) == {"_id": 1}
    assert operation.parse({"value": None, "ok": 1}) is None
    assert operation.parse({"ok": 1}) is None
    with pytest.raises(WriteConcernError) as caught:
        operation.parse(
            {
                "value": {},
                "writeConcernError": {"code": 91, "errmsg": "down"},
                "errorLabels": ["RetryableWriteError"],
                "ok": 1,
            }
        )
    assert caught.value.has_error_label("RetryableWriteError")
