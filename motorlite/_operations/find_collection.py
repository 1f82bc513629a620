"""Pure: the listCollections command for the one collection of a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._operations.list_collections import ListCollections
from motorlite._replies import document, first_document
from motorlite.read_preferences import ReadPreference

if TYPE_CHECKING:
    from motorlite._execution.operation import Document


class FindCollection(ListCollections):
    """What a database says of one collection; `parse` returns the document or None. No cursor stays open.

    Retry: retryable read.
    """

    __slots__ = ()

    creates_cursor = False

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

    def parse(self, reply: Document) -> Any:
        found = first_document(reply)
        if found is not None and found.get("options") is not None:
            document(found, "options")
        return found
