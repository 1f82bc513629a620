"""Pure: the dropDatabase command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._operations.common import AdministrativeWrite

if TYPE_CHECKING:
    from motorlite._execution.operation import Document
    from motorlite.write_concern import WriteConcern


class DropDatabase(AdministrativeWrite):
    """Drop a database. A missing database is not an error.

    Retry: never by the retryable writes specification; overload errors by the overload policy, as a write.
    """

    __slots__ = ()

    name = "dropDatabase"

    def __init__(self, database: str, *, write_concern: WriteConcern | None = None, comment: Any = None) -> None:
        document: Document = {"dropDatabase": 1}
        if comment is not None:
            document["comment"] = comment
        super().__init__(database, document, write_concern=write_concern)
