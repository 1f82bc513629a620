"""Pure: the distinct command (CRUD specification)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bson.codec_options import DEFAULT_CODEC_OPTIONS

from motorlite._execution.operation import WRITABLE, Command, Kind, Operation, named_collection
from motorlite._operations.common import VALUES, add_usual_read_concern
from motorlite._wire.replies import array

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bson.codec_options import CodecOptions

    from motorlite._execution.operation import Document, Selector, ServerFacts
    from motorlite.read_concern import ReadConcern
    from motorlite.read_preferences import ServerMode


class Distinct(Operation[list[Any]]):
    """The distinct values of a field; `parse` returns them as a list.

    `options` are additional fields of the command, under their server names.

    Retry: retryable read.
    """

    __slots__ = ("_document", "_read_concern")

    name = "distinct"
    kind = Kind.READ
    is_retryable = True
    is_idempotent = True
    is_degradable = True
    supports_after_cluster_time = True
    document_fields = VALUES

    def __init__(
        self,
        database: str,
        collection: str,
        key: str,
        filter: Mapping[str, Any] | None = None,
        *,
        selector: Selector = WRITABLE,
        read_preference: ServerMode | None = None,
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
        read_concern: ReadConcern | None = None,
        collation: Mapping[str, Any] | None = None,
        hint: str | Mapping[str, Any] | None = None,
        comment: Any = None,
        max_time_ms: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(database, selector=selector, read_preference=read_preference, codec_options=codec_options)
        self._read_concern = read_concern
        document: Document = {
            "distinct": collection,
            "key": key,
            "query": filter if filter is not None else {},
        }
        optional = (
            ("collation", collation),
            ("hint", hint),
            ("comment", comment),
            ("maxTimeMS", max_time_ms),
        )
        document.update({name: value for name, value in optional if value is not None})
        document.update(options or {})
        self._document = document

    @property
    def collection_name(self) -> str | None:
        return named_collection(self._document)

    def command(self, facts: ServerFacts) -> Command:
        document = self._document.copy()
        add_usual_read_concern(document, self._read_concern)
        return Command(self.name, document)

    def parse(self, reply: Document) -> list[Any]:
        return array(reply, "values")
