"""Pure: the dropIndexes command (index management specification)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bson.codec_options import DEFAULT_CODEC_OPTIONS

from motorlite._operations.common import AdministrativeWrite

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bson.codec_options import CodecOptions

    from motorlite._execution.operation import Document
    from motorlite.write_concern import WriteConcern


class DropIndexes(AdministrativeWrite):
    """Drop one index by name or keys, or all of them (`ALL_INDEXES`).

    Retry: never by the retryable writes specification; overload errors by the overload policy, as a write.
    """

    __slots__ = ()

    name = "dropIndexes"

    def __init__(
        self,
        database: str,
        collection: str,
        index: str | Mapping[str, Any],
        *,
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
        write_concern: WriteConcern | None = None,
        comment: Any = None,
        max_time_ms: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        document: Document = {"dropIndexes": collection, "index": index, **(options or {})}
        if comment is not None:
            document["comment"] = comment
        if max_time_ms is not None:
            document["maxTimeMS"] = max_time_ms
        super().__init__(database, document, write_concern=write_concern, codec_options=codec_options)
