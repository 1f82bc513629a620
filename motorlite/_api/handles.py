"""Shell: client, database and collection as users hold them.

They are made from each other and lead back to each other (`client.db.coll.database.client`), so their types
need each other, and they share one module; what they execute is in the modules below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Unpack, overload

from bson.dbref import DBRef

from motorlite._api import missing
from motorlite._api.client_base import ClientBase
from motorlite._api.collection_find_and_modify import CollectionFindAndModify
from motorlite._api.collection_indexes import CollectionIndexes
from motorlite._api.collection_reads import CollectionReads
from motorlite._api.collection_search_indexes import CollectionSearchIndexes
from motorlite._api.collection_writes import CollectionWrites
from motorlite._api.composition import Core
from motorlite._api.database_base import DatabaseBase, name_of
from motorlite._api.missing import no_attribute
from motorlite._api.typings import DocumentT, OtherDocumentT
from motorlite._api.validation import collection_name, database_name, instance
from motorlite.errors import ConfigurationError
from motorlite.options import client_options
from motorlite.values import format_address

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bson.codec_options import CodecOptions, TypeRegistry

    from motorlite._api.method_options import CreateCollectionOptions
    from motorlite._api.session import AsyncClientSession
    from motorlite._api.settings import Settings
    from motorlite.concerns import ReadConcern, WriteConcern
    from motorlite.read_preferences import _ServerMode


class AsyncCollection(
    CollectionReads[DocumentT],
    CollectionWrites[DocumentT],
    CollectionFindAndModify[DocumentT],
    CollectionIndexes[DocumentT],
    CollectionSearchIndexes[DocumentT],
):
    """A collection: ``database["name"]`` or ``database.name``. Making one sends nothing.

    Args:
        database: Its database.
        name: Its name.
        codec_options: How documents are encoded and decoded; the database's by default.
        read_preference: Which servers read; the database's by default.
        write_concern: Which acknowledgement writes wait for; the database's by default.
        read_concern: Which isolation reads ask for; the database's by default.
        timeoutMS: The limit of each operation; 0 for no limit; the database's by default.

    Raises:
        TypeError, ValueError: An argument is wrong.
        InvalidName: `name` is not allowed.
    """

    __slots__ = ("_database",)

    def __init__(
        self,
        database: AsyncDatabase[Any],
        name: str,
        codec_options: CodecOptions[DocumentT] | None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        timeoutMS: float | None = None,
    ) -> None:
        instance("database", database, AsyncDatabase)
        settings = database._settings.derive(codec_options, read_preference, write_concern, read_concern, timeoutMS)
        super().__init__(database._core, settings, database.name, collection_name(name))
        self._database = database

    @property
    def database(self) -> AsyncDatabase[DocumentT]:
        """The database that the collection is in."""
        return self._database

    @overload
    def with_options(
        self,
        codec_options: None = None,
        read_preference: _ServerMode | None = ...,
        write_concern: WriteConcern | None = ...,
        read_concern: ReadConcern | None = ...,
        timeoutMS: float | None = ...,
    ) -> AsyncCollection[DocumentT]: ...

    @overload
    def with_options(
        self,
        codec_options: CodecOptions[OtherDocumentT],
        read_preference: _ServerMode | None = ...,
        write_concern: WriteConcern | None = ...,
        read_concern: ReadConcern | None = ...,
        timeoutMS: float | None = ...,
    ) -> AsyncCollection[OtherDocumentT]: ...

    def with_options(
        self,
        codec_options: CodecOptions[Any] | None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        timeoutMS: float | None = None,
    ) -> AsyncCollection[Any]:
        """The same collection with other settings; those that are None stay.

        Raises:
            TypeError, ValueError: An argument is wrong.
        """
        settings = self._settings.derive(codec_options, read_preference, write_concern, read_concern, timeoutMS)
        return self._with_settings(self._name, settings)

    def _with_settings(self, name: str, settings: Settings) -> AsyncCollection[Any]:
        made: AsyncCollection[Any] = AsyncCollection(self._database, name)
        made._settings = settings
        return made

    def __getitem__(self, name: str) -> AsyncCollection[DocumentT]:
        """The collection ``"this.name"``, with the same settings."""
        return self._with_settings(f"{self._name}.{name}", self._settings)

    def __getattr__(self, name: str) -> AsyncCollection[DocumentT]:
        """The collection ``"this.name"``; use item access for a name that starts with an underscore."""
        if name.startswith("_") or name in missing.COLLECTION:
            instead = f"; a collection of that name is collection[{name!r}]"
            raise no_attribute("AsyncCollection", name, missing.COLLECTION, instead)
        return self[name]

    if not TYPE_CHECKING:  # type checkers report the call by themselves, and go on

        def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
            """Refuse a call: what looked like a method is a collection."""
            name = self._name.rpartition(".")[2]
            raise TypeError(
                f"AsyncCollection is not callable: there is no method {name!r}, "
                f"so it was taken for the collection {self.full_name!r}"
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AsyncCollection):
            return NotImplemented
        return self._database == other._database and self._name == other._name

    def __hash__(self) -> int:
        return hash((self._database, self._name))

    def __bool__(self) -> bool:  # not NoReturn: type checkers would skip what follows a truth test
        """Refuse a truth test, which is mostly a forgotten ``is not None``."""
        raise NotImplementedError("a collection is neither true nor false; compare with None instead")

    def __repr__(self) -> str:
        return f"AsyncCollection({self._database!r}, {self._name!r})"


class AsyncDatabase(DatabaseBase[DocumentT]):
    """A database: ``client["name"]`` or ``client.name``. Making one sends nothing.

    Args:
        client: Its client.
        name: Its name.
        codec_options: How documents are encoded and decoded; the client's by default.
        read_preference: Which servers read; the client's by default.
        write_concern: Which acknowledgement writes wait for; the client's by default.
        read_concern: Which isolation reads ask for; the client's by default.
        timeoutMS: The limit of each operation; 0 for no limit; the client's by default.

    Raises:
        TypeError, ValueError: An argument is wrong.
        InvalidName: `name` is not allowed.
    """

    __slots__ = ("_client",)

    def __init__(
        self,
        client: AsyncMongoClient[Any],
        name: str,
        codec_options: CodecOptions[DocumentT] | None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        timeoutMS: float | None = None,
    ) -> None:
        instance("client", client, AsyncMongoClient)
        settings = client._settings.derive(codec_options, read_preference, write_concern, read_concern, timeoutMS)
        super().__init__(client._core, settings, database_name(name))
        self._client = client

    @property
    def client(self) -> AsyncMongoClient[DocumentT]:
        """The client of the database."""
        return self._client

    @overload
    def with_options(
        self,
        codec_options: None = None,
        read_preference: _ServerMode | None = ...,
        write_concern: WriteConcern | None = ...,
        read_concern: ReadConcern | None = ...,
        timeoutMS: float | None = ...,
    ) -> AsyncDatabase[DocumentT]: ...

    @overload
    def with_options(
        self,
        codec_options: CodecOptions[OtherDocumentT],
        read_preference: _ServerMode | None = ...,
        write_concern: WriteConcern | None = ...,
        read_concern: ReadConcern | None = ...,
        timeoutMS: float | None = ...,
    ) -> AsyncDatabase[OtherDocumentT]: ...

    def with_options(
        self,
        codec_options: CodecOptions[Any] | None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        timeoutMS: float | None = None,
    ) -> AsyncDatabase[Any]:
        """The same database with other settings; those that are None stay.

        Raises:
            TypeError, ValueError: An argument is wrong.
        """
        made: AsyncDatabase[Any] = AsyncDatabase(self._client, self._name)
        made._settings = self._settings.derive(codec_options, read_preference, write_concern, read_concern, timeoutMS)
        return made

    @overload
    def get_collection(
        self,
        name: str,
        codec_options: None = None,
        read_preference: _ServerMode | None = ...,
        write_concern: WriteConcern | None = ...,
        read_concern: ReadConcern | None = ...,
        timeoutMS: float | None = ...,
    ) -> AsyncCollection[DocumentT]: ...

    @overload
    def get_collection(
        self,
        name: str,
        codec_options: CodecOptions[OtherDocumentT],
        read_preference: _ServerMode | None = ...,
        write_concern: WriteConcern | None = ...,
        read_concern: ReadConcern | None = ...,
        timeoutMS: float | None = ...,
    ) -> AsyncCollection[OtherDocumentT]: ...

    def get_collection(
        self,
        name: str,
        codec_options: CodecOptions[Any] | None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        timeoutMS: float | None = None,
    ) -> AsyncCollection[Any]:
        """A collection of this database; settings that are None are the database's.

        Raises:
            TypeError, ValueError: An argument is wrong.
            InvalidName: `name` is not allowed.
        """
        return AsyncCollection(self, name, codec_options, read_preference, write_concern, read_concern, timeoutMS)

    def __getitem__(self, name: str) -> AsyncCollection[DocumentT]:
        """A collection of this database."""
        return AsyncCollection(self, name)

    def __getattr__(self, name: str) -> AsyncCollection[DocumentT]:
        """A collection of this database; use item access for a name that starts with an underscore."""
        if name.startswith("_") or name in missing.DATABASE:
            instead = f"; a collection of that name is database[{name!r}]"
            raise no_attribute("AsyncDatabase", name, missing.DATABASE, instead)
        return self[name]

    if not TYPE_CHECKING:  # type checkers report the call by themselves, and go on

        def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
            """Refuse a call: what looked like a method is a database."""
            raise TypeError(
                f"AsyncDatabase is not callable: AsyncMongoClient has no method {self._name!r}, "
                "so it was taken for the database of that name"
            )

    async def create_collection(
        self,
        name: str,
        codec_options: CodecOptions[Any] | None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        session: AsyncClientSession | None = None,
        check_exists: bool | None = True,
        **options: Unpack[CreateCollectionOptions],
    ) -> AsyncCollection[Any]:
        """Create a collection or view, and return it; without options the first insert does as much.

        Args:
            name: Its name.
            codec_options: Of the returned collection; as the following: the database's by default.
            read_preference: Of the returned collection.
            write_concern: Of the returned collection, and of the command.
            read_concern: Of the returned collection.
            session: The session to use.
            check_exists: Look first whether there is such a collection.
            options: See `CreateCollectionOptions`.

        Raises:
            TypeError, ValueError: An argument is wrong; the message says what is allowed.
            InvalidName: `name` is not allowed.
            CollectionInvalid: There is such a collection.
            PyMongoError: The operation failed.

        Retries: overload errors (up to 5, with backoff); after a network error only the look at existing
        collections.

        Source: collection management specification.
        """
        made = self.get_collection(name, None, read_preference, write_concern, read_concern)
        if codec_options is not None:
            made = made.with_options(codec_options)
        await self._create(name, made.write_concern, session, check_exists, {**options})
        return made

    async def drop_collection(
        self,
        name_or_collection: str | AsyncCollection[Any],
        session: AsyncClientSession | None = None,
        comment: Any = None,
        timeoutMS: float | None = None,
    ) -> dict[str, Any]:
        """Drop a collection and return the server's reply. One that does not exist is no error.

        Args:
            name_or_collection: The collection or its name.
            session: The session to use.
            comment: Shown in the server's log and profile.
            timeoutMS: The limit of the whole operation; 0 for no limit.

        Raises:
            TypeError: Not a collection and not a name.
            PyMongoError: The operation failed.

        Retries: overload errors only (up to 5, with backoff).
        """
        return await self[name_of(name_or_collection)]._drop(session, comment, timeoutMS)

    async def dereference(
        self,
        dbref: DBRef,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        timeoutMS: float | None = None,
    ) -> DocumentT | None:
        """The document that a DBRef refers to, or None.

        Args:
            dbref: A reference into this database.
            session: The session to use.
            comment: Shown in the server's log and profile.
            timeoutMS: The limit of the whole operation; 0 for no limit.

        Raises:
            TypeError: Not a DBRef.
            ValueError: It refers to another database.
            PyMongoError: The operation failed.

        Retries: overload errors (up to 5, with backoff); network errors and failovers once (retryable read).
        """
        instance("dbref", dbref, DBRef)
        if dbref.database is not None and dbref.database != self._name:
            raise ValueError(f"dbref={dbref!r} is wrong; allowed: a reference into the database {self._name!r}")
        return await self[dbref.collection].find_one(
            {"_id": dbref.id}, session=session, comment=comment, timeoutMS=timeoutMS
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AsyncDatabase):
            return NotImplemented
        return self._client == other._client and self._name == other._name

    def __hash__(self) -> int:
        return hash((self._client, self._name))

    def __bool__(self) -> bool:  # not NoReturn: type checkers would skip what follows a truth test
        """Refuse a truth test, which is mostly a forgotten ``is not None``."""
        raise NotImplementedError("a database is neither true nor false; compare with None instead")

    def __repr__(self) -> str:
        return f"AsyncDatabase({self._client!r}, {self._name!r})"


class AsyncMongoClient(ClientBase[DocumentT]):
    """A client of one deployment. Making one sends nothing; its first operation binds it to the event loop.

    Use ``async with AsyncMongoClient(...) as client``, or `close` it.

    What each method says of its retries holds by default: `retryReads` and `retryWrites` turn retries off,
    `maxAdaptiveRetries` sets how many an overload may cause, with a timeout network errors and failovers are retried
    as often as it allows, and retryable writes need a replica set or a sharded cluster.

    Args:
        host: A connection string, ``"host[:port],..."``, or a list of hosts; localhost by default. The records of
            ``mongodb+srv://`` are looked up by the first operation, which raises ConfigurationError when that fails.
        port: The port of hosts that are given without one; 27017 by default.
        document_class: What documents are decoded to; dict by default.
        tz_aware: Decode times with the time zone UTC.
        connect: Has no effect: see `aconnect`.
        type_registry: Encoders and decoders of custom types.
        kwargs: The options of connection strings by their names (`timeoutMS`, `maxPoolSize`, `retryWrites`
            ...), which win over those in `host`, and options that are objects (PyMongo's are accepted where it has such
            a class): `event_listeners`, `server_api`, `driver`, `overload_policy`, `server_selector` (a function that
            is given the server descriptions that suit an operation, and returns a list of those that it may go to; when
            it raises, or returns something else, the operation fails with a ConfigurationError, whose cause is what it
            raised).

    Raises:
        InvalidURI: The connection string is malformed.
        ConfigurationError: An option is unknown or wrong, or options contradict each other.
    """

    __slots__ = ()

    def __init__(
        self,
        host: str | Sequence[str] | None = None,
        port: int | None = None,
        document_class: type[DocumentT] | None = None,
        tz_aware: bool | None = None,
        connect: bool | None = None,
        type_registry: TypeRegistry | None = None,
        **kwargs: Any,
    ) -> None:
        named = {
            "port": port,
            "document_class": document_class,
            "tz_aware": tz_aware,
            "connect": connect,
            "type_registry": type_registry,
        }
        given = {name: value for name, value in named.items() if value is not None}
        options = client_options(host, **given, **kwargs)
        super().__init__(Core(options), options)

    @overload
    def get_database(
        self,
        name: str | None = None,
        codec_options: None = None,
        read_preference: _ServerMode | None = ...,
        write_concern: WriteConcern | None = ...,
        read_concern: ReadConcern | None = ...,
        timeoutMS: float | None = ...,
    ) -> AsyncDatabase[DocumentT]: ...

    @overload
    def get_database(
        self,
        name: str | None = None,
        *,
        codec_options: CodecOptions[OtherDocumentT],
        read_preference: _ServerMode | None = ...,
        write_concern: WriteConcern | None = ...,
        read_concern: ReadConcern | None = ...,
        timeoutMS: float | None = ...,
    ) -> AsyncDatabase[OtherDocumentT]: ...

    def get_database(
        self,
        name: str | None = None,
        codec_options: CodecOptions[Any] | None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        timeoutMS: float | None = None,
    ) -> AsyncDatabase[Any]:
        """A database; settings that are None are the client's.

        Args:
            name: Its name; None for the default database of the connection string.
            codec_options: How documents are encoded and decoded.
            read_preference: Which servers read.
            write_concern: Which acknowledgement writes wait for.
            read_concern: Which isolation reads ask for.
            timeoutMS: The limit of each operation; 0 for no limit.

        Raises:
            TypeError, ValueError: An argument is wrong.
            InvalidName: `name` is not allowed.
            ConfigurationError: There is no default database.
        """
        if name is None:
            name = self._options.database
            if name is None:
                raise ConfigurationError("the connection string names no default database, so name one here")
        return AsyncDatabase(self, name, codec_options, read_preference, write_concern, read_concern, timeoutMS)

    def get_default_database(
        self,
        default: str | None = None,
        codec_options: CodecOptions[Any] | None = None,
        read_preference: _ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        timeoutMS: float | None = None,
    ) -> AsyncDatabase[Any]:
        """The default database of the connection string; settings that are None are the client's.

        Args:
            default: The name to use when there is none.
            codec_options: How documents are encoded and decoded.
            read_preference: Which servers read.
            write_concern: Which acknowledgement writes wait for.
            read_concern: Which isolation reads ask for.
            timeoutMS: The limit of each operation; 0 for no limit.

        Raises:
            TypeError, ValueError: An argument is wrong.
            ConfigurationError: There is no default database.
        """
        name = self._options.database or default
        made = self.get_database(name, None, read_preference, write_concern, read_concern, timeoutMS)
        return made if codec_options is None else made.with_options(codec_options)

    def __getitem__(self, name: str) -> AsyncDatabase[DocumentT]:
        """A database."""
        return AsyncDatabase(self, name)

    def __getattr__(self, name: str) -> AsyncDatabase[DocumentT]:
        """A database; use item access for a name that starts with an underscore."""
        if name.startswith("_") or name in missing.CLIENT:
            instead = f"; a database of that name is client[{name!r}]"
            raise no_attribute("AsyncMongoClient", name, missing.CLIENT, instead)
        return self[name]

    def __repr__(self) -> str:
        seeds = self._options.srv.host_name if self._options.srv else ",".join(map(format_address, self._options.seeds))
        return f"AsyncMongoClient({seeds!r})"
