"""Pure: the commands that create, drop, rename, validate and list collections and databases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bson.codec_options import DEFAULT_CODEC_OPTIONS

from motorlite._operations.commands import UserCommand
from motorlite._operations.common import AdministrativeCommand, AdministrativeWrite
from motorlite._operations.contract import Command, CursorReply, Kind, Operation, R_co, TimeLimit
from motorlite._topology.selection import WRITABLE
from motorlite._wire.replies import document, documents, first_document
from motorlite.read_preferences import ReadPreference

if TYPE_CHECKING:
    from bson.codec_options import CodecOptions

    from motorlite._base.values import Document, ServerFacts
    from motorlite._topology.selection import Selector
    from motorlite.read_preferences import ServerMode
    from motorlite.write_concern import WriteConcern


# The create command (collections, views, time series).


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


# The drop command.


class Drop(AdministrativeWrite):
    """Drop a collection or view. Servers older than 7.0 reply NAMESPACE_NOT_FOUND if it does not exist.

    Retry: never by the retryable writes specification; overload errors by the overload policy, as a write.
    """

    __slots__ = ()

    name = "drop"
    operation_name = "dropCollection"

    def __init__(
        self,
        database: str,
        collection: str,
        *,
        write_concern: WriteConcern | None = None,
        comment: Any = None,
    ) -> None:
        document = {"drop": collection}
        if comment is not None:
            document["comment"] = comment
        super().__init__(database, document, write_concern=write_concern)


# The dropDatabase command.


class DropDatabase(AdministrativeWrite):
    """Drop a database. A missing database is not an error.

    Retry: never by the retryable writes specification; overload errors by the overload policy, as a write.
    """

    __slots__ = ()

    name = "dropDatabase"

    def __init__(self, database: str, *, write_concern: WriteConcern | None = None, comment: Any = None) -> None:
        document: Document = {"dropDatabase": 1}
        if comment is not None:
            document["comment"] = comment
        super().__init__(database, document, write_concern=write_concern)


# The renameCollection command.


class Rename(AdministrativeCommand["Document"]):
    """Rename a collection; `parse` returns the reply. `options` are fields of the command, under their server names.

    It is always acknowledged.

    Retry: never by the retryable writes specification; overload errors by the overload policy, as a write.
    """

    __slots__ = ()

    name = "renameCollection"

    @property
    def namespace(self) -> str:
        namespace: str = self._document["renameCollection"]
        return namespace

    def __init__(
        self,
        database: str,
        collection: str,
        new_name: str,
        *,
        write_concern: WriteConcern | None = None,
        comment: Any = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        document = {"renameCollection": f"{database}.{collection}", "to": f"{database}.{new_name}", **(options or {})}
        if comment is not None:
            document["comment"] = comment
        if write_concern is not None and not write_concern.acknowledged:
            write_concern = None
        super().__init__("admin", document, write_concern=write_concern)

    @property
    def collection_name(self) -> None:
        return None  # the command has the names of two, and runs on the database "admin"

    def parse(self, reply: Document) -> Document:
        return self._checked(reply)


# The validate command.


class Validate(UserCommand["tuple[Document, Mapping[str, Any] | None]"]):
    """Validate a collection; `parse` returns the reply, and the part of it that reports invalid data or None.

    Retry: never by the retryable reads and writes specifications; overload errors by the overload policy,
    which for this command needs retryReads and retryWrites.
    """

    __slots__ = ()

    operation_name = "validate"

    def __init__(
        self,
        database: str,
        collection: str,
        *,
        scandata: bool = False,
        full: bool = False,
        background: bool | None = None,
        comment: Any = None,
    ) -> None:
        command = {"validate": collection, "scandata": scandata, "full": full}
        if background is not None:
            command["background"] = background
        if comment is not None:
            command["comment"] = comment
        super().__init__(database, command)

    @property
    def collection_name(self) -> str | None:
        name = self._document["validate"]
        return name if isinstance(name, str) else None

    @property
    def namespace(self) -> str:
        return f"{self.database}.{self._document['validate']}"

    def parse(self, reply: Document) -> tuple[Document, Mapping[str, Any] | None]:
        parts: list[Mapping[str, Any]] = [reply]
        if reply.get("raw") is not None:
            # A sharded cluster reports for each shard.
            shards = document(reply, "raw")
            parts += [document(shards, name) for name in shards]
        return reply, next((part for part in parts if part.get("valid") is False), None)


# The listCollections command (enumerating collections specification).


class ListCollectionsCommand(Operation[R_co]):
    """The collections of a database.

    The documents are server metadata, so they are decoded with default codec options.

    Retry: retryable read.
    """

    __slots__ = ("_document", "time_limit")

    name = "listCollections"
    kind = Kind.READ
    is_retryable = True
    is_idempotent = True

    def __init__(
        self,
        database: str,
        *,
        selector: Selector = WRITABLE,
        read_preference: ServerMode | None = None,
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
        time_limit: TimeLimit = TimeLimit.SEND,
        filter: Mapping[str, Any] | None = None,
        name_only: bool = False,
        authorized_collections: bool | None = None,
        batch_size: int = 0,
        comment: Any = None,
        max_time_ms: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(database, selector=selector, read_preference=read_preference, codec_options=codec_options)
        self.time_limit = time_limit
        document: Document = {
            "listCollections": 1,
            "cursor": {"batchSize": batch_size} if batch_size else {},
        }
        if filter is not None:
            document["filter"] = filter
        if name_only:
            document["nameOnly"] = True
        if authorized_collections is not None:
            document["authorizedCollections"] = authorized_collections
        if comment is not None:
            document["comment"] = comment
        if max_time_ms is not None:
            document["maxTimeMS"] = max_time_ms
        document.update(options or {})
        if batch_size and isinstance(document["cursor"], Mapping):
            document["cursor"] = {**document["cursor"], "batchSize": batch_size}
        self._document = document

    def command(self, facts: ServerFacts) -> Command:
        return Command(self.name, self._document.copy())


class ListCollections(ListCollectionsCommand[CursorReply]):
    """The collections of a database; `parse` returns a CursorReply.

    Retry: retryable read.
    """

    __slots__ = ()

    creates_cursor = True

    def parse(self, reply: Document) -> CursorReply:
        return CursorReply(reply, "firstBatch")


# The listCollections command for a single collection.


class FindCollection(ListCollectionsCommand["Document | None"]):
    """The metadata of one collection; `parse` returns the document or None. No cursor stays open.

    Retry: retryable read.
    """

    __slots__ = ()

    def __init__(self, database: str, collection: str, *, name_only: bool = False, comment: Any = None) -> None:
        primary = ReadPreference.PRIMARY
        super().__init__(
            database,
            selector=primary,
            read_preference=primary,
            filter={"name": collection},
            name_only=name_only,
            comment=comment,
        )

    def parse(self, reply: Document) -> Document | None:
        found: Document | None = first_document(reply)
        if found is not None and found.get("options") is not None:
            document(found, "options")
        return found


# The listDatabases command (enumerating databases specification).


class ListDatabases(Operation[CursorReply]):
    """The databases of a deployment; `parse` returns a CursorReply with all of them and without an open cursor.

    Retry: retryable read.
    """

    __slots__ = ("_document",)

    name = "listDatabases"
    kind = Kind.READ
    is_retryable = True
    is_idempotent = True

    def __init__(
        self,
        *,
        selector: Selector = WRITABLE,
        read_preference: ServerMode | None = None,
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
        filter: Mapping[str, Any] | None = None,
        name_only: bool = False,
        authorized_databases: bool | None = None,
        comment: Any = None,
        max_time_ms: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__("admin", selector=selector, read_preference=read_preference, codec_options=codec_options)
        document: Document = {"listDatabases": 1}
        if filter is not None:
            document["filter"] = filter
        if name_only:
            document["nameOnly"] = True
        if authorized_databases is not None:
            document["authorizedDatabases"] = authorized_databases
        if comment is not None:
            document["comment"] = comment
        if max_time_ms is not None:
            document["maxTimeMS"] = max_time_ms
        document.update(options or {})
        self._document = document

    def command(self, facts: ServerFacts) -> Command:
        return Command(self.name, self._document.copy())

    def parse(self, reply: Document) -> CursorReply:
        cursor = {"id": 0, "ns": "admin.$cmd", "firstBatch": documents(reply, "databases")}
        return CursorReply({**reply, "cursor": cursor}, "firstBatch")
