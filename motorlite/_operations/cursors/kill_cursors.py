"""Pure: the killCursors command (find, getMore and killCursors specification)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from bson.int64 import Int64

from motorlite._execution.operation import Command, Kind, Operation, TimeLimit
from motorlite._operations.common import UNREAD

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from motorlite._execution.operation import Address, Document, Pin, ServerFacts
    from motorlite.read_preferences import ServerMode


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
