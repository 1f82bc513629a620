"""The driver's result objects as the documents that tests compare ("Converting Returned Model Objects")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite.errors import BulkWriteError, ClientBulkWriteException
from tests.spec.unified.matching import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from motorlite.results import (
        BulkWriteResult,
        ClientBulkWriteResult,
        DeleteResult,
        InsertManyResult,
        InsertOneResult,
        UpdateResult,
    )


def insert_one(result: InsertOneResult) -> dict[str, Any]:
    return {"acknowledged": result.acknowledged, "insertedId": result.inserted_id}


def insert_many(result: InsertManyResult) -> dict[str, Any]:
    ids = {str(index): identifier for index, identifier in enumerate(result.inserted_ids)}
    return {"acknowledged": result.acknowledged, "insertedIds": ids}


def update(result: UpdateResult) -> dict[str, Any]:
    if not result.acknowledged:
        return {"acknowledged": False}
    document = {
        "acknowledged": True,
        "matchedCount": result.matched_count,
        "modifiedCount": result.modified_count,
        "upsertedCount": int(result.did_upsert),
    }
    return {**document, "upsertedId": result.upserted_id} if result.did_upsert else document


def delete(result: DeleteResult) -> dict[str, Any]:
    if not result.acknowledged:
        return {"acknowledged": False}
    return {"acknowledged": True, "deletedCount": result.deleted_count}


def bulk_write(result: BulkWriteResult) -> dict[str, Any]:
    return {"acknowledged": True, **_counts(result.bulk_api_result)} if result.acknowledged else {"acknowledged": False}


def client_bulk_write(result: ClientBulkWriteResult) -> dict[str, Any]:
    if not result.acknowledged:
        return {"acknowledged": False}
    counts = {
        "acknowledged": True,
        "deletedCount": result.deleted_count,
        "insertedCount": result.inserted_count,
        "matchedCount": result.matched_count,
        "modifiedCount": result.modified_count,
        "upsertedCount": result.upserted_count,
    }
    if not result.has_verbose_results:
        return counts
    return {
        **counts,
        "insertResults": _single(result.insert_results, insert_one),
        "updateResults": _single(result.update_results, update),
        "deleteResults": _single(result.delete_results, delete),
    }


def _single(results: Mapping[int, Any], convert: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """Single results of a client's bulk write, which have fewer fields than those of the methods of their own."""
    left_out = ("acknowledged", "upsertedCount")
    return {
        str(index): {name: value for name, value in convert(each).items() if name not in left_out}
        for index, each in results.items()
    }


def bulk_error_result(error: Exception) -> Any:
    """What a bulk write had done when it failed; missing for other errors."""
    if isinstance(error, ClientBulkWriteException):
        return MISSING if error.partial_result is None else client_bulk_write(error.partial_result)
    if isinstance(error, BulkWriteError) and error.details is not None:
        return _counts(error.details)
    # Of an error that ended a bulk write as a whole.
    partial: BulkWriteResult | None = getattr(error, "partial_result", None)
    return MISSING if partial is None else _counts(partial.bulk_api_result)


def _counts(details: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "deletedCount": details["nRemoved"],
        "insertedCount": details["nInserted"],
        "matchedCount": details["nMatched"],
        "modifiedCount": details["nModified"],
        "upsertedCount": details["nUpserted"],
        "upsertedIds": {str(upsert["index"]): upsert["_id"] for upsert in details["upserted"]},
    }
