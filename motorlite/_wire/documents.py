"""Pure: BSON on the wire. A user's codec options apply to documents, not to the reply around them.

Only public names of `bson` are used: decoding into plain dicts is one C call, anything else goes through
RawBSONDocument, which leaves user documents undecoded until their own options are applied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import bson
from bson.codec_options import DEFAULT_CODEC_OPTIONS, TypeRegistry
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument

from motorlite.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bson.codec_options import CodecOptions

_NO_TYPES = TypeRegistry()


def encode(document: Mapping[str, Any], codec_options: CodecOptions[Any]) -> bytes:
    """`document` as BSON. Raises what `bson` raises for values that BSON cannot hold."""
    return bson.encode(document, codec_options=codec_options)


def decode_reply(
    body: memoryview | bytes,
    codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
    fields: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A reply as a dict, the user documents in `fields` decoded with `codec_options`.

    `fields` is a nested mapping such as ``{"cursor": {"firstBatch": 1}}``; an empty one means the whole reply is the
    user's, None that nothing is.

    Raises:
        ProtocolError: the server sent invalid BSON.
    """
    if fields is None:
        codec_options = DEFAULT_CODEC_OPTIONS
    try:
        if codec_options is DEFAULT_CODEC_OPTIONS:
            return bson.decode(body)
        if codec_options.document_class is dict and codec_options.type_registry == _NO_TYPES:
            # Time zones, UUIDs and the like do not change how the reply itself reads: still one C call.
            return bson.decode(body, codec_options)
        if not fields:
            return bson.decode(body, codec_options)
        return _decode_fields(RawBSONDocument(bytes(body)), codec_options, fields)
    except (BSONError, UnicodeDecodeError) as error:
        raise ProtocolError(f"the server sent a reply that is not valid BSON: {error}") from error


def _decode_fields(
    document: RawBSONDocument,
    codec_options: CodecOptions[Any],
    fields: Mapping[str, Any],
) -> dict[str, Any]:
    decoded: dict[str, Any] = {}
    for key, value in document.items():
        nested = fields.get(key)
        if nested is None:
            decoded[key] = _plain(value)
        elif isinstance(nested, dict):
            decoded[key] = _decode_fields(value, codec_options, nested)
        elif isinstance(value, list):
            decoded[key] = [_user_value(item, codec_options) for item in value]
        else:
            decoded[key] = _user_value(value, codec_options)
    return decoded


def _user_value(value: Any, codec_options: CodecOptions[Any]) -> Any:
    if not isinstance(value, RawBSONDocument):
        # A scalar (distinct): wrap it, since type decoders work on fields.
        wrapped = bson.encode({"v": value})
        return bson.decode(wrapped, codec_options.with_options(document_class=dict))["v"]
    if codec_options.document_class is RawBSONDocument:
        return RawBSONDocument(value.raw, codec_options)
    return bson.decode(value.raw, codec_options)


def _plain(value: Any) -> Any:
    """A part of the envelope with plain dicts inside."""
    if isinstance(value, RawBSONDocument):
        return bson.decode(value.raw)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
