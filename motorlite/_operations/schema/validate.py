"""Pure: the validate command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._operations.run_command import UserCommand
from motorlite._wire.replies import document

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._execution.operation import Document


class Validate(UserCommand["tuple[Document, Mapping[str, Any] | None]"]):
    """Validate a collection; `parse` returns the reply, and the part of it that reports invalid data or None.

    Retry: never by the retryable reads and writes specifications; overload errors by the overload policy,
    which for this command needs retryReads and retryWrites.
    """

    __slots__ = ()

    operation_name = "validate"

    def __init__(
        self,
        database: str,
        collection: str,
        *,
        scandata: bool = False,
        full: bool = False,
        background: bool | None = None,
        comment: Any = None,
    ) -> None:
        command = {"validate": collection, "scandata": scandata, "full": full}
        if background is not None:
            command["background"] = background
        if comment is not None:
            command["comment"] = comment
        super().__init__(database, command)

    @property
    def collection_name(self) -> str | None:
        name = self._document["validate"]
        return name if isinstance(name, str) else None

    @property
    def namespace(self) -> str:
        return f"{self.database}.{self._document['validate']}"

    def parse(self, reply: Document) -> tuple[Document, Mapping[str, Any] | None]:
        parts: list[Mapping[str, Any]] = [reply]
        if reply.get("raw") is not None:
            # A sharded cluster reports for each shard.
            shards = document(reply, "raw")
            parts += [document(shards, name) for name in shards]
        return reply, next((part for part in parts if part.get("valid") is False), None)
