from __future__ import annotations

from motorlite._operations.indexes import DropSearchIndex
from tests.support.servers import sent


def test_the_command() -> None:
    assert sent(DropSearchIndex("db", "coll", "mine")) == {"dropSearchIndex": "coll", "name": "mine"}
    assert sent(DropSearchIndex("db", "coll", "mine", comment="c", max_time_ms=9)) == {
        "dropSearchIndex": "coll",
        "name": "mine",
        "comment": "c",
        "maxTimeMS": 9,
    }
