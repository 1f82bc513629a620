"""Pure: the commands for indexes and search indexes (index management specification)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._base.wire_versions import V4_4
from motorlite._operations.common import (
    AdministrativeCommand,
    AdministrativeWrite,
    Needs,
    ReadCommand,
    ReadOptions,
    SearchIndexCommand,
    SearchIndexWrite,
    SearchOptions,
    WriteOptions,
    with_set,
)
from motorlite._operations.contract import Command, CursorReply
from motorlite._operations.reads import Aggregate
from motorlite._wire.replies import documents, text
from motorlite.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    from motorlite._base.values import Document, ServerFacts


class CreateIndexes(AdministrativeCommand[list[str]]):
    """Create indexes from documents with `key` and `name`; `parse` returns their names.

    Retry: never by the retryable writes specification; overload errors by the overload policy, as a write.
    """

    __slots__ = ("_names",)

    name = "createIndexes"

    def __init__(
        self,
        database: str,
        collection: str,
        indexes: Sequence[Mapping[str, Any]],
        *,
        commit_quorum: int | str | None = None,
        options: Mapping[str, Any] | None = None,
        **common: Unpack[WriteOptions],
    ) -> None:
        if not indexes:
            raise ValueError("the list of indexes must not be empty")
        self._names = [index["name"] for index in indexes]
        document = {"createIndexes": collection, "indexes": indexes, **(options or {})}
        with_set(document, commitQuorum=commit_quorum)
        # Older servers ignore it, so the client raises an error (index management specification, "Q & A").
        needs: Needs = (("commitQuorum", V4_4),) if "commitQuorum" in document else ()
        super().__init__(database, document, needs=needs, **common)

    def parse(self, reply: Document) -> list[str]:
        self._checked(reply)
        return self._names

    def unacknowledged(self) -> list[str]:
        return self._names


class DropIndexes(AdministrativeWrite):
    """Drop one index by name or keys, or all of them (`ALL_INDEXES`).

    Retry: never by the retryable writes specification; overload errors by the overload policy, as a write.
    """

    __slots__ = ()

    name = "dropIndexes"

    def __init__(
        self,
        database: str,
        collection: str,
        index: str | Mapping[str, Any],
        *,
        options: Mapping[str, Any] | None = None,
        **common: Unpack[WriteOptions],
    ) -> None:
        super().__init__(database, {"dropIndexes": collection, "index": index, **(options or {})}, **common)


class ListIndexes(ReadCommand[CursorReply]):
    """The indexes of a collection; `parse` returns a CursorReply ("Enumerating Indexes").

    The server replies NAMESPACE_NOT_FOUND for a missing collection, which means no indexes. The documents are
    server metadata, so they are decoded with default codec options.

    Retry: retryable read.
    """

    __slots__ = ()

    name = "listIndexes"
    creates_cursor = True

    def __init__(self, database: str, collection: str, *, batch_size: int = 0, **common: Unpack[ReadOptions]) -> None:
        cursor = {"batchSize": batch_size} if batch_size else {}
        super().__init__(database, {"listIndexes": collection, "cursor": cursor}, **common)

    def parse(self, reply: Document) -> CursorReply:
        return CursorReply(reply, "firstBatch")


# Search indexes.


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
        **common: Unpack[SearchOptions],
    ) -> None:
        self._count = len(indexes)
        super().__init__(database, {"createSearchIndexes": collection, "indexes": indexes}, **common)

    def parse(self, reply: Document) -> list[str]:
        names = [text(index, "name") for index in documents(reply, "indexesCreated")]
        if len(names) < self._count:
            raise ProtocolError(
                f"the server sent a malformed reply: indexesCreated has {len(names)} of {self._count} search indexes"
            )
        return names


class DropSearchIndex(SearchIndexWrite):
    """Drop a search index by name. The server replies NAMESPACE_NOT_FOUND for a missing collection.

    Retry: never by the retryable writes specification; overload errors by the overload policy, as a write.
    """

    __slots__ = ()

    name = "dropSearchIndex"

    def __init__(self, database: str, collection: str, index: str, **common: Unpack[SearchOptions]) -> None:
        super().__init__(database, {"dropSearchIndex": collection, "name": index}, **common)


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
        **common: Unpack[SearchOptions],
    ) -> None:
        document = {"updateSearchIndex": collection, "name": index, "definition": definition}
        super().__init__(database, document, **common)


class ListSearchIndexes(Aggregate):
    """A pipeline from `search_index_stages`; `parse` returns a CursorReply.

    Never sends a read concern, not even the afterClusterTime of a session: Atlas refuses it.

    Retry: retryable read.
    """

    __slots__ = ()

    # What an application caches are its documents.
    is_degradable = False
    supports_after_cluster_time = False

    def command(self, facts: ServerFacts) -> Command:
        return Command(self.name, self._document.copy())


def search_index_stages(name: str | None = None) -> list[dict[str, Any]]:
    """Return the pipeline for one search index, or for all."""
    return [{"$listSearchIndexes": {} if name is None else {"name": name}}]
