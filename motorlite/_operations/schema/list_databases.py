"""Pure: the listDatabases command (enumerating databases specification)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bson.codec_options import DEFAULT_CODEC_OPTIONS

from motorlite._execution.operation import WRITABLE, Command, CursorReply, Kind, Operation
from motorlite._wire.replies import documents

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bson.codec_options import CodecOptions

    from motorlite._execution.operation import Document, Selector, ServerFacts
    from motorlite.read_preferences import ServerMode


class ListDatabases(Operation[CursorReply]):
    """The databases of a deployment; `parse` returns a CursorReply with all of them and without an open cursor.

    Retry: retryable read.
    """

    __slots__ = ("_document",)

    name = "listDatabases"
    kind = Kind.READ
    is_retryable = True
    is_idempotent = True

    def __init__(
        self,
        *,
        selector: Selector = WRITABLE,
        read_preference: ServerMode | None = None,
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
        filter: Mapping[str, Any] | None = None,
        name_only: bool = False,
        authorized_databases: bool | None = None,
        comment: Any = None,
        max_time_ms: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__("admin", selector=selector, read_preference=read_preference, codec_options=codec_options)
        document: Document = {"listDatabases": 1}
        if filter is not None:
            document["filter"] = filter
        if name_only:
            document["nameOnly"] = True
        if authorized_databases is not None:
            document["authorizedDatabases"] = authorized_databases
        if comment is not None:
            document["comment"] = comment
        if max_time_ms is not None:
            document["maxTimeMS"] = max_time_ms
        document.update(options or {})
        self._document = document

    def command(self, facts: ServerFacts) -> Command:
        return Command(self.name, self._document.copy())

    def parse(self, reply: Document) -> CursorReply:
        cursor = {"id": 0, "ns": "admin.$cmd", "firstBatch": documents(reply, "databases")}
        return CursorReply({**reply, "cursor": cursor}, "firstBatch")
