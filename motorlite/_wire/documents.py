"""Pure: BSON on the wire. A user's codec options apply to documents, not to the reply around them.

Decoding into plain dicts is one C call. Anything else goes through RawBSONDocument, which leaves user documents
undecoded until their own options are applied.

Two private names of `bson` are used, and only here: the C functions behind `bson.encode` and `bson.decode`. These two
check the types of their arguments and nothing else, which takes 1600 instructions of each command and its reply. Where
the functions are missing, or are called differently, the public ones serve.

Without its C extension (a pure installation, a subinterpreter), `bson` reads values from a bytearray as bytearrays: it
refuses ObjectIds and decimals, and binary data gets the wrong type. So it gets bytes there.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Any, Final

import bson
from bson.codec_options import DEFAULT_CODEC_OPTIONS, CodecOptions, DatetimeConversion, TypeRegistry
from bson.errors import BSONError, InvalidBSON
from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument

from motorlite._base.values import DocumentView, EncodedDocuments, RawBatch
from motorlite.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from motorlite.errors import PyMongoError

    _Encode = Callable[[Mapping[str, Any], bool, CodecOptions[Any]], bytes]
    _Decode = Callable[[bytes | bytearray | memoryview, CodecOptions[Any]], dict[str, Any]]

NO_TYPES = TypeRegistry()
# The class only matters for decoding. `bson` looks for a mark on it, and a class that has one saves a failing look-up:
# 1900 of 7700 instructions for a small document.
_DEFAULT_FOR_ENCODING = DEFAULT_CODEC_OPTIONS.with_options(document_class=RawBSONDocument)
# Decodes anything well-formed.
LENIENT = CodecOptions[dict[str, Any]](
    datetime_conversion=DatetimeConversion.DATETIME_AUTO, unicode_decode_error_handler="replace"
)


_SAMPLE = {"number": 1, "id": ObjectId(bytes(12)), "data": b"data"}


def _reads_bytearrays(decode: _Decode, encoded: bytes) -> bool:
    """Whether `decode` reads a bytearray as it reads bytes."""
    try:
        found = decode(bytearray(encoded), DEFAULT_CODEC_OPTIONS)
    except BSONError:
        return False
    return found == _SAMPLE and type(found["data"]) is bytes


def _reader(decode: _Decode) -> _Decode:
    """Return `decode`, or a function that copies bytearrays to bytes for it."""
    if _reads_bytearrays(decode, bson.encode(_SAMPLE)):
        return decode
    return lambda body, codec_options: decode(bytes(body), codec_options)


def _fastest(module: Any) -> tuple[_Encode, _Decode]:
    """Return the functions that encode and decode documents."""
    try:
        encode_now: _Encode = module._dict_to_bson
        decode_now: _Decode = module._bson_to_dict
        if _reads_bytearrays(decode_now, encode_now(_SAMPLE, False, _DEFAULT_FOR_ENCODING)):
            return encode_now, decode_now
    except Exception:  # another version of `bson`: nothing but its public functions is certain
        return module.encode, _reader(module.decode)
    return module.encode, _reader(module.decode)


_encode, _decode = _fastest(bson)
_decode_publicly = _reader(bson.decode)


def encode(document: Mapping[str, Any], codec_options: CodecOptions[Any]) -> bytes:
    """Encode `document` as BSON. Raises bson's own errors for values that BSON cannot hold."""
    return _encode(document, False, _DEFAULT_FOR_ENCODING if codec_options is DEFAULT_CODEC_OPTIONS else codec_options)


# Values of these types are encoded in the same way with all codec options, and have a fixed size.
_INTEGER: Final = Struct("<ix")
# What comes before the value in a document with one field, by the field's name.
_id_prefixes: dict[str, bytes] = {}
_integer_prefixes: dict[str, bytes] = {}
_MOST_NAMES: Final = 1000
_LONGEST_NAME: Final = 100


def encode_small(document: Any) -> bytes | None:
    """Encode a document with one field, an ObjectId or a 32-bit integer. Return None for any other: use `encode`.

    Most look-ups have such a filter. `encode`, which reads all codec options, takes 5,000 instructions more.
    """
    if type(document) is not dict or len(document) != 1:
        return None
    ((name, value),) = document.items()
    kind = type(value)
    if kind is ObjectId:
        prefix = _id_prefixes.get(name) or _prefix(_id_prefixes, name, value)
        return prefix and prefix + value.binary + b"\0"
    if kind is int:
        prefix = _integer_prefixes.get(name) or _prefix(_integer_prefixes, name, 0)
        try:
            return prefix and prefix + _INTEGER.pack(value)
        except StructError:  # it has more than 32 bits
            return None
    return None


def _prefix(known: dict[str, bytes], name: str, example: Any) -> bytes | None:
    """Return what comes before a value of that type in a document of one field.

    None: the name is long, or cannot be encoded.
    """
    if type(name) is not str or len(name) > _LONGEST_NAME:
        return None
    try:
        encoded = encode({name: example}, DEFAULT_CODEC_OPTIONS)
    except (BSONError, ValueError):
        return None  # `encode` raises the error
    if len(known) >= _MOST_NAMES:
        known.clear()
    size = len(name.encode()) + 6
    known[name] = encoded[:size]
    return encoded[:size]


def decode_reply(
    body: bytes | bytearray | memoryview,
    codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
    fields: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Decode a reply's body, as sliced by `op_msg.parse`, into a dict.

    The user documents in `fields` are decoded with `codec_options`. The rest of the reply becomes plain dicts without
    type decoders; options such as time zones apply to all of it.

    `fields` is a nested mapping such as ``{"cursor": {"firstBatch": 1}}``, which also leads into the documents of an
    array. None means that no part of the reply is the user's. Empty means that all of it is, but not for type decoders
    (as in PyMongo): the driver has to read in it whether the command succeeded.

    Raises:
        ProtocolError: the server sent invalid BSON.
        bson.errors.InvalidBSON: Python cannot represent a value of the reply with these options.
    """
    if fields is None:
        codec_options = DEFAULT_CODEC_OPTIONS
    try:
        if codec_options is DEFAULT_CODEC_OPTIONS:
            return _decode(body, codec_options)
        if codec_options.document_class is DocumentView:
            codec_options = plain_options(codec_options)
        if not fields and codec_options.type_registry != NO_TYPES:
            codec_options = codec_options.with_options(type_registry=NO_TYPES)
        if codec_options.document_class is dict and codec_options.type_registry == NO_TYPES:
            # Options for time zones, UUIDs and the like do not affect the reply itself: still one C call.
            return _decode_publicly(body, codec_options)
        if not fields:
            reply: dict[str, Any] = _decode_publicly(body, codec_options)
            if isinstance(reply, RawBSONDocument):
                reply.get("ok")  # RawBSONDocument decodes lazily: decode now, while errors can be classified.
            return reply
        plain = plain_options(codec_options)
        raw = RawBSONDocument(bytes(body), plain.with_options(document_class=RawBSONDocument))
        return _decode_fields(raw, codec_options, plain, fields)
    except Exception as error:  # without the C extension, RawBSONDocument passes on any exception that bad data causes
        if _is_well_formed(body):
            if isinstance(error, UnicodeDecodeError):
                raise InvalidBSON(str(error)) from error
            raise
        raise ProtocolError(f"the server sent a reply that is not valid BSON: {error}") from error


def decode_details(error: PyMongoError) -> None:
    """Make plain documents of the raw reply, or the part of it, that an error has."""
    for name in ("_details", "details", "errors"):
        found = vars(error).get(name)
        if isinstance(found, Mapping):
            raw = found.raw if isinstance(found, RawBSONDocument) else bson.encode(found, codec_options=LENIENT)
            setattr(error, name, bson.decode(raw, LENIENT))


def plain_options(codec_options: CodecOptions[Any]) -> CodecOptions[Any]:
    """Return the options for the reply around the user's documents."""
    if codec_options is DEFAULT_CODEC_OPTIONS:
        return codec_options
    return codec_options.with_options(document_class=dict, type_registry=NO_TYPES)


def _is_well_formed(body: bytes | bytearray | memoryview) -> bool:
    """Whether the BSON is valid and only a value was rejected: a date out of Python's range, or text not in UTF-8."""
    try:
        _decode_publicly(body, LENIENT)
    except (BSONError, UnicodeDecodeError):
        return False
    return True


def _decode_fields(
    document: RawBSONDocument,
    codec_options: CodecOptions[Any],
    plain: CodecOptions[Any],
    fields: Mapping[str, Any],
) -> dict[str, Any]:
    """Decode the user's fields of `document` with `codec_options` and the others with `plain`."""
    decoded: dict[str, Any] = {}
    for key, value in document.items():
        nested = fields.get(key)
        if nested is None:
            # Values inside documents and arrays are still raw.
            is_raw = isinstance(value, RawBSONDocument | list)
            decoded[key] = _redecoded(value, plain, plain) if is_raw else value
        elif not isinstance(nested, dict):
            decoded[key] = _user_field(value, codec_options, plain)
        elif isinstance(value, RawBSONDocument):
            decoded[key] = _decode_fields(value, codec_options, plain, nested)
        elif isinstance(value, list):
            decoded[key] = _decode_each(value, codec_options, plain, nested)
        else:
            decoded[key] = value
    return decoded


def _decode_each(
    values: list[Any], codec_options: CodecOptions[Any], plain: CodecOptions[Any], fields: Mapping[str, Any]
) -> list[Any]:
    """Decode the results of single writes. They are the server's documents, but a field in one may be the user's."""
    if codec_options.type_registry == NO_TYPES:
        found: list[Any] = _user_field(values, codec_options, plain)  # one call of `bson`; only the classes differ
        return found
    return [
        _decode_fields(each, codec_options, plain, fields)
        if isinstance(each, RawBSONDocument)
        else _redecoded(each, plain, plain)
        for each in values
    ]


def _user_field(value: Any, codec_options: CodecOptions[Any], plain: CodecOptions[Any]) -> Any:
    kind = codec_options.document_class
    if kind is RawBatch:
        is_batch = isinstance(value, list) and all(isinstance(one, RawBSONDocument) for one in value)
        return EncodedDocuments(one.raw for one in value) if is_batch else value
    # The user decodes documents that stay raw, with these options.
    if kind is RawBSONDocument and codec_options.type_registry == NO_TYPES:
        return value
    if isinstance(value, list) and see_arrays(codecs_of(codec_options)):
        # The array itself is the server's; only its elements are for decoders.
        return [_redecoded(one, plain, codec_options) for one in value]
    return _redecoded(value, plain, codec_options)


def codecs_of(codec_options: CodecOptions[Any]) -> Sequence[Any] | None:
    """Return the codecs that see values, or None if they are unknown: pymongo 4.9 does not show them."""
    registry = codec_options.type_registry
    unused = registry == NO_TYPES or codec_options.document_class is RawBatch
    return () if unused else getattr(registry, "codecs", None)


def see_arrays(codecs: Sequence[Any] | None) -> bool:
    """Whether one of `codecs` decodes arrays. Unknown ones may."""
    return codecs is None or any(getattr(codec, "bson_type", None) is list for codec in codecs)


def _redecoded(value: Any, plain: CodecOptions[Any], codec_options: CodecOptions[Any]) -> Any:
    """Decode `value` again with `codec_options`, in a wrapper: a batch takes one C call, and decoders see fields."""
    return bson.decode(bson.encode({"v": value}, codec_options=plain), codec_options)["v"]
