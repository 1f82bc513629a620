from __future__ import annotations

from bson.int64 import Int64

from motorlite._operations.cursors import KillCursors
from tests.support.servers import sent

ADDRESS = ("db2.test", 27018)


def test_the_command() -> None:
    document = sent(KillCursors("db", "coll", [1, 2**40], address=ADDRESS))
    assert document == {"killCursors": "coll", "cursors": [1, 2**40]}
    assert {type(cursor_id) for cursor_id in document["cursors"]} == {Int64}


def test_the_reply() -> None:
    operation = KillCursors("db", "coll", [1], address=ADDRESS)
    assert operation.parse({"cursorsKilled": [1], "ok": 1}) == {"cursorsKilled": [1], "ok": 1}
