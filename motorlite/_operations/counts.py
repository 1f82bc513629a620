"""Pure: the commands count and distinct (CRUD specification), and explain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from bson.codec_options import DEFAULT_CODEC_OPTIONS

from motorlite._operations.common import VALUES, add_usual_read_concern
from motorlite._operations.contract import Command, Kind, Operation, named_collection
from motorlite._topology.selection import WRITABLE
from motorlite._wire.replies import array, number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bson.codec_options import CodecOptions

    from motorlite._base.values import Document, ServerFacts
    from motorlite._topology.selection import Selector
    from motorlite.read_concern import ReadConcern
    from motorlite.read_preferences import ServerMode


# The count command, for estimatedDocumentCount (CRUD specification).


class Count(Operation[int]):
    """The number of documents from the collection's metadata, returned by `parse`.

    `options` are additional fields of the command, under their server names.

    Retry: retryable read.
    """

    __slots__ = ("_document", "_read_concern")

    name = "count"
    kind = Kind.READ
    is_retryable = True
    is_idempotent = True
    is_degradable = True
    supports_after_cluster_time = True

    def __init__(
        self,
        database: str,
        collection: str,
        *,
        selector: Selector = WRITABLE,
        read_preference: ServerMode | None = None,
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
        read_concern: ReadConcern | None = None,
        comment: Any = None,
        max_time_ms: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(database, selector=selector, read_preference=read_preference, codec_options=codec_options)
        self._read_concern = read_concern
        document: Document = {"count": collection}
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
        document = self._document.copy()
        add_usual_read_concern(document, self._read_concern)
        return Command(self.name, document)

    def parse(self, reply: Document) -> int:
        return number(reply, "n")


# The distinct command (CRUD specification).


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


# The explain command.


class Explain(Operation["Document"]):
    """The server's plan for another operation; `parse` returns the reply.

    Retry: never by the retryable reads specification; overload errors by the overload policy, as a read.
    """

    __slots__ = ("_explained",)

    name = "explain"
    kind = Kind.READ
    is_idempotent = True
    # The whole reply is decoded with the user's codec options.
    document_fields: ClassVar[Mapping[str, Any] | None] = {}

    def __init__(self, explained: Operation[Any]) -> None:
        super().__init__(explained.database, selector=explained.selector, read_preference=explained.read_preference)
        self._explained = explained

    @property
    def collection_name(self) -> str | None:
        return self._explained.collection_name

    def command(self, facts: ServerFacts) -> Command:
        document = self._explained.command(facts).document
        command: Document = {"explain": document}
        if "maxTimeMS" in document:
            # The server ignores maxTimeMS in the explained command.
            command["maxTimeMS"] = document.pop("maxTimeMS")
        return Command(self.name, command)

    def parse(self, reply: Document) -> Document:
        return reply
