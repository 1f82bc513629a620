"""Shell: indexes, search indexes (of Atlas Search), options, rename and drop of a collection."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from motorlite._api.arguments.checks import checks_of, collection_name, given_options, given_write_concern, optional
from motorlite._api.arguments.method_options import AggregateOptions, RenameOptions, TimeOptions
from motorlite._api.collection.base import CollectionBase
from motorlite._api.cursors.command_cursor import AsyncCommandCursor, aggregation
from motorlite._api.lists import PLAIN, list_cursor, listed
from motorlite._api.turns import refused
from motorlite._api.typings import DocumentT
from motorlite._base import arguments
from motorlite._base.arguments import WrongType, checked, converted, index_document, is_like, server_milliseconds, wrong
from motorlite._operations.common import ALL_INDEXES, NAMESPACE_NOT_FOUND
from motorlite._operations.contract import Call
from motorlite._wire.replies import document, text
from motorlite.errors import OperationFailure
from motorlite.operations import IndexModel, SearchIndexModel, model_documents
from motorlite.read_concern import ReadConcern
from motorlite.read_preferences import ReadPreference
from motorlite.write_concern import WriteConcern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from motorlite._api.session import AsyncClientSession
    from motorlite._api.typings import TimeoutMode
    from motorlite._base.arguments import Hint
    from motorlite._operations.contract import Operation


class AsyncCollection(CollectionBase[DocumentT]):
    """Indexes, search indexes, options, rename and drop."""

    __slots__ = ()

    async def create_index(
        self,
        keys: Hint,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        *,
        commitQuorum: int | str | None = None,
        maxTimeMS: float | None = None,
        timeoutMS: float | None = None,
        **kwargs: Any,
    ) -> str:
        """Create an index and return its name. An existing index is not an error.

        Args:
            keys: A field, or a list of fields and (field, direction) pairs.
            session: The session to use.
            comment: Shown in the server's log and profile.
            commitQuorum: The number of members that must be ready (MongoDB 4.4 and later).
            maxTimeMS: Time limit on the server, milliseconds; ignored if a timeout is set.
            timeoutMS: Time limit of the whole operation; 0 for no limit.
            kwargs: Options of the index by their server names: `name`, `unique`, `sparse`,
                `expireAfterSeconds`, `partialFilterExpression`, `collation`, `hidden` ...

        Raises:
            TypeError, ValueError: An argument is wrong.
            PyMongoError: The operation failed.

        Retries: overload errors only (docs/retries.md).

        Source: index management specification.
        """
        names = await self.create_indexes(
            [IndexModel(keys, **kwargs)],
            session,
            comment,
            commitQuorum=commitQuorum,
            maxTimeMS=maxTimeMS,
            timeoutMS=timeoutMS,
        )
        return names[0]

    async def create_indexes(
        self,
        indexes: Sequence[IndexModel],
        session: AsyncClientSession | None = None,
        comment: Any = None,
        *,
        commitQuorum: int | str | None = None,
        maxTimeMS: float | None = None,
        timeoutMS: float | None = None,
        **options: Any,
    ) -> list[str]:
        """Create indexes and return their names. Existing indexes are not an error.

        Args:
            indexes: The indexes, as IndexModel (PyMongo's are accepted).
            session: The session to use.
            comment: Shown in the server's log and profile.
            commitQuorum: The number of members that must be ready (MongoDB 4.4 and later).
            maxTimeMS: Time limit on the server, milliseconds; ignored if a timeout is set.
            timeoutMS: Time limit of the whole operation; 0 for no limit.
            options: Further fields of the command, under their server names.

        Raises:
            TypeError, ValueError: An argument is wrong.
            PyMongoError: The operation failed.

        Retries: overload errors only (docs/retries.md).

        Source: index management specification.
        """
        from motorlite._operations.indexes import CreateIndexes

        documents = converted("indexes", indexes, partial(model_documents, IndexModel))
        server_time = optional("maxTimeMS", maxTimeMS, server_milliseconds)
        further: dict[str, Any] = {}
        checked("create_indexes", options, {}, further)
        write_concern = given_write_concern(further, self._write_concern(session))
        call = self._begin(session, timeoutMS, write_concern.acknowledged) or await refused()
        operation = CreateIndexes(
            *self._names,
            documents,
            codec_options=self._settings.codec_options,
            write_concern=write_concern,
            commit_quorum=commitQuorum,
            comment=comment,
            max_time_ms=server_time,
            options=further,
        )
        return await self._core.executor.execute(operation, call)

    async def drop_index(
        self,
        index_or_name: Hint,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        **options: Unpack[TimeOptions],
    ) -> None:
        """Drop an index. A missing collection is not an error.

        Args:
            index_or_name: The index's name or keys.
            session: The session to use.
            comment: Shown in the server's log and profile.
            options: See `TimeOptions`.

        Raises:
            TypeError, ValueError: An argument is wrong. `"*"` is rejected; see `drop_indexes`.
            OperationFailure: There is no such index, or the operation failed.

        Retries: overload errors only (docs/retries.md).

        Source: index management specification.
        """
        name = index_or_name
        if not isinstance(name, str):
            index_document(name, "index_or_name")
            name = arguments.index_name(name)
        if name == ALL_INDEXES:
            raise ValueError(wrong("index_or_name", index_or_name, "one index (drop_indexes() drops all)"))
        await self._drop_indexes("drop_index", name, session, comment, {**options})

    async def drop_indexes(
        self,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        **options: Unpack[TimeOptions],
    ) -> None:
        """Drop all indexes except the one on `_id`. A missing collection is not an error.

        Args:
            session: The session to use.
            comment: Shown in the server's log and profile.
            options: See `TimeOptions`.

        Raises:
            TypeError, ValueError: An argument is wrong.
            PyMongoError: The operation failed.

        Retries: overload errors only (docs/retries.md).

        Source: index management specification.
        """
        await self._drop_indexes("drop_indexes", ALL_INDEXES, session, comment, {**options})

    async def _drop_indexes(
        self,
        method: str,
        name: str,
        session: AsyncClientSession | None,
        comment: Any,
        options: dict[str, Any],
    ) -> None:
        from motorlite._operations.indexes import DropIndexes

        given, further = given_options(method, TimeOptions, options)
        write_concern = given_write_concern(further, self._write_concern(session))
        call = self._begin(session, given.get("timeoutMS"), write_concern.acknowledged) or await refused()
        operation = DropIndexes(
            *self._names,
            name,
            codec_options=self._settings.codec_options,
            write_concern=write_concern,
            comment=comment,
            max_time_ms=given.get("maxTimeMS"),
            options=further,
        )
        await self._change_if_there(operation, call)

    def list_indexes(
        self,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        timeoutMS: float | None = None,
        timeoutMode: TimeoutMode | None = None,
    ) -> AsyncCommandCursor[dict[str, Any]]:
        """List the indexes, as a cursor. Empty for a missing collection.

        Args:
            session: The session to use.
            comment: Shown in the server's log and profile.
            timeoutMS: Time limit of the cursor; 0 for no limit.
            timeoutMode: Whether it limits the ``"cursorLifetime"`` or each ``"iteration"``.

        Raises:
            TypeError, ValueError: An argument is wrong.
            ConfigurationError: `timeoutMode` without a timeout.

        Retries: listIndexes as a retryable read; getMore for overload errors only (docs/retries.md).

        Source: index management specification.
        """
        from motorlite._operations.indexes import ListIndexes

        options = {"timeoutMS": timeoutMS, "timeoutMode": timeoutMode}
        return list_cursor(
            self._core,
            self._settings,
            session,
            ListIndexes,
            *self._names,
            comment=comment,
            options=options,
            means_empty={NAMESPACE_NOT_FOUND},
        )

    async def index_information(
        self,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        timeoutMS: float | None = None,
    ) -> dict[str, Any]:
        """Return the indexes by name, each with its `key` as a list of pairs and its options.

        Args:
            session: The session to use.
            comment: Shown in the server's log and profile.
            timeoutMS: Time limit of the whole operation; 0 for no limit.

        Raises:
            PyMongoError: The operation failed.

        Retries: listIndexes as a retryable read; getMore for overload errors only (docs/retries.md).
        """
        found = {}
        cursor = self.list_indexes(session, comment, timeoutMS)
        for index in await cursor.to_list():
            key = list(listed(document, index, "key", cursor.address).items())
            name = listed(text, index, "name", cursor.address)
            # A copy, since a listener may have kept the reply.
            found[name] = {**index, "key": key}
            del found[name]["name"]
        return found

    async def options(
        self,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        timeoutMS: float | None = None,
    ) -> dict[str, Any]:
        """Return the options that the collection was created with. Empty for a missing collection.

        Args:
            session: The session to use.
            comment: Shown in the server's log and profile.
            timeoutMS: Time limit of the whole operation; 0 for no limit.

        Raises:
            PyMongoError: The operation failed.

        Retries: as a retryable read (docs/retries.md).
        """
        return await self._found(comment, self._begin(session, timeoutMS) or await refused())

    async def _found(self, comment: Any, call: Call) -> dict[str, Any]:
        """Return the collection's options as the server has them."""
        from motorlite._operations.collections import FindCollection

        operation = FindCollection(self._database_name, self._name, comment=comment)
        found = await self._core.executor.execute(operation, call)
        options: dict[str, Any] = (found or {}).get("options") or {}
        return options

    async def rename(
        self,
        new_name: str,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        **options: Unpack[RenameOptions],
    ) -> Mapping[str, Any]:
        """Rename the collection and return the server's reply. This object keeps the old name.

        Args:
            new_name: The new name, in the same database.
            session: The session to use.
            comment: Shown in the server's log and profile.
            options: See `RenameOptions`.

        Raises:
            TypeError, ValueError: An argument is wrong.
            InvalidName: The name is invalid.
            PyMongoError: The operation failed.

        Retries: overload errors only (docs/retries.md).
        """
        from motorlite._operations.collections import Rename

        collection_name(new_name)
        given, further = given_options("rename", RenameOptions, options)
        write_concern = given_write_concern(further, self._write_concern(session))
        call = self._begin(session, given.pop("timeoutMS", None), write_concern.acknowledged) or await refused()
        operation = Rename(
            *self._names, new_name, write_concern=write_concern, comment=comment, options=given | further
        )
        return await self._core.executor.execute(operation, call)

    async def drop(
        self,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        encrypted_fields: Mapping[str, Any] | None = None,
        timeoutMS: float | None = None,
    ) -> None:
        """Drop the collection. A missing collection is not an error.

        Args:
            session: The session to use.
            comment: Shown in the server's log and profile.
            encrypted_fields: Its fields of queryable encryption, whose state is dropped too; those of the client's
                `encrypted_fields_map` by default.
            timeoutMS: Time limit of the whole operation; 0 for no limit.

        Raises:
            PyMongoError: The operation failed.

        Retries: overload errors only (docs/retries.md).
        """
        await self._drop(session, comment, encrypted_fields, timeoutMS)

    async def _drop(
        self,
        session: AsyncClientSession | None,
        comment: Any,
        encrypted_fields: Mapping[str, Any] | None,
        timeout_ms: float | None,
    ) -> dict[str, Any]:
        """Drop the collection and return the server's reply, for `AsyncDatabase.drop_collection`."""
        from motorlite._operations.collections import Drop

        write_concern = self._write_concern(session)
        call = self._begin(session, timeout_ms, write_concern.acknowledged) or await refused()
        operation = Drop(*self._names, write_concern=write_concern, comment=comment)
        fields = encrypted_fields or self._core.encrypted_fields(*self._names)
        if not fields and self._core.options.auto_encryption_opts is not None:
            found = await self._found(comment, call)
            fields = document(found, "encryptedFields") if found.get("encryptedFields") is not None else None
        if fields:
            from motorlite._operations.encrypted_collections import removal

            for each in removal(*self._names, fields, write_concern):
                await self._change_if_there(each, call)
        return await self._change_if_there(operation, call)

    async def _change_if_there(self, operation: Operation[Any], call: Call) -> dict[str, Any]:
        """Execute an operation on a collection that may be missing, and return the server's reply."""
        executor, operation_id = self._core.executor, self._core.new_operation_id()
        names = (operation.operation_name or operation.name, operation.database, operation.collection_name)
        call = Call(call.session, call.deadline, operation_id, call.options)
        # Published here: for listeners and statistics, too, the operation succeeds where the collection is missing.
        with executor.published(*names, operation_id, call.session):
            try:
                return await executor.execute(operation, call) or {}
            except OperationFailure as error:
                if error.code != NAMESPACE_NOT_FOUND:
                    raise
                return dict(error.details or {})

    # --- search indexes, which ignore the collection's read preference, read concern and write concern ---

    async def create_search_index(
        self,
        model: Mapping[str, Any] | SearchIndexModel,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        **options: Unpack[TimeOptions],
    ) -> str:
        """Create a search index and return its name (MongoDB 7.0 and later, with Atlas Search).

        The server replies before the index is ready. `list_search_indexes` shows when it is `queryable`.

        Args:
            model: The index: a SearchIndexModel, or a mapping with its `definition`, and `name` and `type` if needed.
            session: The session to use.
            comment: Shown in the server's log and profile.
            options: See `TimeOptions`.

        Raises:
            TypeError, ValueError: An argument is wrong.
            PyMongoError: The operation failed.

        Retries: overload errors only (docs/retries.md).

        Source: index management specification.
        """
        documents = [converted("model", model, _search_index_document)]
        names = await self._create_search_indexes("create_search_index", documents, session, comment, {**options})
        return names[0]

    async def create_search_indexes(
        self,
        models: Sequence[SearchIndexModel],
        session: AsyncClientSession | None = None,
        comment: Any = None,
        **options: Unpack[TimeOptions],
    ) -> list[str]:
        """Create search indexes and return their names (MongoDB 7.0 and later, with Atlas Search).

        The server replies before the indexes are ready. `list_search_indexes` shows which are `queryable`.

        Args:
            models: The indexes.
            session: The session to use.
            comment: Shown in the server's log and profile.
            options: See `TimeOptions`.

        Raises:
            TypeError, ValueError: An argument is wrong.
            PyMongoError: The operation failed.

        Retries: overload errors only (docs/retries.md).

        Source: index management specification.
        """
        documents = converted("models", models, partial(model_documents, SearchIndexModel))
        return await self._create_search_indexes("create_search_indexes", documents, session, comment, {**options})

    async def _create_search_indexes(
        self,
        method: str,
        documents: list[Mapping[str, Any]],
        session: AsyncClientSession | None,
        comment: Any,
        options: dict[str, Any],
    ) -> list[str]:
        from motorlite._operations.indexes import CreateSearchIndexes

        call, server_time = await self._begin_change(method, session, options)
        operation = CreateSearchIndexes(*self._names, documents, comment=comment, max_time_ms=server_time)
        return await self._core.executor.execute(operation, call)

    async def update_search_index(
        self,
        name: str,
        definition: Mapping[str, Any],
        session: AsyncClientSession | None = None,
        comment: Any = None,
        **options: Unpack[TimeOptions],
    ) -> None:
        """Replace the definition of a search index. A missing collection is not an error.

        The server replies before the index is ready. `list_search_indexes` shows when its `status` is READY.

        Args:
            name: The name of the index.
            definition: The new definition.
            session: The session to use.
            comment: Shown in the server's log and profile.
            options: See `TimeOptions`.

        Raises:
            TypeError, ValueError: An argument is wrong.
            OperationFailure: There is no such index, or the operation failed.

        Retries: overload errors only (docs/retries.md).

        Source: index management specification.
        """
        from motorlite._operations.indexes import UpdateSearchIndex

        converted("name", name, arguments.text)
        converted("definition", definition, arguments.mapping)
        call, server_time = await self._begin_change("update_search_index", session, {**options})
        operation = UpdateSearchIndex(*self._names, name, definition, comment=comment, max_time_ms=server_time)
        await self._change_if_there(operation, call)

    async def drop_search_index(
        self,
        name: str,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        **options: Unpack[TimeOptions],
    ) -> None:
        """Drop a search index. A missing collection is not an error.

        The server replies before the index is gone. `list_search_indexes` shows when it is.

        Args:
            name: The name of the index.
            session: The session to use.
            comment: Shown in the server's log and profile.
            options: See `TimeOptions`.

        Raises:
            TypeError, ValueError: An argument is wrong.
            OperationFailure: There is no such index, or the operation failed.

        Retries: overload errors only (docs/retries.md).

        Source: index management specification.
        """
        from motorlite._operations.indexes import DropSearchIndex

        converted("name", name, arguments.text)
        call, server_time = await self._begin_change("drop_search_index", session, {**options})
        operation = DropSearchIndex(*self._names, name, comment=comment, max_time_ms=server_time)
        await self._change_if_there(operation, call)

    def list_search_indexes(
        self,
        name: str | None = None,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        **options: Unpack[AggregateOptions],
    ) -> AsyncCommandCursor[dict[str, Any]]:
        """List the search indexes, as a cursor (MongoDB 7.0 and later, with Atlas Search).

        Args:
            name: The name of a single index to list; None for all.
            session: The session to use.
            comment: Shown in the server's log and profile.
            options: See `AggregateOptions`.

        Raises:
            TypeError, ValueError: An argument is wrong; the message names the allowed values.
            ConfigurationError: `timeoutMode` without a timeout.

        Retries: aggregate as a retryable read; getMore for overload errors only (docs/retries.md).

        Source: index management specification.
        """
        from motorlite._operations.indexes import ListSearchIndexes, search_index_stages

        optional("name", name, arguments.text)
        given, further = given_options("list_search_indexes", AggregateOptions, options)
        if comment is not None:
            given["comment"] = comment
        settings = self._settings.derive(PLAIN, ReadPreference.PRIMARY, WriteConcern(), ReadConcern(), None)
        stages = search_index_stages(name)
        names = self._names
        return aggregation(
            AsyncCommandCursor, self._core, settings, names, stages, session, given, further, ListSearchIndexes
        )

    async def _begin_change(
        self, method: str, session: AsyncClientSession | None, options: dict[str, Any]
    ) -> tuple[Call, int | None]:
        """Return the settings for a command that starts now, and its `maxTimeMS`."""
        given = checked(method, options, checks_of(TimeOptions))
        call = self._begin(session, given.get("timeoutMS")) or await refused()
        return call, given.get("maxTimeMS")


def _search_index_document(value: Any) -> Mapping[str, Any]:
    """Return the document of a SearchIndexModel, or of a mapping with a model's arguments."""
    if is_like(value, SearchIndexModel):
        document: Mapping[str, Any] = value.document
        return document
    if not isinstance(value, Mapping) or "definition" not in value:
        raise WrongType("a SearchIndexModel, or a mapping with `definition`")
    return SearchIndexModel(**value).document
