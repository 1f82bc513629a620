from __future__ import annotations

from motorlite._operations.counts import Distinct
from motorlite.read_concern import ReadConcern
from tests.support.servers import sent


def test_the_command() -> None:
    assert sent(Distinct("db", "coll", "x")) == {"distinct": "coll", "key": "x", "query": {}}
    operation = Distinct(
        "db",
        "coll",
        "x",
        {"y": 1},
        collation={"locale": "de"},
        hint="x_1",
        comment="c",
        max_time_ms=5,
        read_concern=ReadConcern("majority"),
        options={"serverOption": 1},
    )
    assert sent(operation) == {
        "distinct": "coll",
        "key": "x",
        "query": {"y": 1},
        "collation": {"locale": "de"},
        "hint": "x_1",
        "comment": "c",
        "maxTimeMS": 5,
        "serverOption": 1,
        "readConcern": {"level": "majority"},
    }


def test_the_reply() -> None:
    operation = Distinct("db", "coll", "x")
    assert operation.parse({"values": [1, "a"], "ok": 1}) == [1, "a"]
