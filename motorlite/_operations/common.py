"""Pure: what commands share: their options, concerns, what needs a newer server, and the bases of reads and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict

from bson.codec_options import DEFAULT_CODEC_OPTIONS, CodecOptions, DatetimeConversion

from motorlite import errors
from motorlite._base.values import format_address
from motorlite._base.wire_versions import V4_4, V5_0, release
from motorlite._operations.contract import Command, Kind, Operation, R_co, TimeLimit, named_collection
from motorlite._topology.selection import WRITABLE
from motorlite._wire.replies import check_write, check_write_concern

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Unpack

    from motorlite._base.values import Document, ServerFacts
    from motorlite._topology.selection import Selector
    from motorlite.read_concern import ReadConcern
    from motorlite.read_preferences import ServerMode
    from motorlite.write_concern import WriteConcern

# Options that need a server newer than the oldest supported release (4.2), as (option, wire version).
Needs: TypeAlias = tuple[tuple[str, int], ...]

# Paths of user documents in replies; see `Operation.document_fields`.
FIRST_BATCH: Final[Mapping[str, Any]] = {"cursor": {"firstBatch": 1}}
NEXT_BATCH: Final[Mapping[str, Any]] = {"cursor": {"nextBatch": 1}}
UPSERTED: Final[Mapping[str, Any]] = {"upserted": {"_id": 1}}
VALUE: Final[Mapping[str, Any]] = {"value": 1}
VALUES: Final[Mapping[str, Any]] = {"values": 1}

# For replies that are not read, with `document_fields` of {}. Accepts values that Python cannot represent.
UNREAD: Final = CodecOptions[dict[str, Any]](
    datetime_conversion=DatetimeConversion.DATETIME_AUTO, unicode_decode_error_handler="replace"
)

# The reply of drop, listIndexes, dropIndexes and the search index commands for a missing collection (always the same
# code).
NAMESPACE_NOT_FOUND: Final = 26
# In place of the name of an index.
ALL_INDEXES: Final = "*"


def check_needs(needs: Needs, facts: ServerFacts) -> None:
    """Raise ConfigurationError for the first option that the server does not support."""
    for option, wire_version in needs:
        if facts.max_wire_version < wire_version:
            raise errors.ConfigurationError(
                f"{option} needs MongoDB {release(wire_version)} (wire version {wire_version}), but "
                f"{format_address(facts.address)} is MongoDB {release(facts.max_wire_version)} "
                f"(wire version {facts.max_wire_version})"
            )


def add_write_concern(document: Document, write_concern: WriteConcern | None) -> None:
    """Add a write concern to a command, unless it is the server's default or the command has one."""
    if write_concern is not None and not write_concern.is_server_default and "writeConcern" not in document:
        document["writeConcern"] = dict(write_concern.document)


def add_read_concern(document: Document, read_concern: ReadConcern | None) -> None:
    """Add a read concern to a command, unless it is the server's default. Adds a new document each time.

    The executor adds afterClusterTime or atClusterTime to it.
    """
    if read_concern is not None and not read_concern.is_server_default:
        document["readConcern"] = dict(read_concern.document)


def add_usual_read_concern(document: Document, read_concern: ReadConcern | None) -> None:
    """As `add_read_concern`, unless the caller gave a read concern as a field of the command, which is then copied."""
    if "readConcern" in document:
        document["readConcern"] = dict(document["readConcern"])
    else:
        add_read_concern(document, read_concern)


def is_acknowledged(write_concern: WriteConcern | None) -> bool:
    """Whether the server replies to a write with this write concern."""
    return write_concern is None or write_concern.acknowledged


def unacknowledged_needs(document: Mapping[str, Any]) -> Needs:
    """Return the fields of an unacknowledged write that need a newer server.

    The server itself refuses what it does not support. Only for a write without a reply must the client do so (CRUD
    specification, "Why are client-side errors raised...").
    """
    needs: Needs = ()
    if "let" in document:
        needs += (("let of an unacknowledged write", V5_0),)
    if "comment" in document:
        needs += (("comment of an unacknowledged write", V4_4),)
    return needs


def with_set(document: Document, **fields: Any) -> Document:
    """Return `document` with those of `fields` that are not None added."""
    document.update({name: value for name, value in fields.items() if value is not None})
    return document


# The bases of commands whose fields, but for concerns, are known when the operation is made.


class ReadOptions(TypedDict, total=False):
    """The options of all reads. `options` are additional fields of the command, under their server names."""

    selector: Selector
    read_preference: ServerMode | None
    codec_options: CodecOptions[Any]
    read_concern: ReadConcern | None
    time_limit: TimeLimit
    comment: Any
    max_time_ms: int | None
    options: Mapping[str, Any] | None


class ReadCommand(Operation[R_co]):
    """A read. `document` has the fields of its own, which those of `ReadOptions` follow.

    Retry: retryable read.
    """

    __slots__ = ("_document", "_read_concern", "time_limit")

    kind = Kind.READ
    is_retryable = True
    is_idempotent = True

    def __init__(
        self,
        database: str,
        document: Document,
        *,
        selector: Selector = WRITABLE,
        read_preference: ServerMode | None = None,
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
        read_concern: ReadConcern | None = None,
        time_limit: TimeLimit = TimeLimit.SEND,
        comment: Any = None,
        max_time_ms: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.database = database
        self.selector = selector
        self.read_preference = read_preference
        self.codec_options = codec_options
        self.time_limit = time_limit
        self._read_concern = read_concern
        if comment is not None:
            document["comment"] = comment
        if max_time_ms is not None:
            document["maxTimeMS"] = max_time_ms
        if options:
            document.update(options)
        self._document = document

    @property
    def collection_name(self) -> str | None:
        return named_collection(self._document)

    def command(self, facts: ServerFacts) -> Command:
        document = self._document.copy()
        add_usual_read_concern(document, self._read_concern)
        return Command(self.name, document)


class SearchOptions(TypedDict, total=False):
    """The options of the commands for search indexes."""

    comment: Any
    max_time_ms: int | None


class WriteOptions(SearchOptions, total=False):
    """The options of all writes."""

    codec_options: CodecOptions[Any]
    write_concern: WriteConcern | None


class WriteCommand(Operation[R_co]):
    """A write. `document` has the fields of its own, which those of `WriteOptions` follow.

    Retry: never by the retryable writes specification; overload errors by the overload policy, as a write.
    """

    __slots__ = ("_document", "_needs", "_write_concern", "is_acknowledged")

    kind = Kind.WRITE
    supports_after_cluster_time = True

    def __init__(
        self,
        database: str,
        document: Document,
        *,
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
        write_concern: WriteConcern | None = None,
        comment: Any = None,
        max_time_ms: int | None = None,
        needs: Needs = (),
    ) -> None:
        super().__init__(database, codec_options=codec_options)
        self._write_concern = write_concern
        self.is_acknowledged = is_acknowledged(write_concern)
        self._needs = needs
        if comment is not None:
            document["comment"] = comment
        if max_time_ms is not None:
            document["maxTimeMS"] = max_time_ms
        self._document = document

    @property
    def collection_name(self) -> str | None:
        return named_collection(self._document)

    def command(self, facts: ServerFacts) -> Command:
        if self._needs:
            check_needs(self._needs, facts)
        document = self._document.copy()
        add_write_concern(document, self._write_concern)
        return Command(self.name, document)


class DocumentWrite(WriteCommand[R_co]):
    """A write of documents.

    Retry: retryable write; not when it is not acknowledged.
    """

    __slots__ = ("is_retryable",)

    def __init__(
        self, database: str, document: Document, *, needs: Needs = (), **options: Unpack[WriteOptions]
    ) -> None:
        super().__init__(database, document, needs=needs, **options)
        self.is_retryable = self.is_acknowledged
        if not self.is_acknowledged:
            self._needs += unacknowledged_needs(document)


class ReplyOfWrite(DocumentWrite["Document | None"]):
    """A write of documents; `parse` returns the reply, `unacknowledged` None.

    Retry: retryable write; not when it is not acknowledged.
    """

    __slots__ = ()

    def parse(self, reply: Document) -> Document | None:
        if "writeErrors" in reply or "writeConcernError" in reply:
            check_write(reply)
        return reply

    def unacknowledged(self) -> Document | None:
        return None


class AdministrativeCommand(WriteCommand[R_co]):
    """A command that changes collections, databases or indexes.

    Retry: never by the retryable writes specification; overload errors by the overload policy, as a write.
    """

    __slots__ = ()

    prefers_concern_error = True

    @staticmethod
    def _checked(reply: Document) -> Document:
        check_write_concern(reply)
        return reply


class AdministrativeWrite(AdministrativeCommand["Document | None"]):
    """An administrative command whose only result is the reply, or None for an unacknowledged write.

    Retry: never by the retryable writes specification; overload errors by the overload policy, as a write.
    """

    __slots__ = ()

    def parse(self, reply: Document) -> Document | None:
        return self._checked(reply)

    def unacknowledged(self) -> Document | None:
        return None


class SearchIndexCommand(AdministrativeCommand[R_co]):
    """A command that changes search indexes, which a process next to the server maintains.

    That process supports neither write nor read concern and refuses both ("Where are read concern and write concern?"
    in the index management specification). So neither is sent, not even the afterClusterTime of a session. Every
    command gets a reply, whatever the collection's write concern is.

    Retry: never by the retryable writes specification; overload errors by the overload policy, as a write.
    """

    __slots__ = ()

    supports_after_cluster_time = False


class SearchIndexWrite(SearchIndexCommand["Document"]):
    """A search index command whose only result is the reply.

    Retry: never by the retryable writes specification; overload errors by the overload policy, as a write.
    """

    __slots__ = ()

    def parse(self, reply: Document) -> Document:
        return self._checked(reply)
