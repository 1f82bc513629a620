"""Pure: the createSearchIndexes command (index management specification, "Search Indexes")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._operations.common import SearchIndexCommand
from motorlite._wire.replies import documents, text
from motorlite.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from motorlite._execution.operation import Document


class CreateSearchIndexes(SearchIndexCommand[list[str]]):
    """Create search indexes from documents with `definition`; `parse` returns their names.

    The server names an index that has no name, so the names come from the reply. An empty list is sent too: the
    server decides whether it is an error.

    Retry: never by the retryable writes specification; overload errors by the overload policy, as a write.
    """

    __slots__ = ("_count",)

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
        self._count = len(indexes)
        fields = {"indexes": indexes}
        super().__init__(database, collection, fields, comment=comment, max_time_ms=max_time_ms)

    def parse(self, reply: Document) -> list[str]:
        names = [text(index, "name") for index in documents(reply, "indexesCreated")]
        if len(names) < self._count:
            raise ProtocolError(
                f"the server sent a malformed reply: indexesCreated has {len(names)} of {self._count} search indexes"
            )
        return names
