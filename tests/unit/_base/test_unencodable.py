from __future__ import annotations

import datetime
import decimal
import enum
import uuid
from array import array
from typing import Any

import bson
import pytest
from bson import SON, ObjectId
from bson.codec_options import DEFAULT_CODEC_OPTIONS, CodecOptions, TypeEncoder, TypeRegistry

from motorlite._base.unencodable import explain
from motorlite._wire.documents import encode


class Colour(enum.Enum):
    RED = 1


class Model:
    def __repr__(self) -> str:
        return "Model()"

    def model_dump(self) -> dict[str, Any]:
        return {}


class Odd:
    def __repr__(self) -> str:
        return "Odd()"


async def forgotten() -> None:
    """Not awaited."""


def explained(document: Any, codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS) -> str:
    with pytest.raises((bson.errors.BSONError, TypeError, ValueError, OverflowError)) as caught:
        encode(document, codec_options)
    explain(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"a": {1}}, "the value of a is {1}; write a list"),
        ({"a": frozenset()}, "the value of a is frozenset(); write a list"),
        ({"a": {"b": [0, {"c": decimal.Decimal(1)}]}}, "the value of a.b.1.c is Decimal('1'); write a bson.Decimal128"),
        (SON(a=(0, datetime.date(2020, 1, 2))), "of a.1 is datetime.date(2020, 1, 2); write a datetime.datetime"),
        ({"a": datetime.time(1)}, "the value of a is datetime.time(1, 0); write a datetime.datetime or a str"),
        ({"a": datetime.timedelta(1)}, "the value of a is datetime.timedelta(days=1); write its total_seconds()"),
        ({"a": 2**64}, "the value of a is 18446744073709551616; write a str or a bson.Decimal128"),
        ({"a": Colour.RED}, "the value of a is <Colour.RED: 1>; write its value"),
        ({"a": ObjectId}, "the value of a is <class 'bson.objectid.ObjectId'>; write ObjectId(...), an instance"),
        ({"a": Model()}, "the value of a is Model(); write the result of its model_dump()"),
        ({"a": array("i", [1])}, "the value of a is array('i', [1]); write the result of its tolist()"),
        ({"a": Odd()}, "the value of a is Odd(); register a codec in CodecOptions(type_registry=...), or write a type"),
        ({"a": {1: 2}}, "the key 1 of a must be a str; write '1'"),
        ({1: 2}, "the key 1 of the document must be a str; write '1'"),
        ({"a": [{"b\0": "secret"}]}, "the key 'b\\x00' of a.0 must not contain the null character"),
        (
            {"a": uuid.UUID(int=7)},
            "the value of a is UUID('00000000-0000-0000-0000-000000000007'); make the client with "
            'uuidRepresentation="standard", or write bson.Binary.from_uuid(...)',
        ),
        ({"a": "x" * 90 + "\ud800"}, "surrogates not allowed"),
    ],
)
def test_the_value_its_place_and_what_to_write(document: Any, message: str) -> None:
    text = explained(document)
    assert message in text
    assert "secret" not in text


def test_a_forgotten_await() -> None:
    waiting = forgotten()
    text = explained({"a": waiting})
    waiting.close()
    assert text.endswith("; await it first")


def test_long_values_are_cut() -> None:
    assert len(explained({"a": {"x" * 1000}})) < 1300  # bson repeats the value too


def test_codecs_of_the_application_are_asked() -> None:
    class Encoder(TypeEncoder):
        python_type = decimal.Decimal

        def transform_python(self, value: Any) -> Any:
            return str(value)

    options: CodecOptions[Any] = CodecOptions(type_registry=TypeRegistry([Encoder()]))
    assert "the value of b is {1}" in explained({"a": decimal.Decimal(1), "b": {1}}, options)


def test_it_is_said_once() -> None:
    with pytest.raises(bson.errors.InvalidDocument) as caught:
        bson.encode({"a": {1}})
    for _ in range(2):
        explain(caught.value)
        assert str(caught.value).count("the value of a") == 1


@pytest.mark.parametrize("error", [ValueError("not about a document"), ValueError("two", "arguments"), KeyError("a")])
def test_other_errors_stay_as_they_are(error: Exception) -> None:
    text = str(error)
    try:
        raise error
    except Exception as raised:
        explain(raised)
    assert str(error) == text


def test_an_encoder_that_fails_now_and_then() -> None:
    """Where every value can be encoded alone, nothing is said."""

    def encode(document: Any, codec_options: Any) -> None:
        raise ValueError("sometimes")

    with pytest.raises(ValueError, match=r"^sometimes$") as caught:
        encode({"a": 1}, DEFAULT_CODEC_OPTIONS)
    explain(caught.value)
    assert str(caught.value) == "sometimes"
