"""Pure: the queries and documents of GridFS."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from bson.int64 import Int64
from bson.regex import Regex

from motorlite._base.arguments import WrongValue, integer, positive

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterable

    from motorlite._base.values import Document

DEFAULT_CHUNK_SIZE: Final = 255 * 1024
"""Bytes of a chunk: with its other fields, a chunk stays below a power of two, which servers allocate well."""

FILES_INDEX: Final = {"filename": 1, "uploadDate": 1}
CHUNKS_INDEX: Final = {"files_id": 1, "n": 1}

# The field is a 32-bit integer.
_LARGEST_CHUNK: Final = 2**31 - 1


def equal(value: Any) -> Any:
    """What a query has to say to match a value itself, also where it looks like an operator or a pattern."""
    return {"$eq": value} if isinstance(value, Mapping | Regex | re.Pattern) else value


def by_id(value: Any) -> Any:
    """The query for one file; a mapping is a query already."""
    return value if value is None or isinstance(value, Mapping) else {"_id": equal(value)}


def chunk_size(value: Any) -> int:
    """Check the size of chunks."""
    if positive(value) > _LARGEST_CHUNK:
        raise WrongValue(f"an integer of at most {_LARGEST_CHUNK}")
    return int(value)


def revision_order(revision: Any) -> tuple[int, int]:
    """The direction in which to sort by uploadDate, and how many to skip ("File Download by Filename")."""
    return (-1, -revision - 1) if integer(revision) < 0 else (1, int(revision))


def has_index(keys: Mapping[str, Any], indexes: Iterable[Mapping[str, Any]]) -> bool:
    """Whether there is an index with these keys in this order, of whatever numeric type."""
    return any(list(index.get("key", {}).items()) == list(keys.items()) for index in indexes)


def file_document(fields: Mapping[str, Any], length: int, date: datetime.datetime) -> Document:
    """The document of a file whose chunks are all stored."""
    return {**fields, "length": Int64(length), "uploadDate": date}


def this_upload(file: Mapping[str, Any]) -> Document:
    """The query for the document of one upload, and of no other with the same id."""
    return {"_id": equal(file["_id"]), "uploadDate": file["uploadDate"], "length": file["length"]}
