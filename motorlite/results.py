"""Pure: the results of write methods, with PyMongo's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from motorlite.errors import InvalidOperation

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "BulkWriteResult",
    "ClientBulkWriteResult",
    "DeleteResult",
    "InsertManyResult",
    "InsertOneResult",
    "UpdateResult",
]


class _WriteResult:
    __slots__ = ("_acknowledged",)

    _acknowledged: bool

    @property
    def acknowledged(self) -> bool:
        """False for a write concern with ``w=0``: the server reports nothing, so there are no counts."""
        return self._acknowledged

    def _known(self, name: str) -> None:
        """Raise InvalidOperation if the write was not acknowledged."""
        if not self._acknowledged:
            raise InvalidOperation(
                f"{name} is unknown because the write was not acknowledged (w=0); check `acknowledged` first"
            )


class InsertOneResult(_WriteResult):
    """The result of `insert_one`.

    Args:
        inserted_id: The `_id` of the document.
        acknowledged: Whether the server acknowledged the write.
    """

    __slots__ = ("_inserted_id",)

    def __init__(self, inserted_id: Any, acknowledged: bool) -> None:
        self._inserted_id = inserted_id
        self._acknowledged = acknowledged

    @property
    def inserted_id(self) -> Any:
        """The `_id` of the document; None for a RawBSONDocument, which is not decoded."""
        return self._inserted_id

    def __repr__(self) -> str:
        return f"InsertOneResult({self._inserted_id!r}, acknowledged={self._acknowledged})"


class InsertManyResult(_WriteResult):
    """The result of `insert_many`.

    Args:
        inserted_ids: The `_id` of each document, in the order of the documents.
        acknowledged: Whether the server acknowledged the writes.
    """

    __slots__ = ("_inserted_ids",)

    def __init__(self, inserted_ids: list[Any], acknowledged: bool) -> None:
        self._inserted_ids = inserted_ids
        self._acknowledged = acknowledged

    @property
    def inserted_ids(self) -> list[Any]:
        """The `_id` of each document, in the order of the documents."""
        return self._inserted_ids

    def __repr__(self) -> str:
        return f"InsertManyResult({self._inserted_ids!r}, acknowledged={self._acknowledged})"


class UpdateResult(_WriteResult):
    """The result of `update_one`, `update_many` and `replace_one`.

    Args:
        raw_result: The server's reply, with `upserted` reduced to the `_id`; None when not acknowledged.
        acknowledged: Whether the server acknowledged the write.
        in_client_bulk: Whether it is a single result of a client's bulk write, whose `upserted` is a document.
    """

    __slots__ = ("_in_client_bulk", "_raw_result")

    def __init__(self, raw_result: Mapping[str, Any] | None, acknowledged: bool, in_client_bulk: bool = False) -> None:
        self._raw_result: Mapping[str, Any] = raw_result if raw_result is not None else {}
        self._acknowledged = acknowledged
        self._in_client_bulk = in_client_bulk

    @property
    def raw_result(self) -> Mapping[str, Any] | None:
        """The server's reply (`upserted` is the `_id`), or None when the write was not acknowledged."""
        return self._raw_result if self._acknowledged else None

    @property
    def matched_count(self) -> int:
        """The number of documents that the filter matched; 0 for an upsert, but 1 in a client's bulk write.

        Raises:
            InvalidOperation: The write was not acknowledged.
        """
        self._known("matched_count")
        return 0 if "upserted" in self._raw_result and not self._in_client_bulk else int(self._raw_result.get("n", 0))

    @property
    def modified_count(self) -> int:
        """The number of modified documents.

        Raises:
            InvalidOperation: The write was not acknowledged.
        """
        self._known("modified_count")
        return int(self._raw_result.get("nModified", 0))

    @property
    def upserted_id(self) -> Any:
        """The `_id` of the document that an upsert inserted, else None (see `did_upsert`).

        Raises:
            InvalidOperation: The write was not acknowledged.
        """
        self._known("upserted_id")
        upserted = self._raw_result.get("upserted")
        return upserted["_id"] if self._in_client_bulk and upserted is not None else upserted

    @property
    def did_upsert(self) -> bool:
        """Whether a document was inserted, even if its `_id` is None.

        Raises:
            InvalidOperation: The write was not acknowledged.
        """
        self._known("did_upsert")
        return "upserted" in self._raw_result

    def __repr__(self) -> str:
        in_bulk = ", in_client_bulk=True" if self._in_client_bulk else ""
        return f"UpdateResult({self.raw_result!r}, acknowledged={self._acknowledged}{in_bulk})"


class DeleteResult(_WriteResult):
    """The result of `delete_one` and `delete_many`.

    Args:
        raw_result: The server's reply; None when not acknowledged.
        acknowledged: Whether the server acknowledged the write.
    """

    __slots__ = ("_raw_result",)

    def __init__(self, raw_result: Mapping[str, Any] | None, acknowledged: bool) -> None:
        self._raw_result: Mapping[str, Any] = raw_result if raw_result is not None else {}
        self._acknowledged = acknowledged

    @property
    def raw_result(self) -> Mapping[str, Any] | None:
        """The server's reply, or None when the write was not acknowledged."""
        return self._raw_result if self._acknowledged else None

    @property
    def deleted_count(self) -> int:
        """The number of deleted documents.

        Raises:
            InvalidOperation: The write was not acknowledged.
        """
        self._known("deleted_count")
        return int(self._raw_result.get("n", 0))

    def __repr__(self) -> str:
        return f"DeleteResult({self.raw_result!r}, acknowledged={self._acknowledged})"


class _BulkResult(_WriteResult):
    """The counts that both kinds of bulk write have."""

    __slots__ = ("_result",)

    # The name of the count of deleted documents.
    _deleted: ClassVar[str]

    def __init__(self, bulk_api_result: dict[str, Any], acknowledged: bool) -> None:
        self._result = bulk_api_result
        self._acknowledged = acknowledged

    @property
    def bulk_api_result(self) -> dict[str, Any]:
        """Counts and upserts of all batches together, under PyMongo's names (`nInserted`...)."""
        return self._result

    def _count(self, name: str, field: str) -> int:
        self._known(name)
        return int(self._result.get(field, 0))

    @property
    def inserted_count(self) -> int:
        """The number of inserted documents, without upserts.

        Raises:
            InvalidOperation: The writes were not acknowledged.
        """
        return self._count("inserted_count", "nInserted")

    @property
    def matched_count(self) -> int:
        """The number of documents that matched the filters of updates and replacements.

        Raises:
            InvalidOperation: The writes were not acknowledged.
        """
        return self._count("matched_count", "nMatched")

    @property
    def modified_count(self) -> int:
        """The number of modified documents.

        Raises:
            InvalidOperation: The writes were not acknowledged.
        """
        return self._count("modified_count", "nModified")

    @property
    def deleted_count(self) -> int:
        """The number of deleted documents.

        Raises:
            InvalidOperation: The writes were not acknowledged.
        """
        return self._count("deleted_count", self._deleted)

    @property
    def upserted_count(self) -> int:
        """The number of documents that upserts inserted.

        Raises:
            InvalidOperation: The writes were not acknowledged.
        """
        return self._count("upserted_count", "nUpserted")


class BulkWriteResult(_BulkResult):
    """The result of `bulk_write` on a collection.

    Args:
        bulk_api_result: Counts and upserts of all batches together; empty when not acknowledged.
        acknowledged: Whether the server acknowledged the writes.
    """

    __slots__ = ()

    _deleted = "nRemoved"

    @property
    def upserted_ids(self) -> dict[int, Any]:
        """The `_id` of each document that an upsert inserted, by the index of its request.

        Raises:
            InvalidOperation: The writes were not acknowledged.
        """
        self._known("upserted_ids")
        return {upsert["index"]: upsert["_id"] for upsert in self._result.get("upserted", ())}

    def __repr__(self) -> str:
        return f"BulkWriteResult({self._result!r}, acknowledged={self._acknowledged})"


class ClientBulkWriteResult(_BulkResult):
    """The result of `bulk_write` on a client.

    Args:
        bulk_api_result: Counts and single results of all batches together; empty when not acknowledged.
        acknowledged: Whether the server acknowledged the writes.
        has_verbose_results: Whether there are single results.
    """

    __slots__ = ("_has_verbose_results",)

    _deleted = "nDeleted"

    def __init__(self, bulk_api_result: dict[str, Any], acknowledged: bool, has_verbose_results: bool) -> None:
        super().__init__(bulk_api_result, acknowledged)
        self._has_verbose_results = has_verbose_results

    @property
    def has_verbose_results(self) -> bool:
        """Whether there are results of single writes, because `verbose_results` was true."""
        return self._has_verbose_results

    def _single(self, name: str, field: str) -> dict[int, Any]:
        self._known(name)
        if not self._has_verbose_results:
            raise InvalidOperation(f"{name} is unknown, because verbose_results was not true")
        found: dict[int, Any] = self._result.get(field, {})
        return found

    @property
    def insert_results(self) -> dict[int, InsertOneResult]:
        """The result of each insert that succeeded, by the index of its model.

        Raises:
            InvalidOperation: The writes were not acknowledged, or `verbose_results` was not true.
        """
        return self._single("insert_results", "insertResults")

    @property
    def update_results(self) -> dict[int, UpdateResult]:
        """The result of each update and replacement that succeeded, by the index of its model.

        Raises:
            InvalidOperation: The writes were not acknowledged, or `verbose_results` was not true.
        """
        return self._single("update_results", "updateResults")

    @property
    def delete_results(self) -> dict[int, DeleteResult]:
        """The result of each deletion that succeeded, by the index of its model.

        Raises:
            InvalidOperation: The writes were not acknowledged, or `verbose_results` was not true.
        """
        return self._single("delete_results", "deleteResults")

    def __repr__(self) -> str:
        return (
            f"ClientBulkWriteResult({self._result!r}, acknowledged={self._acknowledged}, "
            f"has_verbose_results={self._has_verbose_results})"
        )
