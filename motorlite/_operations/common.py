"""Pure: what commands share: concerns, errors in replies that say ok, options of newer servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from bson.codec_options import DEFAULT_CODEC_OPTIONS

from motorlite import errors
from motorlite._execution.operation import Command, Kind, Operation
from motorlite.values import format_address

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bson.codec_options import CodecOptions

    from motorlite._execution.operation import Document, ServerFacts
    from motorlite.concerns import ReadConcern, WriteConcern

# Options that need a newer server than the oldest supported one (4.2), as (option, wire version).
Needs: TypeAlias = tuple[tuple[str, int], ...]

# Where replies have documents of the user, see `Operation.document_fields`.
FIRST_BATCH: Final[Mapping[str, Any]] = {"cursor": {"firstBatch": 1}}
NEXT_BATCH: Final[Mapping[str, Any]] = {"cursor": {"nextBatch": 1}}
UPSERTED: Final[Mapping[str, Any]] = {"upserted": 1}
VALUE: Final[Mapping[str, Any]] = {"value": 1}
VALUES: Final[Mapping[str, Any]] = {"values": 1}

V4_4: Final = 9
V5_0: Final = 13
V8_0: Final = 25

# The first wire version of each release.
_RELEASES: Final = {8: "4.2", V4_4: "4.4", V5_0: "5.0", 17: "6.0", 21: "7.0", V8_0: "8.0"}

# What drop, listIndexes, dropIndexes and the commands of search indexes answer for a collection that does not exist
# (always the same code).
NAMESPACE_NOT_FOUND: Final = 26


def release(wire_version: int) -> str:
    """The MongoDB release that introduced `wire_version`, or the newest one before it."""
    known = [version for version in _RELEASES if version <= wire_version]
    return _RELEASES[max(known)] if known else "older than 4.2"


def check_needs(needs: Needs, facts: ServerFacts) -> None:
    """Raise ConfigurationError for the first option that the server does not know."""
    for option, wire_version in needs:
        if facts.max_wire_version < wire_version:
            raise errors.ConfigurationError(
                f"{option} needs MongoDB {release(wire_version)} (wire version {wire_version}), but "
                f"{format_address(facts.address)} is MongoDB {release(facts.max_wire_version)} "
                f"(wire version {facts.max_wire_version})"
            )


def add_write_concern(document: Document, write_concern: WriteConcern | None) -> None:
    """Put a write concern that is not the server's default into a command."""
    if write_concern is not None and not write_concern.is_server_default:
        document["writeConcern"] = dict(write_concern.document)


def add_read_concern(document: Document, read_concern: ReadConcern | None) -> None:
    """Put a read concern that is not the server's default into a command, as a new document each time.

    The executor adds afterClusterTime or atClusterTime to it.
    """
    if read_concern is not None and not read_concern.is_server_default:
        document["readConcern"] = dict(read_concern.document)


def check_write_concern(reply: Mapping[str, Any]) -> None:
    """Raise the write concern error of a reply."""
    error = reply.get("writeConcernError")
    if error is not None:
        raise errors.write_concern_error(error, reply.get("errorLabels") or ())


def check_write(reply: Mapping[str, Any]) -> None:
    """Raise the error of a reply to a single write; a write error comes before a write concern error."""
    write_errors = reply.get("writeErrors")
    if write_errors:
        # The labels belong to the reply, whichever of its errors is raised (retryable writes specification).
        raise errors.write_error(write_errors[-1], reply.get("errorLabels") or ())
    if "writeConcernError" in reply:
        check_write_concern(reply)


def is_acknowledged(write_concern: WriteConcern | None) -> bool:
    """Whether the server answers a write with this write concern."""
    return write_concern is None or write_concern.acknowledged


class AdministrativeWrite(Operation):
    """A command that changes collections, databases or indexes.

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
        write_concern: WriteConcern | None = None,
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
        needs: Needs = (),
    ) -> None:
        super().__init__(database, codec_options=codec_options)
        self._document = document
        self._needs = needs
        self._write_concern = write_concern
        self.is_acknowledged = is_acknowledged(write_concern)

    def command(self, facts: ServerFacts) -> Command:
        check_needs(self._needs, facts)
        document = dict(self._document)
        add_write_concern(document, self._write_concern)
        return Command(self.name, document)

    def parse(self, reply: Document) -> Any:
        check_write_concern(reply)
        return reply


class SearchIndexWrite(AdministrativeWrite):
    """A command that changes search indexes, which a process beside the server keeps.

    That process knows neither write nor read concern and refuses both ("Where are read concern and write concern?" in
    the index management specification): none is sent, not even the afterClusterTime of a session, and every command
    is answered, whatever the collection's write concern is.

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
