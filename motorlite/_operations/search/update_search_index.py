"""Pure: the updateSearchIndex command (index management specification, "Search Indexes")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._operations.common import SearchIndexWrite

if TYPE_CHECKING:
    from collections.abc import Mapping


class UpdateSearchIndex(SearchIndexWrite):
    """Replace the definition of a search index.

    Retry: never by the retryable writes specification; overload errors by the overload policy, as a write.
    """

    __slots__ = ()

    name = "updateSearchIndex"

    def __init__(
        self,
        database: str,
        collection: str,
        index: str,
        definition: Mapping[str, Any],
        *,
        comment: Any = None,
        max_time_ms: int | None = None,
    ) -> None:
        fields = {"name": index, "definition": definition}
        super().__init__(database, collection, fields, comment=comment, max_time_ms=max_time_ms)
