from __future__ import annotations

from typing import Any

import pytest

from motorlite._operations.single_writes import Update
from motorlite._operations.statements import replace_statement, update_statement
from motorlite.errors import ConfigurationError, DuplicateKeyError, WriteConcernError
from motorlite.write_concern import WriteConcern
from tests.support.servers import V4_2, V4_4, V5_0, V7_0, V8_0, sent

SET = {"$set": {"x": 1}}
UNACKNOWLEDGED = WriteConcern(0)


def test_update_one() -> None:
    operation = Update("db", "coll", update_statement({"_id": 1}, SET))
    assert sent(operation) == {"update": "coll", "ordered": True, "updates": [{"q": {"_id": 1}, "u": SET}]}


def test_all_options() -> None:
    operation = Update(
        "db",
        "coll",
        replace_statement({"_id": 1}, {"x": 1}),
        write_concern=WriteConcern(2),
        bypass_document_validation=True,
        let={"a": 1},
        comment="c",
    )
    assert sent(operation) == {
        "update": "coll",
        "ordered": True,
        "updates": [{"q": {"_id": 1}, "u": {"x": 1}}],
        "let": {"a": 1},
        "comment": "c",
        "bypassDocumentValidation": True,
        "writeConcern": {"w": 2},
    }


def test_update_many_is_not_retryable() -> None:
    operation = Update("db", "coll", update_statement({}, SET, multi=True))
    assert not operation.is_retryable
    assert operation.is_acknowledged


def test_an_unacknowledged_update_is_not_retryable() -> None:
    operation = Update("db", "coll", update_statement({}, SET), write_concern=UNACKNOWLEDGED)
    assert not operation.is_retryable
    assert not operation.is_acknowledged


@pytest.mark.parametrize(
    ("statement", "options", "option", "older", "newer"),
    [
        ({"sort": {"x": 1}}, {}, "sort of an unacknowledged update needs MongoDB 8.0", V7_0, V8_0),
        ({}, {"let": {"a": 1}}, "let of an unacknowledged write needs MongoDB 5.0", V4_4, V5_0),
        ({}, {"comment": "c"}, "comment of an unacknowledged write needs MongoDB 4.4", V4_2, V4_4),
    ],
)
def test_options_of_newer_servers(
    statement: dict[str, Any], options: dict[str, Any], option: str, older: Any, newer: Any
) -> None:
    built = update_statement({}, SET, **statement)
    # A server that answers refuses them itself (CRUD specification tests, "unsupported (server-side error)").
    sent(Update("db", "coll", built, **options), older)
    operation = Update("db", "coll", built, write_concern=UNACKNOWLEDGED, **options)
    with pytest.raises(ConfigurationError) as caught:
        operation.command(older)
    assert option in str(caught.value)
    sent(operation, newer)


def test_a_reply() -> None:
    reply = {"n": 1, "nModified": 1, "ok": 1}
    result = Update("db", "coll", update_statement({}, SET)).parse(reply)
    assert result == {"n": 1, "nModified": 1, "ok": 1, "updatedExisting": True}
    assert reply == {"n": 1, "nModified": 1, "ok": 1}, "listeners are shown the reply as it was"


def test_the_reply_to_an_upsert() -> None:
    reply = {"n": 1, "nModified": 0, "upserted": [{"index": 0, "_id": None}], "ok": 1}
    result = Update("db", "coll", update_statement({}, SET, upsert=True)).parse(reply)
    assert result == {"n": 1, "nModified": 0, "upserted": None, "updatedExisting": False, "ok": 1}


def test_a_reply_without_a_match() -> None:
    result = Update("db", "coll", update_statement({}, SET)).parse({"n": 0, "nModified": 0, "ok": 1})
    assert result is not None
    assert result["updatedExisting"] is False


def test_errors_in_a_reply() -> None:
    operation = Update("db", "coll", update_statement({}, SET))
    with pytest.raises(DuplicateKeyError):
        operation.parse({"writeErrors": [{"index": 0, "code": 11000, "errmsg": "dup"}], "ok": 1})
    with pytest.raises(WriteConcernError):
        operation.parse({"writeConcernError": {"code": 91, "errmsg": "down"}, "ok": 1})
