"""Pure: shared parts of commands: concerns, options of newer servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from bson.codec_options import DEFAULT_CODEC_OPTIONS, CodecOptions, DatetimeConversion

from motorlite import errors
from motorlite._base.values import format_address
from motorlite._base.wire_versions import release
from motorlite._operations.contract import Command, Kind, Operation, R_co, named_collection
from motorlite._wire.replies import check_write_concern

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._base.values import Document, ServerFacts
    from motorlite.read_concern import ReadConcern
    from motorlite.write_concern import WriteConcern

# Options that need a server newer than the oldest supported release (4.2), as (option, wire version).
Needs: TypeAlias = tuple[tuple[str, int], ...]

# Paths of user documents in replies; see `Operation.document_fields`.
FIRST_BATCH: Final[Mapping[str, Any]] = {"cursor": {"firstBatch": 1}}
NEXT_BATCH: Final[Mapping[str, Any]] = {"cursor": {"nextBatch": 1}}
UPSERTED: Final[Mapping[str, Any]] = {"upserted": 1}
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


class AdministrativeCommand(Operation[R_co]):
    """A command that changes collections, databases or indexes.

    Retry: never by the retryable writes specification; overload errors by the overload policy, as a write.
    """

    __slots__ = ("_document", "_needs", "_write_concern", "is_acknowledged")

    kind = Kind.WRITE
    supports_after_cluster_time = True
    prefers_concern_error = True

    def __init__(
        self,
        database: str,
        document: Document,
        *,
        write_concern: WriteConcern | None = None,
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
        needs: Needs = (),
    ) -> None:
        super().__init__(database, codec_options=codec_options)
        self._document = document
        self._needs = needs
        self._write_concern = write_concern
        self.is_acknowledged = is_acknowledged(write_concern)

    @property
    def collection_name(self) -> str | None:
        return named_collection(self._document)

    def command(self, facts: ServerFacts) -> Command:
        check_needs(self._needs, facts)
        document = dict(self._document)
        add_write_concern(document, self._write_concern)
        return Command(self.name, document)

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

    def __init__(
        self,
        database: str,
        collection: str,
        fields: Mapping[str, Any],
        *,
        comment: Any = None,
        max_time_ms: int | None = None,
    ) -> None:
        document: Document = {self.name: collection, **fields}
        if comment is not None:
            document["comment"] = comment
        if max_time_ms is not None:
            document["maxTimeMS"] = max_time_ms
        super().__init__(database, document)


class SearchIndexWrite(SearchIndexCommand["Document"]):
    """A search index command whose only result is the reply.

    Retry: never by the retryable writes specification; overload errors by the overload policy, as a write.
    """

    __slots__ = ()

    def parse(self, reply: Document) -> Document:
        return self._checked(reply)
