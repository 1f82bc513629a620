"""Shell: the operations of a database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Unpack, overload

from bson.codec_options import DEFAULT_CODEC_OPTIONS, CodecOptions
from bson.dbref import DBRef

from motorlite._api.arguments import method_options
from motorlite._api.arguments.checks import collection_name, given_options, given_write_concern, optional
from motorlite._api.collection.base import CollectionBase
from motorlite._api.constants import CursorType
from motorlite._api.cursors.command_cursor import AsyncCommandCursor, aggregation
from motorlite._api.cursors.server_cursor import GetMoreOptions
from motorlite._api.cursors.watching import Watching
from motorlite._api.lists import list_cursor, names
from motorlite._api.missing import not_callable
from motorlite._api.time_limits import CursorLimits
from motorlite._api.turns import refused
from motorlite._api.typings import DocumentT, OtherDocumentT
from motorlite._base.arguments import boolean, converted, count, instance, mapping, server_milliseconds, wrong
from motorlite._operations.commands import RunCommand, RunCursorCommand, command_document
from motorlite._operations.reads import waits_for_data
from motorlite.errors import AutoReconnect, CollectionInvalid, OperationFailure
from motorlite.read_preferences import ReadPreference, as_read_preference

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping, Sequence

    from motorlite._api.session import AsyncClientSession
    from motorlite._api.settings import Settings
    from motorlite._api.typings import TimeoutMode
    from motorlite._base.arguments import Pipeline
    from motorlite._client.core import Core
    from motorlite._operations.contract import Call, Operation
    from motorlite.read_preferences import ServerMode
    from motorlite.write_concern import WriteConcern


class AsyncDatabase(Watching[DocumentT]):
    """Commands, aggregations and lists on a database."""

    __slots__ = ("_name",)

    def __init__(self, core: Core, settings: Settings, name: str) -> None:
        super().__init__(core, settings)
        self._name = name

    @property
    def name(self) -> str:
        """The name of the database."""
        return self._name

    @property
    def _watched(self) -> tuple[str, str | None]:
        return self._name, None

    @overload
    async def command(
        self,
        command: str | MutableMapping[str, Any],
        value: Any = 1,
        check: bool = True,
        allowable_errors: Sequence[str | int] | None = None,
        read_preference: ServerMode | None = None,
        codec_options: None = None,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        timeoutMS: float | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]: ...

    @overload
    async def command(
        self,
        command: str | MutableMapping[str, Any],
        value: Any = 1,
        check: bool = True,
        allowable_errors: Sequence[str | int] | None = None,
        read_preference: ServerMode | None = None,
        *,
        codec_options: CodecOptions[OtherDocumentT],
        session: AsyncClientSession | None = None,
        comment: Any = None,
        timeoutMS: float | None = None,
        **kwargs: Any,
    ) -> OtherDocumentT: ...

    async def command(
        self,
        command: str | MutableMapping[str, Any],
        value: Any = 1,
        check: bool = True,
        allowable_errors: Sequence[str | int] | None = None,
        read_preference: ServerMode | None = None,
        codec_options: CodecOptions[Any] | None = None,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        timeoutMS: float | None = None,
        **kwargs: Any,
    ) -> Any:
        """Execute a command and return the server's reply.

        The database's concerns and read preference do not apply. Put concerns into the command.

        Args:
            command: The command's name, or the whole command.
            value: The command's value, if `command` is a name.
            check: Raise OperationFailure if the server reports an error; otherwise return its reply.
            allowable_errors: Codes and messages of errors that do not raise.
            read_preference: The servers to use; the primary by default.
            codec_options: Codec options for decoding the reply; plain dictionaries by default. Type decoders do not
                see it.
            session: The session to use.
            comment: Shown in the server's log and profile.
            timeoutMS: Time limit of the whole operation; 0 for no limit. Do not set `maxTimeMS` as well.
            kwargs: Additional fields of the command.

        Raises:
            TypeError, ValueError: An argument is wrong.
            OperationFailure: The server reported an error.
            PyMongoError: The operation failed.

        Retries: overload errors only; needs both retryReads and retryWrites (docs/retries.md).

        Source: run command specification.
        """
        document = command_document(command, value, comment, kwargs)
        preference = _own_preference(read_preference, codec_options)
        call = self._begin(session, timeoutMS) or await refused()
        operation = RunCommand(
            self._name,
            document,
            # Run command specification: the database's read preference does not apply.
            selector=preference or ReadPreference.PRIMARY,
            read_preference=preference or ReadPreference.PRIMARY,
            codec_options=codec_options or DEFAULT_CODEC_OPTIONS,
        )
        operation.has_own_preference = preference is not None
        try:
            return await self._core.executor.execute(operation, call)
        except (OperationFailure, AutoReconnect) as error:
            details = error.details
            # A malformed reply may have unhashable values here, which a set lookup rejects.
            both = (details.get("code"), details.get("errmsg"))
            known = [one for one in both if isinstance(one, int) or type(one) is str]
            if details.get("ok") == 0 and (not check or any(one in (allowable_errors or ()) for one in known)):
                return details
            raise

    @overload
    def cursor_command(
        self,
        command: str | MutableMapping[str, Any],
        value: Any = 1,
        read_preference: ServerMode | None = None,
        codec_options: None = None,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        max_await_time_ms: float | None = None,
        *,
        cursor_type: int | None = None,
        batch_size: int = 0,
        timeoutMS: float | None = None,
        timeoutMode: TimeoutMode | None = None,
        **kwargs: Any,
    ) -> AsyncCommandCursor[dict[str, Any]]: ...

    @overload
    def cursor_command(
        self,
        command: str | MutableMapping[str, Any],
        value: Any = 1,
        read_preference: ServerMode | None = None,
        *,
        codec_options: CodecOptions[OtherDocumentT],
        session: AsyncClientSession | None = None,
        comment: Any = None,
        max_await_time_ms: float | None = None,
        cursor_type: int | None = None,
        batch_size: int = 0,
        timeoutMS: float | None = None,
        timeoutMode: TimeoutMode | None = None,
        **kwargs: Any,
    ) -> AsyncCommandCursor[OtherDocumentT]: ...

    def cursor_command(
        self,
        command: str | MutableMapping[str, Any],
        value: Any = 1,
        read_preference: ServerMode | None = None,
        codec_options: CodecOptions[Any] | None = None,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        max_await_time_ms: float | None = None,
        *,
        cursor_type: int | None = None,
        batch_size: int = 0,
        timeoutMS: float | None = None,
        timeoutMode: TimeoutMode | None = None,
        **kwargs: Any,
    ) -> AsyncCommandCursor[Any]:
        """Run a command whose reply has a cursor. Returns a cursor, which runs the command at its first step.

        Args:
            command: The name of the command, or the whole command.
            value: The value of a command that is given by name.
            read_preference: Which servers; the primary by default.
            codec_options: Codec options for decoding the documents; the database's by default.
            session: The session to use.
            comment: Shown in the server's log and profile for further batches. The command has its own comment.
            max_await_time_ms: Time that the server waits for new documents, milliseconds.
            cursor_type: A `CursorType`; by default determined by the fields `tailable` and `awaitData`.
            batch_size: Documents per further batch; 0 lets the server choose.
            timeoutMS: Time limit of the cursor; 0 for no limit. Do not set `maxTimeMS` as well.
            timeoutMode: Whether it limits the ``"cursorLifetime"`` or each ``"iteration"``.
            kwargs: Further fields of the command.

        Raises:
            TypeError, ValueError: An argument is wrong.
            ConfigurationError: `timeoutMode` conflicts with the other arguments.

        Retries: overload errors only, also for getMore (docs/retries.md).

        Source: run command specification.
        """
        document = command_document(command, value, None, kwargs)
        converted("batch_size", batch_size, count)
        preference = _own_preference(read_preference, codec_options)
        max_await_time_ms = optional("max_await_time_ms", max_await_time_ms, server_milliseconds)
        if cursor_type is None:
            is_tailable, is_await_data = bool(document.get("tailable")), bool(document.get("awaitData"))
        else:
            is_tailable = cursor_type != CursorType.NON_TAILABLE
            is_await_data = cursor_type == CursorType.TAILABLE_AWAIT
        if waits_for_data(document.get("pipeline")):
            is_tailable = is_await_data = True
        limits = CursorLimits(
            self._settings.timeout, timeoutMS, timeoutMode, is_tailable=is_tailable, is_await_data=is_await_data
        )
        selector, options = preference or ReadPreference.PRIMARY, codec_options or self._settings.codec_options

        def make() -> RunCursorCommand:
            operation = RunCursorCommand(
                self._name,
                document,
                selector=selector,
                read_preference=selector,
                codec_options=options,
                time_limit=limits.time_limit,
            )
            operation.has_own_preference = preference is not None
            return operation

        get_more = GetMoreOptions(
            batch_size=batch_size,
            comment=comment,
            is_await_data=is_await_data or max_await_time_ms is not None,
            is_endless=is_tailable,
            max_await_time_ms=max_await_time_ms,
            read_preference=selector,
        )
        call_options = self._settings.call_options
        return AsyncCommandCursor(self._core, session, limits, options, get_more, call_options, make)

    def aggregate(
        self,
        pipeline: Pipeline,
        session: AsyncClientSession | None = None,
        **options: Unpack[method_options.DatabaseAggregateOptions],
    ) -> AsyncCommandCursor[dict[str, Any]]:
        """Run a pipeline on the database ($currentOp, $documents ...). Returns a cursor.

        The pipeline runs at the cursor's first step.

        Args:
            pipeline: The stages.
            session: The session to use.
            options: See `DatabaseAggregateOptions`.

        Raises:
            TypeError, ValueError: An argument is wrong; the message names the allowed values.
            ConfigurationError: `timeoutMode` conflicts with the other arguments.

        Retries: as a retryable read, unless it has $out or $merge; getMore for overload errors only (docs/retries.md).

        Source: CRUD specification.
        """
        given, further = given_options("aggregate", method_options.DatabaseAggregateOptions, options)
        names = (self._name, None)
        return aggregation(AsyncCommandCursor, self._core, self._settings, names, pipeline, session, given, further)

    def list_collections(
        self,
        session: AsyncClientSession | None = None,
        filter: Mapping[str, Any] | None = None,
        comment: Any = None,
        **options: Unpack[method_options.ListCollectionsOptions],
    ) -> AsyncCommandCursor[dict[str, Any]]:
        """List the collections and views, as a cursor.

        Args:
            session: The session to use.
            filter: A query on the returned documents.
            comment: Shown in the server's log and profile.
            options: See `ListCollectionsOptions`.

        Raises:
            TypeError, ValueError: An argument is wrong; the message names the allowed values.
            ConfigurationError: `timeoutMode` without a timeout.

        Retries: listCollections as a retryable read; getMore for overload errors only (docs/retries.md).

        Source: enumerating collections specification.
        """
        from motorlite._operations.collections import ListCollections

        given, further = given_options("list_collections", method_options.ListCollectionsOptions, options)
        given["filter"] = optional("filter", filter, mapping)
        return list_cursor(
            self._core,
            self._settings,
            session,
            ListCollections,
            self._name,
            comment=comment,
            options=given,
            fields=further,
        )

    async def list_collection_names(
        self,
        session: AsyncClientSession | None = None,
        filter: Mapping[str, Any] | None = None,
        comment: Any = None,
        **options: Unpack[method_options.ListCollectionsOptions],
    ) -> list[str]:
        """Return the names of the collections and views.

        Args:
            session: The session to use.
            filter: A query on the documents that `list_collections` returns.
            comment: Shown in the server's log and profile.
            options: See `ListCollectionsOptions`.

        Raises:
            TypeError, ValueError: An argument is wrong; the message names the allowed values.
            PyMongoError: The operation failed.

        Retries: listCollections as a retryable read; getMore for overload errors only (docs/retries.md).

        Source: enumerating collections specification.
        """
        filter = optional("filter", filter, mapping)
        if not filter or set(filter) == {"name"}:
            # A nameOnly command takes no locks ("Filter", "nameOnly").
            options.setdefault("nameOnly", True)
        return await names(self.list_collections(session, filter, comment, **options))

    async def validate_collection(
        self,
        name_or_collection: Any,
        scandata: bool = False,
        full: bool = False,
        session: AsyncClientSession | None = None,
        background: bool | None = None,
        comment: Any = None,
        timeoutMS: float | None = None,
    ) -> dict[str, Any]:
        """Have the server validate a collection, and return its report.

        Args:
            name_or_collection: The collection or its name.
            scandata: Scan the data (older servers).
            full: Check everything, which is slow.
            session: The session to use.
            background: Do not block the collection.
            comment: Shown in the server's log and profile.
            timeoutMS: Time limit of the whole operation; 0 for no limit.

        Raises:
            TypeError: `name_or_collection` is neither a collection nor a name.
            CollectionInvalid: The collection is not valid.
            PyMongoError: The operation failed.

        Retries: overload errors only (docs/retries.md).
        """
        from motorlite._operations.collections import Validate

        name = name_of(name_or_collection)
        optional("background", background, boolean)
        operation = Validate(self._name, name, scandata=scandata, full=full, background=background, comment=comment)
        call = self._begin(session, timeoutMS) or await refused()
        report, invalid = await self._core.executor.execute(operation, call)
        if invalid is not None:
            raise CollectionInvalid(f"the collection {name!r} is not valid: {invalid!r}")
        return report

    async def drop_collection(
        self,
        name_or_collection: Any,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        encrypted_fields: Mapping[str, Any] | None = None,
        timeoutMS: float | None = None,
    ) -> dict[str, Any]:
        """Drop a collection and return the server's reply. A missing collection is not an error.

        Args:
            name_or_collection: The collection or its name.
            session: The session to use.
            comment: Shown in the server's log and profile.
            encrypted_fields: Its fields of queryable encryption, whose state is dropped too; those of the client's
                `encrypted_fields_map` by default.
            timeoutMS: Time limit of the whole operation; 0 for no limit.

        Raises:
            TypeError: Not a collection and not a name.
            PyMongoError: The operation failed.

        Retries: overload errors only (docs/retries.md).
        """
        collection: Any = self[name_of(name_or_collection)]  # type: ignore[index]  # AsyncDatabase can be indexed
        reply: dict[str, Any] = await collection._drop(session, comment, encrypted_fields, timeoutMS)
        return reply

    async def _create(
        self,
        name: str,
        codec_options: CodecOptions[Any],
        write_concern: WriteConcern,
        session: AsyncClientSession | None,
        check_exists: bool | None,
        options: dict[str, Any],
    ) -> None:
        """Create a collection, for `AsyncDatabase.create_collection`. Both commands share one deadline."""
        from motorlite._operations.collections import Create

        name = collection_name(name)
        given, further = given_options("create_collection", method_options.CreateCollectionOptions, options)
        write_concern = given_write_concern(further, write_concern)
        fields = further.get("encryptedFields") or self._core.encrypted_fields(self._name, name)
        call = self._begin(session, given.pop("timeoutMS", None), write_concern.acknowledged) or await refused()
        # A transaction must not begin with listCollections, which cannot run in it.
        in_transaction = call.session is not None and call.session.in_transaction
        if check_exists and not in_transaction and await self._has_collection(name, call):
            raise CollectionInvalid(f"the collection {name!r} already exists")
        chosen = given | further
        before: list[Operation[Any]] = []
        after: list[Operation[Any]] = []
        if fields:
            from motorlite._operations.encrypted_collections import creation

            chosen["encryptedFields"] = fields
            before, after = creation(self._name, name, chosen, write_concern)
        operation = Create(self._name, name, codec_options=codec_options, write_concern=write_concern, options=chosen)
        for each in (*before, operation, *after):
            await self._core.executor.execute(each, call)

    async def _has_collection(self, name: str, call: Call) -> bool:
        from motorlite._operations.collections import FindCollection

        operation = FindCollection(self._name, name, name_only=True)
        return await self._core.executor.execute(operation, call) is not None

    async def dereference(
        self,
        dbref: DBRef,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        **options: Any,
    ) -> DocumentT | None:
        """Return the document that a DBRef refers to, or None.

        Args:
            dbref: A reference into this database.
            session: The session to use.
            comment: Shown in the server's log and profile.
            options: The projection, and options of `find_one`.

        Raises:
            TypeError: `dbref` is not a DBRef, or an option is wrong.
            ValueError: It refers to another database.
            PyMongoError: The operation failed.

        Retries: as a retryable read (docs/retries.md).
        """
        instance("dbref", dbref, DBRef)
        if dbref.database is not None and dbref.database != self._name:
            raise ValueError(wrong("dbref", dbref, f"a reference into the database {self._name!r}"))
        projection = options.pop("projection", None)
        collection: Any = self[dbref.collection]  # type: ignore[index]  # AsyncDatabase can be indexed
        query = {"_id": dbref.id}
        found: DocumentT | None = await collection._find_one(
            query, projection, {**options, "session": session, "comment": comment}, "dereference"
        )
        return found

    if not TYPE_CHECKING:  # type checkers report the call themselves and continue

        def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
            """Reject a call: the attribute is a database, not a method."""
            taken = f"the database {self._name!r}"
            raise TypeError(not_callable("AsyncDatabase", type(self._client), self._name, taken))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AsyncDatabase):
            return NotImplemented
        return self._core is other._core and self._name == other._name

    def __hash__(self) -> int:
        return hash((id(self._core), self._name))

    def __bool__(self) -> bool:  # not NoReturn: type checkers would skip the code after a truth test
        """Reject a truth test: usually ``is not None`` was meant."""
        raise NotImplementedError("a database is neither true nor false; compare with None instead")


def _own_preference(read_preference: ServerMode | None, codec_options: CodecOptions[Any] | None) -> ServerMode | None:
    """Check the settings of one command, and return its read preference, if the caller gave one."""
    preference: ServerMode | None = optional("read_preference", read_preference, as_read_preference)
    if codec_options is not None:
        instance("codec_options", codec_options, CodecOptions)
    return preference


def name_of(name_or_object: Any, kind: str = "collection") -> str:
    """Return the name of a collection or database, passed as an object or a name.

    Many other objects have a name, and what is dropped by mistake is gone.
    """
    if isinstance(name_or_object, AsyncDatabase if kind == "database" else CollectionBase):
        return name_or_object.name
    if not isinstance(name_or_object, str):
        raise TypeError(wrong(f"name_or_{kind}", name_or_object, f"a {kind} or its name"))
    return name_or_object
