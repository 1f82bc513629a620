from __future__ import annotations

from typing import Any

import pytest

from motorlite._base.values import ServerFacts
from motorlite._operations.aggregate import (
    Aggregate,
    AggregateWrite,
    CountDocuments,
    count_pipeline,
    has_write_stage,
    waits_for_data,
)
from motorlite._operations.contract import Kind, TimeLimit
from motorlite._topology.selection import WritesByPreference
from motorlite.errors import WriteConcernError
from motorlite.read_concern import ReadConcern
from motorlite.read_preferences import ReadPreference
from motorlite.write_concern import WriteConcern
from tests.support.servers import sent


def test_a_pipeline_on_a_collection() -> None:
    operation = Aggregate("db", "coll", [{"$match": {}}])
    assert sent(operation) == {"aggregate": "coll", "pipeline": [{"$match": {}}], "cursor": {}}


def test_a_pipeline_on_the_database() -> None:
    assert sent(Aggregate("admin", None, [{"$currentOp": {}}]))["aggregate"] == 1


def test_all_options() -> None:
    operation = Aggregate(
        "db",
        "coll",
        [],
        selector=ReadPreference.NEAREST,
        read_preference=ReadPreference.NEAREST,
        read_concern=ReadConcern("local"),
        time_limit=TimeLimit.OMIT,
        batch_size=0,
        allow_disk_use=False,
        bypass_document_validation=False,
        collation={"locale": "de"},
        hint={"x": 1},
        let={"a": 1},
        comment=5,
        max_time_ms=100,
        options={"serverOption": 1},
    )
    assert sent(operation) == {
        "aggregate": "coll",
        "pipeline": [],
        "allowDiskUse": False,
        "bypassDocumentValidation": False,
        "collation": {"locale": "de"},
        "hint": {"x": 1},
        "let": {"a": 1},
        "comment": 5,
        "maxTimeMS": 100,
        "serverOption": 1,
        "cursor": {"batchSize": 0},
        "readConcern": {"level": "local"},
    }
    assert operation.time_limit is TimeLimit.OMIT
    assert operation.selector is operation.read_preference is ReadPreference.NEAREST


def test_explain_has_no_cursor() -> None:
    operation = Aggregate("db", "coll", [], options={"explain": True})
    assert "cursor" not in sent(operation)
    plan = {"queryPlanner": {}, "ok": 1}
    reply = operation.parse(plan)
    assert (reply.cursor_id, reply.documents) == (0, [plan])


def test_the_reply() -> None:
    reply = Aggregate("db", "coll", []).parse({"cursor": {"id": 3, "ns": "db.coll", "firstBatch": [{}]}})
    assert (reply.cursor_id, reply.namespace, reply.documents) == (3, "db.coll", [{}])


@pytest.mark.parametrize(("wire_version", "is_sent"), [(12, False), (13, True)])
def test_the_preference_of_a_write_stage(wire_version: int, is_sent: bool) -> None:
    operation = AggregateWrite("db", "coll", [{"$out": "x"}], read_preference=ReadPreference.NEAREST)
    assert operation.selector == WritesByPreference(ReadPreference.NEAREST)
    operation.command(ServerFacts(("a", 1), max_wire_version=wire_version))
    assert (operation.read_preference is ReadPreference.NEAREST) is is_sent


@pytest.mark.parametrize("stage", ["$out", "$merge"])
def test_a_write_stage(stage: str) -> None:
    pipeline: list[dict[str, Any]] = [{"$match": {}}, {stage: "other"}]
    operation = AggregateWrite(
        "db",
        "coll",
        pipeline,
        write_concern=WriteConcern("majority"),
        read_concern=ReadConcern("majority"),
        batch_size=0,
        selector=ReadPreference.NEAREST,
    )
    # A batch size of 0 would keep the pipeline from being executed.
    assert sent(operation) == {
        "aggregate": "coll",
        "pipeline": pipeline,
        "cursor": {},
        "readConcern": {"level": "majority"},
        "writeConcern": {"w": "majority"},
    }
    assert operation.kind is Kind.WRITE
    assert not operation.is_retryable
    assert not operation.is_idempotent
    assert operation.is_acknowledged
    assert operation.selector is ReadPreference.NEAREST
    assert operation.parse({"cursor": {"id": 0, "firstBatch": []}}).documents == []


def test_the_write_concern_error_of_a_write_stage_is_raised() -> None:
    reply: dict[str, Any] = {
        "cursor": {"id": 0, "firstBatch": []},
        "writeConcernError": {"code": 91, "errmsg": "shutting down"},
        "errorLabels": ["SomeLabel"],
        "ok": 1,
    }
    with pytest.raises(WriteConcernError) as caught:
        AggregateWrite("db", "coll", [{"$out": "other"}]).parse(reply)
    assert caught.value.code == 91
    assert caught.value.has_error_label("SomeLabel")


@pytest.mark.parametrize(
    ("pipeline", "expected"),
    [
        ([], False),
        ([{"$match": {}}], False),
        ([{"$out": "x"}], True),
        ([{"$match": {}}, {"$merge": {"into": "x"}}], True),
        ([{"$out": "x"}, {"$match": {}}], False),
    ],
)
def test_has_write_stage(pipeline: list[dict[str, Any]], expected: bool) -> None:
    assert has_write_stage(pipeline) is expected


@pytest.mark.parametrize(
    ("pipeline", "expected"),
    [
        ([{"$changeStream": {}}], True),
        ([{"$changeStream": {}}, {"$match": {}}], True),
        ([{"$match": {}}], False),
        ([], False),
        (None, False),
        (["$changeStream"], False),
        ("$changeStream", False),
    ],
    ids=repr,
)
def test_waits_for_data(pipeline: Any, expected: bool) -> None:
    assert waits_for_data(pipeline) is expected


def test_count_documents() -> None:
    operation = CountDocuments("db", "coll", count_pipeline({"x": 1}, 2, 3))
    group = {"$group": {"_id": 1, "n": {"$sum": 1}}}
    assert sent(operation)["pipeline"] == [{"$match": {"x": 1}}, {"$skip": 2}, {"$limit": 3}, group]
    assert count_pipeline({}) == [{"$match": {}}, group]
    assert operation.parse({"cursor": {"id": 0, "firstBatch": [{"_id": 1, "n": 4}]}}) == 4
    assert operation.parse({"cursor": {"id": 0, "firstBatch": []}}) == 0
