"""Pure: the listCollections command (enumerating collections specification)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bson.codec_options import DEFAULT_CODEC_OPTIONS

from motorlite._execution.operation import WRITABLE, Command, CursorReply, Kind, Operation, R_co, TimeLimit

if TYPE_CHECKING:
    from bson.codec_options import CodecOptions

    from motorlite._execution.operation import Document, Selector, ServerFacts
    from motorlite.read_preferences import ServerMode


class ListCollectionsCommand(Operation[R_co]):
    """The collections of a database.

    The documents are server metadata, so they are decoded with default codec options.

    Retry: retryable read.
    """

    __slots__ = ("_document", "time_limit")

    name = "listCollections"
    kind = Kind.READ
    is_retryable = True
    is_idempotent = True

    def __init__(
        self,
        database: str,
        *,
        selector: Selector = WRITABLE,
        read_preference: ServerMode | None = None,
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
        time_limit: TimeLimit = TimeLimit.SEND,
        filter: Mapping[str, Any] | None = None,
        name_only: bool = False,
        authorized_collections: bool | None = None,
        batch_size: int = 0,
        comment: Any = None,
        max_time_ms: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(database, selector=selector, read_preference=read_preference, codec_options=codec_options)
        self.time_limit = time_limit
        document: Document = {
            "listCollections": 1,
            "cursor": {"batchSize": batch_size} if batch_size else {},
        }
        if filter is not None:
            document["filter"] = filter
        if name_only:
            document["nameOnly"] = True
        if authorized_collections is not None:
            document["authorizedCollections"] = authorized_collections
        if comment is not None:
            document["comment"] = comment
        if max_time_ms is not None:
            document["maxTimeMS"] = max_time_ms
        document.update(options or {})
        if batch_size and isinstance(document["cursor"], Mapping):
            document["cursor"] = {**document["cursor"], "batchSize": batch_size}
        self._document = document

    def command(self, facts: ServerFacts) -> Command:
        return Command(self.name, self._document.copy())


class ListCollections(ListCollectionsCommand[CursorReply]):
    """The collections of a database; `parse` returns a CursorReply.

    Retry: retryable read.
    """

    __slots__ = ()

    creates_cursor = True

    def parse(self, reply: Document) -> CursorReply:
        return CursorReply(reply, "firstBatch")
