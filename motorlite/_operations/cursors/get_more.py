"""Pure: the getMore command (find, getMore and killCursors specification)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bson.codec_options import DEFAULT_CODEC_OPTIONS
from bson.int64 import Int64

from motorlite._base.wire_versions import V4_4
from motorlite._execution.operation import Command, CursorReply, Kind, Operation, TimeLimit
from motorlite._operations.common import NEXT_BATCH

if TYPE_CHECKING:
    from bson.codec_options import CodecOptions

    from motorlite._execution.operation import Address, Document, Pin, ServerFacts
    from motorlite.read_preferences import ServerMode


class GetMore(Operation[CursorReply]):
    """Fetch the next batch of a cursor from its server; `parse` returns a CursorReply.

    Retry: never by the retryable reads specification (a batch could be lost); overload errors by the overload
    policy, as a read.
    """

    __slots__ = (
        "_batch_size",
        "_collection",
        "_comment",
        "_max_await_time_ms",
        "cursor_id",
        "is_await_data",
        "is_exhaust",
        "pin",
        "time_limit",
    )

    name = "getMore"
    kind = Kind.READ
    is_continuation = True
    document_fields = NEXT_BATCH

    def __init__(
        self,
        database: str,
        collection: str,
        cursor_id: int,
        *,
        address: Address,
        read_preference: ServerMode | None = None,
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
        batch_size: int = 0,
        comment: Any = None,
        is_await_data: bool = False,
        max_await_time_ms: float | None = None,
        pin: Pin | None = None,
        is_exhaust: bool = False,
    ) -> None:
        self.pin = pin
        self.is_exhaust = is_exhaust
        self.database = database
        self.selector = address
        self.read_preference = read_preference
        self.codec_options = codec_options
        self._collection = collection
        # The server requires a 64-bit integer, even for a small number.
        self.cursor_id = Int64(cursor_id)
        self._batch_size = batch_size
        self._comment = comment
        self._max_await_time_ms = max_await_time_ms
        self.is_await_data = is_await_data
        # Only the client enforces the cursor's time limit; maxTimeMS has a different meaning here.
        self.time_limit = TimeLimit.OMIT if max_await_time_ms is None else TimeLimit.AWAIT

    @property
    def collection_name(self) -> str:
        return self._collection

    def command(self, facts: ServerFacts) -> Command:
        document: Document = {"getMore": self.cursor_id, "collection": self._collection}
        if self._batch_size:
            document["batchSize"] = self._batch_size
        if self._max_await_time_ms is not None:
            document["maxTimeMS"] = self._max_await_time_ms
        # Servers older than 4.4 do not support it here, and drivers must omit it (CRUD specification).
        if self._comment is not None and facts.max_wire_version >= V4_4:
            document["comment"] = self._comment
        return Command("getMore", document)

    def parse(self, reply: Document) -> CursorReply:
        return CursorReply(reply, "nextBatch")
