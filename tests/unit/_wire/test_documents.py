"""Codec options apply to the user's documents, and the reply around them stays a plain dict."""

from __future__ import annotations

import datetime
import uuid
from collections import OrderedDict
from typing import Any

import bson
import pytest
from bson.binary import Binary, UuidRepresentation
from bson.codec_options import (
    DEFAULT_CODEC_OPTIONS,
    CodecOptions,
    DatetimeConversion,
    TypeDecoder,
    TypeEncoder,
    TypeRegistry,
)
from bson.datetime_ms import DatetimeMS
from bson.dbref import DBRef
from bson.decimal128 import Decimal128
from bson.errors import BSONError, InvalidBSON, InvalidDocument
from bson.int64 import Int64
from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument
from bson.regex import Regex
from bson.son import SON
from hypothesis import given, settings
from hypothesis import strategies as st

from motorlite._wire import documents
from motorlite._wire.documents import decode_details, decode_reply, encode, encode_small
from motorlite.errors import OperationFailure, ProtocolError

UUID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
DATE = datetime.datetime(2020, 2, 29, 12, 0, 0, 123_000)

DOCUMENT: dict[str, Any] = {
    "_id": ObjectId(b"123456789012"),
    "int": 1,
    "long": Int64(2),
    "float": 0.5,
    "text": "x",
    "bytes": b"data",
    "decimal": Decimal128("1.5"),
    "date": DATE,
    "standard": Binary(UUID.bytes, 4),
    "legacy": Binary(UUID.bytes, 3),
    "regex": Regex("a", "i"),
    "none": None,
    "reference": DBRef("coll", 1),
    "nested": {"int": 1, "date": DATE, "deep": [{"int": 2, "standard": Binary(UUID.bytes, 4)}, [3, {"int": 4}]]},
}


class IntDecoder(TypeDecoder):
    bson_type = int

    def transform_bson(self, value: Any) -> Any:
        return ("int", value)


class DecimalDecoder(TypeDecoder):
    bson_type = Decimal128

    def transform_bson(self, value: Any) -> Any:
        return value.to_decimal()


class FailingTextDecoder(TypeDecoder):
    bson_type = str

    def transform_bson(self, value: Any) -> Any:
        raise LookupError(value)


class SetEncoder(TypeEncoder):
    python_type = set

    def transform_python(self, value: Any) -> Any:
        return sorted(value)


class Subclass(dict[str, Any]):
    pass


REGISTRIES = {
    "no types": TypeRegistry(),
    "decoders": TypeRegistry([IntDecoder(), DecimalDecoder()]),
    "encoder only": TypeRegistry([SetEncoder()]),
}
SCALARS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "aware": {"tz_aware": True},
    "zone": {"tz_aware": True, "tzinfo": datetime.timezone(datetime.timedelta(hours=2))},
    "standard": {"uuid_representation": UuidRepresentation.STANDARD},
    "python legacy": {"uuid_representation": UuidRepresentation.PYTHON_LEGACY},
    "java legacy": {"uuid_representation": UuidRepresentation.JAVA_LEGACY},
    "milliseconds": {"datetime_conversion": DatetimeConversion.DATETIME_MS},
}


@pytest.fixture(params=[dict, SON, OrderedDict, Subclass, RawBSONDocument], ids=lambda cls: cls.__name__)
def document_class(request: pytest.FixtureRequest) -> type[Any]:
    cls: type[Any] = request.param
    return cls


@pytest.fixture(params=SCALARS.values(), ids=list(SCALARS))
def scalars(request: pytest.FixtureRequest) -> dict[str, Any]:
    options: dict[str, Any] = request.param
    return options


@pytest.fixture(params=REGISTRIES.values(), ids=list(REGISTRIES))
def options(request: pytest.FixtureRequest, document_class: type[Any], scalars: dict[str, Any]) -> CodecOptions[Any]:
    return CodecOptions(document_class, type_registry=request.param, **scalars)


@pytest.fixture
def plain(scalars: dict[str, Any]) -> CodecOptions[Any]:
    """What the reply around the documents is decoded with."""
    return CodecOptions(**scalars)


def assert_same(value: Any, expected: Any) -> None:
    """Equal, and of the same types all the way down."""
    assert type(value) is type(expected)
    if isinstance(expected, RawBSONDocument):
        assert value.raw == expected.raw
    elif not isinstance(expected, list):
        assert value == expected
    if isinstance(expected, list):
        assert len(value) == len(expected)
        for one, other in zip(value, expected, strict=True):
            assert_same(one, other)
    elif hasattr(expected, "items"):
        assert list(value) == list(expected)
        for key in expected:
            assert_same(value[key], expected[key])


def lookup(document: Any, path: str) -> Any:
    for key in path.split("."):
        document = document[key]
    return document


REPLIES: dict[str, tuple[str, dict[str, Any]]] = {
    "batch": (
        "cursor.firstBatch",
        {
            "cursor": {"firstBatch": [DOCUMENT, {}, DOCUMENT], "id": Int64(5), "ns": "a.b", "partial": {"int": 3}},
            "ok": 1.0,
            "int": 5,
            "operationTime": {"date": DATE},
            "hosts": ["a", {"int": 1}, [2]],
        },
    ),
    **{
        name: ("value", {"value": value, "lastErrorObject": {"n": 1, "updatedExisting": True}, "ok": 1})
        for name, value in {"document": DOCUMENT, "null": None, "empty document": {}}.items()
    },
    "distinct values": (
        "values",
        {
            "values": [
                *DOCUMENT.values(),
                [1, {"int": 1, "deep": [{"int": 2}]}, []],
                {"$ref": "coll", "$id": 5},
                DOCUMENT,
            ],
            "int": 1,
            "decimal": Decimal128("2"),
            "ok": 1.0,
        },
    ),
}


@pytest.mark.parametrize(("path", "reply"), REPLIES.values(), ids=list(REPLIES))
def test_one_field_is_the_users(
    path: str, reply: dict[str, Any], options: CodecOptions[Any], plain: CodecOptions[Any]
) -> None:
    """It is decoded as bson decodes the whole reply with the user's options, the rest as with plain ones."""
    data = bson.encode(reply)
    fields: Any = 1
    for key in reversed(path.split(".")):
        fields = {key: fields}
    decoded = decode_reply(memoryview(data), options, fields)
    assert_same(lookup(decoded, path), lookup(bson.decode(data, options), path))
    expected = bson.decode(data, plain)
    for level in (decoded, expected):
        *parents, last = path.split(".")
        lookup({"": level}, ".".join(["", *parents]))[last] = "the user's"
    assert_same(decoded, expected)


def test_the_whole_reply(options: CodecOptions[Any]) -> None:
    data = bson.encode({"ok": 1, "document": DOCUMENT})
    without_decoders = options.with_options(type_registry=TypeRegistry())
    assert_same(decode_reply(memoryview(data), options, {}), bson.decode(data, without_decoders))


def test_nothing_of_the_reply(options: CodecOptions[Any]) -> None:
    data = bson.encode({"ok": 1, "document": DOCUMENT})
    assert_same(decode_reply(memoryview(data), options), bson.decode(data))


@pytest.mark.parametrize(
    "fields", [{"cursor": {"firstBatch": 1}}, {"value": 1}, {"ok": {"deeper": {"still": 1}}}, {"list": {"a": 1}}]
)
def test_fields_that_are_missing_or_of_another_kind(fields: dict[str, Any], options: CodecOptions[Any]) -> None:
    reply = {"ok": 0.0, "errmsg": "no", "list": [], "cursor": None}
    assert decode_reply(bson.encode(reply), options, fields) == reply


def test_undecodable_dates_are_the_users_choice() -> None:
    data = bson.encode({"values": [DatetimeMS(2**60)], "lastWriteDate": DatetimeMS(2**60)})
    # What `bson` advises. What precedes that comes from Python, whose versions differ.
    with pytest.raises(InvalidBSON, match="DATETIME_AUTO"):
        decode_reply(data)
    with pytest.raises(InvalidBSON, match="DATETIME_AUTO"):
        decode_reply(data, CodecOptions(SON), {"values": 1})
    for cls in (dict, SON):
        options = CodecOptions(cls, datetime_conversion=DatetimeConversion.DATETIME_AUTO)
        assert decode_reply(data, options, {"values": 1}) == bson.decode(data, options)


@pytest.mark.parametrize("cls", [dict, SON])
def test_invalid_text_is_the_users_choice(cls: type[Any]) -> None:
    data = bson.encode({"values": ["xyz"], "note": "xyz"}).replace(b"xyz", b"\xffyz")
    with pytest.raises(InvalidBSON, match="utf-8"):
        decode_reply(data, CodecOptions(cls), {"values": 1})
    options = CodecOptions(cls, unicode_decode_error_handler="replace")
    assert decode_reply(data, options, {"values": 1}) == {"values": ["\ufffdyz"], "note": "\ufffdyz"}


def test_decoders_never_see_the_reply_around() -> None:
    options = CodecOptions[dict[str, Any]](type_registry=TypeRegistry([FailingTextDecoder()]))
    data = bson.encode({"cursor": {"ns": "a.b", "firstBatch": [{"int": 1}]}, "errmsg": "text"})
    decoded = decode_reply(data, options, {"cursor": {"firstBatch": 1}})
    assert decoded == {"cursor": {"ns": "a.b", "firstBatch": [{"int": 1}]}, "errmsg": "text"}
    # Without its C extension, `bson` makes its own error of the decoder's.
    with pytest.raises(LookupError if bson.has_c() else InvalidBSON, match="text"):
        decode_reply(bson.encode({"value": "text"}), options, {"value": 1})


class TupleDecoder(TypeDecoder):
    bson_type = list

    def transform_bson(self, value: Any) -> Any:
        return tuple(value)


@pytest.mark.parametrize("field", ["firstBatch", "nextBatch"])
def test_a_decoder_of_arrays_does_not_see_the_batch(field: str) -> None:
    options = CodecOptions[dict[str, Any]](type_registry=TypeRegistry([TupleDecoder()]))
    data = bson.encode({"cursor": {field: [{"a": [1, [2]]}, {"b": []}]}})
    assert decode_reply(data, options, {"cursor": {field: 1}}) == {"cursor": {field: [{"a": (1, (2,))}, {"b": ()}]}}
    data = bson.encode({"values": [[1], 2]})
    assert decode_reply(data, options, {"values": 1}) == {"values": [(1,), 2]}


def test_one_value_of_each_document_of_an_array_is_the_users(
    options: CodecOptions[Any], plain: CodecOptions[Any]
) -> None:
    """The results of upserts: decoders see their ids, and not what the driver reads."""
    results = [{"index": 0, "_id": DOCUMENT}, {"index": 1, "_id": 5}, {"index": 2}]
    data = bson.encode({"upserted": results, "ok": 1})
    decoded = decode_reply(data, options, {"upserted": {"_id": 1}})["upserted"]
    theirs = bson.decode(data, options)["upserted"]
    assert [one["index"] for one in decoded] == [0, 1, 2]
    for one, other in zip(decoded[:2], theirs, strict=False):
        assert_same(one["_id"], other["_id"])


VARIANTS: list[tuple[CodecOptions[Any], dict[str, Any] | None]] = [
    (DEFAULT_CODEC_OPTIONS, None),
    (CodecOptions(tz_aware=True), {"cursor": {"firstBatch": 1}}),
    (CodecOptions(SON), {}),
    (CodecOptions(SON), {"cursor": {"firstBatch": 1}}),
    (CodecOptions(type_registry=REGISTRIES["decoders"]), {"cursor": {"firstBatch": 1}}),
]


REPLY = bson.encode({"cursor": {"id": 5, "firstBatch": [DOCUMENT]}, "date": DATE, "ok": 1})


@pytest.mark.parametrize(("options", "fields"), VARIANTS)
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\5\0\0\0",
        b"\5\0\0\0\1",
        b"\4\0\0\0\0",
        b"\6\0\0\0\0\0",
        bson.encode({"a": 1})[:-1],
        bson.encode({"a": "x"}).replace(b"\x02a", b"\x42a"),
        bson.encode({"cursor": {"firstBatch": [{"a": "x"}]}}).replace(b"\x02a", b"\x42a"),
        bson.encode({"cursor": {"id": "x"}}).replace(b"\x02id", b"\x42id"),
        bson.encode({"a": {"id": "x"}}).replace(b"\x02id", b"\x42id"),
        # The size of the cursor, and the end of its name: Python notices late.
        REPLY[:15] + b"\x80" + REPLY[16:],
        REPLY[:25] + b"\0" + REPLY[26:],
    ],
)
def test_invalid_bson(data: bytes, options: CodecOptions[Any], fields: dict[str, Any] | None) -> None:
    with pytest.raises(ProtocolError, match="not valid BSON"):
        decode_reply(data, options, fields)


@pytest.mark.parametrize(
    "inner", [b"\x02a\0\xff\xff\xff\x7fx\0", b"\x99a\0\0", b"\x03a\0\xff\0\0\0\0"], ids=["size", "type", "document"]
)
def test_invalid_bson_in_a_document_that_decodes_itself_later(inner: bytes) -> None:
    data = (len(inner) + 5).to_bytes(4, "little") + inner + b"\0"
    with pytest.raises(ProtocolError, match="not valid BSON"):
        decode_reply(data, CodecOptions(RawBSONDocument), {})


def test_too_deeply_nested() -> None:
    depth = 200_000  # more than any Python version takes: from 3.14 on, the size of the stack decides
    heads = [(5 + 8 * level).to_bytes(4, "little") + b"\x03a\0" for level in range(depth, 0, -1)]
    nested = b"".join(heads) + bson.encode({}) + b"\0" * depth
    for options, fields in VARIANTS:
        with pytest.raises(ProtocolError, match=r"recursion|Stack overflow"):
            decode_reply(nested, options, fields)


@settings(deadline=None)
@given(st.data(), st.sampled_from(VARIANTS))
def test_mutated_replies(data: st.DataObject, variant: tuple[CodecOptions[Any], dict[str, Any] | None]) -> None:
    reply = bytearray(REPLY)
    for _ in range(data.draw(st.integers(1, 4))):
        # The size of the whole was checked when the message was parsed.
        reply[data.draw(st.integers(4, len(reply) - 1))] = data.draw(st.integers(0, 255))
    lenient = CodecOptions[dict[str, Any]](
        datetime_conversion=DatetimeConversion.DATETIME_AUTO, unicode_decode_error_handler="replace"
    )
    try:
        decoded = decode_reply(bytes(reply), *variant)
    except ProtocolError:
        with pytest.raises(InvalidBSON):
            bson.decode(bytes(reply), lenient)
    except InvalidBSON:  # only a value
        bson.decode(bytes(reply), lenient)
    else:
        assert hasattr(decoded, "items")


def test_encoding_uses_the_users_options() -> None:
    options: CodecOptions[Any] = CodecOptions(
        uuid_representation=UuidRepresentation.STANDARD, type_registry=REGISTRIES["encoder only"]
    )
    data = encode({"a": {2, 1}, "b": UUID}, options)
    assert bson.decode(data) == {"a": [1, 2], "b": Binary(UUID.bytes, 4)}
    with pytest.raises(InvalidDocument):
        encode({"a": object()}, options)


@pytest.mark.parametrize("value", DOCUMENT.values())
def test_default_options_encode_as_bson_does(value: Any) -> None:
    document = {"_id": 1, "a": {"b": value, "_id": 2}, "c": [value]}
    assert encode(document, DEFAULT_CODEC_OPTIONS) == bson.encode(document)
    assert encode(RawBSONDocument(bson.encode(document)), DEFAULT_CODEC_OPTIONS) == bson.encode(document)
    assert encode(SON(document), DEFAULT_CODEC_OPTIONS) == bson.encode(SON(document))


@pytest.mark.parametrize("value", [ObjectId(), 0, 7, -1, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("name", ["_id", "", "a.b", "$gt", "ä", "n" * 100])
def test_small_documents_are_encoded_as_all_are(name: str, value: Any) -> None:
    assert encode_small({name: value}) == bson.encode({name: value})


NOT_SMALL: list[Any] = [2**31, -(2**31) - 1, True, None, "b", Int64(1), {}]


@pytest.mark.parametrize(
    "document", [{}, {"a": 1, "b": 1}, SON({"a": 1}), *({"a": value} for value in NOT_SMALL)], ids=repr
)
def test_other_documents_are_not_small(document: Any) -> None:
    assert encode_small(document) is None


@pytest.mark.parametrize("name", ["a\0", "\ud800", 1, b"a", None, "n" * 101])
@pytest.mark.parametrize("value", [ObjectId(), 1])
def test_names_that_small_documents_do_not_have(name: Any, value: Any) -> None:
    assert encode_small({name: value}) is None


def test_not_all_names_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "_MOST_NAMES", 3)
    for number in range(10):
        document = {f"field {number}": number}
        assert encode_small(document) == encode_small(document) == bson.encode(document)
    assert len(documents._integer_prefixes) <= 3


def test_default_options_refuse_what_bson_refuses() -> None:
    for value in (UUID, object(), {1: 2}, 2**64, "\ud800"):
        with pytest.raises((BSONError, OverflowError, ValueError)) as ours:
            encode({"a": value}, DEFAULT_CODEC_OPTIONS)
        with pytest.raises(type(ours.value)) as theirs:
            bson.encode({"a": value})
        assert str(ours.value) == str(theirs.value)


class Elsewhere:
    """Another version of `bson`."""

    def __init__(self, **private: Any) -> None:
        vars(self).update(private)

    def encode(self, document: Any, check_keys: bool, codec_options: Any) -> bytes:
        return bson.encode(document, check_keys, codec_options)

    def decode(self, data: Any, codec_options: Any) -> Any:
        return bson.decode(data, codec_options)


def wrong_arguments(*_: Any) -> Any:
    raise TypeError("function takes exactly 2 arguments")


@pytest.mark.parametrize(
    "private",
    [
        {},
        {"_dict_to_bson": bson._dict_to_bson},
        {"_bson_to_dict": bson._bson_to_dict},
        {"_dict_to_bson": wrong_arguments, "_bson_to_dict": bson._bson_to_dict},
        {"_dict_to_bson": bson._dict_to_bson, "_bson_to_dict": wrong_arguments},
        {"_dict_to_bson": bson._dict_to_bson, "_bson_to_dict": lambda data, options: bytes(data)},
        {"_dict_to_bson": None, "_bson_to_dict": 5},
    ],
)
def test_versions_of_bson_without_the_private_functions(private: dict[str, Any]) -> None:
    module = Elsewhere(**private)
    fastest = documents._fastest(module)
    assert fastest[0] == module.encode
    data = fastest[0](DOCUMENT, False, DEFAULT_CODEC_OPTIONS)
    assert data == encode(DOCUMENT, DEFAULT_CODEC_OPTIONS)
    for body in (data, bytearray(data), memoryview(data)):
        assert_same(fastest[1](body, DEFAULT_CODEC_OPTIONS), decode_reply(data))


def test_this_version_of_bson_has_them() -> None:
    # Without the C extension they are functions of Python, which do not read bytearrays.
    assert (documents._fastest(bson) == (bson._dict_to_bson, bson._bson_to_dict)) is bson.has_c()


@pytest.mark.parametrize("form", [bytes, bytearray, memoryview])
def test_what_holds_a_reply_does_not_matter(form: Any, options: CodecOptions[Any]) -> None:
    data = bson.encode({"cursor": {"firstBatch": [DOCUMENT]}, "ok": 1, **DOCUMENT})
    for fields in ({"cursor": {"firstBatch": 1}}, {}, None):
        assert_same(decode_reply(form(data), options, fields), decode_reply(data, options, fields))


@pytest.mark.parametrize("around", [lambda raw: raw, lambda raw: {**raw, "errorLabels": ["Label"]}])
def test_details_are_plain_documents(around: Any) -> None:
    raw = RawBSONDocument(bson.encode({"errInfo": {"a": [{"b": 1}]}}))
    error = OperationFailure("no", 1, around(raw))
    decode_details(error)
    assert error.details["errInfo"] == {"a": [{"b": 1}]}
    assert type(error.details["errInfo"]) is type(error.details["errInfo"]["a"][0]) is dict
