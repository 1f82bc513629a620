"""Shell: the chunks of a stored file, one after the other, from one cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from motorlite._gridfs.documents import equal
from motorlite._gridfs.errors import CorruptGridFile
from motorlite.errors import CursorNotFound

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._api.cursors.cursor import AsyncCursor
    from motorlite._api.handles import AsyncCollection
    from motorlite._api.session import AsyncClientSession
    from motorlite._gridfs.downloads.layout import Layout

# Bytes of the chunks that are asked for at once: a batch. The server never sends more than 16 MiB.
_READ_AHEAD: Final = 8 * 1024 * 1024


class ChunkReader:
    """Reads on from one chunk of a file.

    Args:
        chunks: The collection.
        file_id: The id of the file.
        layout: Its sizes.
        session: The session to use.
        number: The first chunk to read.
    """

    __slots__ = ("_chunks", "_cursor", "_file_id", "_is_closed", "_layout", "_session", "number")

    def __init__(
        self,
        chunks: AsyncCollection[Any],
        file_id: Any,
        layout: Layout,
        session: AsyncClientSession | None,
        number: int,
    ) -> None:
        self._chunks = chunks
        self._file_id = file_id
        self._layout = layout
        self._session = session
        # The chunk that is read next.
        self.number: int = number
        self._is_closed: bool = False
        self._cursor: AsyncCursor[Any] = self._open()

    def _open(self) -> AsyncCursor[Any]:
        query: dict[str, Any] = {"files_id": equal(self._file_id)}
        if self.number:
            query["n"] = {"$gte": self.number}
        # One more than there should be: then the server closes the cursor by itself, and a surplus chunk is noticed.
        batch_size = min(self._layout.count - self.number, max(1, _READ_AHEAD // self._layout.chunk_size)) + 1
        return self._chunks.find(query, sort={"n": 1}, batch_size=batch_size, session=self._session)

    async def next(self) -> bytes:
        """Return the data of the next chunk. With the last one, the cursor is read to its end.

        Raises:
            CorruptGridFile: The chunk is missing or of a wrong size, or there are too many.
        """
        number, layout = self.number, self._layout
        chunk = await self._next_document()
        if chunk is None:
            raise CorruptGridFile(f"chunk {number} of {layout.count} is missing; there are no more")
        data = layout.data_of(chunk, number)
        self.number += 1
        if self.number == layout.count:
            surplus = await self._next_document()
            if surplus is not None:
                layout.check_surplus(surplus)
        return data

    async def _next_document(self) -> Mapping[str, Any] | None:
        try:
            return await self._step()
        except CursorNotFound:
            if self._is_closed:
                raise
            # The server closes cursors that are not read for ten minutes.
            self._cursor = self._open()
            return await self._step()

    async def _step(self) -> Mapping[str, Any] | None:
        async for chunk in self._cursor:
            document: Mapping[str, Any] = chunk
            return document
        return None

    async def close(self) -> None:
        """Close the cursor."""
        self._is_closed = True
        await self._cursor.close()
