"""Pure: the findAndModify command (CRUD specification, "Find And Modify")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from motorlite._base.arguments import check_list, check_mapping, check_replacement, check_update
from motorlite._base.wire_versions import V4_4
from motorlite._operations.common import VALUE, DocumentWrite, Needs, WriteOptions, with_set
from motorlite._wire.replies import check_write, document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    from motorlite._base.arguments import Pipeline
    from motorlite._base.values import Document


_Document = TypeVar("_Document", bound="Mapping[str, Any]")


class FindAndModify(DocumentWrite["_Document | None"], Generic[_Document]):
    """Change one document and return it; `parse` returns the document or None.

    With `update` it is findOneAndUpdate, with `replacement` findOneAndReplace, with neither findOneAndDelete.
    Projection, sort and hint are already in the command's form. `options` are additional fields of the command,
    under their server names.

    Raises:
        TypeError: The filter or the change has the wrong type.
        ValueError: The update or the replacement is invalid.

    Retry: retryable write; not when it is not acknowledged.
    """

    __slots__ = ()

    name = "findAndModify"
    document_fields = VALUE
    prefers_concern_error = True

    def __init__(
        self,
        database: str,
        collection: str,
        filter: Mapping[str, Any],
        *,
        update: Mapping[str, Any] | Pipeline | None = None,
        replacement: Mapping[str, Any] | None = None,
        upsert: bool = False,
        return_new: bool = False,
        projection: Mapping[str, Any] | None = None,
        sort: Mapping[str, Any] | None = None,
        array_filters: Sequence[Mapping[str, Any]] | None = None,
        hint: str | Mapping[str, Any] | None = None,
        collation: Mapping[str, Any] | None = None,
        let: Mapping[str, Any] | None = None,
        bypass_document_validation: bool | None = None,
        options: Mapping[str, Any] | None = None,
        **common: Unpack[WriteOptions],
    ) -> None:
        check_mapping("filter", filter)
        document = with_set(
            {"findAndModify": collection, "query": filter, **_change(update, replacement, array_filters)},
            new=return_new or None,
            upsert=upsert or None,
            fields=projection,
            sort=sort,
            hint=hint,
            collation=collation,
            let=let,
        )
        needs: Needs = (("hint of findAndModify", V4_4),) if hint is not None else ()
        super().__init__(database, document, needs=needs, **common)
        with_set(document, bypassDocumentValidation=bypass_document_validation).update(options or {})

    def parse(self, reply: Document) -> _Document | None:
        if "writeErrors" in reply or "writeConcernError" in reply:
            check_write(reply)
        value: _Document | None = reply.get("value")
        if value is not None:
            document(reply, "value")
        return value

    def unacknowledged(self) -> _Document | None:
        return None


def _change(
    update: Mapping[str, Any] | Pipeline | None,
    replacement: Mapping[str, Any] | None,
    array_filters: Sequence[Mapping[str, Any]] | None,
) -> Document:
    """Return the fields that describe the change."""
    if update is None and replacement is None:
        return {"remove": True}
    if update is None:
        check_replacement(replacement)
        return {"update": replacement}
    check_update(update)
    if array_filters is None:
        return {"update": update}
    check_list("array_filters", array_filters)
    return {"update": update, "arrayFilters": array_filters}
