"""Pure: the drop command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._operations.common import AdministrativeWrite

if TYPE_CHECKING:
    from motorlite.write_concern import WriteConcern


class Drop(AdministrativeWrite):
    """Drop a collection or view. Servers older than 7.0 reply NAMESPACE_NOT_FOUND if it does not exist.

    Retry: never by the retryable writes specification; overload errors by the overload policy, as a write.
    """

    __slots__ = ()

    name = "drop"
    operation_name = "dropCollection"

    def __init__(
        self,
        database: str,
        collection: str,
        *,
        write_concern: WriteConcern | None = None,
        comment: Any = None,
    ) -> None:
        document = {"drop": collection}
        if comment is not None:
            document["comment"] = comment
        super().__init__(database, document, write_concern=write_concern)
