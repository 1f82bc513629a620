from __future__ import annotations

from motorlite._operations.common import ALL_INDEXES
from motorlite._operations.indexes import DropIndexes
from motorlite.write_concern import WriteConcern
from tests.support.servers import sent


def test_the_command() -> None:
    assert sent(DropIndexes("db", "coll", "a_1")) == {"dropIndexes": "coll", "index": "a_1"}
    assert sent(DropIndexes("db", "coll", ALL_INDEXES)) == {"dropIndexes": "coll", "index": "*"}
    operation = DropIndexes(
        "db",
        "coll",
        {"a": 1},
        comment="c",
        max_time_ms=9,
        options={"serverOption": 1},
        write_concern=WriteConcern("majority"),
    )
    assert sent(operation) == {
        "dropIndexes": "coll",
        "index": {"a": 1},
        "serverOption": 1,
        "comment": "c",
        "maxTimeMS": 9,
        "writeConcern": {"w": "majority"},
    }
