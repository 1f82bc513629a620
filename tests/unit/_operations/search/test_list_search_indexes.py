from __future__ import annotations

from motorlite._execution.operation import Kind
from motorlite._operations.search.list_search_indexes import ListSearchIndexes, search_index_stages
from motorlite.read_concern import ReadConcern
from tests.unit._operations.servers import sent


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


def test_facts_and_reply() -> None:
    operation = ListSearchIndexes("db", "coll", search_index_stages())
    assert operation.kind is Kind.READ
    assert operation.is_retryable
    assert operation.is_idempotent
    assert operation.creates_cursor
    assert not operation.supports_after_cluster_time
    reply = operation.parse({"cursor": {"id": 0, "ns": "db.coll", "firstBatch": [{"name": "mine"}]}})
    assert reply.documents == [{"name": "mine"}]
