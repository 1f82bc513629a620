from __future__ import annotations

from motorlite._operations.collections import ListDatabases
from tests.support.servers import sent


def test_the_command() -> None:
    operation = ListDatabases()
    assert operation.database == "admin"
    assert sent(operation) == {"listDatabases": 1}
    operation = ListDatabases(
        filter={"name": "x"},
        name_only=True,
        authorized_databases=False,
        comment="c",
        max_time_ms=9,
        options={"serverOption": 1},
    )
    assert sent(operation) == {
        "listDatabases": 1,
        "filter": {"name": "x"},
        "nameOnly": True,
        "authorizedDatabases": False,
        "comment": "c",
        "maxTimeMS": 9,
        "serverOption": 1,
    }


def test_the_reply() -> None:
    operation = ListDatabases()
    reply = operation.parse({"databases": [{"name": "a"}], "totalSize": 5, "ok": 1})
    assert (reply.cursor_id, reply.documents) == (0, [{"name": "a"}])
    assert reply.reply["totalSize"] == 5
