from __future__ import annotations

from bson.int64 import Int64

from motorlite._operations.cursors import GetMore
from motorlite.read_preferences import ReadPreference
from tests.support.servers import V4_2, V4_4, sent

ADDRESS = ("db2.test", 27018)


def test_the_shortest_command() -> None:
    operation = GetMore("db", "coll", 5, address=ADDRESS)
    document = sent(operation)
    assert document == {"getMore": 5, "collection": "coll"}
    assert type(document["getMore"]) is Int64
    assert operation.selector == ADDRESS


def test_all_options() -> None:
    operation = GetMore(
        "db",
        "coll",
        2**40,
        address=ADDRESS,
        read_preference=ReadPreference.NEAREST,
        batch_size=10,
        comment={"a": 1},
        is_await_data=True,
        max_await_time_ms=0,
    )
    assert sent(operation, V4_4) == {
        "getMore": 2**40,
        "collection": "coll",
        "batchSize": 10,
        "maxTimeMS": 0,
        "comment": {"a": 1},
    }
    assert operation.is_await_data
    assert operation.read_preference is ReadPreference.NEAREST


def test_a_comment_is_not_sent_to_servers_that_do_not_know_it_there() -> None:
    operation = GetMore("db", "coll", 5, address=ADDRESS, comment="why")
    assert "comment" not in sent(operation, V4_2)


def test_the_reply() -> None:
    reply = GetMore("db", "coll", 5, address=ADDRESS).parse(
        {"cursor": {"id": 0, "ns": "db.coll", "nextBatch": [{"_id": 3}]}, "ok": 1}
    )
    assert (reply.cursor_id, reply.documents) == (0, [{"_id": 3}])
