"""Shell: the identifiers of documents to insert, which the driver generates."""

from __future__ import annotations

from struct import Struct
from time import time
from typing import Any, Final

from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument

# An ObjectId: seconds since 1970, five random bytes of the process, a counter.
_SECONDS: Final = Struct(">I").pack
_COUNTERS: Final = 2**24


def _reserved(count: int) -> list[bytes]:
    """Return `count` new ObjectIds as bytes, whose numbers are taken from the counter of `bson` at once.

    `ObjectId()` takes them one by one. Each time, it changes its class, and Python forgets what it knew about the
    class: 12,000 instructions against 3,500. The counter must be the same, so that all ids of the process are unique
    and in the order in which they were made.
    """
    with ObjectId._inc_lock:
        first = ObjectId._inc
        ObjectId._inc = (first + count) % _COUNTERS
    start = _SECONDS(int(time())) + ObjectId._random()
    return [start + (number % _COUNTERS).to_bytes(3, "big") for number in range(first, first + count)]


def _can_reserve() -> bool:
    """Whether `bson` makes its ObjectIds as `_reserved` does; the names are not public."""
    try:
        before, (reserved,), after = ObjectId().binary, _reserved(1), ObjectId().binary
    except (AttributeError, TypeError):
        return False
    first, second, third = (int.from_bytes(one[9:], "big") for one in (before, reserved, after))
    is_next = (second - first) % _COUNTERS == (third - second) % _COUNTERS == 1
    return is_next and before[4:9] == reserved[4:9]


_RESERVES: Final = _can_reserve()


def new_ids(count: int) -> list[bytes]:
    """Return `count` new ObjectIds as bytes, in ascending order."""
    return _reserved(count) if _RESERVES else [ObjectId().binary for _ in range(count)]


def identify(document: Any) -> Any:
    """Return a document's `_id`, added if it has none. None for a RawBSONDocument, which cannot get one."""
    if isinstance(document, RawBSONDocument):
        return None
    if "_id" not in document:
        document["_id"] = ObjectId()
    return document["_id"]


def id_first(document: Any) -> Any:
    """Return the document with its `_id` first, as `bson` encodes it outside of a command.

    CRUD specification, "Generated identifiers". A RawBSONDocument is returned as it is.
    """
    if isinstance(document, RawBSONDocument) or next(iter(document)) == "_id":
        return document
    return {"_id": document["_id"], **document}
