"""Shell: what a database executes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack, overload

from motorlite._api import method_options
from motorlite._api.aggregation import aggregation
from motorlite._api.commands import UserCommand, command_document, cursor_of_command
from motorlite._api.lists import list_collections, names
from motorlite._api.settings import Configured
from motorlite._api.typings import DocumentT, OtherDocumentT
from motorlite._api.validation import boolean, checked, collection_name, converted, count, mapping
from motorlite._operations.create import Create
from motorlite._operations.find_collection import FindCollection
from motorlite._operations.validate import Validate
from motorlite.errors import CollectionInvalid

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping, Sequence

    from bson.codec_options import CodecOptions

    from motorlite._api.command_cursor import AsyncCommandCursor
    from motorlite._api.core import CoreLike
    from motorlite._api.session import AsyncClientSession
    from motorlite._api.settings import Settings
    from motorlite._api.typings import TimeoutMode
    from motorlite._execution.session import Session
    from motorlite.arguments import Pipeline
    from motorlite.concerns import WriteConcern
    from motorlite.deadline import Deadline
    from motorlite.read_preferences import _ServerMode


class DatabaseBase(Configured[DocumentT]):
    """Commands, aggregations and lists on a database."""

    __slots__ = ("_name",)

    def __init__(self, core: CoreLike, settings: Settings, name: str) -> None:
        super().__init__(core, settings)
        self._name = name

    @property
    def name(self) -> str:
        """The name of the database."""
        return self._name

    @overload
    async def command(
        self,
        command: str | MutableMapping[str, Any],
        value: Any = 1,
        check: bool = True,
        allowable_errors: Sequence[str | int] | None = None,
        read_preference: _ServerMode | None = None,
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
        read_preference: _ServerMode | None = None,
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
        read_preference: _ServerMode | None = None,
        codec_options: CodecOptions[Any] | None = None,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        timeoutMS: float | None = None,
        **kwargs: Any,
    ) -> Any:
        """Execute a command and return the server's reply.

        Concerns and read preference of the database are not used; put concerns into the command.

        Args:
            command: The name of the command, or the whole command.
            value: The value of a command that is given by name.
            check: Raise OperationFailure when the server answers with an error; otherwise return the reply.
            allowable_errors: Codes and messages of errors that do not raise.
            read_preference: Which servers; the primary by default.
            codec_options: How the reply is decoded; plain dictionaries by default.
            session: The session to use.
            comment: Shown in the server's log and profile.
            timeoutMS: The limit of the whole operation; 0 for no limit. Do not set `maxTimeMS` as well.
            kwargs: Further fields of the command.

        Raises:
            TypeError, ValueError: An argument is wrong.
            OperationFailure: The server answered with an error.
            PyMongoError: The operation failed.

        Retries: overload errors only (up to 5, with backoff); needs both retryReads and retryWrites.

        Source: run command specification.
        """
        document = command_document(command, value, comment, kwargs)
        user_command = UserCommand(
            self._name,
            document,
            read_preference=read_preference,
            codec_options=codec_options,
            check=check,
            allowed_errors=allowable_errors,
        )
        state, limit = self._begin(session, timeoutMS)
        return await user_command.execute(self._core, state, limit)

    @overload
    def cursor_command(
        self,
        command: str | MutableMapping[str, Any],
        value: Any = 1,
        read_preference: _ServerMode | None = None,
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
    ) -> AsyncCommandCursor[DocumentT]: ...

    @overload
    def cursor_command(
        self,
        command: str | MutableMapping[str, Any],
        value: Any = 1,
        read_preference: _ServerMode | None = None,
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
        read_preference: _ServerMode | None = None,
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
        """The documents of a command whose reply has a cursor; the command runs at the cursor's first step.

        Args:
            command: The name of the command, or the whole command.
            value: The value of a command that is given by name.
            read_preference: Which servers; the primary by default.
            codec_options: How the documents are decoded; those of the database by default.
            session: The session to use.
            comment: Shown in the server's log and profile for further batches; the command has its own.
            max_await_time_ms: How long the server waits for new documents, milliseconds.
            cursor_type: A `CursorType`; by default what the fields `tailable` and `awaitData` say.
            batch_size: How many documents further batches have; 0 leaves it to the server.
            timeoutMS: The limit of the cursor; 0 for no limit. Do not set `maxTimeMS` as well.
            timeoutMode: Whether it limits the ``"cursorLifetime"`` or each ``"iteration"``.
            kwargs: Further fields of the command.

        Raises:
            TypeError, ValueError: An argument is wrong.
            ConfigurationError: `timeoutMode` does not go with the rest.

        Retries: overload errors only (up to 5, with backoff), also for getMore.

        Source: run command specification.
        """
        return cursor_of_command(
            self._core,
            self._settings,
            self._name,
            command_document(command, value, None, kwargs),
            session,
            read_preference=read_preference,
            codec_options=codec_options,
            cursor_type=cursor_type,
            comment=comment,
            batch_size=converted("batch_size", batch_size, count),
            max_await_time_ms=max_await_time_ms,
            timeout_ms=timeoutMS,
            timeout_mode=timeoutMode,
        )

    def aggregate(
        self,
        pipeline: Pipeline,
        session: AsyncClientSession | None = None,
        **options: Unpack[method_options.DatabaseAggregateOptions],
    ) -> AsyncCommandCursor[DocumentT]:
        """The documents that a pipeline on the database makes ($currentOp, $documents ...), as a cursor.

        The pipeline runs at the cursor's first step.

        Args:
            pipeline: The stages.
            session: The session to use.
            options: See `DatabaseAggregateOptions`.

        Raises:
            TypeError, ValueError: An argument is wrong; the message says what is allowed.
            ConfigurationError: `timeoutMode` does not go with the rest.

        Retries: aggregate for overload errors (up to 5, with backoff), and without $out and $merge once after
        a network error or a failover (retryable read); getMore for overload errors only.

        Source: CRUD specification.
        """
        given = checked("aggregate", options, method_options.DATABASE_AGGREGATE_CHECKS)
        return aggregation(self._core, self._settings, (self._name, None), pipeline, session, given)

    def list_collections(
        self,
        session: AsyncClientSession | None = None,
        filter: Mapping[str, Any] | None = None,
        comment: Any = None,
        **options: Unpack[method_options.ListCollectionsOptions],
    ) -> AsyncCommandCursor[dict[str, Any]]:
        """The collections and views, as a cursor.

        Args:
            session: The session to use.
            filter: Which of them, as a query on what is returned.
            comment: Shown in the server's log and profile.
            options: See `ListCollectionsOptions`.

        Raises:
            TypeError, ValueError: An argument is wrong; the message says what is allowed.
            ConfigurationError: `timeoutMode` without a timeout.

        Retries: listCollections for overload errors (up to 5, with backoff) and once after a network error or
        a failover (retryable read); getMore for overload errors only.

        Source: enumerating collections specification.
        """
        given = checked("list_collections", options, method_options.LIST_COLLECTIONS_CHECKS)
        if filter is not None:
            converted("filter", filter, mapping)
        return list_collections(self._core, self._settings, self._name, session, filter, comment, given)

    async def list_collection_names(
        self,
        session: AsyncClientSession | None = None,
        filter: Mapping[str, Any] | None = None,
        comment: Any = None,
        **options: Unpack[method_options.ListCollectionsOptions],
    ) -> list[str]:
        """The names of the collections and views.

        Args:
            session: The session to use.
            filter: Which of them, as a query on what `list_collections` returns.
            comment: Shown in the server's log and profile.
            options: See `ListCollectionsOptions`.

        Raises:
            TypeError, ValueError: An argument is wrong; the message says what is allowed.
            PyMongoError: The operation failed.

        Retries: listCollections for overload errors (up to 5, with backoff) and once after a network error or
        a failover (retryable read); getMore for overload errors only.

        Source: enumerating collections specification.
        """
        if not filter or set(filter) == {"name"}:
            # It takes no locks then ("Filter", "nameOnly").
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
        """Let the server check a collection, and return its report.

        Args:
            name_or_collection: The collection or its name.
            scandata: Scan the data (older servers).
            full: Check everything, which takes long.
            session: The session to use.
            background: Do not block the collection.
            comment: Shown in the server's log and profile.
            timeoutMS: The limit of the whole operation; 0 for no limit.

        Raises:
            TypeError: Not a collection and not a name.
            CollectionInvalid: The collection is not valid.
            PyMongoError: The operation failed.

        Retries: overload errors only (up to 5, with backoff).
        """
        name = name_of(name_or_collection)
        command = {"validate": name, "scandata": scandata, "full": full}
        if background is not None:
            command["background"] = converted("background", background, boolean)
        if comment is not None:
            command["comment"] = comment
        state, limit = self._begin(session, timeoutMS)
        report: dict[str, Any]
        report, invalid = await self._core.executor.execute(Validate(self._name, command), state, limit)
        if invalid is not None:
            raise CollectionInvalid(f"the collection {name!r} is not valid: {invalid!r}")
        return report

    async def _create(
        self,
        name: str,
        write_concern: WriteConcern,
        session: AsyncClientSession | None,
        check_exists: bool | None,
        options: dict[str, Any],
    ) -> None:
        """Create a collection, for `AsyncDatabase.create_collection`: one deadline for both commands."""
        collection_name(name)
        given = checked("create_collection", options, method_options.CREATE_CHECKS)
        state, limit = self._begin(session, given.pop("timeoutMS", None), write_concern.acknowledged)
        if limit.is_set:
            given.pop("maxTimeMS", None)
        if check_exists and await self._has_collection(name, state, limit):
            raise CollectionInvalid(f"the collection {name!r} already exists")
        operation = Create(
            self._name,
            name,
            codec_options=self._settings.codec_options,
            write_concern=write_concern,
            options=given,
        )
        await self._core.executor.execute(operation, state, limit)

    async def _has_collection(self, name: str, session: Session | None, limit: Deadline) -> bool:
        operation = FindCollection(self._name, name, name_only=True)
        return await self._core.executor.execute(operation, session, limit) is not None


def name_of(name_or_object: Any) -> str:
    """The name of a collection or database, which may be given by its name."""
    name = name_or_object if isinstance(name_or_object, str) else getattr(name_or_object, "name", None)
    if not isinstance(name, str):
        raise TypeError(f"name={name_or_object!r} is wrong; allowed: a name, or an object that has one")
    return name
