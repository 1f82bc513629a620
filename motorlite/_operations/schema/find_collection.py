"""Pure: the listCollections command for a single collection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._operations.schema.list_collections import ListCollectionsCommand
from motorlite._wire.replies import document, first_document
from motorlite.read_preferences import ReadPreference

if TYPE_CHECKING:
    from motorlite._execution.operation import Document


class FindCollection(ListCollectionsCommand["Document | None"]):
    """The metadata of one collection; `parse` returns the document or None. No cursor stays open.

    Retry: retryable read.
    """

    __slots__ = ()

    def __init__(self, database: str, collection: str, *, name_only: bool = False, comment: Any = None) -> None:
        primary = ReadPreference.PRIMARY
        super().__init__(
            database,
            selector=primary,
            read_preference=primary,
            filter={"name": collection},
            name_only=name_only,
            comment=comment,
        )

    def parse(self, reply: Document) -> Document | None:
        found: Document | None = first_document(reply)
        if found is not None and found.get("options") is not None:
            document(found, "options")
        return found
