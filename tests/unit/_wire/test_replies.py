"""What a reply must be to be read."""

from __future__ import annotations

from typing import Any

import pytest
from bson.code import Code
from bson.dbref import DBRef
from bson.int64 import Int64
from bson.raw_bson import RawBSONDocument
from bson.son import SON

from motorlite._wire import replies
from motorlite._wire.replies import error_from_reply
from motorlite.errors import (
    DuplicateKeyError,
    NotPrimaryError,
    OperationFailure,
    ProtocolError,
    WriteConcernError,
    WTimeoutError,
)


@pytest.mark.parametrize(
    ("value", "expected"), [(0, 0), (Int64(7), 7), (3.0, 3), (2**63 - 1, 2**63 - 1), (2.0**62, 2**62)]
)
def test_numbers(value: object, expected: int) -> None:
    assert replies.number({"n": value}, "n") == expected


@pytest.mark.parametrize(
    "value", [None, True, "1", 2.5, float("nan"), float("inf"), 2.0**63, -(2.0**64), 1e300, [1], {"a": 1}, -1]
)
def test_no_numbers(value: object) -> None:
    with pytest.raises(ProtocolError, match=r"^the server sent a malformed reply: n (is|has) "):
        replies.number({"n": value}, "n")
    with pytest.raises(ProtocolError):
        replies.number({"n": value}, "n", 0)


def test_what_is_absent() -> None:
    assert replies.number({}, "n", 4) == 4
    for read in (replies.number, replies.text, replies.document, replies.array, replies.documents):
        with pytest.raises(ProtocolError, match="n is missing"):
            read({}, "n")


def test_text_is_plain() -> None:
    assert type(replies.text({"name": Code("f")}, "name")) is str


def test_the_value_is_not_in_the_message() -> None:
    with pytest.raises(ProtocolError) as caught:
        replies.array({"values": "secret" * 1000}, "values")
    assert str(caught.value) == "the server sent a malformed reply: values is of type str; it must be an array"


def test_documents_of_every_class() -> None:
    found = [{}, SON(), RawBSONDocument(b"\x05\0\0\0\0"), DBRef("c", 1)]
    assert replies.documents({"a": found}, "a", are_stored=True) is found
    assert replies.first_document({"cursor": {"firstBatch": found[3:]}}, is_stored=True) is found[3]
    with pytest.raises(ProtocolError, match="element of type DBRef"):
        replies.documents({"a": found}, "a")
    with pytest.raises(ProtocolError, match="element of type int"):
        replies.documents({"a": [{}, 5]}, "a")


@pytest.mark.parametrize(
    "cursor",
    [
        None,
        5,
        {"ns": "a.b", "firstBatch": []},
        {"id": "7", "ns": "a.b", "firstBatch": []},
        {"id": True, "ns": "a.b", "firstBatch": []},
        {"id": 7, "firstBatch": []},
        {"id": 7, "ns": "a", "firstBatch": []},
        {"id": 7, "ns": ".b", "firstBatch": []},
        {"id": 7, "ns": "a.b\udc80", "firstBatch": []},
        {"id": 7, "ns": "a.b"},
        {"id": 7, "ns": "a.b", "firstBatch": [5]},
    ],
    ids=repr,
)
def test_no_cursors(cursor: Any) -> None:
    with pytest.raises(ProtocolError):
        replies.cursor({"cursor": cursor}, "firstBatch")


def test_cursors() -> None:
    assert replies.cursor({"cursor": {"id": 7, "ns": "a.b.c", "nextBatch": [{}]}}, "nextBatch") == (7, "a.b.c", [{}])
    assert replies.cursor({"cursor": {"id": 0, "firstBatch": []}}, "firstBatch") == (0, "", [])


def test_writes() -> None:
    replies.check_write({"n": 1})
    replies.check_write({"n": 1, "writeErrors": [], "writeConcernError": None})
    errors = {"writeErrors": [{"code": 2}, {"code": 11000}], "writeConcernError": {}, "errorLabels": ["a", Code("b")]}
    with pytest.raises(DuplicateKeyError) as caught:
        replies.check_write(errors)
    assert caught.value.error_labels == {"a", "b"}
    with pytest.raises(WTimeoutError):
        replies.check_write({"writeConcernError": {"code": 64, "errInfo": {"wtimeout": True}}})
    with pytest.raises(WriteConcernError) as concern:
        replies.check_write_concern({"writeConcernError": {"code": [1], "errmsg": 5, "errInfo": [1]}})
    assert concern.value.code is None
    with pytest.raises(WriteConcernError) as concern:
        replies.check_write_concern({"writeConcernError": {"errorLabels": ["a", 5]}, "errorLabels": ["b"]})
    assert concern.value.error_labels == {"a", "b"}


@pytest.mark.parametrize(
    "reply",
    [
        {"writeErrors": 5},
        {"writeErrors": [5]},
        {"writeErrors": [{"index": 0}], "errorLabels": "a"},
        {"writeConcernError": 5},
        {"writeConcernError": {}, "errorLabels": [5]},
    ],
    ids=repr,
)
def test_no_writes(reply: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        replies.check_write(reply)


@pytest.mark.parametrize(
    "reply",
    [
        {"n": "1"},
        {"nModified": None},
        {"writeErrors": [{"index": 2}]},
        {"writeErrors": [{"index": -1}]},
        {"writeErrors": [{}]},
        {"upserted": [{"index": 2, "_id": 1}]},
        {"upserted": [{"index": 0}]},
        {"writeConcernError": 5},
        {"writeConcernError": {}, "errorLabels": 5},
    ],
    ids=repr,
)
def test_no_batches(reply: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        replies.check_batch(reply, 2)


def test_batches() -> None:
    replies.check_batch({}, 0)
    replies.check_batch(
        {"n": 2, "writeErrors": [{"index": 1.0}], "upserted": [{"index": 0, "_id": None}], "writeConcernError": {}}, 2
    )


# --- the exceptions that error documents become ---


CONCERN = {"code": 100, "errmsg": "not enough"}


def refusal(code: int, **more: Any) -> dict[str, Any]:
    return {"ok": 0.0, "code": code, "errmsg": "no", "writeConcernError": CONCERN, **more}


def test_an_error_without_a_message() -> None:
    assert str(error_from_reply({"ok": 0})).startswith("the server sent an error without a message")


def test_a_write_concern_error_beside_another_error() -> None:
    error = error_from_reply(refusal(26, errorLabels=["Label"]), prefers_concern_error=True)
    assert type(error) is WriteConcernError
    assert (error.code, error.details) == (100, {**CONCERN, "errorLabels": ["Label"]})
    assert error.has_error_label("Label")
    wtimeout = {"code": 64, "errmsg": "late", "errInfo": {"wtimeout": True}}
    assert type(error_from_reply(refusal(26, writeConcernError=wtimeout), prefers_concern_error=True)) is WTimeoutError


@pytest.mark.parametrize(
    ("reply", "prefers", "kind"),
    [
        # After these the command is sent again, which counts more.
        *((refusal(code), prefers, NotPrimaryError) for code in (91, 10107) for prefers in (True, False)),
        *((refusal(6), prefers, OperationFailure) for prefers in (True, False)),
        (refusal(26, writeConcernError=None), True, OperationFailure),
        (refusal(26, writeConcernError=5), True, OperationFailure),
        (refusal(26, writeConcernError=[]), True, OperationFailure),
        # Commands of the application have their own error.
        (refusal(26), False, OperationFailure),
    ],
)
def test_an_error_that_counts_more_than_a_write_concern_error(
    reply: dict[str, Any], prefers: bool, kind: type[OperationFailure]
) -> None:
    error = error_from_reply(reply, prefers_concern_error=prefers)
    assert (type(error), getattr(error, "code", None)) == (kind, reply["code"])
