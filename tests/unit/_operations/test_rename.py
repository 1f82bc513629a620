from __future__ import annotations

import pytest

from motorlite._execution.operation import Kind
from motorlite._operations.rename import Rename
from motorlite.errors import WriteConcernError


def test_facts_and_reply() -> None:
    operation = Rename("admin", {"renameCollection": "db.a", "to": "db.b"})
    assert operation.name == "renameCollection"
    assert operation.kind is Kind.COMMAND
    assert operation.parse({"ok": 1}) == {"ok": 1}
    with pytest.raises(WriteConcernError):
        operation.parse({"ok": 1, "writeConcernError": {"code": 64, "errmsg": "slow"}})
