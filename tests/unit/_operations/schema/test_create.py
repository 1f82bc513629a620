from __future__ import annotations

import pytest

from motorlite._execution.operation import WRITABLE, Kind, TimeLimit
from motorlite._operations.schema.create import Create
from motorlite.errors import WriteConcernError
from motorlite.write_concern import WriteConcern
from tests.unit._operations.servers import sent


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


def test_facts_and_reply() -> None:
    operation = Create("db", "coll")
    assert operation.name == "create"
    assert operation.kind is Kind.WRITE
    assert operation.selector is WRITABLE
    assert not operation.is_retryable
    assert not operation.is_idempotent
    assert operation.is_acknowledged
    assert operation.time_limit is TimeLimit.SEND
    assert operation.parse({"ok": 1}) == {"ok": 1}
    with pytest.raises(WriteConcernError):
        operation.parse({"writeConcernError": {"code": 64, "errmsg": "slow"}, "ok": 1})


def test_unacknowledged() -> None:
    assert not Create("db", "coll", write_concern=WriteConcern(0)).is_acknowledged
