"""Pure: the findAndModify command (CRUD specification, "Find And Modify")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from bson.codec_options import DEFAULT_CODEC_OPTIONS

from motorlite._base.arguments import check_list, check_mapping, check_replacement, check_update
from motorlite._base.wire_versions import V4_4
from motorlite._operations.common import VALUE, Needs, add_write_concern, check_needs, is_acknowledged
from motorlite._operations.contract import Command, Kind, Operation, named_collection
from motorlite._operations.statements import unacknowledged_needs
from motorlite._wire.replies import check_write, document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bson.codec_options import CodecOptions

    from motorlite._base.arguments import Pipeline
    from motorlite._base.values import Document, ServerFacts
    from motorlite.write_concern import WriteConcern


_Document = TypeVar("_Document", bound="Mapping[str, Any]")


class FindAndModify(Operation["_Document | None"], Generic[_Document]):
    """Change one document and return it; `parse` returns the document or None.

    With `update` it is findOneAndUpdate, with `replacement` findOneAndReplace, with neither findOneAndDelete.
    Projection, sort and hint are already in the command's form. `options` are additional fields of the command,
    under their server names.

    Raises:
        TypeError: The filter or the change has the wrong type.
        ValueError: The update or the replacement is invalid.

    Retry: retryable write; not when it is not acknowledged.
    """

    __slots__ = ("_document", "_needs", "_write_concern", "is_acknowledged", "is_retryable")

    name = "findAndModify"
    kind = Kind.WRITE
    supports_after_cluster_time = True
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
        comment: Any = None,
        max_time_ms: int | None = None,
        bypass_document_validation: bool | None = None,
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
        write_concern: WriteConcern | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(database, codec_options=codec_options)
        check_mapping("filter", filter)
        self._write_concern = write_concern
        self.is_acknowledged = self.is_retryable = is_acknowledged(write_concern)
        document: Document = {"findAndModify": collection, "query": filter}
        document.update(_change(update, replacement, array_filters))
        if return_new:
            document["new"] = return_new
        if upsert:
            document["upsert"] = upsert
        if projection is not None:
            document["fields"] = projection
        if sort is not None:
            document["sort"] = sort
        if hint is not None:
            document["hint"] = hint
        if collation is not None:
            document["collation"] = collation
        if let is not None:
            document["let"] = let
        if comment is not None:
            document["comment"] = comment
        if max_time_ms is not None:
            document["maxTimeMS"] = max_time_ms
        if bypass_document_validation is not None:
            document["bypassDocumentValidation"] = bypass_document_validation
        if options:
            document.update(options)
        self._document = document
        self._needs: Needs = (("hint of findAndModify", V4_4),) if hint is not None else ()
        if not self.is_acknowledged:
            self._needs += unacknowledged_needs(let=let, comment=comment)

    @property
    def collection_name(self) -> str | None:
        return named_collection(self._document)

    def command(self, facts: ServerFacts) -> Command:
        if self._needs:
            check_needs(self._needs, facts)
        document = self._document.copy()
        add_write_concern(document, self._write_concern)
        return Command(self.name, document)

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
