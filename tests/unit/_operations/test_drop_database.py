from __future__ import annotations

from motorlite._operations.collections import DropDatabase
from motorlite.write_concern import WriteConcern
from tests.support.servers import sent


def test_the_command() -> None:
    operation = DropDatabase("db")
    assert operation.database == "db"
    assert sent(operation) == {"dropDatabase": 1}
    assert sent(DropDatabase("db", comment="c", write_concern=WriteConcern("majority"))) == {
        "dropDatabase": 1,
        "comment": "c",
        "writeConcern": {"w": "majority"},
    }
