"""Shell: the search indexes of a collection, maintained by Atlas Search."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from bson.codec_options import CodecOptions

from motorlite._api.arguments.method_options import AGGREGATE_CHECKS, TIME_CHECKS, AggregateOptions, TimeOptions
from motorlite._api.collection.base import CollectionBase
from motorlite._api.cursors.command_cursor import aggregation
from motorlite._api.turns import refused
from motorlite._api.typings import DocumentT
from motorlite._base.arguments import WrongType, checked, converted, mapping, text
from motorlite._base.pymongo_objects import is_like
from motorlite._operations.common import NAMESPACE_NOT_FOUND
from motorlite.errors import OperationFailure
from motorlite.operations import SearchIndexModel, model_documents
from motorlite.read_concern import ReadConcern
from motorlite.read_preferences import ReadPreference
from motorlite.write_concern import WriteConcern

if TYPE_CHECKING:
    from collections.abc import Sequence

    from motorlite._api.cursors.command_cursor import AsyncCommandCursor
    from motorlite._api.session import AsyncClientSession
    from motorlite._operations.common import SearchIndexWrite
    from motorlite._operations.contract import Call

# Decodes the server's metadata of indexes as plain dictionaries.
_PLAIN: CodecOptions[dict[str, Any]] = CodecOptions()


class AsyncCollection(CollectionBase[DocumentT]):
    """Search indexes. They ignore the collection's read preference, read concern and write concern."""

    __slots__ = ()

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

        Retries: overload errors only (up to 5, with backoff).

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

        Retries: overload errors only (up to 5, with backoff).

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

        Retries: overload errors only (up to 5, with backoff).

        Source: index management specification.
        """
        from motorlite._operations.indexes import UpdateSearchIndex

        converted("name", name, text)
        converted("definition", definition, mapping)
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

        Retries: overload errors only (up to 5, with backoff).

        Source: index management specification.
        """
        from motorlite._operations.indexes import DropSearchIndex

        converted("name", name, text)
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

        Retries: aggregate for overload errors (up to 5, with backoff) and once after a network error or a
        failover (retryable read); getMore for overload errors only.

        Source: index management specification.
        """
        from motorlite._operations.indexes import ListSearchIndexes, search_index_stages

        if name is not None:
            converted("name", name, text)
        further: dict[str, Any] = {}
        given = checked("list_search_indexes", options, AGGREGATE_CHECKS, further)
        given |= further
        if comment is not None:
            given["comment"] = comment
        settings = self._settings.derive(_PLAIN, ReadPreference.PRIMARY, WriteConcern(), ReadConcern(), None)
        stages = search_index_stages(name)
        return aggregation(self._core, settings, self._names, stages, session, given, ListSearchIndexes)

    async def _begin_change(
        self, method: str, session: AsyncClientSession | None, options: dict[str, Any]
    ) -> tuple[Call, int | None]:
        """Return the settings for a command that starts now, and its `maxTimeMS`."""
        given = checked(method, options, TIME_CHECKS)
        call = self._begin(session, given.get("timeoutMS")) or await refused()
        return call, given.get("maxTimeMS")

    async def _change_if_there(self, operation: SearchIndexWrite, call: Call) -> None:
        try:
            await self._core.executor.execute(operation, call)
        except OperationFailure as error:
            if error.code != NAMESPACE_NOT_FOUND:
                raise


def _search_index_document(value: Any) -> Mapping[str, Any]:
    """Return the document of a SearchIndexModel, or of a mapping with a model's arguments."""
    if is_like(value, SearchIndexModel):
        document: Mapping[str, Any] = value.document
        return document
    if not isinstance(value, Mapping) or "definition" not in value:
        raise WrongType("a SearchIndexModel, or a mapping with `definition`")
    return SearchIndexModel(**value).document
