"""Shell: a bucket's methods for uploads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._base.arguments import converted, mapping, text
from motorlite._gridfs.files import chunk_size
from motorlite._gridfs.grid_in import AsyncGridIn
from motorlite._gridfs.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bson.objectid import ObjectId

    from motorlite._api.handles import AsyncCollection
    from motorlite._api.session import AsyncClientSession


# What the parts of a bucket have in common.


class BucketBase:
    """The collections of a bucket, and the size of its new chunks."""

    __slots__ = ("__weakref__", "_chunk_size", "_root", "_store")

    def __init__(self, root: AsyncCollection[Any], chunk_size: int) -> None:
        self._root = root
        self._chunk_size = chunk_size
        self._store: Store = Store(root)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._root.full_name!r}>"


class AsyncGridFSBucket(BucketBase):
    """upload_from_stream, open_upload_stream."""

    __slots__ = ()

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

        Retries: insert for overload errors (up to 5, with backoff); network errors and failovers once (retryable
        write).

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

        Retries: insert for overload errors (up to 5, with backoff); network errors and failovers once (retryable
        write).

        Source: GridFS specification.
        """
        fields = {"_id": file_id}
        await _upload(
            self._open_upload(fields, filename, chunk_size_bytes, metadata, session, progress, timeoutMS), source
        )


async def _upload(stream: AsyncGridIn, source: Any) -> None:
    if isinstance(source, bytes | bytearray | memoryview):
        stream._upload.total = memoryview(source).nbytes
    async with stream:
        await stream.write(source)
