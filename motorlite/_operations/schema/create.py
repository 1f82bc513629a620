"""Pure: the create command (collections, views, time series)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bson.codec_options import DEFAULT_CODEC_OPTIONS

from motorlite._operations.common import AdministrativeWrite

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bson.codec_options import CodecOptions

    from motorlite.write_concern import WriteConcern


class Create(AdministrativeWrite):
    """Create a collection or view. `options` are fields of the command, under their server names.

    Retry: never by the retryable writes specification; overload errors by the overload policy, as a write.
    """

    __slots__ = ()

    name = "create"
    operation_name = "createCollection"

    def __init__(
        self,
        database: str,
        collection: str,
        *,
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
        write_concern: WriteConcern | None = None,
        comment: Any = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        document = {"create": collection, **(options or {})}
        if comment is not None:
            document["comment"] = comment
        super().__init__(database, document, write_concern=write_concern, codec_options=codec_options)
