"""Shell: the documents to insert: checked, given an `_id`, and encoded ahead."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument

from motorlite._base.arguments import DOCUMENTS, check_document
from motorlite._operations.bulk import encode_together, suits_arrays
from motorlite._operations.single_writes import MANY_FIELDS
from motorlite._operations.slices import ITEMS, MAX_SIZE, slice_length
from motorlite.errors import InvalidOperation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bson.codec_options import CodecOptions

    from motorlite._operations.bulk import BulkRun
    from motorlite._operations.slices import Slices


# The identifiers of documents to insert, which the driver generates.

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


def identified(document: Any) -> tuple[Any, Any]:
    """Check a document and add a missing `_id`. Return the `_id`, and the document with its `_id` first.

    A RawBSONDocument is not looked into; its `_id` counts as None. One with more than `MANY_FIELDS` stays as it is,
    since a copy takes almost as long as encoding it.

    Raises:
        TypeError: It is not a document.
    """
    if type(document) is not dict:
        check_document("document", document)
        return identify(document), id_first(document)
    if "_id" not in document:
        document["_id"] = ObjectId()
    identifier = document["_id"]
    if next(iter(document)) == "_id" or len(document) > MANY_FIELDS:
        return identifier, document
    return identifier, {"_id": identifier, **document}


def take_documents(
    run: BulkRun, codec_options: CodecOptions[Any], *, encodes: bool = True, where: str = "documents[{}]"
) -> Slices[list[Any]]:
    """Check the documents of a run, add missing `_id`s, and return all `_id`s but those of RawBSONDocuments.

    With `encodes`, documents that get their `_id` here are encoded before they have it, as many as a batch may have:
    `bson` takes as long for an ObjectId as for five other fields, and an `_id` that is not the first field would have
    to be moved. `BulkBatch.prepare` continues where this ends. `where` names a document in errors, by its index.

    Raises:
        TypeError: One of them is not a document.
    """
    documents, ids = run.statements, list[Any]()
    position, size, average = 0, 0, 0
    encodes = encodes and suits_arrays(codec_options)
    while position < len(documents):
        part = documents[position : position + (slice_length(documents, position, average) if encodes else ITEMS)]
        encoded = _encode_and_identify(part, codec_options, ids) if encodes else None
        if encoded is None:
            encodes = False
            _identify(part, ids, where, run.indexes[position:])
        else:
            run.encoded += encoded
            added = sum(map(len, encoded))
            size += added
            average = added // len(encoded)
            encodes = size <= MAX_SIZE
        position += len(part)
        yield
    return ids


def _encode_and_identify(documents: list[Any], codec_options: CodecOptions[Any], ids: list[Any]) -> list[bytes] | None:
    """Encode plain dictionaries that all get an `_id`, which is appended to `ids`.

    Returns:
        The encoded documents, or None if not all are such dictionaries, or one cannot be encoded.
    """
    if set(map(type, documents)) != {dict} or [document for document in documents if "_id" in document]:
        return None
    new = new_ids(len(documents))
    encoded = encode_together(documents, codec_options, new_ids=new)
    if encoded is None:
        return None
    added = [*map(ObjectId, new)]
    for document, new_id in zip(documents, added, strict=True):
        document.setdefault("_id", new_id)
    if [document["_id"] for document in documents] != added:
        return None  # the same dictionary twice
    ids += added
    return encoded


def _identify(documents: list[Any], ids: list[Any], where: str, indexes: Sequence[int]) -> None:
    """Check documents, add missing `_id`s, and append all `_id`s to `ids`."""
    if set(map(type, documents)) == {dict}:
        without = [document for document in documents if "_id" not in document]
        if without:
            for document, new_id in zip(without, map(ObjectId, new_ids(len(without))), strict=True):
                document.setdefault("_id", new_id)
        ids += [document["_id"] for document in documents]
        return
    for document, index in zip(documents, indexes, strict=False):
        if not isinstance(document, DOCUMENTS):
            check_document(where.format(index), document)
        if isinstance(document, RawBSONDocument):
            continue
        ids.append(identify(document))


def collect(documents: Iterator[Any], found: list[Any]) -> Slices[None]:
    """Append `documents`, which may be a generator of the application, to `found`.

    Raises:
        InvalidOperation: There are none (PyMongo's error too).
    """
    while part := list(islice(documents, ITEMS)):
        found += part
        yield
    if not found:
        raise InvalidOperation("documents must have at least one document, but the iterator had none")
