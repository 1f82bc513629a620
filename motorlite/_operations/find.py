"""Pure: the find command (find, getMore and killCursors specification; CRUD specification, "Find")."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Generic, TypedDict, TypeVar

from bson.codec_options import DEFAULT_CODEC_OPTIONS

from motorlite._base.values import ServerFacts, estimated_size
from motorlite._base.wire_versions import V4_4, V7_1
from motorlite._operations.common import FIRST_BATCH, ReadCommand, add_read_concern, check_needs
from motorlite._operations.contract import (
    Command,
    CursorReply,
    R_co,
    Template,
    TimeLimit,
    named_collection,
)
from motorlite._topology.selection import WRITABLE
from motorlite._wire.replies import first_document
from motorlite.errors import InvalidOperation
from motorlite.read_concern import ReadConcern

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Unpack

    from bson.codec_options import CodecOptions

    from motorlite._base.values import Document
    from motorlite._topology.selection import Selector
    from motorlite.read_preferences import ServerMode


_SEND = TimeLimit.SEND
_new = object.__new__

_Document = TypeVar("_Document", bound="Mapping[str, Any]")


class RareFindOptions(TypedDict, total=False):
    """The options of a query that `FindCommand` looks up in a table. None if unset."""

    min: Mapping[str, Any] | None
    max: Mapping[str, Any] | None
    max_scan: int | None
    return_key: bool | None
    show_record_id: bool | None
    allow_disk_use: bool | None
    no_cursor_timeout: bool | None
    allow_partial_results: bool | None
    oplog_replay: bool | None
    tailable: bool | None
    await_data: bool | None


# Their fields in the command have the same names, in camel case.
_NAMES: Final = {name: name[0] + name.title().replace("_", "")[1:] for name in RareFindOptions.__annotations__}
# Sent only if true: false is the server's default.
_ANY_SERVER: Final = ServerFacts(("", None))
_FLAGS: Final = frozenset({"no_cursor_timeout", "allow_partial_results", "oplog_replay", "tailable", "await_data"})


class FindCommand(ReadCommand[R_co]):
    """A query.

    Projection, sort and hint are already in the command's form (`motorlite._base.arguments`). A negative `limit`
    requests a single batch.

    Retry: retryable read.
    """

    __slots__ = ()

    name = "find"
    is_degradable = True
    supports_after_cluster_time = True
    document_fields = FIRST_BATCH

    # find_one: limit and batch size are fixed.
    _is_single = False

    def __init__(
        self,
        database: str,
        collection: str,
        filter: Mapping[str, Any] | None = None,
        *,
        selector: Selector = WRITABLE,
        read_preference: ServerMode | None = None,
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
        read_concern: ReadConcern | None = None,
        time_limit: TimeLimit = TimeLimit.SEND,
        projection: Mapping[str, Any] | None = None,
        sort: Mapping[str, Any] | None = None,
        skip: int = 0,
        limit: int = 0,
        batch_size: int = 0,
        hint: str | Mapping[str, Any] | None = None,
        collation: Mapping[str, Any] | None = None,
        let: Mapping[str, Any] | None = None,
        comment: Any = None,
        max_time_ms: int | None = None,
        **options: Unpack[RareFindOptions],
    ) -> None:
        document: Document = {"find": collection, "filter": filter if filter is not None else {}}
        if self._is_single:
            document["limit"] = 1
            document["singleBatch"] = True
        elif limit or batch_size:
            _add_limits(document, limit, batch_size)
        if sort:
            document["sort"] = sort
        if projection is not None:
            document["projection"] = projection
        if skip:
            document["skip"] = skip
        if hint is not None:
            document["hint"] = hint
        if collation is not None:
            document["collation"] = collation
        if let is not None:
            document["let"] = let
        super().__init__(
            database,
            document,
            selector=selector,
            read_preference=read_preference,
            codec_options=codec_options,
            read_concern=read_concern,
            time_limit=time_limit,
            comment=comment,
            max_time_ms=max_time_ms,
            options=_fields(options) if options else None,
        )

    def command(self, facts: ServerFacts) -> Command:
        document = self._document.copy()
        if "allowDiskUse" in document:
            check_needs((("allow_disk_use", V4_4),), facts)
        read_concern = self._read_concern
        if read_concern is not None and not read_concern.is_server_default:
            add_read_concern(document, read_concern)
        return Command("find", document)


class Find(FindCommand[CursorReply]):
    """A query that opens a cursor; `parse` returns a CursorReply.

    Retry: retryable read.
    """

    __slots__ = ()

    creates_cursor = True

    def parse(self, reply: Document) -> CursorReply:
        return CursorReply(reply, "firstBatch")


class ExhaustFind(Find):
    """A query whose further batches arrive without requests; `parse` returns a CursorReply.

    Retry: retryable read.
    """

    __slots__ = ()

    keeps_connection = True

    def command(self, facts: ServerFacts) -> Command:
        if facts.is_mongos and facts.max_wire_version < V7_1:
            raise InvalidOperation("a mongos older than 7.1 has no exhaust cursors (CursorType.EXHAUST)")
        return super().command(facts)


class FindOne(FindCommand["_Document | None"], Generic[_Document]):
    """A query for the first match; `parse` returns the document or None. No cursor stays open.

    `limit` and `batch_size` have no effect (CRUD specification, "findOne API details").

    Retry: retryable read.
    """

    __slots__ = ()

    _is_single = True

    def parse(self, reply: Document) -> _Document | None:
        # The hot path: checking a normal reply here takes 0.15 µs, `first_document` 1.0 µs.
        try:
            batch = reply["cursor"]["firstBatch"]
            if type(batch) is list:
                if not batch:
                    return None
                document: _Document | None = batch[0]
                if type(document) is dict:
                    return document
        except (KeyError, TypeError):
            pass  # `first_document` raises the error
        found: _Document | None = first_document(reply, is_stored=True)
        return found


class FindFirst(FindOne[_Document]):
    """`FindOne` without any options. Made by a `FindFirstFacts`, so it has no constructor of its own.

    Retry: retryable read.
    """

    __slots__ = ("template", "varying")

    template: Template

    @property
    def collection_name(self) -> str | None:
        return named_collection(self.template.command.document)

    def size_hint(self) -> int:
        return estimated_size(self._whole())

    def command(self, facts: ServerFacts) -> Command:
        return Command("find", self._whole())

    def _whole(self) -> Document:
        document = self.template.command.document.copy()
        document["filter"] = self.varying
        if "readConcern" in document:
            # The executor adds afterClusterTime or atClusterTime to it.
            document["readConcern"] = dict(document["readConcern"])
        return document


class FindFirstFacts:
    """What the `FindFirst` operations of a collection have in common."""

    __slots__ = ("_codec_options", "_database", "_read_preference", "_template")

    def __init__(
        self,
        database: str,
        collection: str,
        *,
        read_preference: ServerMode,
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
        read_concern: ReadConcern | None = None,
    ) -> None:
        self._database = database
        self._read_preference = read_preference
        self._codec_options = codec_options
        self._template = _first_template(collection, None if read_concern is None else read_concern.level)

    def where(self, filter: Mapping[str, Any]) -> FindFirst[Any]:
        """Return the operation that finds the first document that matches `filter`."""
        # Calling the class would take twice as long as the rest of this method.
        operation: FindFirst[Any] = _new(FindFirst)
        operation.database = self._database
        operation.selector = operation.read_preference = self._read_preference
        operation.codec_options = self._codec_options
        operation.time_limit = _SEND
        operation.template = self._template
        operation.varying = filter
        return operation


@lru_cache(1000)
def _first_template(collection: str, level: str | None) -> Template:
    """Return the template for a collection and a level of read concern, which many handles may share."""
    concern = ReadConcern(level)
    return Template(FindOne("", collection, read_concern=concern).command(_ANY_SERVER), "filter")


def _add_limits(document: Document, limit: int, batch_size: int) -> None:
    """Map limit and batch size as the find and CRUD specifications require."""
    if limit < 0 or batch_size < 0:
        limit, batch_size = abs(limit), abs(batch_size)
        if limit:
            document["limit"] = limit
            # Without it the single batch would end at the server's default of 101 documents.
            batch_size = limit
        document["singleBatch"] = True
    else:
        if limit:
            document["limit"] = limit
        # Equal values would leave an exhausted cursor open.
        if batch_size and limit == batch_size:
            batch_size += 1
    if batch_size:
        document["batchSize"] = batch_size


def _fields(options: RareFindOptions) -> Document:
    fields: Document = {}
    for name, value in options.items():
        field = _NAMES.get(name)
        if field is None:
            raise TypeError(f"Find has no option {name!r}")
        if value is not None and (value or name not in _FLAGS):
            fields[field] = value
    return fields
