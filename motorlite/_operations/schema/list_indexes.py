"""Pure: the listIndexes command (index management specification, "Enumerating Indexes")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bson.codec_options import DEFAULT_CODEC_OPTIONS

from motorlite._execution.operation import WRITABLE, Command, CursorReply, Kind, Operation, TimeLimit, named_collection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bson.codec_options import CodecOptions

    from motorlite._execution.operation import Document, Selector, ServerFacts
    from motorlite.read_preferences import ServerMode


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
