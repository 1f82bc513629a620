from __future__ import annotations

import pytest

from motorlite._operations.collections import Validate
from motorlite.errors import ProtocolError
from tests.support.servers import V5_0


def test_command() -> None:
    command = Validate("db", "coll").command(V5_0)
    assert list(command.document.items()) == [("validate", "coll"), ("scandata", False), ("full", False)]
    command = Validate("db", "coll", scandata=True, full=True, background=False, comment="c").command(V5_0)
    assert command.document == {"validate": "coll", "scandata": True, "full": True, "background": False, "comment": "c"}


def test_the_reply() -> None:
    operation = Validate("db", "coll")
    good = {"ok": 1, "valid": True}
    assert operation.parse(good) == (good, None)
    bad = {"ok": 1, "valid": False}
    assert operation.parse(bad) == (bad, bad)
    shards = {"ok": 1, "raw": {"a": good, "b": bad}}
    assert operation.parse(shards) == (shards, bad)
    for raw in (5, {"a": 5}):
        with pytest.raises(ProtocolError):
            operation.parse({"ok": 1, "raw": raw})
