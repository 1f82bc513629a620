"""Pure: the explain command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from motorlite._execution.operation import Command, Kind, Operation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._execution.operation import Document, ServerFacts


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
