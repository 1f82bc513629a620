from __future__ import annotations

from motorlite._operations.indexes import UpdateSearchIndex
from tests.support.servers import sent


def test_the_command() -> None:
    assert sent(UpdateSearchIndex("db", "coll", "mine", {"mappings": {}})) == {
        "updateSearchIndex": "coll",
        "name": "mine",
        "definition": {"mappings": {}},
    }
    assert sent(UpdateSearchIndex("db", "coll", "mine", {}, comment="c", max_time_ms=9)) == {
        "updateSearchIndex": "coll",
        "name": "mine",
        "definition": {},
        "comment": "c",
        "maxTimeMS": 9,
    }
