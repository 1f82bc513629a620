from __future__ import annotations

import pytest

from motorlite._operations.collections import Create
from motorlite.errors import WriteConcernError
from motorlite.write_concern import WriteConcern
from tests.support.servers import sent


def test_the_command() -> None:
    assert sent(Create("db", "coll")) == {"create": "coll"}
    operation = Create(
        "db",
        "coll",
        options={"capped": True, "size": 4096},
        comment="c",
        write_concern=WriteConcern("majority"),
    )
    assert sent(operation) == {
        "create": "coll",
        "capped": True,
        "size": 4096,
        "comment": "c",
        "writeConcern": {"w": "majority"},
    }


def test_the_reply() -> None:
    operation = Create("db", "coll")
    assert operation.parse({"ok": 1}) == {"ok": 1}
    with pytest.raises(WriteConcernError):
        operation.parse({"writeConcernError": {"code": 64, "errmsg": "slow"}, "ok": 1})


def test_unacknowledged() -> None:
    assert not Create("db", "coll", write_concern=WriteConcern(0)).is_acknowledged
