"""Documents as text: the whole, the beginning of it, and what the codec's JSON cannot show."""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import bson
import pytest
from bson import json_util
from bson.raw_bson import RawBSONDocument

from motorlite._base.values import cut
from motorlite._observe.log_documents import error_text, extended_json, max_document_length, short_error_text
from motorlite.errors import NetworkTimeout, OperationFailure

if TYPE_CHECKING:
    from collections.abc import Iterator

WIDE = {
    "text": 'quotes " and \\ and \n',
    "umlaut": "größer 🦎",
    "numbers": [1, bson.Int64(2**40), 1.5, float("nan"), float("-inf"), bson.Decimal128("1.10")],
    "when": datetime.datetime(2024, 2, 29, 12, 30, tzinfo=datetime.UTC),
    "id": bson.ObjectId("0123456789abcdef01234567"),
    "bytes": b"\x00\x01\x02\x03",
    "binary": bson.Binary(b"abcd", 128),
    "nothing": None,
    "yes": True,
    "regex": bson.Regex("^a", "i"),
    "time": bson.Timestamp(1, 2),
    "keys": [bson.MinKey(), bson.MaxKey()],
    "code": bson.Code("f()", {"x": 1}),
    "deep": {"a": [{"b": ({"c": []}, {})}]},
}


def test_is_relaxed_extended_json() -> None:
    options = json_util.RELAXED_JSON_OPTIONS
    expected = json_util.dumps(WIDE, json_options=options, ensure_ascii=False)
    assert extended_json(WIDE, 100_000) == expected


@pytest.mark.parametrize("limit", range(0, 700, 7))
def test_what_is_cut_begins_like_the_whole(limit: int) -> None:
    document = {**WIDE, "long": "x" * 50, "blob": b"\x07" * 50, "typed": bson.Binary(b"\x09" * 50, 5)}
    whole = extended_json(document, 100_000)
    text = extended_json(document, limit)
    assert text == cut(whole, limit)


@pytest.mark.parametrize("value", [b"\x07" * 500, bson.Binary(b"\x09" * 500, 5), "é" * 500, ["x"] * 500])
@pytest.mark.parametrize("limit", [0, 1, 30, 31, 32, 33, 499])
def test_what_is_cut_of_one_value_begins_like_the_whole(value: object, limit: int) -> None:
    assert extended_json({"a": value}, limit) == cut(extended_json({"a": value}, 100_000), limit)


@pytest.mark.parametrize("length", [9, 10, 11])
def test_a_document_of_just_the_limit_is_not_cut(length: int) -> None:
    text = extended_json({"a": "x" * (length - 9)}, 10)
    assert text.endswith("...") is (length > 10)


class Endless(Mapping[str, Any]):
    """Fails the test when more is read of it than is shown."""

    def __init__(self, readable: int) -> None:
        self.readable = readable

    def __getitem__(self, key: str) -> int:
        return 0

    def __iter__(self) -> Iterator[str]:
        yield from (f"field{number}" for number in range(self.readable))
        raise AssertionError("more was read than is shown")

    def __len__(self) -> int:
        return 10**9


def test_takes_no_time_for_what_is_not_shown() -> None:
    assert extended_json({"outer": [Endless(200)]}, 1000).endswith("...")


class Unshowable(datetime.tzinfo):
    def __repr__(self) -> str:
        return "Unshowable()"

    def utcoffset(self, when: datetime.datetime | None) -> datetime.timedelta | None:
        raise ValueError("no offset")

    def dst(self, when: datetime.datetime | None) -> datetime.timedelta | None:
        return None

    def tzname(self, when: datetime.datetime | None) -> str | None:
        return None


def test_what_json_util_refuses() -> None:
    when = datetime.datetime(2024, 1, 1, tzinfo=Unshowable())
    # Objects are shown as they call themselves.
    assert json.loads(extended_json({"when": when, "odd": 5j})) == {"when": repr(when), "odd": "5j"}
    raw = RawBSONDocument(bson.encode({"a": {"b": 1}}))
    assert extended_json({"raw": raw}) == '{"raw": {"a": {"b": 1}}}'
    value = uuid.UUID(int=5)
    assert json_util.loads(extended_json({"u": value})) == {"u": bson.Binary(value.bytes, 4)}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, 1000),
        ({"MONGODB_LOG_MAX_DOCUMENT_LENGTH": "50"}, 50),
        ({"MOTORLITE_LOG_MAX_DOCUMENT_LENGTH": " 60 "}, 60),
        ({"MOTORLITE_LOG_MAX_DOCUMENT_LENGTH": "60", "MONGODB_LOG_MAX_DOCUMENT_LENGTH": "50"}, 60),
        ({"MOTORLITE_LOG_MAX_DOCUMENT_LENGTH": "many", "MONGODB_LOG_MAX_DOCUMENT_LENGTH": "50"}, 50),
        ({"MONGODB_LOG_MAX_DOCUMENT_LENGTH": "-1"}, 1000),
        ({"MONGODB_LOG_MAX_DOCUMENT_LENGTH": "²"}, 1000),
        ({"MONGODB_LOG_MAX_DOCUMENT_LENGTH": "0"}, 0),
    ],
)
def test_the_environment_sets_the_length(environment: dict[str, str], expected: int) -> None:
    assert max_document_length(environment) == expected


def test_errors_are_cut() -> None:
    assert error_text(NetworkTimeout("too late")) == "NetworkTimeout: too late"
    assert error_text(OperationFailure("x" * 50, 1, {"errmsg": "y"}), 20) == "OperationFailure: xx..."


def test_the_short_form_says_nothing_about_the_data() -> None:
    reply = {"errmsg": "secret", "codeName": "Busy", "errorLabels": ["RetryableError", "A"]}
    assert short_error_text(OperationFailure("secret", 462, reply)) == (
        "OperationFailure: code 462, Busy, A, RetryableError"
    )
    assert short_error_text(OperationFailure("secret", 462)) == "OperationFailure: code 462"
    assert short_error_text(NetworkTimeout("too late")) == "NetworkTimeout: too late"
