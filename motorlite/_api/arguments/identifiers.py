"""Shell: the identifiers of documents to insert, which the driver generates."""

from __future__ import annotations

from typing import Any, Final

from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument

# The last three bytes of an ObjectId count, after its time and five random bytes of the process.
_COUNTERS: Final = 2**24


def _reserved(count: int) -> list[bytes]:
    """Return `count` new ObjectIds as bytes, whose numbers are taken from the counter of `bson` at once.

    `ObjectId()` takes them one by one. Each time, it changes its class, and Python forgets what it knew about the
    class: 12,000 instructions against 3,500. The counter must be the same, so that all ids of the process are unique
    and in the order in which they were made.
    """
    one = ObjectId().binary
    with ObjectId._inc_lock:
        first = ObjectId._inc
        ObjectId._inc = (first + count - 1) % _COUNTERS
    start = one[:9]
    return [one] + [start + (number % _COUNTERS).to_bytes(3, "big") for number in range(first, first + count - 1)]


def _can_reserve() -> bool:
    """Whether the private counter of `bson` is what `_reserved` takes it for."""
    try:
        made = [ObjectId().binary, *_reserved(3), ObjectId().binary]
    except (AttributeError, TypeError):
        return False
    numbers = [int.from_bytes(one[9:], "big") for one in made]
    return all((number - numbers[0]) % _COUNTERS == index for index, number in enumerate(numbers))


_RESERVES: Final = _can_reserve()


def new_ids(count: int) -> list[bytes]:
    """Return `count` new ObjectIds as bytes, in ascending order; at least one."""
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
