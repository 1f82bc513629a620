"""Shell: a bucket's methods for downloads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._api.time_limits import within
from motorlite._base.arguments import converted, text
from motorlite._gridfs.bucket_uploads import BucketBase
from motorlite._gridfs.grid_out import AsyncGridOut
from motorlite._gridfs.streams import Destination

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._api.session import AsyncClientSession


class AsyncGridFSBucket(BucketBase):
    """download_to_stream, open_download_stream."""

    __slots__ = ()

    async def open_download_stream(
        self, file_id: Any, session: AsyncClientSession | None = None, *, timeoutMS: float | None = None
    ) -> AsyncGridOut:
        """Return a stream to read a file from.

        Args:
            file_id: The id of the file.
            session: The session to use.
            timeoutMS: Time limit of the whole life of the stream; 0 for no limit.

        Raises:
            NoFile: There is no such file.
            InvalidOperation: The session is in a transaction.
            PyMongoError: The operation failed.

        Retries: overload errors (up to 5, with backoff); network errors and failovers once (retryable read).

        Source: GridFS specification.
        """
        stream = AsyncGridOut._make(self._store, session, file_id, deadline=self._store.lifetime(timeoutMS))
        await stream.open()
        return stream

    async def open_download_stream_by_name(
        self,
        filename: str,
        revision: int = -1,
        session: AsyncClientSession | None = None,
        *,
        timeoutMS: float | None = None,
    ) -> AsyncGridOut:
        """Return a stream to read a file from.

        Args:
            filename: The name of the file.
            revision: Which of the files with this name: 0 for the oldest, 1 for the next ..., -1 for the newest, -2 for
                the one before ...
            session: The session to use.
            timeoutMS: Time limit of the whole life of the stream; 0 for no limit.

        Raises:
            TypeError: An argument is wrong.
            NoFile: There is no such file, or no such revision of it.
            InvalidOperation: The session is in a transaction.
            PyMongoError: The operation failed.

        Retries: overload errors (up to 5, with backoff); network errors and failovers once (retryable read).

        Source: GridFS specification.
        """
        converted("filename", filename, text)
        deadline = self._store.lifetime(timeoutMS)
        with within(deadline):
            file = await self._store.find_revision({"filename": filename}, revision, session)
        return AsyncGridOut._make(self._store, session, file=file, deadline=deadline)

    async def download_to_stream(
        self,
        file_id: Any,
        destination: Any,
        session: AsyncClientSession | None = None,
        *,
        progress: Callable[[int, int | None], None] | None = None,
        timeoutMS: float | None = None,
    ) -> None:
        """Read a file and write it to a stream.

        Args:
            file_id: The id of the file.
            destination: An object with a method `write`, which may be asynchronous: files of Python (which are written
                in a thread), of anyio and trio, asyncio's StreamWriter ... It is not closed.
            session: The session to use.
            progress: Called with the number of bytes that were written, and the number of all.
            timeoutMS: Time limit of the whole download; 0 for no limit. A destination that makes its thread wait may
                exceed it.

        Raises:
            TypeError: An argument is wrong.
            NoFile: There is no such file.
            CorruptGridFile: The file is not whole.
            InvalidOperation: The session is in a transaction.
            PyMongoError: An operation failed.

        Retries: find for overload errors (up to 5, with backoff) and once after a network error or a failover
        (retryable read); getMore for overload errors only.

        Source: GridFS specification.
        """
        deadline = self._store.lifetime(timeoutMS)
        target = Destination(destination, deadline)
        stream = AsyncGridOut._make(self._store, session, file_id, deadline=deadline)
        await stream.open()
        await _download(stream, target, progress)

    async def download_to_stream_by_name(
        self,
        filename: str,
        destination: Any,
        revision: int = -1,
        session: AsyncClientSession | None = None,
        *,
        progress: Callable[[int, int | None], None] | None = None,
        timeoutMS: float | None = None,
    ) -> None:
        """Read a file and write it to a stream.

        Args:
            filename: The name of the file.
            destination: An object with a method `write`, which may be asynchronous: files of Python (which are written
                in a thread), of anyio and trio, asyncio's StreamWriter ... It is not closed.
            revision: Which of the files with this name: 0 for the oldest, 1 for the next ..., -1 for the newest, -2 for
                the one before ...
            session: The session to use.
            progress: Called with the number of bytes that were written, and the number of all.
            timeoutMS: Time limit of the whole download; 0 for no limit. A destination that makes its thread wait may
                exceed it.

        Raises:
            TypeError: An argument is wrong.
            NoFile: There is no such file, or no such revision of it.
            CorruptGridFile: The file is not whole.
            InvalidOperation: The session is in a transaction.
            PyMongoError: An operation failed.

        Retries: find for overload errors (up to 5, with backoff) and once after a network error or a failover
        (retryable read); getMore for overload errors only.

        Source: GridFS specification.
        """
        converted("filename", filename, text)
        deadline = self._store.lifetime(timeoutMS)
        target = Destination(destination, deadline)
        with within(deadline):
            file = await self._store.find_revision({"filename": filename}, revision, session)
        await _download(AsyncGridOut._make(self._store, session, file=file, deadline=deadline), target, progress)


async def _download(
    stream: AsyncGridOut, destination: Destination, progress: Callable[[int, int | None], None] | None
) -> None:
    async with stream:
        while data := await stream.readchunk():
            await destination.write(data)
            if progress is not None:
                progress(stream.tell(), stream.length)
