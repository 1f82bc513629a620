"""Shell: indexes, options, rename and drop of a collection."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from bson.codec_options import CodecOptions

from motorlite._api.arguments.method_options import (
    RENAME_CHECKS,
    TIME_CHECKS,
    RenameOptions,
    TimeOptions,
    collection_name,
    given_write_concern,
)
from motorlite._api.collection.base import CollectionBase
from motorlite._api.commands import listed
from motorlite._api.cursors.command_cursor import AsyncCommandCursor
from motorlite._api.cursors.server_cursor import GetMoreOptions
from motorlite._api.time_limits import CursorLimits
from motorlite._api.turns import refused
from motorlite._api.typings import DocumentT
from motorlite._base.arguments import checked, converted, index_document, index_name, server_milliseconds, wrong
from motorlite._operations.common import ALL_INDEXES, NAMESPACE_NOT_FOUND
from motorlite._wire.replies import document, text
from motorlite.errors import OperationFailure
from motorlite.operations import IndexModel, model_documents
from motorlite.read_preferences import ReadPreference

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from motorlite._api.session import AsyncClientSession
    from motorlite._api.typings import TimeoutMode
    from motorlite._base.arguments import Hint

# Decodes the server's metadata of a collection as plain dictionaries.
_PLAIN: CodecOptions[dict[str, Any]] = CodecOptions()


class AsyncCollection(CollectionBase[DocumentT]):
    """Indexes, options, rename and drop."""

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

        Retries: overload errors only (up to 5, with backoff).

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

        Retries: overload errors only (up to 5, with backoff).

        Source: index management specification.
        """
        from motorlite._operations.indexes import CreateIndexes

        documents = converted("indexes", indexes, partial(model_documents, IndexModel))
        server_time = None if maxTimeMS is None else converted("maxTimeMS", maxTimeMS, server_milliseconds)
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

        Retries: overload errors only (up to 5, with backoff).

        Source: index management specification.
        """
        name = index_or_name
        if not isinstance(name, str):
            name = index_name(index_document(name, "index_or_name").items())
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

        Retries: overload errors only (up to 5, with backoff).

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

        further: dict[str, Any] = {}
        given = checked(method, options, TIME_CHECKS, further)
        write_concern = given_write_concern(further, self._write_concern(session))
        call = self._begin(session, given.get("timeoutMS"), write_concern.acknowledged) or await refused()
        operation = DropIndexes(
            *self._names,
            name,
            write_concern=write_concern,
            comment=comment,
            max_time_ms=given.get("maxTimeMS"),
            options=further,
        )
        try:
            await self._core.executor.execute(operation, call)
        except OperationFailure as error:
            if error.code != NAMESPACE_NOT_FOUND:
                raise

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

        Retries: listIndexes for overload errors (up to 5, with backoff) and once after a network error or a
        failover (retryable read); getMore for overload errors only.

        Source: index management specification.
        """
        from motorlite._operations.indexes import ListIndexes

        limits = CursorLimits(self._settings.timeout, timeoutMS, timeoutMode)

        def make() -> ListIndexes:
            primary = ReadPreference.PRIMARY
            return ListIndexes(
                *self._names,
                selector=primary,
                read_preference=primary,
                comment=comment,
                time_limit=limits.time_limit,
            )

        get_more = GetMoreOptions(comment=comment)
        call_options = self._settings.call_options
        return AsyncCommandCursor(
            self._core, session, limits, _PLAIN, get_more, call_options, make, means_empty={NAMESPACE_NOT_FOUND}
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

        Retries: listIndexes for overload errors (up to 5, with backoff) and once after a network error or a
        failover (retryable read); getMore for overload errors only.
        """
        found = {}
        cursor = self.list_indexes(session, comment, timeoutMS)
        for index in await cursor.to_list():
            index["key"] = list(listed(document, index, "key", cursor.address).items())
            found[listed(text, index, "name", cursor.address)] = index
            del index["name"]
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

        Retries: overload errors (up to 5, with backoff); network errors and failovers once (retryable read).
        """
        from motorlite._operations.collections import FindCollection

        call = self._begin(session, timeoutMS) or await refused()
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

        Retries: overload errors only (up to 5, with backoff).
        """
        from motorlite._operations.collections import Rename

        collection_name(new_name)
        further: dict[str, Any] = {}
        given = checked("rename", options, RENAME_CHECKS, further)
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
        timeoutMS: float | None = None,
    ) -> None:
        """Drop the collection. A missing collection is not an error.

        Args:
            session: The session to use.
            comment: Shown in the server's log and profile.
            timeoutMS: Time limit of the whole operation; 0 for no limit.

        Raises:
            PyMongoError: The operation failed.

        Retries: overload errors only (up to 5, with backoff).
        """
        await self._drop(session, comment, timeoutMS)

    async def _drop(self, session: AsyncClientSession | None, comment: Any, timeout_ms: float | None) -> dict[str, Any]:
        """Drop the collection and return the server's reply, for `AsyncDatabase.drop_collection`."""
        from motorlite._operations.collections import Drop

        write_concern = self._write_concern(session)
        call = self._begin(session, timeout_ms, write_concern.acknowledged) or await refused()
        operation = Drop(*self._names, write_concern=write_concern, comment=comment)
        try:
            return await self._core.executor.execute(operation, call) or {}
        except OperationFailure as error:
            if error.code != NAMESPACE_NOT_FOUND:
                raise
            return dict(error.details or {})
