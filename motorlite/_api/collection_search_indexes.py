"""Shell: search indexes of a collection, which Atlas Search keeps."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from bson.codec_options import CodecOptions

from motorlite._api.aggregation import aggregation
from motorlite._api.collection_base import CollectionBase
from motorlite._api.method_options import AGGREGATE_CHECKS, TIME_CHECKS, AggregateOptions, TimeOptions
from motorlite._api.typings import DocumentT
from motorlite._api.validation import checked, converted, mapping, text
from motorlite._operations.common import NAMESPACE_NOT_FOUND
from motorlite._operations.create_search_indexes import CreateSearchIndexes
from motorlite._operations.drop_search_index import DropSearchIndex
from motorlite._operations.list_search_indexes import ListSearchIndexes, search_index_stages
from motorlite._operations.update_search_index import UpdateSearchIndex
from motorlite._pymongo_objects import is_like
from motorlite.concerns import ReadConcern, WriteConcern
from motorlite.errors import OperationFailure
from motorlite.read_preferences import ReadPreference
from motorlite.requests import SearchIndexModel, model_documents

if TYPE_CHECKING:
    from collections.abc import Sequence

    from motorlite._api.command_cursor import AsyncCommandCursor
    from motorlite._api.session import AsyncClientSession
    from motorlite._execution.session import Session
    from motorlite._operations.common import SearchIndexWrite
    from motorlite.deadline import Deadline

# What the server says about indexes is decoded as plain dictionaries.
_PLAIN: CodecOptions[dict[str, Any]] = CodecOptions()


class CollectionSearchIndexes(CollectionBase[DocumentT]):
    """Search indexes. The collection's read preference, read concern and write concern do not matter to them."""

    __slots__ = ()

    async def create_search_index(
        self,
        model: Mapping[str, Any] | SearchIndexModel,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        **options: Unpack[TimeOptions],
    ) -> str:
        """Create a search index and return its name (MongoDB 7.0 and later, with Atlas Search).

        The server answers before the index is ready: `list_search_indexes` tells when it is `queryable`.

        Args:
            model: What to create, or a mapping with its `definition`, and `name` and `type` if needed.
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

        The server answers before the indexes are ready: `list_search_indexes` tells which are `queryable`.

        Args:
            models: What to create.
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
        state, limit, server_time = self._begin_change(method, session, options)
        operation = CreateSearchIndexes(*self._names, documents, comment=comment, max_time_ms=server_time)
        names: list[str] = await self._core.executor.execute(operation, state, limit)
        return names

    async def update_search_index(
        self,
        name: str,
        definition: Mapping[str, Any],
        session: AsyncClientSession | None = None,
        comment: Any = None,
        **options: Unpack[TimeOptions],
    ) -> None:
        """Give a search index another definition. A collection that does not exist is no error.

        The server answers before the index is ready: `list_search_indexes` tells when its `status` is READY.

        Args:
            name: The name of the index.
            definition: What is indexed, instead of the old definition.
            session: The session to use.
            comment: Shown in the server's log and profile.
            options: See `TimeOptions`.

        Raises:
            TypeError, ValueError: An argument is wrong.
            OperationFailure: There is no such index, or the operation failed.

        Retries: overload errors only (up to 5, with backoff).

        Source: index management specification.
        """
        converted("name", name, text)
        converted("definition", definition, mapping)
        state, limit, server_time = self._begin_change("update_search_index", session, {**options})
        operation = UpdateSearchIndex(*self._names, name, definition, comment=comment, max_time_ms=server_time)
        await self._change_if_there(operation, state, limit)

    async def drop_search_index(
        self,
        name: str,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        **options: Unpack[TimeOptions],
    ) -> None:
        """Drop a search index. A collection that does not exist is no error.

        The server answers before the index is gone: `list_search_indexes` tells when it is.

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
        converted("name", name, text)
        state, limit, server_time = self._begin_change("drop_search_index", session, {**options})
        operation = DropSearchIndex(*self._names, name, comment=comment, max_time_ms=server_time)
        await self._change_if_there(operation, state, limit)

    def list_search_indexes(
        self,
        name: str | None = None,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        **options: Unpack[AggregateOptions],
    ) -> AsyncCommandCursor[dict[str, Any]]:
        """The search indexes, as a cursor (MongoDB 7.0 and later, with Atlas Search).

        Args:
            name: Only the index with this name; None for all.
            session: The session to use.
            comment: Shown in the server's log and profile.
            options: See `AggregateOptions`.

        Raises:
            TypeError, ValueError: An argument is wrong; the message says what is allowed.
            ConfigurationError: `timeoutMode` without a timeout.

        Retries: aggregate for overload errors (up to 5, with backoff) and once after a network error or a
        failover (retryable read); getMore for overload errors only.

        Source: index management specification.
        """
        if name is not None:
            converted("name", name, text)
        given = checked("list_search_indexes", options, AGGREGATE_CHECKS)
        if comment is not None:
            given["comment"] = comment
        settings = self._settings.derive(_PLAIN, ReadPreference.PRIMARY, WriteConcern(), ReadConcern(), None)
        stages = search_index_stages(name)
        return aggregation(self._core, settings, self._names, stages, session, given, ListSearchIndexes)

    def _begin_change(
        self, method: str, session: AsyncClientSession | None, options: dict[str, Any]
    ) -> tuple[Session | None, Deadline, int | None]:
        """Session, deadline and `maxTimeMS` of a command that starts now."""
        given = checked(method, options, TIME_CHECKS)
        state, limit = self._begin(session, given.get("timeoutMS"))
        # A timeout replaces the user's maxTimeMS.
        return state, limit, None if limit.is_set else given.get("maxTimeMS")

    async def _change_if_there(self, operation: SearchIndexWrite, session: Session | None, limit: Deadline) -> None:
        try:
            await self._core.executor.execute(operation, session, limit)
        except OperationFailure as error:
            if error.code != NAMESPACE_NOT_FOUND:
                raise


def _search_index_document(value: Any) -> Mapping[str, Any]:
    """The document of a SearchIndexModel, or of a mapping with the arguments of one."""
    if is_like(value, SearchIndexModel):
        document: Mapping[str, Any] = value.document
        return document
    if not isinstance(value, Mapping) or "definition" not in value:
        raise TypeError("allowed is a SearchIndexModel, or a mapping with `definition`")
    return SearchIndexModel(**value).document
