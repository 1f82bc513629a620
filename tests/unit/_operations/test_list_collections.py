from __future__ import annotations

from motorlite._operations.collections import ListCollections
from motorlite._operations.contract import TimeLimit
from motorlite.read_preferences import ReadPreference
from tests.support.servers import sent


def test_the_command() -> None:
    assert sent(ListCollections("db")) == {"listCollections": 1, "cursor": {}}
    operation = ListCollections(
        "db",
        filter={"name": "x"},
        name_only=True,
        authorized_collections=False,
        batch_size=5,
        comment="c",
        max_time_ms=9,
        options={"serverOption": 1},
        time_limit=TimeLimit.OMIT,
        selector=ReadPreference.PRIMARY,
    )
    assert sent(operation) == {
        "listCollections": 1,
        "cursor": {"batchSize": 5},
        "filter": {"name": "x"},
        "nameOnly": True,
        "authorizedCollections": False,
        "comment": "c",
        "maxTimeMS": 9,
        "serverOption": 1,
    }
    assert operation.time_limit is TimeLimit.OMIT
    assert operation.selector is ReadPreference.PRIMARY


def test_the_reply() -> None:
    operation = ListCollections("db")
    reply = operation.parse({"cursor": {"id": 1, "ns": "db.$cmd.listCollections", "firstBatch": [{"name": "x"}]}})
    assert (reply.cursor_id, reply.namespace) == (1, "db.$cmd.listCollections")
    assert reply.documents == [{"name": "x"}]
