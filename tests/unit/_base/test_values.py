"""Default codec options are one object, however they were made."""

from __future__ import annotations

from typing import Any

from bson.binary import UuidRepresentation
from bson.codec_options import DEFAULT_CODEC_OPTIONS, CodecOptions, TypeRegistry
from bson.son import SON

from motorlite._base.values import recognized


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
