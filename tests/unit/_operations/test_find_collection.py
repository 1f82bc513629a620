from __future__ import annotations

from typing import Any

import pytest

from motorlite._operations.collections import FindCollection
from motorlite.errors import ProtocolError
from tests.support.servers import sent


def test_the_command() -> None:
    assert sent(FindCollection("db", "coll", name_only=True, comment="c")) == {
        "listCollections": 1,
        "cursor": {},
        "filter": {"name": "coll"},
        "nameOnly": True,
        "comment": "c",
    }


def test_the_reply() -> None:
    operation = FindCollection("db", "coll")
    found: list[dict[str, Any]] = [{"name": "coll", "options": {"capped": True}}]
    assert operation.parse({"cursor": {"id": 0, "ns": "db.$cmd", "firstBatch": found}}) == found[0]
    assert operation.parse({"cursor": {"id": 0, "ns": "db.$cmd", "firstBatch": []}}) is None
    found[0]["options"] = 5
    with pytest.raises(ProtocolError, match="options is of type int"):
        operation.parse({"cursor": {"id": 0, "ns": "db.$cmd", "firstBatch": found}})
