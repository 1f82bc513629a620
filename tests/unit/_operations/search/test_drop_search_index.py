from __future__ import annotations

from motorlite._execution.operation import Kind
from motorlite._operations.search.drop_search_index import DropSearchIndex
from tests.unit._operations.servers import sent


def test_the_command() -> None:
    assert sent(DropSearchIndex("db", "coll", "mine")) == {"dropSearchIndex": "coll", "name": "mine"}
    assert sent(DropSearchIndex("db", "coll", "mine", comment="c", max_time_ms=9)) == {
        "dropSearchIndex": "coll",
        "name": "mine",
        "comment": "c",
        "maxTimeMS": 9,
    }


def test_facts() -> None:
    operation = DropSearchIndex("db", "coll", "mine")
    assert operation.name == "dropSearchIndex"
    assert operation.kind is Kind.WRITE
    assert operation.is_acknowledged
    assert not operation.is_retryable
    assert not operation.is_idempotent
    assert not operation.supports_after_cluster_time
