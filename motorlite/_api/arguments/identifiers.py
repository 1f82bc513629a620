"""Shell: the identifiers of documents to insert, which the driver generates."""

from __future__ import annotations

from typing import Any

from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument


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
