from __future__ import annotations

import pytest

from motorlite._operations.collections import Drop
from motorlite.errors import WTimeoutError
from motorlite.write_concern import WriteConcern
from tests.support.servers import sent


def test_the_command() -> None:
    assert sent(Drop("db", "coll")) == {"drop": "coll"}
    assert sent(Drop("db", "coll", comment="c", write_concern=WriteConcern(2))) == {
        "drop": "coll",
        "comment": "c",
        "writeConcern": {"w": 2},
    }


def test_the_reply() -> None:
    operation = Drop("db", "coll")
    with pytest.raises(WTimeoutError):
        operation.parse({"writeConcernError": {"code": 64, "errmsg": "slow", "errInfo": {"wtimeout": True}}, "ok": 1})
