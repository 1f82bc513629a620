from __future__ import annotations

from typing import Any

import pytest
from bson.raw_bson import RawBSONDocument

from motorlite._operations.single_writes import Insert
from motorlite.errors import (
    ConfigurationError,
    DuplicateKeyError,
    WriteConcernError,
    WriteError,
    WTimeoutError,
)
from motorlite.write_concern import WriteConcern
from tests.support.servers import V4_2, V4_4, V7_0, sent


def test_the_command() -> None:
    document = {"_id": 1}
    operation = Insert("db", "coll", document)
    assert sent(operation) == {"insert": "coll", "ordered": True, "documents": [document]}
    assert list(sent(operation)) == ["insert", "ordered", "documents"]
    assert operation.command(V7_0).sequences == ()


def test_all_options() -> None:
    raw = RawBSONDocument(b"\x05\x00\x00\x00\x00")
    operation = Insert(
        "db",
        "coll",
        raw,
        write_concern=WriteConcern("majority", wtimeout=5),
        bypass_document_validation=False,
        comment="why",
    )
    assert sent(operation) == {
        "insert": "coll",
        "ordered": True,
        "documents": [raw],
        "bypassDocumentValidation": False,
        "comment": "why",
        "writeConcern": {"w": "majority", "wtimeout": 5},
    }


def test_the_default_write_concern_is_not_sent() -> None:
    operation = Insert("db", "coll", {}, write_concern=WriteConcern())
    assert "writeConcern" not in sent(operation)
    assert operation.is_acknowledged
    assert operation.is_retryable


def test_an_unacknowledged_insert_is_not_retryable() -> None:
    operation = Insert("db", "coll", {}, write_concern=WriteConcern(0))
    assert not operation.is_acknowledged
    assert not operation.is_retryable
    assert sent(operation, V4_2)["writeConcern"] == {"w": 0}


def test_a_comment_on_an_unacknowledged_insert_needs_4_4() -> None:
    operation = Insert("db", "coll", {}, write_concern=WriteConcern(0), comment=1)
    with pytest.raises(ConfigurationError, match=r"comment of an unacknowledged write needs MongoDB 4\.4"):
        operation.command(V4_2)
    assert sent(operation, V4_4)["comment"] == 1
    # An acknowledged one is for the server to refuse.
    assert sent(Insert("db", "coll", {}, comment=1), V4_2)["comment"] == 1


def test_the_executor_cannot_change_the_write_concern_of_the_caller() -> None:
    concern = WriteConcern("majority", wtimeout=5)
    command = Insert("db", "coll", {}, write_concern=concern).command(V7_0)
    del command.document["writeConcern"]["wtimeout"]
    assert concern.document == {"w": "majority", "wtimeout": 5}


def test_a_reply_without_errors() -> None:
    reply = {"n": 1, "ok": 1}
    assert Insert("db", "coll", {}).parse(reply) is reply


@pytest.mark.parametrize(
    ("reply", "expected", "code"),
    [
        ({"writeErrors": [{"index": 0, "code": 11000, "errmsg": "dup"}]}, DuplicateKeyError, 11000),
        ({"writeErrors": [{"index": 0, "code": 121, "errmsg": "invalid"}]}, WriteError, 121),
        ({"writeConcernError": {"code": 91, "errmsg": "down"}}, WriteConcernError, 91),
        (
            {"writeConcernError": {"code": 64, "errmsg": "slow", "errInfo": {"wtimeout": True}}},
            WTimeoutError,
            64,
        ),
        # A write error comes first.
        (
            {
                "writeErrors": [{"index": 0, "code": 11000, "errmsg": "dup"}],
                "writeConcernError": {"code": 91, "errmsg": "down"},
            },
            DuplicateKeyError,
            11000,
        ),
    ],
)
def test_errors_in_a_reply(reply: dict[str, Any], expected: type[Exception], code: int) -> None:
    with pytest.raises(expected) as caught:
        Insert("db", "coll", {}).parse({"n": 0, **reply, "errorLabels": ["RetryableWriteError"], "ok": 1})
    error = caught.value
    assert type(error) is expected
    assert isinstance(error, (WriteError, WriteConcernError))
    assert error.code == code
    # The labels are the reply's, not those of one of its errors.
    assert error.error_labels == {"RetryableWriteError"}
    assert error.reached_server
