"""Pure: the insert command for one document (CRUD specification, "insertOne")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bson.codec_options import DEFAULT_CODEC_OPTIONS

from motorlite._execution.operation import Command, Kind, Operation, named_collection
from motorlite._operations.common import Needs, add_write_concern, check_needs
from motorlite._operations.writes.statements import unacknowledged_needs
from motorlite._wire.replies import check_write

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bson.codec_options import CodecOptions

    from motorlite._execution.operation import Document, ServerFacts
    from motorlite.write_concern import WriteConcern


class Insert(Operation["Document | None"]):
    """Insert one document, which already has its _id; `parse` returns the reply.

    The document is part of the command itself, not of a document sequence: one encoder call instead of two
    (measured: 2.6 µs against 3.2 µs for a small document, no difference for a large one).

    Retry: retryable write; not when it is not acknowledged.
    """

    __slots__ = ("_document", "_needs", "_write_concern", "is_acknowledged", "is_retryable")

    name = "insert"
    kind = Kind.WRITE
    supports_after_cluster_time = True

    def __init__(
        self,
        database: str,
        collection: str,
        document: Mapping[str, Any],
        *,
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
        write_concern: WriteConcern | None = None,
        bypass_document_validation: bool | None = None,
        comment: Any = None,
        max_time_ms: int | None = None,
    ) -> None:
        super().__init__(database, codec_options=codec_options)
        self._write_concern = write_concern
        self.is_acknowledged = self.is_retryable = write_concern is None or write_concern.acknowledged
        self._needs: Needs = ()
        command: Document = {"insert": collection, "ordered": True, "documents": [document]}
        if bypass_document_validation is not None:
            command["bypassDocumentValidation"] = bypass_document_validation
        if comment is not None:
            command["comment"] = comment
            if not self.is_acknowledged:
                self._needs = unacknowledged_needs(comment=comment)
        if max_time_ms is not None:
            command["maxTimeMS"] = max_time_ms
        self._document = command

    @property
    def collection_name(self) -> str | None:
        return named_collection(self._document)

    def command(self, facts: ServerFacts) -> Command:
        if self._needs:
            check_needs(self._needs, facts)
        document = self._document.copy()
        write_concern = self._write_concern
        if write_concern is not None and not write_concern.is_server_default:
            add_write_concern(document, write_concern)
        return Command("insert", document)

    def parse(self, reply: Document) -> Document | None:
        if "writeErrors" in reply or "writeConcernError" in reply:
            check_write(reply)
        return reply

    def unacknowledged(self) -> Document | None:
        return None
