"""Pure: encodes many documents with one call of `bson`, as the elements of an array.

A call costs as much as encoding a dozen fields. Elements of an array are encoded like whole documents, except that
their `_id` stays where it is, and that codecs of user types see the elements themselves.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any, Final

import bson
from bson.codec_options import DEFAULT_CODEC_OPTIONS, TypeRegistry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bson.codec_options import CodecOptions

MOST: Final = 64
"""The largest number of documents that one call encodes."""

_NO_TYPES: Final = TypeRegistry()
_read_size: Final = Struct("<i").unpack_from
# The array follows the size of the document around it, a type and a name of one character, and begins with its size.
_BEFORE: Final = 4 + 1 + 2 + 4
# Before each element: its type, and its index as text that ends with a zero byte.
_GAPS: Final = tuple(1 + len(str(index)) + 1 for index in range(MOST))

# The size of a document; the type and the name of its first field, with a zero byte; an ObjectId.
_ID_FIRST: Final = Struct("<i5s12s").pack
_ID_SIZE: Final = 5 + 12


def suits_arrays(codec_options: CodecOptions[Any]) -> bool:
    """Whether documents may be encoded together: a codec of user types may have state, and must not run twice."""
    return codec_options is DEFAULT_CODEC_OPTIONS or codec_options.type_registry == _NO_TYPES


def encode_together(
    documents: Sequence[Any],
    codec_options: CodecOptions[Any],
    *,
    puts_id_first: bool = False,
    new_ids: Sequence[bytes] = (),
) -> list[bytes] | None:
    """Encode at most `MOST` documents at once.

    Args:
        documents: The documents.
        codec_options: Options for which `suits_arrays` is true.
        puts_id_first: Whether the documents have an `_id`, which must be their first field.
        new_ids: An ObjectId for each document if none of them has an `_id`; or empty.

    Returns:
        What `bson.encode` returns for each document, with its new `_id`; None if they must be encoded one by one: not
        all are plain dictionaries, or one of them cannot be encoded.
    """
    assert len(documents) <= MOST
    if set(map(type, documents)) != {dict}:
        return None
    try:
        if puts_id_first:
            documents = [
                document if next(iter(document)) == "_id" else {"_id": document["_id"], **document}
                for document in documents
            ]
        data = bson.encode({"a": documents}, codec_options=codec_options)
    except Exception:  # the caller finds out which one it is
        return None
    end, encoded = _BEFORE, []
    if new_ids:
        for gap, new_id in zip(_GAPS, new_ids, strict=False):
            start = end + gap
            end = start + _read_size(data, start)[0]
            encoded.append(_ID_FIRST(end - start + _ID_SIZE, b"\x07_id", new_id) + data[start + 4 : end])
    else:
        for gap in _GAPS[: len(documents)]:
            start = end + gap
            end = start + _read_size(data, start)[0]
            encoded.append(data[start:end])
    return encoded
