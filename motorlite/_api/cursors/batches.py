"""Shell: iterates over a cursor batch by batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Self

from motorlite._api.cursors.base import CursorBase
from motorlite._api.typings import DocumentT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Batches(Generic[DocumentT]):
    """The remaining documents of a cursor, as lists: one for each batch."""

    __module__ = "motorlite.cursor"

    __slots__ = ("_cursor", "_next_batch")

    def __init__(self, cursor: object, next_batch: Callable[[], Awaitable[list[DocumentT] | None]]) -> None:
        self._cursor = cursor
        # Returns None at the end.
        self._next_batch = next_batch

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._cursor!r}>"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[DocumentT]:
        batch = await self._next_batch()
        if batch is None:
            raise StopAsyncIteration
        return batch


class BatchedCursor(CursorBase[DocumentT]):
    """A cursor that can be read batch by batch."""

    __slots__ = ()

    def batches(self) -> Batches[DocumentT]:
        """Return the remaining documents in lists, one for each batch: ``async for batch in cursor.batches()``.

        The first list has the rest of the current batch. A list has at least one document.

        Retries: getMore for overload errors only (up to 5, with backoff).
        """
        return Batches(self, self._next_batch)

    async def _next_batch(self) -> list[DocumentT] | None:
        if not (self._documents or await self._fill()):
            return None
        documents = list(self._documents)
        self._documents.clear()
        return documents
