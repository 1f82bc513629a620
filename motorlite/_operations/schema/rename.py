"""Pure: the renameCollection command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._operations.common import AdministrativeCommand

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._execution.operation import Document
    from motorlite.write_concern import WriteConcern


class Rename(AdministrativeCommand["Document"]):
    """Rename a collection; `parse` returns the reply. `options` are fields of the command, under their server names.

    It is always acknowledged.

    Retry: never by the retryable writes specification; overload errors by the overload policy, as a write.
    """

    __slots__ = ()

    name = "renameCollection"

    @property
    def namespace(self) -> str:
        namespace: str = self._document["renameCollection"]
        return namespace

    def __init__(
        self,
        database: str,
        collection: str,
        new_name: str,
        *,
        write_concern: WriteConcern | None = None,
        comment: Any = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        document = {"renameCollection": f"{database}.{collection}", "to": f"{database}.{new_name}", **(options or {})}
        if comment is not None:
            document["comment"] = comment
        if write_concern is not None and not write_concern.acknowledged:
            write_concern = None
        super().__init__("admin", document, write_concern=write_concern)

    @property
    def collection_name(self) -> None:
        return None  # the command has the names of two, and runs on the database "admin"

    def parse(self, reply: Document) -> Document:
        return self._checked(reply)
