"""Pure: the dropSearchIndex command (index management specification, "Search Indexes")."""

from __future__ import annotations

from typing import Any

from motorlite._operations.common import SearchIndexWrite


class DropSearchIndex(SearchIndexWrite):
    """Drop a search index by name. The server replies NAMESPACE_NOT_FOUND for a missing collection.

    Retry: never by the retryable writes specification; overload errors by the overload policy, as a write.
    """

    __slots__ = ()

    name = "dropSearchIndex"

    def __init__(
        self,
        database: str,
        collection: str,
        index: str,
        *,
        comment: Any = None,
        max_time_ms: int | None = None,
    ) -> None:
        super().__init__(database, collection, {"name": index}, comment=comment, max_time_ms=max_time_ms)
