"""Documents that are encoded together have the same bytes as those that are encoded one by one."""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import bson
import pytest
from bson.binary import UuidRepresentation
from bson.codec_options import DEFAULT_CODEC_OPTIONS, CodecOptions, TypeEncoder, TypeRegistry
from bson.raw_bson import RawBSONDocument
from bson.son import SON
from hypothesis import given, settings
from hypothesis import strategies as st

from motorlite._operations.bulk import MOST, encode_together, suits_arrays

OPTIONS: CodecOptions[Any] = CodecOptions(uuid_representation=UuidRepresentation.STANDARD)

names = st.sampled_from(["_id", "$set", "a.b", "", "a", "b", "ü", "\U0001f600", "0"])
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text("aü\0\U0001f600", max_size=20)
    | st.binary(max_size=20)
    | st.builds(bson.ObjectId)
    | st.uuids()
    | st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1))
    | st.builds(lambda data: RawBSONDocument(bson.encode(data)), st.dictionaries(names, st.integers(0, 9), max_size=2))
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(names, inner, max_size=4)
        | st.dictionaries(names, inner, max_size=4).map(SON)
    ),
    max_leaves=4,
)
documents = st.dictionaries(names, values, max_size=4)


@settings(deadline=None, max_examples=40)
@given(st.lists(documents, min_size=1, max_size=12))
def test_statements(given_documents: list[dict[str, Any]]) -> None:
    """Without `_id`s, which `bson` would put first."""
    statements = [{"q": document, "u": document} for document in given_documents]
    one_by_one = [bson.encode(statement, codec_options=OPTIONS) for statement in statements]
    assert encode_together(statements, OPTIONS) == one_by_one


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(documents, scalars), min_size=1, max_size=12))
def test_documents_with_an_id(parts: list[tuple[dict[str, Any], Any]]) -> None:
    found = [{**document, "_id": identifier} for document, identifier in parts]
    one_by_one = [bson.encode(document, codec_options=OPTIONS) for document in found]
    assert encode_together(found, OPTIONS, puts_id_first=True) == one_by_one


@settings(deadline=None, max_examples=40)
@given(st.lists(documents, min_size=1, max_size=12))
def test_documents_that_get_an_id(found: list[dict[str, Any]]) -> None:
    for document in found:
        document.pop("_id", None)
    ids = [bson.ObjectId() for _ in found]
    together = encode_together(found, OPTIONS, new_ids=[one.binary for one in ids])
    assert not any("_id" in document for document in found)
    assert together == [
        bson.encode({"_id": one, **document}, codec_options=OPTIONS) for one, document in zip(ids, found, strict=True)
    ]


def test_as_many_as_possible() -> None:
    found = [{"_id": number, "s": "x" * number} for number in range(MOST)]
    assert encode_together(found, OPTIONS, puts_id_first=True) == [bson.encode(one) for one in found]


def test_a_document_of_16_mib() -> None:
    found: list[dict[str, Any]] = [{"_id": 1}, {"_id": 2, "b": b"x" * (16 * 2**20)}, {"_id": 3}]
    assert encode_together(found, OPTIONS, puts_id_first=True) == [bson.encode(one) for one in found]


class Plain(dict[str, Any]):
    pass


@pytest.mark.parametrize(
    "other", [SON(_id=1), OrderedDict(_id=1), Plain(_id=1), RawBSONDocument(bson.encode({"_id": 1})), {1: 2}, 5, None]
)
def test_anything_else_is_encoded_alone(other: Any) -> None:
    assert encode_together([{"_id": 1}, other], OPTIONS) is None


@pytest.mark.parametrize("value", [object(), 2**63, "\ud800", Decimal(1)])
def test_what_cannot_be_encoded_is_found_alone(value: Any) -> None:
    assert encode_together([{"_id": 1}, {"_id": 2, "a": value}], OPTIONS) is None


def test_documents_that_lost_their_id() -> None:
    assert encode_together([{"_id": 1}, {"a": 1}], OPTIONS, puts_id_first=True) is None
    assert encode_together([{"_id": 1}, {}], OPTIONS, puts_id_first=True) is None


def nested(depth: int) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for _ in range(depth):
        document = {"a": document}
    return document


def is_too_deep(depth: int) -> bool:
    try:
        bson.encode(nested(depth))
    except RecursionError:
        return True
    return False


def test_a_document_as_deep_as_bson_takes() -> None:
    """The array makes documents deeper; what would then be too deep is encoded alone."""
    deepest = bisect_left(range(100_000), True, key=is_too_deep) - 1
    assert 100 < deepest < 99_999
    for depth in range(deepest - 5, deepest + 1):
        document = nested(depth)
        assert encode_together([document, {}], OPTIONS) in (None, [bson.encode(document), bson.encode({})])


class Encoder(TypeEncoder):
    python_type = Decimal

    def transform_python(self, value: Any) -> Any:
        return str(value)


def test_options() -> None:
    assert suits_arrays(DEFAULT_CODEC_OPTIONS)
    assert suits_arrays(OPTIONS)
    assert suits_arrays(CodecOptions(document_class=SON, tz_aware=True, tzinfo=UTC))
    assert not suits_arrays(CodecOptions(type_registry=TypeRegistry([Encoder()])))
    assert not suits_arrays(CodecOptions(type_registry=TypeRegistry(fallback_encoder=str)))


def test_options_apply() -> None:
    found = [{"_id": UUID(int=1)}]
    assert encode_together(found, OPTIONS, puts_id_first=True) == [bson.encode(found[0], codec_options=OPTIONS)]
    assert encode_together(found, DEFAULT_CODEC_OPTIONS, puts_id_first=True) is None, "no representation is chosen"
