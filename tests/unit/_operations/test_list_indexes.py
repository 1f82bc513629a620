from __future__ import annotations

from motorlite._operations.contract import TimeLimit
from motorlite._operations.indexes import ListIndexes
from tests.support.servers import sent


def test_the_command() -> None:
    assert sent(ListIndexes("db", "coll")) == {"listIndexes": "coll", "cursor": {}}
    operation = ListIndexes(
        "db",
        "coll",
        batch_size=5,
        comment="c",
        max_time_ms=9,
        options={"serverOption": 1},
        time_limit=TimeLimit.OMIT,
    )
    assert sent(operation) == {
        "listIndexes": "coll",
        "cursor": {"batchSize": 5},
        "comment": "c",
        "maxTimeMS": 9,
        "serverOption": 1,
    }
    assert operation.time_limit is TimeLimit.OMIT


def test_the_reply() -> None:
    operation = ListIndexes("db", "coll")
    reply = operation.parse({"cursor": {"id": 0, "ns": "db.coll", "firstBatch": [{"name": "_id_"}]}})
    assert reply.documents == [{"name": "_id_"}]
