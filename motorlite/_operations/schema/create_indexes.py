"""Pure: the createIndexes command (index management specification)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bson.codec_options import DEFAULT_CODEC_OPTIONS

from motorlite._base.wire_versions import V4_4
from motorlite._operations.common import AdministrativeCommand

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bson.codec_options import CodecOptions

    from motorlite._execution.operation import Document
    from motorlite.write_concern import WriteConcern


class CreateIndexes(AdministrativeCommand[list[str]]):
    """Create indexes from documents with `key` and `name`; `parse` returns their names.

    Retry: never by the retryable writes specification; overload errors by the overload policy, as a write.
    """

    __slots__ = ("_names",)

    name = "createIndexes"

    def __init__(
        self,
        database: str,
        collection: str,
        indexes: Sequence[Mapping[str, Any]],
        *,
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
        write_concern: WriteConcern | None = None,
        commit_quorum: int | str | None = None,
        comment: Any = None,
        max_time_ms: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if not indexes:
            raise ValueError("the list of indexes must not be empty")
        self._names = [str(index["name"]) for index in indexes]
        document: Document = {"createIndexes": collection, "indexes": indexes, **(options or {})}
        if commit_quorum is not None:
            document["commitQuorum"] = commit_quorum
        if comment is not None:
            document["comment"] = comment
        if max_time_ms is not None:
            document["maxTimeMS"] = max_time_ms
        super().__init__(
            database,
            document,
            write_concern=write_concern,
            codec_options=codec_options,
            # Older servers ignore it, so the client raises an error (index management specification, "Q & A").
            needs=(("commitQuorum", V4_4),) if "commitQuorum" in document else (),
        )

    def parse(self, reply: Document) -> list[str]:
        self._checked(reply)
        return self._names

    def unacknowledged(self) -> list[str]:
        return self._names
