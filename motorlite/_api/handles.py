"""Shell: the public client, database and collection objects.

They are created from each other and reference each other (`client.db.coll.database.client`), so their types need each
other and share one module. The modules below implement their operations in classes of the same names, because type
checkers name the class that defines a method, and programs know only the public one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack, overload

from motorlite._api.arguments.checks import collection_name, database_name
from motorlite._api.client import AsyncMongoClient as ClientBase
from motorlite._api.collection.bulk import AsyncCollection as CollectionBulkWrites
from motorlite._api.collection.indexes import AsyncCollection as CollectionIndexes
from motorlite._api.collection.reads import AsyncCollection as CollectionReads
from motorlite._api.collection.writes import AsyncCollection as CollectionWrites
from motorlite._api.database import AsyncDatabase as DatabaseBase
from motorlite._api.missing import no_attribute
from motorlite._api.typings import DocumentT, OtherDocumentT
from motorlite._base.arguments import instance
from motorlite._options.options import client_options, shown
from motorlite.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bson.codec_options import CodecOptions, TypeRegistry

    from motorlite._api.arguments.method_options import CreateCollectionOptions
    from motorlite._api.session import AsyncClientSession
    from motorlite._api.settings import Settings
    from motorlite._options.keywords import ClientKeywords
    from motorlite.read_concern import ReadConcern
    from motorlite.read_preferences import ServerMode
    from motorlite.retry import RetryStrategy
    from motorlite.write_concern import WriteConcern


class AsyncCollection(
    CollectionReads[DocumentT],
    CollectionWrites[DocumentT],
    CollectionBulkWrites[DocumentT],
    CollectionIndexes[DocumentT],
):
    """A collection: ``database["name"]`` or ``database.name``. Creating one sends nothing.

    Args:
        database: Its database.
        name: Its name.
        codec_options: Codec options for encoding and decoding documents; the database's by default.
        read_preference: The servers to read from; the database's by default.
        write_concern: The acknowledgement that writes wait for; the database's by default.
        read_concern: The isolation level that reads ask for; the database's by default.
        timeoutMS: Time limit of each operation; 0 for no limit; the database's by default.

    Raises:
        TypeError, ValueError: An argument is wrong.
        InvalidName: `name` is invalid.
    """

    __module__ = "motorlite"

    __slots__ = ("_database",)

    def __init__(
        self,
        database: AsyncDatabase[Any],
        name: str,
        codec_options: CodecOptions[DocumentT] | None = None,
        read_preference: ServerMode | None = None,
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
        """The database of the collection."""
        return self._database

    @overload
    def with_options(
        self,
        codec_options: None = None,
        read_preference: ServerMode | None = ...,
        write_concern: WriteConcern | None = ...,
        read_concern: ReadConcern | None = ...,
        timeoutMS: float | None = ...,
        retry_strategy: RetryStrategy | None = ...,
    ) -> AsyncCollection[DocumentT]: ...

    @overload
    def with_options(
        self,
        codec_options: CodecOptions[OtherDocumentT],
        read_preference: ServerMode | None = ...,
        write_concern: WriteConcern | None = ...,
        read_concern: ReadConcern | None = ...,
        timeoutMS: float | None = ...,
        retry_strategy: RetryStrategy | None = ...,
    ) -> AsyncCollection[OtherDocumentT]: ...

    def with_options(
        self,
        codec_options: CodecOptions[Any] | None = None,
        read_preference: ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        timeoutMS: float | None = None,
        retry_strategy: RetryStrategy | None = None,
    ) -> AsyncCollection[Any]:
        """Return the collection with other settings (see `AsyncCollection`, `motorlite.retry`). None keeps a setting.

        Raises:
            TypeError, ValueError: An argument is wrong.
        """
        settings = self._settings.derive(
            codec_options, read_preference, write_concern, read_concern, timeoutMS, retry_strategy
        )
        return self._with_settings(self._name, settings)

    def _with_settings(self, name: str, settings: Settings) -> AsyncCollection[Any]:
        made: AsyncCollection[Any] = AsyncCollection(self._database, name)
        made._settings = settings
        return made

    def __getitem__(self, name: str) -> AsyncCollection[DocumentT]:
        """Return the collection ``"this.name"``, with the same settings."""
        return self._with_settings(f"{self._name}.{name}", self._settings)

    def __getattr__(self, name: str) -> AsyncCollection[DocumentT]:
        """Return the collection ``"this.name"``. Use item access if the name starts with an underscore."""
        if name.startswith("_"):
            instead = f"; a collection of that name is collection[{name!r}]"
            raise no_attribute("AsyncCollection", name, instead)
        return self[name]

    def __repr__(self) -> str:
        return f"AsyncCollection({self._database!r}, {self._name!r})"


class AsyncDatabase(DatabaseBase[DocumentT]):
    """A database: ``client["name"]`` or ``client.name``. Creating one sends nothing.

    Args:
        client: Its client.
        name: Its name.
        codec_options: Codec options for encoding and decoding documents; the client's by default.
        read_preference: The servers to read from; the client's by default.
        write_concern: The acknowledgement that writes wait for; the client's by default.
        read_concern: The isolation level that reads ask for; the client's by default.
        timeoutMS: Time limit of each operation; 0 for no limit; the client's by default.

    Raises:
        TypeError, ValueError: An argument is wrong.
        InvalidName: `name` is invalid.
    """

    __module__ = "motorlite"

    __slots__ = ("_client",)

    def __init__(
        self,
        client: AsyncMongoClient[Any],
        name: str,
        codec_options: CodecOptions[DocumentT] | None = None,
        read_preference: ServerMode | None = None,
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
        read_preference: ServerMode | None = ...,
        write_concern: WriteConcern | None = ...,
        read_concern: ReadConcern | None = ...,
        timeoutMS: float | None = ...,
        retry_strategy: RetryStrategy | None = ...,
    ) -> AsyncDatabase[DocumentT]: ...

    @overload
    def with_options(
        self,
        codec_options: CodecOptions[OtherDocumentT],
        read_preference: ServerMode | None = ...,
        write_concern: WriteConcern | None = ...,
        read_concern: ReadConcern | None = ...,
        timeoutMS: float | None = ...,
        retry_strategy: RetryStrategy | None = ...,
    ) -> AsyncDatabase[OtherDocumentT]: ...

    def with_options(
        self,
        codec_options: CodecOptions[Any] | None = None,
        read_preference: ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        timeoutMS: float | None = None,
        retry_strategy: RetryStrategy | None = None,
    ) -> AsyncDatabase[Any]:
        """Return the database with other settings (see `AsyncDatabase`, `motorlite.retry`). None keeps a setting.

        Raises:
            TypeError, ValueError: An argument is wrong.
        """
        made: AsyncDatabase[Any] = AsyncDatabase(self._client, self._name)
        made._settings = self._settings.derive(
            codec_options, read_preference, write_concern, read_concern, timeoutMS, retry_strategy
        )
        return made

    @overload
    def get_collection(
        self,
        name: str,
        codec_options: None = None,
        read_preference: ServerMode | None = ...,
        write_concern: WriteConcern | None = ...,
        read_concern: ReadConcern | None = ...,
        timeoutMS: float | None = ...,
    ) -> AsyncCollection[DocumentT]: ...

    @overload
    def get_collection(
        self,
        name: str,
        codec_options: CodecOptions[OtherDocumentT],
        read_preference: ServerMode | None = ...,
        write_concern: WriteConcern | None = ...,
        read_concern: ReadConcern | None = ...,
        timeoutMS: float | None = ...,
    ) -> AsyncCollection[OtherDocumentT]: ...

    def get_collection(
        self,
        name: str,
        codec_options: CodecOptions[Any] | None = None,
        read_preference: ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        timeoutMS: float | None = None,
    ) -> AsyncCollection[Any]:
        """Return a collection of this database. Settings (see `AsyncCollection`) that are None are the database's.

        Raises:
            TypeError, ValueError: An argument is wrong.
            InvalidName: `name` is invalid.
        """
        return AsyncCollection(self, name, codec_options, read_preference, write_concern, read_concern, timeoutMS)

    def __getitem__(self, name: str) -> AsyncCollection[DocumentT]:
        """Return a collection of this database."""
        return AsyncCollection(self, name)

    def __getattr__(self, name: str) -> AsyncCollection[DocumentT]:
        """Return a collection of this database. Use item access if the name starts with an underscore."""
        if name.startswith("_"):
            instead = f"; a collection of that name is database[{name!r}]"
            raise no_attribute("AsyncDatabase", name, instead)
        return self[name]

    @overload
    async def create_collection(
        self,
        name: str,
        codec_options: None = None,
        read_preference: ServerMode | None = ...,
        write_concern: WriteConcern | None = ...,
        read_concern: ReadConcern | None = ...,
        session: AsyncClientSession | None = ...,
        check_exists: bool | None = ...,
        **options: Unpack[CreateCollectionOptions],
    ) -> AsyncCollection[DocumentT]: ...

    @overload
    async def create_collection(
        self,
        name: str,
        codec_options: CodecOptions[OtherDocumentT],
        read_preference: ServerMode | None = ...,
        write_concern: WriteConcern | None = ...,
        read_concern: ReadConcern | None = ...,
        session: AsyncClientSession | None = ...,
        check_exists: bool | None = ...,
        **options: Unpack[CreateCollectionOptions],
    ) -> AsyncCollection[OtherDocumentT]: ...

    async def create_collection(
        self,
        name: str,
        codec_options: CodecOptions[Any] | None = None,
        read_preference: ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        session: AsyncClientSession | None = None,
        check_exists: bool | None = True,
        **options: Unpack[CreateCollectionOptions],
    ) -> AsyncCollection[Any]:
        """Create a collection or view, and return it. Without options, the first insert has the same effect.

        Args:
            name: Its name.
            codec_options: For the returned collection and the create command. The default of this and the next three is
                the database's.
            read_preference: For the returned collection.
            write_concern: For the returned collection and the create command.
            read_concern: For the returned collection.
            session: The session to use.
            check_exists: Check first whether the collection exists.
            options: See `CreateCollectionOptions`.

        Raises:
            TypeError, ValueError: An argument is wrong; the message names the allowed values.
            InvalidName: `name` is invalid.
            CollectionInvalid: The collection already exists.
            PyMongoError: The operation failed.

        Retries: overload errors; after network errors only the look at existing collections (docs/retries.md).

        Source: collection management specification.
        """
        made: AsyncCollection[Any] = AsyncCollection(
            self, name, codec_options, read_preference, write_concern, read_concern
        )
        encoding, write_concern = made._settings.codec_options, made._write_concern(session)
        await self._create(name, encoding, write_concern, session, check_exists, {**options})
        return made

    def __repr__(self) -> str:
        return f"AsyncDatabase({self._client!r}, {self._name!r})"


class AsyncMongoClient(ClientBase[DocumentT]):
    """A client of one deployment. Creating one sends nothing. Its first operation binds it to the event loop.

    Use ``async with AsyncMongoClient(...) as client``, or `close` it.

    The retry behaviour in each method's documentation holds by default. `retryReads` and `retryWrites` turn retries
    off. `maxAdaptiveRetries` sets the maximum number of retries after overload errors. With a timeout, network errors
    and failovers are retried as often as time permits. Retryable writes need a replica set or a sharded cluster.

    Args:
        host: A connection string, ``"host[:port],..."``, or a list of hosts; localhost by default. The first operation
            looks up the records of ``mongodb+srv://`` and raises ConfigurationError if that fails.
        port: The port of hosts without one; 27017 by default.
        document_class: The class of decoded documents; dict by default.
        tz_aware: Decode times with the time zone UTC.
        connect: Has no effect: see `aconnect`.
        type_registry: Encoders and decoders of custom types.
        kwargs: Options, which override those in `host` (PyMongo's objects are accepted): see `ClientKeywords`.

    Raises:
        InvalidURI: The connection string is malformed.
        ConfigurationError: An option is unknown or wrong, or options contradict each other.
    """

    __module__ = "motorlite"

    __slots__ = ()

    def __init__(
        self,
        host: str | Sequence[str] | None = None,
        port: int | None = None,
        document_class: type[DocumentT] | None = None,
        tz_aware: bool | None = None,
        connect: bool | None = None,
        type_registry: TypeRegistry | None = None,
        **kwargs: Unpack[ClientKeywords],
    ) -> None:
        named: dict[str, Any] = {"document_class": document_class, "tz_aware": tz_aware, "type_registry": type_registry}
        named |= {"port": port, "connect": connect}
        options = client_options(host, **{name: value for name, value in named.items() if value is not None}, **kwargs)
        # With the first client, the machinery below the API is imported.
        from motorlite._client.core import Core

        super().__init__(Core(options), options)

    @overload
    def get_database(
        self,
        name: str | None = None,
        codec_options: None = None,
        read_preference: ServerMode | None = ...,
        write_concern: WriteConcern | None = ...,
        read_concern: ReadConcern | None = ...,
        timeoutMS: float | None = ...,
    ) -> AsyncDatabase[DocumentT]: ...

    @overload
    def get_database(
        self,
        name: str | None = None,
        codec_options: CodecOptions[OtherDocumentT] = ...,
        read_preference: ServerMode | None = ...,
        write_concern: WriteConcern | None = ...,
        read_concern: ReadConcern | None = ...,
        timeoutMS: float | None = ...,
    ) -> AsyncDatabase[OtherDocumentT]: ...

    def get_database(
        self,
        name: str | None = None,
        codec_options: CodecOptions[Any] | None = None,
        read_preference: ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        timeoutMS: float | None = None,
    ) -> AsyncDatabase[Any]:
        """Return a database, by default that of the connection string. Settings (see `AsyncDatabase`): the client's.

        Raises:
            TypeError, ValueError: An argument is wrong.
            InvalidName: `name` is invalid.
            ConfigurationError: The connection string has no default database.
        """
        if name is None:
            name = self._options.database
            if name is None:
                raise ConfigurationError("the connection string names no default database, so name one here")
        return AsyncDatabase(self, name, codec_options, read_preference, write_concern, read_concern, timeoutMS)

    @overload
    def get_default_database(
        self,
        default: str | None = None,
        codec_options: None = None,
        read_preference: ServerMode | None = ...,
        write_concern: WriteConcern | None = ...,
        read_concern: ReadConcern | None = ...,
        timeoutMS: float | None = ...,
    ) -> AsyncDatabase[DocumentT]: ...

    @overload
    def get_default_database(
        self,
        default: str | None = None,
        codec_options: CodecOptions[OtherDocumentT] = ...,
        read_preference: ServerMode | None = ...,
        write_concern: WriteConcern | None = ...,
        read_concern: ReadConcern | None = ...,
        timeoutMS: float | None = ...,
    ) -> AsyncDatabase[OtherDocumentT]: ...

    def get_default_database(
        self,
        default: str | None = None,
        codec_options: CodecOptions[Any] | None = None,
        read_preference: ServerMode | None = None,
        write_concern: WriteConcern | None = None,
        read_concern: ReadConcern | None = None,
        timeoutMS: float | None = None,
    ) -> AsyncDatabase[Any]:
        """Return the default database of the connection string, or `default`. The settings are those of `get_database`.

        Raises:
            TypeError, ValueError: An argument is wrong.
            ConfigurationError: There is no default database.
        """
        name = self._options.database or default
        made = self.get_database(name, None, read_preference, write_concern, read_concern, timeoutMS)
        return made if codec_options is None else made.with_options(codec_options)

    def __getitem__(self, name: str) -> AsyncDatabase[DocumentT]:
        """Return a database."""
        return AsyncDatabase(self, name)

    def __getattr__(self, name: str) -> AsyncDatabase[DocumentT]:
        """Return a database. Use item access if the name starts with an underscore."""
        if name.startswith("_"):
            instead = f"; a database of that name is client[{name!r}]"
            raise no_attribute("AsyncMongoClient", name, instead)
        return self[name]

    def __repr__(self) -> str:
        return f"AsyncMongoClient({shown(self._options)})"
