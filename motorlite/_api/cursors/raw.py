"""Shell: cursors that return each batch as the bytes of its documents, for programs with a decoder of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from bson.raw_bson import RawBSONDocument

from motorlite._api.cursors.command_cursor import AsyncCommandCursor
from motorlite._api.cursors.cursor import AsyncCursor
from motorlite.errors import InvalidOperation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._api.settings import Settings


def raw_settings(settings: Settings) -> Settings:
    """Return settings that leave the documents of replies as they are."""
    options: Any = settings.codec_options.with_options(document_class=RawBSONDocument)
    return settings.derive(options, None, None, None, None)


class AsyncRawBatchCursor(AsyncCursor[Any]):
    """The matching documents of a query, batch by batch, created by `AsyncCollection.find_raw_batches`.

    Each item is the concatenation of the documents of one batch as BSON, for example for `bson.decode_all`. Otherwise
    it is used like an `AsyncCursor`.
    """

    __module__ = "motorlite.cursor"

    __slots__ = ()

    _is_raw: ClassVar[bool] = True

    async def __anext__(self) -> bytes:
        batch: bytes = await super().__anext__()
        return batch

    async def next(self) -> bytes:
        """Return the next batch.

        Raises:
            StopAsyncIteration: There are no more documents.

        Retries: getMore for overload errors only (up to 5, with backoff).
        """
        return await self.__anext__()

    async def explain(self, timeoutMS: float | None = None) -> Mapping[str, Any]:
        """Return the server's plan for this query, as a document.

        Args:
            timeoutMS: Time limit of the operation; 0 for no limit.

        Retries: overload errors only (up to 5, with backoff).
        """
        # With the collection's own codec options.
        return await self._clone(AsyncCursor, self._collection._settings).explain(timeoutMS)

    def __getitem__(self, index: slice) -> NoReturn:
        """Reject an index: it would count batches."""
        raise InvalidOperation("a raw batch cursor has no items; use skip() and limit(), which count documents")


class AsyncRawBatchCommandCursor(AsyncCommandCursor[Any]):
    """The result of an aggregation, batch by batch, created by `AsyncCollection.aggregate_raw_batches`.

    Each item is the concatenation of the documents of one batch as BSON, for example for `bson.decode_all`. Otherwise
    it is used like an `AsyncCommandCursor`.
    """

    __module__ = "motorlite.cursor"

    __slots__ = ()

    async def __anext__(self) -> bytes:
        batch: bytes = await super().__anext__()
        return batch

    async def next(self) -> bytes:
        """Return the next batch.

        Raises:
            StopAsyncIteration: There are no more documents.

        Retries: getMore for overload errors only (up to 5, with backoff).
        """
        return await self.__anext__()
