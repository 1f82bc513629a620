from __future__ import annotations

from motorlite._operations.indexes import ListSearchIndexes, search_index_stages
from motorlite.read_concern import ReadConcern
from tests.support.servers import sent


def test_the_command() -> None:
    operation = ListSearchIndexes("db", "coll", search_index_stages(), read_concern=ReadConcern("majority"))
    assert sent(operation) == {"aggregate": "coll", "pipeline": [{"$listSearchIndexes": {}}], "cursor": {}}
    operation = ListSearchIndexes("db", "coll", search_index_stages("mine"), batch_size=5, comment="c", max_time_ms=9)
    assert sent(operation) == {
        "aggregate": "coll",
        "pipeline": [{"$listSearchIndexes": {"name": "mine"}}],
        "cursor": {"batchSize": 5},
        "comment": "c",
        "maxTimeMS": 9,
    }


def test_the_reply() -> None:
    operation = ListSearchIndexes("db", "coll", search_index_stages())
    reply = operation.parse({"cursor": {"id": 0, "ns": "db.coll", "firstBatch": [{"name": "mine"}]}})
    assert reply.documents == [{"name": "mine"}]
