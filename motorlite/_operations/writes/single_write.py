"""Pure: the common base of updates and deletes with a single statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from bson.codec_options import DEFAULT_CODEC_OPTIONS

from motorlite._execution.operation import Command, Kind, Operation, named_collection
from motorlite._operations.common import Needs, add_write_concern, check_needs
from motorlite._operations.writes.statements import is_multi, statement_needs, unacknowledged_needs
from motorlite._wire.replies import check_write, number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bson.codec_options import CodecOptions

    from motorlite._execution.operation import Document, ServerFacts
    from motorlite.write_concern import WriteConcern


class SingleWrite(Operation["Document | None"]):
    """A command with one statement.

    Retry: retryable write; not when it may change several documents or is not acknowledged.
    """

    __slots__ = ("_document", "_needs", "_write_concern", "is_acknowledged", "is_retryable")

    kind = Kind.WRITE
    supports_after_cluster_time = True
    # The field with the statements.
    _field: ClassVar[str]

    def __init__(
        self,
        database: str,
        collection: str,
        statement: Document,
        *,
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
        write_concern: WriteConcern | None = None,
        let: Mapping[str, Any] | None = None,
        comment: Any = None,
        max_time_ms: int | None = None,
    ) -> None:
        super().__init__(database, codec_options=codec_options)
        self._write_concern = write_concern
        self.is_acknowledged = acknowledged = write_concern is None or write_concern.acknowledged
        self.is_retryable = acknowledged and not is_multi(statement)
        document: Document = {self.name: collection, "ordered": True, self._field: [statement]}
        if let is not None:
            document["let"] = let
        if comment is not None:
            document["comment"] = comment
        if max_time_ms is not None:
            document["maxTimeMS"] = max_time_ms
        self._document = document
        self._needs: Needs = statement_needs(statement, acknowledged=acknowledged)
        if not acknowledged:
            self._needs += unacknowledged_needs(let=let, comment=comment)

    @property
    def collection_name(self) -> str | None:
        return named_collection(self._document)

    def command(self, facts: ServerFacts) -> Command:
        if self._needs:
            check_needs(self._needs, facts)
        document = self._document.copy()
        add_write_concern(document, self._write_concern)
        return Command(self.name, document)

    def parse(self, reply: Document) -> Document | None:
        if "writeErrors" in reply or "writeConcernError" in reply:
            check_write(reply)
        number(reply, "n", 0)
        return reply

    def unacknowledged(self) -> Document | None:
        return None
