from __future__ import annotations

import pytest

from motorlite._operations.indexes import CreateSearchIndexes
from motorlite.errors import ProtocolError
from motorlite.operations import SearchIndexModel
from tests.support.servers import sent

INDEXES = [SearchIndexModel({"mappings": {}}).document, SearchIndexModel({}, "mine", "search").document]


def test_the_command() -> None:
    assert sent(CreateSearchIndexes("db", "coll", INDEXES)) == {
        "createSearchIndexes": "coll",
        "indexes": [{"definition": {"mappings": {}}}, {"name": "mine", "definition": {}, "type": "search"}],
    }
    assert sent(CreateSearchIndexes("db", "coll", [], comment="c", max_time_ms=9)) == {
        "createSearchIndexes": "coll",
        "indexes": [],
        "comment": "c",
        "maxTimeMS": 9,
    }


def test_the_reply() -> None:
    operation = CreateSearchIndexes("db", "coll", INDEXES)
    created = [{"id": "1", "name": "default"}, {"id": "2", "name": "mine"}]
    assert operation.parse({"ok": 1, "indexesCreated": created}) == ["default", "mine"]
    for wrong in ({"ok": 1}, {"indexesCreated": created[:1]}, {"indexesCreated": [{"name": "default"}, {"id": "2"}]}):
        with pytest.raises(ProtocolError):
            operation.parse(wrong)
