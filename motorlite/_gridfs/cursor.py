"""Shell: the cursor of files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Self

from motorlite._api.cursors.cursor import AsyncCursor
from motorlite._api.handles import AsyncCollection
from motorlite._base.arguments import instance
from motorlite._gridfs.files import checked_file
from motorlite._gridfs.grid_out import AsyncGridOut
from motorlite._gridfs.store import Store, check_session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._api.session import AsyncClientSession


class AsyncGridOutCursor(AsyncCursor[Any]):
    """The stored files that match a query, as `AsyncGridOut`, created by `find`.

    It can be used like any other `AsyncCursor`.

    Args:
        collection: The collection that is named like the bucket, ``database.fs``.
        filter: A query on the documents of files, ``{"metadata.author": "a"}``.
        skip: The number of files to skip.
        limit: The maximum number of files; 0 for all.
        no_cursor_timeout: Keep the cursor open on the server after ten minutes without use.
        sort: The order, as (field, direction) pairs or a mapping.
        batch_size: Files per batch; 0 lets the server choose.
        session: The session to use, for reading the files too.
        options: See `FindOptions`.

    Raises:
        TypeError, ValueError: An argument is wrong.
        InvalidOperation: The session is in a transaction.
    """

    __module__ = "motorlite.gridfs"

    __slots__ = ("_root", "_store")

    def __init__(
        self,
        collection: AsyncCollection[Any],
        filter: Mapping[str, Any] | None = None,
        skip: int = 0,
        limit: int = 0,
        no_cursor_timeout: bool = False,
        sort: Any = None,
        batch_size: int = 0,
        session: AsyncClientSession | None = None,
        **options: Any,
    ) -> None:
        instance("collection", collection, AsyncCollection)
        check_session(session)
        given = {
            "skip": skip,
            "limit": limit,
            "no_cursor_timeout": no_cursor_timeout,
            "sort": sort or None,
            "batch_size": batch_size,
            "session": session,
        }
        usual: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        self._root = collection
        self._store = Store(collection)
        files = self._store.files
        super().__init__(files, files._core, files._settings, files._names, filter, None, {**usual, **options})

    async def __anext__(self) -> AsyncGridOut:
        return self._file_of(await super().__anext__())

    async def next(self) -> AsyncGridOut:
        """Return the next file.

        Raises:
            StopAsyncIteration: There are no more files.

        Retries: getMore for overload errors only (docs/retries.md).
        """
        return await self.__anext__()

    async def to_list(self, length: int | None = None) -> list[AsyncGridOut]:
        """Return the remaining files.

        Args:
            length: The maximum number of files; None for all. The cursor stays open if there are more.

        Raises:
            TypeError, ValueError: `length` is not a positive integer.

        Retries: getMore for overload errors only (docs/retries.md).
        """
        return [self._file_of(document) for document in await super().to_list(length)]

    async def _next_batch(self) -> list[AsyncGridOut] | None:
        documents = await super()._next_batch()
        return None if documents is None else [self._file_of(document) for document in documents]

    def _file_of(self, document: Mapping[str, Any]) -> AsyncGridOut:
        file = checked_file(document)
        return AsyncGridOut._make(self._store, self._session, file=file, deadline=self._store.lifetime())

    def __copy__(self) -> Self:
        made = type(self)(self._root, self._filter, **self._options())
        made._is_empty = self._is_empty
        return made

    def add_option(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise NotImplementedError: queries for files have no flags.

        Args:
            args: Have no effect.
            kwargs: Have no effect.
        """
        raise NotImplementedError("a cursor of files has no flags")

    def remove_option(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise NotImplementedError: queries for files have no flags.

        Args:
            args: Have no effect.
            kwargs: Have no effect.
        """
        raise NotImplementedError("a cursor of files has no flags")
