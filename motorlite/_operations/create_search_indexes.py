"""Pure: the createSearchIndexes command (index management specification, "Search Indexes")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._operations.common import SearchIndexWrite

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from motorlite._execution.operation import Document


class CreateSearchIndexes(SearchIndexWrite):
    """Create search indexes, given as documents with `definition`; `parse` returns their names.

    An index without a name gets one from the server, hence the names are those of the reply. An empty list is sent
    too: whether it is wrong, the server says.

    Retry: never by the retryable writes specification; overload errors by the overload policy, as a write.
    """

    __slots__ = ()

    name = "createSearchIndexes"

    def __init__(
        self,
        database: str,
        collection: str,
        indexes: Sequence[Mapping[str, Any]],
        *,
        comment: Any = None,
        max_time_ms: int | None = None,
    ) -> None:
        fields = {"indexes": indexes}
        super().__init__(database, collection, fields, comment=comment, max_time_ms=max_time_ms)

    def parse(self, reply: Document) -> list[str]:
        return [index["name"] for index in reply["indexesCreated"]]
