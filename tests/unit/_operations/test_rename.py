from __future__ import annotations

from typing import Any

import pytest

from motorlite._operations.collections import Rename
from motorlite.errors import WriteConcernError
from motorlite.write_concern import WriteConcern
from tests.support.servers import V7_0


def test_the_reply() -> None:
    operation = Rename("db", "a", "b")
    assert operation.database == "admin"
    assert operation.parse({"ok": 1}) == {"ok": 1}
    with pytest.raises(WriteConcernError):
        operation.parse({"ok": 1, "writeConcernError": {"code": 64, "errmsg": "slow"}})


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, {}),
        ({"comment": "c", "options": {"dropTarget": True}}, {"dropTarget": True, "comment": "c"}),
        ({"write_concern": WriteConcern(2)}, {"writeConcern": {"w": 2}}),
        # Always acknowledged, whatever the collection's writes are.
        ({"write_concern": WriteConcern(0)}, {}),
    ],
)
def test_command(arguments: dict[str, Any], expected: dict[str, Any]) -> None:
    operation = Rename("db", "a", "b", **arguments)
    assert operation.command(V7_0).document == {"renameCollection": "db.a", "to": "db.b", **expected}
    assert operation.is_acknowledged
