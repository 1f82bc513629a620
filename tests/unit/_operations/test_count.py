from __future__ import annotations

from motorlite._operations.counts import Count
from motorlite.read_concern import ReadConcern
from tests.support.servers import sent


def test_the_command() -> None:
    assert sent(Count("db", "coll")) == {"count": "coll"}
    operation = Count(
        "db", "coll", comment="c", max_time_ms=5, read_concern=ReadConcern("local"), options={"hint": "x_1"}
    )
    assert sent(operation) == {
        "count": "coll",
        "comment": "c",
        "maxTimeMS": 5,
        "hint": "x_1",
        "readConcern": {"level": "local"},
    }


def test_the_reply() -> None:
    operation = Count("db", "coll")
    assert operation.parse({"n": 3.0, "ok": 1}) == 3
