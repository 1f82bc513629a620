"""Shell: the older interface to GridFS, for programs that were written for PyMongo's class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._api.handles import AsyncDatabase
from motorlite._api.time_limits import within
from motorlite._base.arguments import converted, instance, text
from motorlite._gridfs.bucket import BucketBase
from motorlite._gridfs.files import DEFAULT_CHUNK_SIZE, by_id
from motorlite._gridfs.grid_in import AsyncGridIn
from motorlite._gridfs.grid_out import AsyncGridOut
from motorlite._gridfs.store import check_session

if TYPE_CHECKING:
    from motorlite._api.session import AsyncClientSession


class AsyncGridFS(BucketBase):
    """Files in GridFS, with the interface of PyMongo's older class. New programs use `AsyncGridFSBucket`.

    It uses the timeout and the concerns of the database; `motorlite.timeout` limits its methods too.

    Args:
        database: The database.
        collection: The name of the bucket.

    Raises:
        TypeError: An argument is wrong.
        ConfigurationError: The database's write concern is w=0.
        InvalidName: `collection` is invalid.

    Source: GridFS specification.
    """

    __module__ = "motorlite.gridfs"

    __slots__ = ()

    def __init__(self, database: AsyncDatabase[Any], collection: str = "fs") -> None:
        instance("database", database, AsyncDatabase)
        super().__init__(database[converted("collection", collection, text)], DEFAULT_CHUNK_SIZE)

    def new_file(self, **kwargs: Any) -> AsyncGridIn:
        """Return a stream to write a new file to. Sends nothing yet.

        Args:
            kwargs: The session, and fields of the file's document: see `AsyncGridIn`.

        Raises:
            TypeError, ValueError: An argument is wrong.
            InvalidOperation: The session is in a transaction.
        """
        session = kwargs.pop("session", None)
        return AsyncGridIn._make(self._store, session, kwargs, self._store.lifetime())

    async def put(self, data: Any, **kwargs: Any) -> Any:
        """Store a new file and return its id.

        Args:
            data: What `AsyncGridIn.write` takes: bytes, a file, a stream ...
            kwargs: The session, and fields of the file's document: see `AsyncGridIn`.

        Raises:
            TypeError, ValueError: An argument is wrong.
            FileExists: There is a file with this id.
            InvalidOperation: The session is in a transaction.
            PyMongoError: An operation failed.

        Retries: insert as a retryable write (docs/retries.md).
        """
        async with self.new_file(**kwargs) as stream:
            await stream.write(data)
        return stream._id

    async def get(self, file_id: Any, session: AsyncClientSession | None = None) -> AsyncGridOut:
        """Return a stream to read a file from.

        Args:
            file_id: The id of the file.
            session: The session to use.

        Raises:
            NoFile: There is no such file.
            InvalidOperation: The session is in a transaction.
            PyMongoError: The operation failed.

        Retries: as a retryable read (docs/retries.md).
        """
        stream = AsyncGridOut._make(self._store, session, file_id, deadline=self._store.lifetime())
        await stream.open()
        return stream

    async def get_version(
        self,
        filename: str | None = None,
        version: int | None = -1,
        session: AsyncClientSession | None = None,
        **kwargs: Any,
    ) -> AsyncGridOut:
        """Return a stream to read one of several files from that match.

        Args:
            filename: The name of the files; None for any.
            version: 0 for the oldest of them, 1 for the next ..., -1 for the newest, -2 for the one before ...
            session: The session to use.
            kwargs: Fields of the files' documents.

        Raises:
            TypeError: An argument is wrong.
            NoFile: There are not so many such files.
            InvalidOperation: The session is in a transaction.
            PyMongoError: The operation failed.

        Retries: as a retryable read (docs/retries.md).
        """
        query = kwargs if filename is None else {**kwargs, "filename": filename}
        deadline = self._store.lifetime()
        with within(deadline):
            file = await self._store.find_revision(query, -1 if version is None else version, session)
        return AsyncGridOut._make(self._store, session, file=file, deadline=deadline)

    async def get_last_version(
        self, filename: str | None = None, session: AsyncClientSession | None = None, **kwargs: Any
    ) -> AsyncGridOut:
        """Return a stream to read the newest of the files from that match.

        Args:
            filename: The name of the files; None for any.
            session: The session to use.
            kwargs: Fields of the files' documents.

        Raises:
            NoFile: There is no such file.
            InvalidOperation: The session is in a transaction.
            PyMongoError: The operation failed.

        Retries: as a retryable read (docs/retries.md).
        """
        return await self.get_version(filename, session=session, **kwargs)

    async def delete(self, file_id: Any, session: AsyncClientSession | None = None) -> None:
        """Delete a file and its chunks. A missing file is not an error.

        If it is cancelled, the chunks of a file that is gone are deleted before it returns, within five seconds.

        Args:
            file_id: The id of the file.
            session: The session to use.

        Raises:
            InvalidOperation: The session is in a transaction.
            PyMongoError: An operation failed.

        Retries: the file as a retryable write, its chunks for overload errors only (docs/retries.md).
        """
        with within(self._store.lifetime()):
            await self._store.delete(file_id, session)

    async def list(self, session: AsyncClientSession | None = None) -> list[str]:
        """Return the names of all files.

        Args:
            session: The session to use.

        Raises:
            InvalidOperation: The session is in a transaction.
            PyMongoError: The operation failed.

        Retries: as a retryable read (docs/retries.md).
        """
        check_session(session)
        names = await self._store.files.distinct("filename", session=session)
        return [name for name in names if name is not None]

    async def find_one(
        self, filter: Any = None, session: AsyncClientSession | None = None, *args: Any, **kwargs: Any
    ) -> AsyncGridOut | None:
        """Return a stream to read the first of the files from that match, or None.

        Args:
            filter: A query, or the id of a file; None matches everything.
            session: The session to use.
            args: See `find`.
            kwargs: See `find`.

        Raises:
            TypeError, ValueError: An argument is wrong.
            InvalidOperation: The session is in a transaction.
            PyMongoError: The operation failed.

        Retries: as a retryable read (docs/retries.md).
        """
        async with self.find(by_id(filter), *args, session=session, **kwargs).limit(-1) as files:
            async for file in files:
                return file
        return None

    async def exists(
        self, document_or_id: Any = None, session: AsyncClientSession | None = None, **kwargs: Any
    ) -> bool:
        """Return whether there is such a file.

        Args:
            document_or_id: A query, or the id of the file; None matches everything.
            session: The session to use.
            kwargs: Fields of the file's document, instead of the query.

        Raises:
            InvalidOperation: The session is in a transaction.
            PyMongoError: The operation failed.

        Retries: as a retryable read (docs/retries.md).
        """
        check_session(session)
        query = kwargs or by_id(document_or_id) or {}
        return await self._store.files.find_one(query, {"_id": 1}, session=session) is not None
