"""Shell: a bucket: files with ids and names that can be uploaded, downloaded, found, renamed and deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._api.handles import AsyncDatabase
from motorlite._api.time_limits import within
from motorlite._base.arguments import converted, instance, mapping, text
from motorlite._gridfs.cursor import AsyncGridOutCursor
from motorlite._gridfs.errors import NoFile
from motorlite._gridfs.files import DEFAULT_CHUNK_SIZE, chunk_size, equal
from motorlite._gridfs.grid_in import AsyncGridIn
from motorlite._gridfs.grid_out import AsyncGridOut
from motorlite._gridfs.store import Store, check_session
from motorlite._gridfs.streams import Destination

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bson.objectid import ObjectId

    from motorlite._api.handles import AsyncCollection
    from motorlite._api.session import AsyncClientSession
    from motorlite.read_concern import ReadConcern
    from motorlite.read_preferences import ServerMode
    from motorlite.write_concern import WriteConcern


class BucketBase:
    """The collections of a bucket, and the size of its new chunks."""

    __slots__ = ("__dict__", "__weakref__", "_chunk_size", "_root", "_store")

    def __init__(self, root: AsyncCollection[Any], chunk_size: int) -> None:
        self._root = root
        self._chunk_size = chunk_size
        self._store: Store = Store(root)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._root.full_name!r}>"

    def find(self, *args: Any, **kwargs: Any) -> AsyncGridOutCursor:
        """Query files. Returns a cursor of `AsyncGridOut`, which runs the query at its first step.

        Args:
            args: Filter, skip, limit, no_cursor_timeout, sort, batch_size and session: see `AsyncGridOutCursor`. The
                filter is about documents of files: ``{"filename": "a"}``, ``{"metadata.author": "b"}``.
            kwargs: The same by name, and `FindOptions`: `allow_disk_use`, `max_time_ms`, `timeoutMS` ...

        Raises:
            TypeError, ValueError: An argument is wrong.
            InvalidOperation: The session is in a transaction.

        Retries: find as a retryable read; getMore for overload errors only (docs/retries.md).

        Source: GridFS specification.
        """
        return AsyncGridOutCursor(self._root, *args, **kwargs)


class AsyncGridFSBucket(BucketBase):
    """A GridFS bucket: files of any size, stored as chunks in two collections of a database.

    Creating one sends nothing. Before its first upload it creates the indexes of both collections, if there is no file
    yet and the indexes do not exist.

    Args:
        db: The database.
        bucket_name: The name of the bucket, with which the names of its collections begin.
        chunk_size_bytes: Bytes of each chunk of new files but the last; 255 KiB by default.
        write_concern: The acknowledgement that writes wait for; the database's by default.
        read_preference: The servers to read from; the database's by default.
        read_concern: The isolation level that reads ask for; the database's by default.
        timeoutMS: Time limit of each call, and of the whole life of each stream; 0 for no limit; the database's by
            default.

    Raises:
        TypeError, ValueError: An argument is wrong.
        ConfigurationError: The write concern is w=0.
        InvalidName: `bucket_name` is invalid.

    Source: GridFS specification.
    """

    __module__ = "motorlite.gridfs"

    __slots__ = ()

    def __init__(
        self,
        db: AsyncDatabase[Any],
        bucket_name: str = "fs",
        chunk_size_bytes: int = DEFAULT_CHUNK_SIZE,
        write_concern: WriteConcern | None = None,
        read_preference: ServerMode | None = None,
        read_concern: ReadConcern | None = None,
        timeoutMS: float | None = None,
    ) -> None:
        instance("db", db, AsyncDatabase)
        converted("bucket_name", bucket_name, text)
        size = converted("chunk_size_bytes", chunk_size_bytes, chunk_size)
        root = db.get_collection(bucket_name, None, read_preference, write_concern, read_concern, timeoutMS)
        super().__init__(root, size)

    # --- uploads ---

    def open_upload_stream(
        self,
        filename: str,
        chunk_size_bytes: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        session: AsyncClientSession | None = None,
        *,
        progress: Callable[[int, int | None], None] | None = None,
        timeoutMS: float | None = None,
    ) -> AsyncGridIn:
        """Return a stream to write a new file to. Sends nothing yet. The file's id is its attribute `_id`.

        Args:
            filename: The name of the file. Files with the same name are its revisions.
            chunk_size_bytes: Bytes of each chunk but the last; the bucket's by default.
            metadata: Stored with the file.
            session: The session to use.
            progress: Called with the number of bytes that are stored, and None. What it raises leaves `write`.
            timeoutMS: Time limit of the whole life of the stream, from now to its close; 0 for no limit.

        Raises:
            TypeError, ValueError: An argument is wrong.
            InvalidOperation: The session is in a transaction.

        Source: GridFS specification.
        """
        return self._open_upload({}, filename, chunk_size_bytes, metadata, session, progress, timeoutMS)

    def open_upload_stream_with_id(
        self,
        file_id: Any,
        filename: str,
        chunk_size_bytes: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        session: AsyncClientSession | None = None,
        *,
        progress: Callable[[int, int | None], None] | None = None,
        timeoutMS: float | None = None,
    ) -> AsyncGridIn:
        """Return a stream to write a new file to. Sends nothing yet.

        Args:
            file_id: The id of the file, of any type that an `_id` may have. No other file of the bucket may have it.
            filename: The name of the file. Files with the same name are its revisions.
            chunk_size_bytes: Bytes of each chunk but the last; the bucket's by default.
            metadata: Stored with the file.
            session: The session to use.
            progress: Called with the number of bytes that are stored, and None. What it raises leaves `write`.
            timeoutMS: Time limit of the whole life of the stream, from now to its close; 0 for no limit.

        Raises:
            TypeError, ValueError: An argument is wrong.
            InvalidOperation: The session is in a transaction.

        Source: GridFS specification.
        """
        return self._open_upload({"_id": file_id}, filename, chunk_size_bytes, metadata, session, progress, timeoutMS)

    def _open_upload(
        self,
        fields: dict[str, Any],
        filename: str,
        size: int | None,
        metadata: Mapping[str, Any] | None,
        session: AsyncClientSession | None,
        progress: Callable[[int, int | None], None] | None,
        timeout_ms: float | None,
    ) -> AsyncGridIn:
        fields["filename"] = converted("filename", filename, text)
        fields["chunkSize"] = self._chunk_size if size is None else converted("chunk_size_bytes", size, chunk_size)
        if metadata is not None:
            fields["metadata"] = converted("metadata", metadata, mapping)
        return AsyncGridIn._make(self._store, session, fields, self._store.lifetime(timeout_ms), progress)

    async def upload_from_stream(
        self,
        filename: str,
        source: Any,
        chunk_size_bytes: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        session: AsyncClientSession | None = None,
        *,
        progress: Callable[[int, int | None], None] | None = None,
        timeoutMS: float | None = None,
    ) -> ObjectId:
        """Store a new file and return its id.

        If the source or `progress` raises, or the call is cancelled, what was stored is deleted before the exception
        leaves; after a cancellation that takes at most five seconds.

        Args:
            filename: The name of the file. Files with the same name are its revisions.
            source: What `AsyncGridIn.write` takes: bytes, an object with `read`, or an async iterable of bytes. It is
                read to its end, and not closed.
            chunk_size_bytes: Bytes of each chunk but the last; the bucket's by default.
            metadata: Stored with the file.
            session: The session to use.
            progress: Called with the number of bytes that are stored, and the number of all, or None if the source is
                not bytes.
            timeoutMS: Time limit of the whole upload; 0 for no limit. A source that makes its thread wait may exceed
                it.

        Raises:
            TypeError, ValueError: An argument is wrong.
            InvalidOperation: The session is in a transaction.
            PyMongoError: An operation failed. The chunks that were stored are left, as the specification demands.

        Retries: insert as a retryable write (docs/retries.md).

        Source: GridFS specification.
        """
        stream = self._open_upload({}, filename, chunk_size_bytes, metadata, session, progress, timeoutMS)
        await _upload(stream, source)
        file_id: ObjectId = stream._id
        return file_id

    async def upload_from_stream_with_id(
        self,
        file_id: Any,
        filename: str,
        source: Any,
        chunk_size_bytes: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        session: AsyncClientSession | None = None,
        *,
        progress: Callable[[int, int | None], None] | None = None,
        timeoutMS: float | None = None,
    ) -> None:
        """Store a new file. See `upload_from_stream`.

        Args:
            file_id: The id of the file, of any type that an `_id` may have.
            filename: The name of the file. Files with the same name are its revisions.
            source: What `AsyncGridIn.write` takes: bytes, an object with `read`, or an async iterable of bytes. It is
                read to its end, and not closed.
            chunk_size_bytes: Bytes of each chunk but the last; the bucket's by default.
            metadata: Stored with the file.
            session: The session to use.
            progress: Called with the number of bytes that are stored, and the number of all, or None if the source is
                not bytes.
            timeoutMS: Time limit of the whole upload; 0 for no limit. A source that makes its thread wait may exceed
                it.

        Raises:
            TypeError, ValueError: An argument is wrong.
            FileExists: There is a file with this id.
            InvalidOperation: The session is in a transaction.
            PyMongoError: An operation failed. The chunks that were stored are left, as the specification demands.

        Retries: insert as a retryable write (docs/retries.md).

        Source: GridFS specification.
        """
        fields = {"_id": file_id}
        await _upload(
            self._open_upload(fields, filename, chunk_size_bytes, metadata, session, progress, timeoutMS), source
        )

    # --- downloads ---

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

        Retries: as a retryable read (docs/retries.md).

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

        Retries: as a retryable read (docs/retries.md).

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

        Retries: find as a retryable read; getMore for overload errors only (docs/retries.md).

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

        Retries: find as a retryable read; getMore for overload errors only (docs/retries.md).

        Source: GridFS specification.
        """
        converted("filename", filename, text)
        deadline = self._store.lifetime(timeoutMS)
        target = Destination(destination, deadline)
        with within(deadline):
            file = await self._store.find_revision({"filename": filename}, revision, session)
        await _download(AsyncGridOut._make(self._store, session, file=file, deadline=deadline), target, progress)

    # --- files ---

    async def delete(
        self, file_id: Any, session: AsyncClientSession | None = None, *, timeoutMS: float | None = None
    ) -> None:
        """Delete a file and its chunks.

        If it is cancelled, the chunks of a file that is gone are deleted before it returns, within five seconds.

        Args:
            file_id: The id of the file.
            session: The session to use.
            timeoutMS: Time limit of the whole deletion; 0 for no limit.

        Raises:
            NoFile: There is no such file. Chunks with this id, which belong to no file, are deleted nevertheless.
            InvalidOperation: The session is in a transaction.
            PyMongoError: An operation failed.

        Retries: the file as a retryable write, its chunks for overload errors only (docs/retries.md).

        Source: GridFS specification.
        """
        with within(self._store.lifetime(timeoutMS)):
            if not await self._store.delete(file_id, session):
                raise NoFile(f"{self._store.files.full_name} has no file with the id {file_id!r} to delete")

    async def delete_by_name(
        self, filename: str, session: AsyncClientSession | None = None, *, timeoutMS: float | None = None
    ) -> None:
        """Delete all files of a name, with their chunks.

        If it is cancelled, the chunks of files that are gone are deleted before it returns, within five seconds.

        Args:
            filename: The name of the files.
            session: The session to use.
            timeoutMS: Time limit of the whole deletion; 0 for no limit.

        Raises:
            TypeError: `filename` is not a string.
            NoFile: There is no such file.
            InvalidOperation: The session is in a transaction.
            PyMongoError: An operation failed.

        Retries: find as a retryable read, delete for overload errors only (docs/retries.md).

        Source: GridFS specification.
        """
        converted("filename", filename, text)
        with within(self._store.lifetime(timeoutMS)):
            if not await self._store.delete_named(filename, session):
                raise NoFile(f"{self._store.files.full_name} has no file named {filename!r} to delete")

    async def rename(
        self,
        file_id: Any,
        new_filename: str,
        session: AsyncClientSession | None = None,
        *,
        timeoutMS: float | None = None,
    ) -> None:
        """Rename a file.

        Args:
            file_id: The id of the file.
            new_filename: Its new name.
            session: The session to use.
            timeoutMS: Time limit of the operation; 0 for no limit.

        Raises:
            TypeError: `new_filename` is not a string.
            NoFile: There is no such file.
            InvalidOperation: The session is in a transaction.
            PyMongoError: The operation failed.

        Retries: as a retryable write (docs/retries.md).

        Source: GridFS specification.
        """
        change = {"$set": {"filename": converted("new_filename", new_filename, text)}}
        check_session(session)
        with within(self._store.lifetime(timeoutMS)):
            result = await self._store.files.update_one({"_id": equal(file_id)}, change, session=session)
        if not result.matched_count:
            raise NoFile(f"{self._store.files.full_name} has no file with the id {file_id!r} to rename")

    async def rename_by_name(
        self,
        filename: str,
        new_filename: str,
        session: AsyncClientSession | None = None,
        *,
        timeoutMS: float | None = None,
    ) -> None:
        """Rename all files of a name.

        Args:
            filename: The name of the files.
            new_filename: Their new name.
            session: The session to use.
            timeoutMS: Time limit of the operation; 0 for no limit.

        Raises:
            TypeError: A name is not a string.
            NoFile: There is no such file.
            InvalidOperation: The session is in a transaction.
            PyMongoError: The operation failed.

        Retries: overload errors only, since it may affect several documents (docs/retries.md).

        Source: GridFS specification.
        """
        query = {"filename": converted("filename", filename, text)}
        change = {"$set": {"filename": converted("new_filename", new_filename, text)}}
        check_session(session)
        with within(self._store.lifetime(timeoutMS)):
            result = await self._store.files.update_many(query, change, session=session)
        if not result.matched_count:
            raise NoFile(f"{self._store.files.full_name} has no file named {filename!r} to rename")

    async def drop(self, session: AsyncClientSession | None = None, *, timeoutMS: float | None = None) -> None:
        """Drop both collections: first that of the files, then that of the chunks.

        Args:
            session: The session to use.
            timeoutMS: Time limit of both operations together; 0 for no limit.

        Raises:
            PyMongoError: An operation failed.

        Retries: overload errors only (docs/retries.md).

        Source: GridFS specification.
        """
        with within(self._store.lifetime(timeoutMS)):
            await self._store.drop(session)


async def _upload(stream: AsyncGridIn, source: Any) -> None:
    if isinstance(source, bytes | bytearray | memoryview):
        stream._upload.total = memoryview(source).nbytes
    async with stream:
        await stream.write(source)


async def _download(
    stream: AsyncGridOut, destination: Destination, progress: Callable[[int, int | None], None] | None
) -> None:
    async with stream:
        while data := await stream.readchunk():
            await destination.write(data)
            if progress is not None:
                progress(stream.tell(), stream.length)
