"""Default codec options are one object, however they were made; and the estimated size of a document."""

from __future__ import annotations

from typing import Any

import bson
import pytest
from bson.binary import UuidRepresentation
from bson.codec_options import DEFAULT_CODEC_OPTIONS, CodecOptions, TypeRegistry
from bson.raw_bson import RawBSONDocument
from bson.son import SON

from motorlite._base.values import estimated_size, recognized


def test_equal_options_are_the_default_ones() -> None:
    assert recognized(CodecOptions()) is DEFAULT_CODEC_OPTIONS
    assert recognized(CodecOptions(type_registry=TypeRegistry())) is DEFAULT_CODEC_OPTIONS
    others: list[CodecOptions[Any]] = [
        CodecOptions(tz_aware=True),
        CodecOptions(document_class=SON),
        CodecOptions(type_registry=TypeRegistry(fallback_encoder=str)),
        CodecOptions(uuid_representation=UuidRepresentation.STANDARD),
    ]
    for options in others:
        assert recognized(options) is options


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"_id": bson.ObjectId(), "name": "a part", "stock": 2**40, "sizes": [1.5, 2.5], "tags": ["a", "b", "c"]},
        {"text": "x" * 100_000},
        {"data": b"x" * 100_000},
        {"nested": {"deep": {"deeper": [{"x": 2**40}] * 50}}},
    ],
)
def test_it_is_close(document: dict[str, Any]) -> None:
    real = len(bson.encode(document))
    assert abs(estimated_size(document) - real) <= max(10, 0.3 * real)


def test_a_raw_document_is_not_decoded() -> None:
    raw = RawBSONDocument(bson.encode({"x": "y" * 50}))
    assert estimated_size(raw) == len(raw.raw)


def test_values_of_unknown_types_count_as_numbers() -> None:
    assert estimated_size({"x": object()}) == 5 + 2 + 1 + 8
    assert estimated_size({7: None}) == 5 + 2 + 8


def test_a_document_that_contains_itself_ends() -> None:
    document: dict[str, Any] = {"name" * 100_000: 1}
    document["self"] = document
    assert 48_000_000 <= estimated_size(document) < 49_000_000


def test_deep_documents_need_no_stack() -> None:
    document: dict[str, Any] = {}
    for _ in range(5_000):
        document = {"x": document}
    assert estimated_size(document) == 5 + 5_000 * (5 + 2 + 1)
