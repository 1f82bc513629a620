"""Pure: the commands aggregate, count and distinct (CRUD specification), and explain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from motorlite._base.wire_versions import V5_0
from motorlite._operations.common import FIRST_BATCH, VALUES, ReadCommand, ReadOptions, add_write_concern, with_set
from motorlite._operations.contract import Command, CursorReply, Kind, Operation, R_co
from motorlite._topology.selection import WritesByPreference
from motorlite._wire.replies import array, check_write_concern, document, documents, number

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self, Unpack

    from motorlite._base.values import Document, ServerFacts
    from motorlite.read_preferences import ServerMode
    from motorlite.write_concern import WriteConcern


# The aggregate command, also for countDocuments (CRUD specification).


class AggregateCommand(ReadCommand[R_co]):
    """A read pipeline. `collection` is None for a pipeline on the database.

    Retry: retryable read.
    """

    __slots__ = ("_is_explain",)

    name = "aggregate"
    is_degradable = True
    supports_after_cluster_time = True
    document_fields: ClassVar[Mapping[str, Any] | None] = FIRST_BATCH

    def __init__(
        self,
        database: str,
        collection: str | None,
        pipeline: Sequence[Mapping[str, Any]],
        *,
        batch_size: int | None = None,
        allow_disk_use: bool | None = None,
        bypass_document_validation: bool | None = None,
        collation: Mapping[str, Any] | None = None,
        hint: str | Mapping[str, Any] | None = None,
        let: Mapping[str, Any] | None = None,
        **common: Unpack[ReadOptions],
    ) -> None:
        document = with_set(
            {"aggregate": 1 if collection is None else collection, "pipeline": pipeline},
            allowDiskUse=allow_disk_use,
            bypassDocumentValidation=bypass_document_validation,
            collation=collation,
            hint=hint,
            let=let,
        )
        super().__init__(database, document, **common)
        self._is_explain = bool(document.get("explain"))
        if not self._is_explain:
            given = document.setdefault("cursor", {})
            if isinstance(given, Mapping):
                document["cursor"] = {**given, **self._cursor_options(batch_size)}

    def _cursor_options(self, batch_size: int | None) -> Document:
        return {} if batch_size is None else {"batchSize": batch_size}


class Aggregate(AggregateCommand[CursorReply]):
    """A read pipeline; `parse` returns a CursorReply.

    Retry: retryable read.
    """

    __slots__ = ()

    creates_cursor = True

    def parse(self, reply: Document) -> CursorReply:
        if self._is_explain and "cursor" not in reply:
            return CursorReply({"cursor": {"id": 0, "firstBatch": [reply]}}, "firstBatch")
        return CursorReply(reply, "firstBatch")


class AggregateWrite(Aggregate):
    """A pipeline that ends with $out or $merge; `parse` returns a CursorReply without documents.

    Its read preference only applies if all servers are 5.0 or newer (CRUD specification, "Aggregation Pipelines
    with Write Stages"). Otherwise the primary executes it.

    Retry: never by the retryable writes specification; overload errors by the overload policy, as a write.
    """

    __slots__ = ("_preference", "_write_concern")

    kind = Kind.WRITE
    is_retryable = False
    is_idempotent = False
    is_degradable = False
    writes_until_error = True
    prefers_concern_error = True

    def __init__(
        self,
        database: str,
        collection: str | None,
        pipeline: Sequence[Mapping[str, Any]],
        *,
        write_concern: WriteConcern | None = None,
        **options: Any,
    ) -> None:
        super().__init__(database, collection, pipeline, **options)
        self._write_concern = write_concern
        self._preference = self.read_preference
        if self._preference is not None:
            self.selector = WritesByPreference(self._preference)

    def reading_from(self, preference: ServerMode) -> Self:
        twin = super().reading_from(preference)
        # Called only for a transaction: its commands have no read preference.
        twin._preference = None
        return twin

    def _cursor_options(self, batch_size: int | None) -> Document:
        return {}  # with a batch size of 0, the server would not execute the pipeline

    def command(self, facts: ServerFacts) -> Command:
        command = super().command(facts)
        add_write_concern(command.document, self._write_concern)
        self.read_preference = self._preference if facts.max_wire_version >= V5_0 else None
        return command

    def parse(self, reply: Document) -> CursorReply:
        check_write_concern(reply)
        return super().parse(reply)


class CountDocuments(AggregateCommand[int]):
    """The number of matching documents, returned by `parse`. No cursor stays open.

    Retry: retryable read.
    """

    __slots__ = ()

    document_fields = None

    def parse(self, reply: Document) -> int:
        batch = documents(document(reply, "cursor"), "firstBatch")
        return number(batch[0], "n") if batch else 0


def has_write_stage(pipeline: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a pipeline writes. $out and $merge can only be its last stage."""
    if not pipeline:
        return False
    last = pipeline[-1]
    return "$out" in last or "$merge" in last


def waits_for_data(pipeline: Any) -> bool:
    """Whether getMore waits for new data. A change stream can only be the first stage."""
    first = pipeline[0] if isinstance(pipeline, list) and pipeline else None
    return isinstance(first, Mapping) and "$changeStream" in first


def count_pipeline(filter: Mapping[str, Any], skip: int = 0, limit: int = 0) -> list[Mapping[str, Any]]:
    """Return the pipeline of countDocuments (CRUD specification, "countDocuments")."""
    pipeline: list[Mapping[str, Any]] = [{"$match": filter}]
    if skip:
        pipeline.append({"$skip": skip})
    if limit:
        pipeline.append({"$limit": limit})
    pipeline.append({"$group": {"_id": 1, "n": {"$sum": 1}}})
    return pipeline


# The commands count and distinct (CRUD specification), and explain.


class Count(ReadCommand[int]):
    """The number of documents from the collection's metadata (estimatedDocumentCount), returned by `parse`.

    Retry: retryable read.
    """

    __slots__ = ()

    name = "count"
    is_degradable = True
    supports_after_cluster_time = True

    def __init__(self, database: str, collection: str, **common: Unpack[ReadOptions]) -> None:
        super().__init__(database, {"count": collection}, **common)

    def parse(self, reply: Document) -> int:
        return number(reply, "n")


class Distinct(ReadCommand[list[Any]]):
    """The distinct values of a field; `parse` returns them as a list.

    Retry: retryable read.
    """

    __slots__ = ()

    name = "distinct"
    is_degradable = True
    supports_after_cluster_time = True
    document_fields = VALUES

    def __init__(
        self,
        database: str,
        collection: str,
        key: str,
        filter: Mapping[str, Any] | None = None,
        *,
        collation: Mapping[str, Any] | None = None,
        hint: str | Mapping[str, Any] | None = None,
        **common: Unpack[ReadOptions],
    ) -> None:
        document = {"distinct": collection, "key": key, "query": {} if filter is None else filter}
        super().__init__(database, with_set(document, collation=collation, hint=hint), **common)

    def parse(self, reply: Document) -> list[Any]:
        return array(reply, "values")


class Explain(Operation["Document"]):
    """The server's plan for another operation; `parse` returns the reply.

    Retry: never by the retryable reads specification; overload errors by the overload policy, as a read.
    """

    __slots__ = ("_explained",)

    name = "explain"
    kind = Kind.READ
    is_idempotent = True
    # The whole reply is decoded with the user's codec options.
    document_fields: ClassVar[Mapping[str, Any] | None] = {}

    def __init__(self, explained: Operation[Any]) -> None:
        super().__init__(
            explained.database,
            selector=explained.selector,
            read_preference=explained.read_preference,
            # For the values of the query, which are in the plan too.
            codec_options=explained.codec_options,
        )
        self._explained = explained

    @property
    def collection_name(self) -> str | None:
        return self._explained.collection_name

    def command(self, facts: ServerFacts) -> Command:
        document = self._explained.command(facts).document
        command: Document = {"explain": document}
        if "maxTimeMS" in document:
            # The server ignores maxTimeMS in the explained command.
            command["maxTimeMS"] = document.pop("maxTimeMS")
        return Command(self.name, command)

    def parse(self, reply: Document) -> Document:
        return reply
