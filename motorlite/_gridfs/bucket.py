"""Shell: a bucket: files with ids and names that can be uploaded, downloaded, found, renamed and deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._api.handles import AsyncDatabase
from motorlite._api.time_limits import within
from motorlite._base.arguments import converted, instance, text
from motorlite._gridfs.bucket_downloads import AsyncGridFSBucket as BucketDownloads
from motorlite._gridfs.bucket_uploads import AsyncGridFSBucket as BucketUploads
from motorlite._gridfs.cursor import AsyncGridOutCursor
from motorlite._gridfs.errors import NoFile
from motorlite._gridfs.files import DEFAULT_CHUNK_SIZE, chunk_size, equal
from motorlite._gridfs.store import check_session

if TYPE_CHECKING:
    from motorlite._api.session import AsyncClientSession
    from motorlite.read_concern import ReadConcern
    from motorlite.read_preferences import ServerMode
    from motorlite.write_concern import WriteConcern


class AsyncGridFSBucket(BucketUploads, BucketDownloads):
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

    def find(self, *args: Any, **kwargs: Any) -> AsyncGridOutCursor:
        """Query files. Returns a cursor of `AsyncGridOut`, which runs the query at its first step.

        Args:
            args: Filter, skip, limit, no_cursor_timeout, sort, batch_size and session: see `AsyncGridOutCursor`. The
                filter is about documents of files: ``{"filename": "a"}``, ``{"metadata.author": "b"}``.
            kwargs: The same by name, and `FindOptions`: `allow_disk_use`, `max_time_ms`, `timeoutMS` ...

        Raises:
            TypeError, ValueError: An argument is wrong.
            InvalidOperation: The session is in a transaction.

        Retries: find for overload errors (up to 5, with backoff) and once after a network error or a failover
        (retryable read); getMore for overload errors only.

        Source: GridFS specification.
        """
        return AsyncGridOutCursor(self._root, *args, **kwargs)

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

        Retries: the file for overload errors (up to 5, with backoff), and network errors and failovers once
        (retryable write); its chunks for overload errors only.

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

        Retries: find for overload errors (up to 5, with backoff) and once after a network error or a failover
        (retryable read); delete for overload errors only.

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

        Retries: overload errors (up to 5, with backoff); network errors and failovers once (retryable write).

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

        Retries: overload errors only (up to 5, with backoff); not after network errors, since it may affect several
        documents.

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

        Retries: overload errors only (up to 5, with backoff).

        Source: GridFS specification.
        """
        with within(self._store.lifetime(timeoutMS)):
            await self._store.drop(session)
