"""Pure: the commands count and distinct (CRUD specification), and explain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from motorlite._operations.common import VALUES, ReadCommand, ReadOptions, with_set
from motorlite._operations.contract import Command, Kind, Operation
from motorlite._wire.replies import array, number

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Unpack

    from motorlite._base.values import Document, ServerFacts


class Count(ReadCommand[int]):
    """The number of documents from the collection's metadata (estimatedDocumentCount), returned by `parse`.

    Retry: retryable read.
    """

    __slots__ = ()

    name = "count"
    is_degradable = True
    supports_after_cluster_time = True

    def __init__(self, database: str, collection: str, **common: Unpack[ReadOptions]) -> None:
        super().__init__(database, {"count": collection}, **common)

    def parse(self, reply: Document) -> int:
        return number(reply, "n")


class Distinct(ReadCommand[list[Any]]):
    """The distinct values of a field; `parse` returns them as a list.

    Retry: retryable read.
    """

    __slots__ = ()

    name = "distinct"
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
        collation: Mapping[str, Any] | None = None,
        hint: str | Mapping[str, Any] | None = None,
        **common: Unpack[ReadOptions],
    ) -> None:
        document = {"distinct": collection, "key": key, "query": {} if filter is None else filter}
        super().__init__(database, with_set(document, collation=collation, hint=hint), **common)

    def parse(self, reply: Document) -> list[Any]:
        return array(reply, "values")


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
