"""Pure: the commands that create, drop, rename, validate and list collections and databases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from motorlite._operations.commands import VerbatimCommand
from motorlite._operations.common import (
    AdministrativeCommand,
    AdministrativeWrite,
    Needs,
    ReadCommand,
    ReadOptions,
    SearchOptions,
    WriteOptions,
    is_acknowledged,
    with_set,
)
from motorlite._operations.contract import CursorReply, R_co
from motorlite._wire.replies import document, documents, first_document
from motorlite.read_preferences import ReadPreference

if TYPE_CHECKING:
    from typing import Unpack

    from motorlite._base.values import Document
    from motorlite.write_concern import WriteConcern


class Create(AdministrativeWrite):
    """Create a collection, view or time series. `options` are fields of the command, under their server names.

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
        options: Mapping[str, Any] | None = None,
        needs: Needs = (),
        **common: Unpack[WriteOptions],
    ) -> None:
        super().__init__(database, {"create": collection, **(options or {})}, needs=needs, **common)


class Drop(AdministrativeWrite):
    """Drop a collection or view. Servers older than 7.0 reply NAMESPACE_NOT_FOUND if it does not exist.

    Retry: never by the retryable writes specification; overload errors by the overload policy, as a write.
    """

    __slots__ = ()

    name = "drop"
    operation_name = "dropCollection"

    def __init__(self, database: str, collection: str, **common: Unpack[WriteOptions]) -> None:
        super().__init__(database, {"drop": collection}, **common)


class DropDatabase(AdministrativeWrite):
    """Drop a database. A missing database is not an error.

    Retry: never by the retryable writes specification; overload errors by the overload policy, as a write.
    """

    __slots__ = ()

    name = "dropDatabase"

    def __init__(self, database: str, **common: Unpack[WriteOptions]) -> None:
        super().__init__(database, {"dropDatabase": 1}, **common)


class Rename(AdministrativeCommand["Document"]):
    """Rename a collection; `parse` returns the reply. `options` are fields of the command, under their server names.

    It is always acknowledged.

    Retry: never by the retryable writes specification; overload errors by the overload policy, as a write.
    """

    __slots__ = ()

    name = "renameCollection"

    def __init__(
        self,
        database: str,
        collection: str,
        new_name: str,
        *,
        write_concern: WriteConcern | None = None,
        options: Mapping[str, Any] | None = None,
        **common: Unpack[SearchOptions],
    ) -> None:
        document = {"renameCollection": f"{database}.{collection}", "to": f"{database}.{new_name}", **(options or {})}
        if not is_acknowledged(write_concern):
            write_concern = None
        super().__init__("admin", document, write_concern=write_concern, **common)

    @property
    def collection_name(self) -> None:
        return None  # the command has the names of two, and runs on the database "admin"

    @property
    def namespace(self) -> str:
        namespace: str = self._document["renameCollection"]
        return namespace

    def parse(self, reply: Document) -> Document:
        return self._checked(reply)


class Validate(VerbatimCommand["tuple[Document, Mapping[str, Any] | None]"]):
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
        super().__init__(database, with_set(command, background=background, comment=comment))

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


# The lists are metadata of the server, so they are decoded with default codec options.


class ListCollectionsCommand(ReadCommand[R_co]):
    """The collections of a database (enumerating collections specification).

    Retry: retryable read.
    """

    __slots__ = ()

    name = "listCollections"

    def __init__(
        self,
        database: str,
        *,
        filter: Mapping[str, Any] | None = None,
        name_only: bool = False,
        authorized_collections: bool | None = None,
        batch_size: int = 0,
        **common: Unpack[ReadOptions],
    ) -> None:
        document = with_set(
            {"listCollections": 1, "cursor": {"batchSize": batch_size} if batch_size else {}},
            filter=filter,
            nameOnly=name_only or None,
            authorizedCollections=authorized_collections,
        )
        super().__init__(database, document, **common)
        if batch_size and isinstance(document["cursor"], Mapping):
            document["cursor"] = {**document["cursor"], "batchSize": batch_size}

    @property
    def collection_name(self) -> None:
        return None


class ListCollections(ListCollectionsCommand[CursorReply]):
    """The collections of a database; `parse` returns a CursorReply.

    Retry: retryable read.
    """

    __slots__ = ()

    creates_cursor = True

    def parse(self, reply: Document) -> CursorReply:
        return CursorReply(reply, "firstBatch")


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


class ListDatabases(ReadCommand[CursorReply]):
    """The databases of a deployment; `parse` returns a CursorReply with all of them and without an open cursor.

    Enumerating databases specification.

    Retry: retryable read.
    """

    __slots__ = ()

    name = "listDatabases"

    def __init__(
        self,
        *,
        filter: Mapping[str, Any] | None = None,
        name_only: bool = False,
        authorized_databases: bool | None = None,
        **common: Unpack[ReadOptions],
    ) -> None:
        document = with_set(
            {"listDatabases": 1}, filter=filter, nameOnly=name_only or None, authorizedDatabases=authorized_databases
        )
        super().__init__("admin", document, **common)

    def parse(self, reply: Document) -> CursorReply:
        cursor = {"id": 0, "ns": "admin.$cmd", "firstBatch": documents(reply, "databases")}
        return CursorReply({**reply, "cursor": cursor}, "firstBatch")
