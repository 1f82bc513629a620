"""Shell: the stream that an application reads a file from."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeVar

from motorlite._api.handles import AsyncCollection
from motorlite._api.time_limits import within
from motorlite._base.arguments import converted, instance, integer
from motorlite._base.deadline import NO_DEADLINE
from motorlite._base.values import DocumentView
from motorlite._gridfs.errors import CorruptGridFile
from motorlite._gridfs.files import SLICE, Content, Lines, Piece, StoredFile, equal, layout_of
from motorlite._gridfs.store import Store, check_session
from motorlite.errors import CursorNotFound, InvalidOperation, PyMongoError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from bson.codec_options import CodecOptions

    from motorlite._api.cursors.cursor import AsyncCursor
    from motorlite._api.session import AsyncClientSession
    from motorlite._api.turns import Turns
    from motorlite._base.deadline import Deadline
    from motorlite._gridfs.files import Layout


# The chunks of a stored file, one after the other, from one cursor.

# Bytes of the chunks that are asked for at once: a batch. The server never sends more than 16 MiB.
_READ_AHEAD: Final = 8 * 1024 * 1024
# Bytes of a chunk from which on its data is not copied out of the batch before it is asked for.
_LARGE_CHUNK: Final = 128 * 1024


@dataclass(slots=True, eq=False)
class ChunkReader:
    """Reads on from one chunk of a file.

    Args:
        chunks: The collection.
        file_id: The id of the file.
        layout: Its sizes.
        session: The session to use.
        number: The first chunk to read.
        wanted: How many bytes the first step surely reads. If they need several batches, the reader always requests
            the next one while one is worked through.
    """

    _chunks: AsyncCollection[Any]
    _file_id: Any
    _layout: Layout
    _session: AsyncClientSession | None
    # The chunk that is read next.
    number: int
    _wanted: int
    _cursor: AsyncCursor[Any] = field(init=False)
    _is_closed: bool = False

    def __post_init__(self) -> None:
        # Listeners get the usual documents.
        if self._layout.chunk_size >= _LARGE_CHUNK and not self._chunks._core.executor.reports.publish_command:
            views: CodecOptions[Any] = self._chunks.codec_options.with_options(document_class=DocumentView)
            self._chunks = self._chunks.with_options(views)
        self._cursor = self._open()

    def _open(self) -> AsyncCursor[Any]:
        # A transaction may have been started since the file was opened.
        check_session(self._session)
        query: dict[str, Any] = {"files_id": equal(self._file_id)}
        if self.number:
            query["n"] = {"$gte": self.number}
        # One more than there should be: then the server closes the cursor by itself, and a surplus chunk is noticed.
        batch_size = min(self._layout.count - self.number, max(1, _READ_AHEAD // self._layout.chunk_size)) + 1
        prefetch = int(self._wanted > _READ_AHEAD)
        return self._chunks.find(query, sort={"n": 1}, batch_size=batch_size, session=self._session, prefetch=prefetch)

    async def next(self) -> bytes | memoryview:
        """Return the data of the next chunk, perhaps as a view of its batch. With the last one, the cursor ends.

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
            document: Mapping[str, Any] = chunk.fields if isinstance(chunk, DocumentView) else chunk
            return document
        return None

    async def close(self) -> None:
        """Close the cursor."""
        self._is_closed = True
        await self._cursor.close()


T = TypeVar("T")


class AsyncGridOut(StoredFile):
    """A stored file that is being downloaded.

    Made by `AsyncGridFSBucket.open_download_stream`, `AsyncGridFS.get`, and by the cursors of `find`. Read from it, or
    iterate over its lines. One task may read at a time. A read that fails or is cancelled leaves the position where it
    was. Use ``async with`` or `close` if you may not read it to its end.

    Other attributes are fields of the file's document.

    Args:
        root_collection: The collection that is named like the bucket, ``database.fs``.
        file_id: The id of the file. Its document is read at the first use (`open`).
        file_document: Its document, if that is known already.
        session: The session to use.

    Raises:
        TypeError: `root_collection` is not a collection.
        InvalidOperation: The session is in a transaction.

    Source: GridFS specification.
    """

    __module__ = "motorlite.gridfs"

    __slots__ = (
        "__weakref__",
        "_deadline",
        "_file_id",
        "_is_busy",
        "_layout",
        "_piece",
        "_position",
        "_reader",
        "_session",
        "_store",
        "_turns",
        "closed",
    )

    def __init__(
        self,
        root_collection: AsyncCollection[Any],
        file_id: Any = None,
        file_document: Mapping[str, Any] | None = None,
        session: AsyncClientSession | None = None,
    ) -> None:
        instance("root_collection", root_collection, AsyncCollection)
        store = Store(root_collection)
        self._set_up(store, session, file_id, file_document, store.lifetime())

    @classmethod
    def _make(
        cls,
        store: Store,
        session: AsyncClientSession | None,
        file_id: Any = None,
        file: Mapping[str, Any] | None = None,
        deadline: Deadline = NO_DEADLINE,
    ) -> Self:
        made = cls.__new__(cls)
        made._set_up(store, session, file_id, file, deadline)
        return made

    def _set_up(
        self,
        store: Store,
        session: AsyncClientSession | None,
        file_id: Any,
        file: Mapping[str, Any] | None,
        deadline: Deadline,
    ) -> None:
        check_session(session)
        self._store: Store = store
        self._session: AsyncClientSession | None = session
        self._file_id: Any = file_id
        self._file = file
        # Of all operations together.
        self._deadline: Deadline = deadline
        # From the document, once something is read.
        self._layout: Layout | None = None
        # Bytes before the next one to read.
        self._position: int = 0
        # What is left of the newest chunk.
        self._piece: Piece = Piece()
        # The chunks after it; None until they are needed.
        self._reader: ChunkReader | None = None
        # When to yield to the event loop; None before the first step.
        self._turns: Turns | None = None
        # Whether a task is reading.
        self._is_busy: bool = False
        # Whether `close` was called.
        self.closed: bool = False

    async def open(self) -> None:
        """Read the document of the file, unless that is done already.

        Raises:
            NoFile: There is no such file.
            PyMongoError: The operation failed.

        Retries: as a retryable read (docs/retries.md).
        """
        if self._file is None:
            with within(self._deadline):
                self._file = await self._store.find_file(self._file_id, self._session)

    # --- reading ---

    async def read(self, size: int = -1) -> bytes:
        """Read bytes: all that are left, or at most `size`.

        Args:
            size: The maximum number of bytes; negative for all.

        Returns:
            The bytes; none at the end of the file.

        Raises:
            ValueError: The file is closed.
            CorruptGridFile: The file is not whole.
            NoFile: There is no such file.
            PyMongoError: An operation failed.

        Retries: find as a retryable read; getMore for overload errors only (docs/retries.md).
        """
        return await self._perform(lambda: self._read(converted("size", size, integer), is_line=False))

    async def readline(self, size: int = -1) -> bytes:
        """Read a line with its end, or at most `size` bytes of it.

        Args:
            size: The maximum number of bytes; negative for no limit.

        Raises:
            ValueError, CorruptGridFile, NoFile, PyMongoError: See `read`.

        Retries: find as a retryable read; getMore for overload errors only (docs/retries.md).
        """
        return await self._perform(lambda: self._read(converted("size", size, integer), is_line=True))

    async def readlines(self, size: int = -1) -> list[bytes]:
        """Read lines with their ends.

        Args:
            size: Stop after the line that takes the total above this number of bytes, as Python's files do; 0 or less
                for all lines.

        Raises:
            ValueError, CorruptGridFile, NoFile, PyMongoError: See `read`.

        Retries: find as a retryable read; getMore for overload errors only (docs/retries.md).
        """
        return await self._perform(lambda: self._read_lines(converted("size", size, integer)))

    async def readchunk(self) -> bytes:
        """Read the rest of the chunk at this position: what is there without waiting, or the whole next chunk.

        Returns:
            The bytes; none at the end of the file.

        Raises:
            ValueError, CorruptGridFile, NoFile, PyMongoError: See `read`.

        Retries: find as a retryable read; getMore for overload errors only (docs/retries.md).
        """
        return await self._perform(self._read_chunk)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if line := await self.readline():
            return line
        raise StopAsyncIteration

    async def to_list(self) -> list[bytes]:
        """Return the lines that are left.

        Raises:
            ValueError, CorruptGridFile, NoFile, PyMongoError: See `read`.

        Retries: find as a retryable read; getMore for overload errors only (docs/retries.md).
        """
        return await self.readlines()

    async def _perform(self, step: Callable[[], Awaitable[T]]) -> T:
        """Take a step of the download. If it fails, the next one begins at the same position."""
        if self.closed:
            raise ValueError("the file is closed")
        if self._is_busy:
            raise InvalidOperation("two tasks are reading from the same file; let them take turns")
        position = self._position
        self._is_busy = True
        try:
            await self.open()
            with within(self._deadline):
                # Most steps do not wait.
                await self._take_turn()
                return await step()
        except BaseException as error:
            if self.closed and isinstance(error, PyMongoError):  # by another task: then the cursor ends early
                raise ValueError("the file is closed") from None
            self._go_to(position)
            if isinstance(error, CorruptGridFile):
                await self._close_reader()
            # What the server still has of the cursor is closed in the background.
            self._reader = None
            raise
        finally:
            self._is_busy = False

    async def _read(self, size: int, *, is_line: bool) -> bytes:
        left = max(0, self._known_layout().length - self._position)
        needed = left if size < 0 else min(size, left)
        content = Content(0 if is_line else needed)
        while needed:
            if not self._piece:
                self._piece = await self._next_piece(0 if is_line else needed)
            piece = self._piece.take(self._piece.line_size(needed) if is_line else needed)
            content.add(piece)
            needed -= len(piece)
            self._position += len(piece)
            if is_line and piece[-1:] == b"\n":
                break
            del piece
        self._piece.own()
        return content.all()

    async def _read_lines(self, size: int) -> list[bytes]:
        left, lines = max(0, self._known_layout().length - self._position), Lines(size)
        while left and not lines.are_enough:
            if not self._piece:
                self._piece = await self._next_piece()
            data = bytes(self._piece.take(min(left, SLICE)))
            taken = lines.add(data)
            self._piece.move(taken - len(data))
            self._position += taken
            left -= taken
            await self._take_turn()
        return lines.all()

    async def _take_turn(self) -> None:
        if self._turns is None:
            self._turns = await self._store.turns(self._deadline)
        await self._turns.take()

    async def _read_chunk(self) -> bytes:
        if not self._piece and self._position < self._known_layout().length:
            self._piece = await self._next_piece()
        data = bytes(self._piece.take(len(self._piece)))
        self._position += len(data)
        return data

    async def _next_piece(self, wanted: int = 0) -> Piece:
        """Read the chunk of this position. `wanted` bytes are surely read from there on."""
        if self.closed:  # by another task, in the middle of this read
            raise ValueError("the file is closed")
        self._piece = Piece()  # the old one may keep its whole batch in memory
        layout = self._known_layout()
        number, offset = divmod(self._position, layout.chunk_size)
        if self._reader is not None and self._reader.number != number:
            await self._close_reader()
        if self._reader is None:
            document = self._document
            if "_id" not in document:
                raise CorruptGridFile("the file's document has no _id, so its chunks are unknown")
            self._reader = ChunkReader(self._store.chunks, document["_id"], layout, self._session, number, wanted)
        piece = Piece(await self._reader.next())
        await self._take_turn()
        piece.move(offset)
        return piece

    def _known_layout(self) -> Layout:
        if self._layout is None:
            self._layout = layout_of(self._document)
        return self._layout

    # --- the position ---

    def tell(self) -> int:
        """Return the position: the number of bytes before it."""
        return self._position

    async def seek(self, pos: int, whence: int = os.SEEK_SET) -> int:
        """Change the position. Chunks in between are not read.

        Args:
            pos: The position, or what to add to that which `whence` says.
            whence: `os.SEEK_SET` for the beginning of the file, `os.SEEK_CUR` for the position, `os.SEEK_END` for the
                end of the file.

        Returns:
            The position.

        Raises:
            OSError: The position would be negative, or `whence` is something else.
            ValueError: The file is closed.
            InvalidOperation: Another task is reading.
            CorruptGridFile, NoFile, PyMongoError: See `read`.

        Retries: find as a retryable read (docs/retries.md).
        """
        converted("pos", pos, integer)
        self._refuse_to_move()
        if whence == os.SEEK_END:
            await self.open()
            # Another task may have begun to read, or closed the file.
            self._refuse_to_move()
            pos += self._known_layout().length
        elif whence == os.SEEK_CUR:
            pos += self._position
        elif whence != os.SEEK_SET:
            raise OSError(errno.EINVAL, f"whence must be os.SEEK_SET, SEEK_CUR or SEEK_END, not {whence!r}")
        if pos < 0:
            raise OSError(errno.EINVAL, f"the position must not be negative, but would be {pos}")
        self._go_to(pos)
        return pos

    def _refuse_to_move(self) -> None:
        if self.closed:
            raise ValueError("the file is closed")
        if self._is_busy:
            raise InvalidOperation("another task is reading from the file")

    def _go_to(self, position: int) -> None:
        if not self._piece.move(position - self._position):
            self._piece = Piece()
        self._position = position

    # --- the end ---

    async def close(self) -> None:
        """Close the file, and the cursor that reads it.

        Retries: killCursors for overload errors only (docs/retries.md). Errors are not raised.
        """
        self.closed = True
        self._piece = Piece()
        await self._close_reader()

    async def _close_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            with within(self._deadline):
                await reader.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("an AsyncGridOut cannot be copied or pickled: a cursor on the server has a single reader")
