from __future__ import annotations

import pytest

from motorlite._operations.single_writes import Delete
from motorlite._operations.statements import delete_statement
from motorlite.errors import ConfigurationError, WriteConcernError
from motorlite.write_concern import WriteConcern
from tests.support.servers import V4_2, V4_4, sent


def test_delete_one() -> None:
    operation = Delete("db", "coll", delete_statement({"x": 1}))
    assert sent(operation) == {"delete": "coll", "ordered": True, "deletes": [{"q": {"x": 1}, "limit": 1}]}


def test_all_options() -> None:
    operation = Delete(
        "db",
        "coll",
        delete_statement({"x": 1}),
        write_concern=WriteConcern(j=True),
        let={"a": 1},
        comment="c",
    )
    assert sent(operation) == {
        "delete": "coll",
        "ordered": True,
        "deletes": [{"q": {"x": 1}, "limit": 1}],
        "let": {"a": 1},
        "comment": "c",
        "writeConcern": {"j": True},
    }


def test_delete_many_is_not_retryable() -> None:
    assert not Delete("db", "coll", delete_statement({}, multi=True)).is_retryable


@pytest.mark.parametrize("write_concern", [None, WriteConcern(0)])
def test_hint_needs_4_4(write_concern: WriteConcern | None) -> None:
    operation = Delete("db", "coll", delete_statement({}, hint="x_1"), write_concern=write_concern)
    with pytest.raises(ConfigurationError, match=r"hint of a delete needs MongoDB 4\.4 \(wire version 9\)"):
        operation.command(V4_2)
    assert sent(operation, V4_4)["deletes"] == [{"q": {}, "limit": 1, "hint": "x_1"}]


def test_replies() -> None:
    operation = Delete("db", "coll", delete_statement({}))
    assert operation.parse({"n": 1, "ok": 1}) == {"n": 1, "ok": 1}
    with pytest.raises(WriteConcernError):
        operation.parse({"n": 1, "writeConcernError": {"code": 91, "errmsg": "down"}, "ok": 1})
