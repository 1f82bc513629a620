"""Pure: the update command for one statement (CRUD specification: updateOne, updateMany, replaceOne)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bson.codec_options import DEFAULT_CODEC_OPTIONS

from motorlite._operations.common import UPSERTED
from motorlite._operations.writes.single_write import SingleWrite
from motorlite._wire.replies import number, upserts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bson.codec_options import CodecOptions

    from motorlite._execution.operation import Document
    from motorlite.write_concern import WriteConcern


class Update(SingleWrite):
    """Execute one statement of `update_statement` or `replace_statement`.

    `parse` returns the reply in the form that `UpdateResult` takes: `upserted` is the _id, `updatedExisting` is added.

    Retry: retryable write; not with `multi` and not when it is not acknowledged.
    """

    __slots__ = ()

    name = "update"
    # The _id of an upsert is decoded with the user's codec options.
    document_fields = UPSERTED
    _field = "updates"

    def __init__(
        self,
        database: str,
        collection: str,
        statement: Document,
        *,
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
        write_concern: WriteConcern | None = None,
        bypass_document_validation: bool | None = None,
        let: Mapping[str, Any] | None = None,
        comment: Any = None,
        max_time_ms: int | None = None,
    ) -> None:
        super().__init__(
            database,
            collection,
            statement,
            codec_options=codec_options,
            write_concern=write_concern,
            let=let,
            comment=comment,
            max_time_ms=max_time_ms,
        )
        if bypass_document_validation is not None:
            self._document["bypassDocumentValidation"] = bypass_document_validation

    def parse(self, reply: Document) -> Document | None:
        super().parse(reply)
        number(reply, "nModified", 0)
        # Listeners receive the reply itself.
        result = dict(reply)
        upserted = upserts(reply) if "upserted" in reply else []
        if upserted:
            result["upserted"] = upserted[0]["_id"]
        else:
            result.pop("upserted", None)
        result["updatedExisting"] = not upserted and bool(result.get("n"))
        return result
