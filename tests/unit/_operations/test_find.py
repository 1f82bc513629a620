from __future__ import annotations

from typing import Any

import pytest
from bson.codec_options import CodecOptions

from motorlite._operations.contract import TimeLimit
from motorlite._operations.find import Find, FindOne
from motorlite._topology.selection import WRITABLE
from motorlite.errors import ConfigurationError
from motorlite.read_concern import ReadConcern
from motorlite.read_preferences import ReadPreference
from tests.support.servers import V4_2, V4_4, sent


def test_a_query_without_options() -> None:
    operation = Find("db", "coll")
    assert sent(operation) == {"find": "coll", "filter": {}}
    assert operation.database == "db"
    assert operation.selector is WRITABLE
    assert operation.read_preference is None


def test_all_options() -> None:
    options: CodecOptions[dict[str, object]] = CodecOptions(tz_aware=True)
    operation = Find(
        "db",
        "coll",
        {"x": 1},
        selector=ReadPreference.SECONDARY,
        read_preference=ReadPreference.SECONDARY,
        codec_options=options,
        read_concern=ReadConcern("majority"),
        time_limit=TimeLimit.OMIT,
        projection={"_id": 0},
        sort={"x": -1},
        skip=3,
        limit=20,
        batch_size=10,
        hint="x_1",
        collation={"locale": "de"},
        let={"a": 1},
        comment="why",
        max_time_ms=500,
        min={"x": 0},
        max={"x": 9},
        max_scan=5,
        return_key=False,
        show_record_id=True,
        no_cursor_timeout=True,
        allow_disk_use=False,
        allow_partial_results=True,
        oplog_replay=True,
        tailable=True,
        await_data=True,
    )
    assert sent(operation) == {
        "find": "coll",
        "filter": {"x": 1},
        "sort": {"x": -1},
        "projection": {"_id": 0},
        "hint": "x_1",
        "skip": 3,
        "limit": 20,
        "batchSize": 10,
        "maxTimeMS": 500,
        "comment": "why",
        "collation": {"locale": "de"},
        "let": {"a": 1},
        "min": {"x": 0},
        "max": {"x": 9},
        "maxScan": 5,
        "returnKey": False,
        "showRecordId": True,
        "allowDiskUse": False,
        "noCursorTimeout": True,
        "allowPartialResults": True,
        "oplogReplay": True,
        "tailable": True,
        "awaitData": True,
        "readConcern": {"level": "majority"},
    }
    assert operation.selector is ReadPreference.SECONDARY
    assert operation.read_preference is ReadPreference.SECONDARY
    assert operation.codec_options is options
    assert operation.time_limit is TimeLimit.OMIT


def test_the_default_read_concern_is_not_sent() -> None:
    assert "readConcern" not in sent(Find("db", "coll", read_concern=ReadConcern()))


def test_the_read_concern_of_the_caller_is_not_decorated() -> None:
    concern = ReadConcern("local")
    sent(Find("db", "coll", read_concern=concern))
    assert concern.document == {"level": "local"}


@pytest.mark.parametrize(
    ("limit", "batch_size", "expected"),
    [
        (0, 0, {}),
        (5, 0, {"limit": 5}),
        (0, 7, {"batchSize": 7}),
        (4, 2, {"limit": 4, "batchSize": 2}),
        # CRUD specification: equal values would leave an open cursor behind.
        (4, 4, {"limit": 4, "batchSize": 5}),
        (2, 4, {"limit": 2, "batchSize": 4}),
        # find, getMore and killCursors specification: negative values ask for a single batch.
        (-5, 0, {"limit": 5, "batchSize": 5, "singleBatch": True}),
        (-5, 3, {"limit": 5, "batchSize": 5, "singleBatch": True}),
        (0, -3, {"batchSize": 3, "singleBatch": True}),
        (5, -3, {"limit": 5, "batchSize": 5, "singleBatch": True}),
    ],
)
def test_limit_and_batch_size(limit: int, batch_size: int, expected: dict[str, object]) -> None:
    document = sent(Find("db", "coll", limit=limit, batch_size=batch_size))
    assert document == {"find": "coll", "filter": {}, **expected}


@pytest.mark.parametrize("value", [True, False])
def test_allow_disk_use_needs_4_4(value: bool) -> None:
    operation = Find("db", "coll", allow_disk_use=value)
    with pytest.raises(ConfigurationError) as caught:
        operation.command(V4_2)
    assert str(caught.value) == (
        "allow_disk_use needs MongoDB 4.4 (wire version 9), but db1.test:27017 is MongoDB 4.2 (wire version 8)"
    )
    assert sent(operation, V4_4)["allowDiskUse"] is value


def test_flags_are_sent_only_when_they_are_set() -> None:
    operation = Find(
        "db",
        "coll",
        no_cursor_timeout=False,
        allow_partial_results=False,
        oplog_replay=None,
        tailable=False,
        await_data=False,
        min=None,
    )
    assert sent(operation) == {"find": "coll", "filter": {}}


def test_an_unknown_option() -> None:
    with pytest.raises(TypeError, match="Find has no option 'typo'"):
        Find("db", "coll", typo=1)  # type: ignore[call-arg]  # the point of the test


def test_the_reply() -> None:
    batch = [{"_id": 1}, {"_id": 2}]
    reply = Find("db", "coll").parse({"cursor": {"id": 7, "ns": "db.coll", "firstBatch": batch}, "ok": 1})
    assert (reply.cursor_id, reply.namespace, reply.documents) == (7, "db.coll", batch)
    assert reply.reply["ok"] == 1


def test_find_one() -> None:
    operation: FindOne[Any] = FindOne("db", "coll", {"_id": 1}, sort={"x": 1}, skip=2, limit=9, batch_size=4)
    assert sent(operation) == {
        "find": "coll",
        "filter": {"_id": 1},
        "sort": {"x": 1},
        "skip": 2,
        "limit": 1,
        "singleBatch": True,
    }


def test_the_reply_to_find_one() -> None:
    operation: FindOne[Any] = FindOne("db", "coll")
    assert operation.parse({"cursor": {"id": 0, "firstBatch": [{"_id": 1}]}}) == {"_id": 1}
    assert operation.parse({"cursor": {"id": 0, "firstBatch": []}}) is None
