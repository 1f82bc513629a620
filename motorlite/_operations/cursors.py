"""Pure: open cursors on a server: getMore and killCursors (find, getMore and killCursors specification)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from bson.codec_options import DEFAULT_CODEC_OPTIONS
from bson.int64 import Int64

from motorlite._base.wire_versions import V4_4
from motorlite._operations.common import NEXT_BATCH, UNREAD
from motorlite._operations.contract import Command, CursorReply, Kind, Operation, TimeLimit
from motorlite._wire.replies import is_namespace, whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bson.codec_options import CodecOptions

    from motorlite._base.values import Address, Document, ServerFacts
    from motorlite._operations.contract import Pin
    from motorlite._sessions.session import Session
    from motorlite.read_preferences import ServerMode


# The getMore command (find, getMore and killCursors specification).


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
    document_fields: ClassVar[Mapping[str, Any] | None] = NEXT_BATCH

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


# The killCursors command (find, getMore and killCursors specification).


class KillCursors(Operation["Document"]):
    """Close cursors on their server; `parse` returns the reply.

    Retry: never by the retryable reads specification; overload errors by the overload policy, as a read.
    """

    __slots__ = ("_collection", "_cursor_ids", "pin", "time_limit")

    name = "killCursors"
    kind = Kind.READ
    is_housekeeping = True
    document_fields: ClassVar[Mapping[str, Any] | None] = {}

    def __init__(
        self,
        database: str,
        collection: str,
        cursor_ids: Iterable[int],
        *,
        address: Address,
        read_preference: ServerMode | None = None,
        pin: Pin | None = None,
        time_limit: TimeLimit = TimeLimit.OMIT,
    ) -> None:
        super().__init__(database, selector=address, read_preference=read_preference, codec_options=UNREAD)
        self.pin = pin
        # DEADLINE if an application closes the cursor: the specification's tests want its timeoutMS to be sent.
        self.time_limit = time_limit
        self._collection = collection
        self._cursor_ids = [Int64(cursor_id) for cursor_id in cursor_ids]

    @property
    def collection_name(self) -> str:
        return self._collection

    def command(self, facts: ServerFacts) -> Command:
        return Command(self.name, {"killCursors": self._collection, "cursors": self._cursor_ids})

    def parse(self, reply: Document) -> Document:
        return reply


# A cursor that is still open on a server although no task reads from it.


@dataclass(slots=True, eq=False, repr=False)
class LostCursor:
    """The address of a lost cursor, and the resources that it held for its commands."""

    address: Address
    database: str
    collection: str
    cursor_id: int
    _: KW_ONLY
    # Its implicit session.
    session: Session | None = None
    # Behind a load balancer: the only connection that reaches it. Of an exhaust cursor: that of its batches.
    pin: Pin | None = None


def opened_by(reply: Mapping[str, Any], address: Address) -> LostCursor | None:
    """Return the cursor that the reply of the server at `address` opened and that must be killed, or None."""
    cursor = reply.get("cursor")
    if not isinstance(cursor, dict):
        return None
    cursor_id, namespace = whole(cursor.get("id")), cursor.get("ns")
    if not cursor_id or not is_namespace(namespace):
        return None
    database, _, collection = namespace.partition(".")
    return LostCursor(address, database, collection, cursor_id)
