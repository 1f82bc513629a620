"""Pure: the commands for indexes and search indexes (index management specification)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bson.codec_options import DEFAULT_CODEC_OPTIONS

from motorlite._base.wire_versions import V4_4
from motorlite._operations.aggregate import Aggregate
from motorlite._operations.common import (
    AdministrativeCommand,
    AdministrativeWrite,
    SearchIndexCommand,
    SearchIndexWrite,
)
from motorlite._operations.contract import Command, CursorReply, Kind, Operation, TimeLimit, named_collection
from motorlite._topology.selection import WRITABLE
from motorlite._wire.replies import documents, text
from motorlite.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bson.codec_options import CodecOptions

    from motorlite._base.values import Document, ServerFacts
    from motorlite._topology.selection import Selector
    from motorlite.read_preferences import ServerMode
    from motorlite.write_concern import WriteConcern


# The createIndexes command (index management specification).


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
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
        write_concern: WriteConcern | None = None,
        commit_quorum: int | str | None = None,
        comment: Any = None,
        max_time_ms: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if not indexes:
            raise ValueError("the list of indexes must not be empty")
        self._names = [str(index["name"]) for index in indexes]
        document: Document = {"createIndexes": collection, "indexes": indexes, **(options or {})}
        if commit_quorum is not None:
            document["commitQuorum"] = commit_quorum
        if comment is not None:
            document["comment"] = comment
        if max_time_ms is not None:
            document["maxTimeMS"] = max_time_ms
        super().__init__(
            database,
            document,
            write_concern=write_concern,
            codec_options=codec_options,
            # Older servers ignore it, so the client raises an error (index management specification, "Q & A").
            needs=(("commitQuorum", V4_4),) if "commitQuorum" in document else (),
        )

    def parse(self, reply: Document) -> list[str]:
        self._checked(reply)
        return self._names

    def unacknowledged(self) -> list[str]:
        return self._names


# The dropIndexes command (index management specification).


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
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
        write_concern: WriteConcern | None = None,
        comment: Any = None,
        max_time_ms: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        document: Document = {"dropIndexes": collection, "index": index, **(options or {})}
        if comment is not None:
            document["comment"] = comment
        if max_time_ms is not None:
            document["maxTimeMS"] = max_time_ms
        super().__init__(database, document, write_concern=write_concern, codec_options=codec_options)


# The listIndexes command (index management specification, "Enumerating Indexes").


class ListIndexes(Operation[CursorReply]):
    """The indexes of a collection; `parse` returns a CursorReply.

    The server replies NAMESPACE_NOT_FOUND for a missing collection, which means no indexes. The documents are
    server metadata, so they are decoded with default codec options.

    Retry: retryable read.
    """

    __slots__ = ("_document", "time_limit")

    name = "listIndexes"
    kind = Kind.READ
    is_retryable = True
    is_idempotent = True
    creates_cursor = True

    def __init__(
        self,
        database: str,
        collection: str,
        *,
        selector: Selector = WRITABLE,
        read_preference: ServerMode | None = None,
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
        time_limit: TimeLimit = TimeLimit.SEND,
        batch_size: int = 0,
        comment: Any = None,
        max_time_ms: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(database, selector=selector, read_preference=read_preference, codec_options=codec_options)
        self.time_limit = time_limit
        document: Document = {
            "listIndexes": collection,
            "cursor": {"batchSize": batch_size} if batch_size else {},
        }
        if comment is not None:
            document["comment"] = comment
        if max_time_ms is not None:
            document["maxTimeMS"] = max_time_ms
        document.update(options or {})
        self._document = document

    @property
    def collection_name(self) -> str | None:
        return named_collection(self._document)

    def command(self, facts: ServerFacts) -> Command:
        return Command(self.name, self._document.copy())

    def parse(self, reply: Document) -> CursorReply:
        return CursorReply(reply, "firstBatch")


# The createSearchIndexes command (index management specification, "Search Indexes").


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


# The dropSearchIndex command (index management specification, "Search Indexes").


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


# The aggregate command that lists search indexes (index management specification, "Search Indexes").


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


# The updateSearchIndex command (index management specification, "Search Indexes").


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
