"""Shell: the stream that an application writes a file to."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

from bson.objectid import ObjectId

from motorlite._api.handles import AsyncCollection
from motorlite._api.session import resolved
from motorlite._base.arguments import converted, instance
from motorlite._base.deadline import NO_DEADLINE
from motorlite._gridfs.files import DEFAULT_CHUNK_SIZE, chunk_size
from motorlite._gridfs.store import Store, check_session, finish, is_cancellation
from motorlite._gridfs.streams import Source, as_bytes
from motorlite._gridfs.upload import Splitter, Upload
from motorlite.errors import InvalidOperation, PyMongoError

if TYPE_CHECKING:
    import datetime
    from collections.abc import Awaitable, Callable, Iterable, Iterator
    from types import TracebackType

    from motorlite._api.session import AsyncClientSession
    from motorlite._api.turns import Turns
    from motorlite._base.deadline import Deadline


# Fields of the file's document that have other names as arguments.
_FIELDS: Final = {"content_type": "contentType", "chunk_size": "chunkSize"}


class AsyncGridIn:
    """A file that is being uploaded.

    Made by `AsyncGridFSBucket.open_upload_stream` and `AsyncGridFS.new_file`. Write to it and `close` it, best with
    ``async with``: that closes the file at the end of the block, and deletes its chunks if the block raises or is
    cancelled. The file exists, for this and other clients, once it is closed. One task may write at a time.

    After an error the upload cannot go on. If it was that of an operation, its chunks are left, as the specification
    demands; they belong to no file, and `abort` deletes them. A `write` or `close` that is cancelled deletes them
    before it returns, for which it may take five seconds; closing the file after that raises InvalidOperation.

    Other attributes are fields of the file's document: ``stream.author = "a"`` sets one, until the file is closed.

    Args:
        root_collection: The collection that is named like the bucket, ``database.fs``.
        session: The session to use.
        kwargs: Fields of the file's document: `_id`, `filename`, `metadata` ..., and `chunk_size` (bytes). With
            `encoding`, text can be written.

    Raises:
        TypeError, ValueError: An argument is wrong.
        ConfigurationError: The collection's write concern is w=0.
        InvalidOperation: The session is in a transaction.

    Source: GridFS specification.
    """

    __module__ = "motorlite.gridfs"

    __slots__ = (
        "__weakref__",
        "_closed",
        "_fields",
        "_is_busy",
        "_is_stored",
        "_store",
        "_turns",
        "_upload",
        "_was_cancelled",
    )

    def __init__(
        self, root_collection: AsyncCollection[Any], session: AsyncClientSession | None = None, **kwargs: Any
    ) -> None:
        instance("root_collection", root_collection, AsyncCollection)
        store = Store(root_collection)
        self._set_up(store, session, kwargs, store.lifetime())

    @classmethod
    def _make(
        cls,
        store: Store,
        session: AsyncClientSession | None,
        fields: dict[str, Any],
        deadline: Deadline = NO_DEADLINE,
        progress: Callable[[int, int | None], None] | None = None,
    ) -> Self:
        made = cls.__new__(cls)
        made._set_up(store, session, fields, deadline, progress)
        return made

    def __repr__(self) -> str:
        name = self._fields.get("filename", self._fields["_id"])
        return f"<{type(self).__name__} {name!r}, {'closed' if self._closed else 'open'}>"

    def _set_up(
        self,
        store: Store,
        session: AsyncClientSession | None,
        given: dict[str, Any],
        deadline: Deadline,
        progress: Callable[[int, int | None], None] | None = None,
    ) -> None:
        check_session(session)
        if progress is not None and not callable(progress):
            raise TypeError(f"progress must be a function, not {progress!r}")
        fields = {_FIELDS.get(name, name): value for name, value in given.items()}
        fields = {"_id": fields.pop("_id") if "_id" in fields else ObjectId(), **fields}
        size = converted("chunk_size", fields.get("chunkSize", DEFAULT_CHUNK_SIZE), chunk_size)
        fields["chunkSize"] = size
        self._store: Store = store
        # The document of the file, without length and uploadDate until it is stored.
        self._fields: dict[str, Any] = fields
        splitter = Splitter(fields["_id"], size, ObjectId)
        self._upload: Upload = Upload(store, splitter, resolved(session), deadline, progress)
        self._closed: bool = False
        # Whether the file exists.
        self._is_stored: bool = False
        # When to yield to the event loop, since most writes send nothing; None before the first one.
        self._turns: Turns | None = None
        # Whether a task is writing or closing.
        self._is_busy: bool = False
        # Whether that was cancelled, and the application may not know yet that there is no file.
        self._was_cancelled: bool = False

    # --- writing ---

    async def write(self, data: Any) -> None:
        """Write bytes, or all that a source has.

        Bytes are sent in batches of whole chunks; the last ones wait for `close`.

        Args:
            data: Bytes; text, if the file has an `encoding`; an object with `read`, which may be asynchronous (files
                of Python, anyio and trio, asyncio's StreamReader ...); or an async iterable of bytes. Python's own
                files are read in a thread. Sources are not closed.

        Raises:
            TypeError: `data` is something else.
            ValueError: The file is closed.
            FileExists: There is a file with this id.
            InvalidOperation: The upload has failed before, or another task is writing.
            PyMongoError: An operation failed.

        Retries: insert as a retryable write (docs/retries.md).
        """
        if self._closed:
            raise ValueError("the file is closed")
        if isinstance(data, str):
            data = self._encoded(data)
        if isinstance(data, bytes | bytearray | memoryview):
            await self._perform(lambda: self._upload.add(as_bytes(data, "data")))
        else:
            source = Source(data, self._upload.chunk_size, self._upload.deadline)
            await self._perform(lambda: self._write_all(source))

    def _encoded(self, text: str) -> bytes:
        encoding = self._fields.get("encoding")
        if not isinstance(encoding, str):
            raise TypeError("text needs an encoding: set the option encoding of the file, or write bytes")
        return text.encode(encoding)

    async def _write_all(self, source: Source) -> None:
        try:
            while len(data := await source.next()):
                await self._upload.add(data)
        except BaseException as error:
            self._upload.fail(error)
            raise

    async def writelines(self, sequence: Iterable[Any]) -> None:
        """Write one after the other, without separators.

        Args:
            sequence: What `write` takes.

        Raises:
            TypeError, ValueError, PyMongoError: See `write`.

        Retries: insert as a retryable write (docs/retries.md).
        """
        for line in self._lines(sequence):
            await self.write(line)

    def _lines(self, sequence: Iterable[Any]) -> Iterator[Any]:
        try:
            # Not `yield from`, which would close the application's generator when `write` refuses one of its lines.
            for line in sequence:  # noqa: UP028
                yield line
        except Exception as error:
            self._upload.fail(error)
            raise

    async def _perform(self, step: Callable[[], Awaitable[None]]) -> None:
        """Take a step of the upload. If it is cancelled, the upload is over, and its chunks are deleted."""
        if self._upload.is_of_parent:
            raise InvalidOperation(
                "the upload was begun before a fork and belongs to the parent process: begin another one"
            )
        if self._is_busy:
            raise InvalidOperation("two tasks are writing to the same file; let them take turns")
        if self._upload.failure is not None:
            raise InvalidOperation("the upload has failed, so a part of the file is missing") from self._upload.failure
        self._is_busy = True
        try:
            if self._turns is None:
                self._turns = await self._store.turns(self._upload.deadline)
            await self._turns.take()
            await step()
        except BaseException as error:
            if is_cancellation(error, self._store.chunks):
                self._closed = self._was_cancelled = True
                self._upload.give_up()
                await self._clean_up(error)
            raise
        finally:
            self._is_busy = False

    # --- the end ---

    async def close(self) -> None:
        """Store the rest of the file, and the file itself. No effect on a closed file.

        Raises:
            FileExists: There is a file with this id.
            InvalidOperation: The upload has failed or was cancelled before, so that the file would not be whole.
            PyMongoError: An operation failed.

        Retries: insert as a retryable write (docs/retries.md).
        """
        if self._was_cancelled and not self._is_stored:
            raise InvalidOperation("the upload was cancelled, so there is no file")
        if not self._closed:
            await self._perform(self._complete)

    async def _complete(self) -> None:
        self._fields = await self._upload.complete(self._fields)
        self._closed = self._is_stored = True
        await self._upload.release()

    async def abort(self) -> None:
        """Give up the upload and delete what was stored of it. No effect on an upload that was given up.

        Raises:
            InvalidOperation: The file is stored already, or another task is writing.
            PyMongoError: The deletion failed; `abort` may be called again.

        Retries: delete for overload errors only (docs/retries.md).
        """
        if self._is_stored:
            raise InvalidOperation("the file is stored already; delete it instead")
        if self._is_busy:
            raise InvalidOperation("another task is writing to the file")
        self._closed = self._is_busy = True
        self._was_cancelled = False
        self._upload.give_up()
        try:
            await self._upload.abort()
        except BaseException as error:
            if is_cancellation(error, self._store.chunks):
                await self._clean_up(error)
            raise
        finally:
            self._is_busy = False
        await self._upload.release()

    async def _clean_up(self, error: BaseException) -> None:
        """Delete what was stored, after something that the caller has to hear of more than of this."""
        if self._upload.has_begun:
            # After a timeout, the caller must not wait any longer.
            is_late = isinstance(error, PyMongoError) and error.timeout
            await finish(self._store.chunks, error, self._upload.delete if is_late else self._upload.abort)
        await self._upload.release()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                await self.close()
            else:
                await self._give_up(error)
        except Exception as failure:
            await self._give_up(failure)
            raise
        finally:
            await self._upload.release()

    async def _give_up(self, error: BaseException) -> None:
        """End the upload because of an error. After that of an operation, the specification has the chunks left."""
        if self._closed:
            return
        self._closed = True
        self._upload.give_up()
        if not self._upload.was_refused and (
            isinstance(error, Exception) or is_cancellation(error, self._store.chunks)
        ):
            await self._clean_up(error)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("an AsyncGridIn cannot be copied or pickled: two copies would write the same chunks")

    # --- what files have ---

    @property
    def closed(self) -> bool:
        """Whether the file is closed: stored, given up or cancelled."""
        return self._closed

    def read(self, size: int = -1) -> NoReturn:
        """Raise `io.UnsupportedOperation`.

        Args:
            size: Has no effect.
        """
        raise io.UnsupportedOperation("read")

    def readable(self) -> bool:
        """Return False."""
        return False

    def seekable(self) -> bool:
        """Return False."""
        return False

    def writable(self) -> bool:
        """Return True."""
        return True

    writeable = writable

    # --- fields of the file ---

    @property
    def _id(self) -> Any:
        """The id of the file."""
        return self._fields["_id"]

    @property
    def filename(self) -> str | None:
        """The name of the file."""
        return self._fields.get("filename")

    @filename.setter
    def filename(self, value: str | None) -> None:
        self._set_property("filename", value)

    name = filename

    @property
    def content_type(self) -> str | None:
        """The MIME type of the file. Deprecated by the specification: put it into the metadata."""
        return self._fields.get("contentType")

    @content_type.setter
    def content_type(self, value: str | None) -> None:
        self._set_property("contentType", value)

    @property
    def chunk_size(self) -> int:
        """Bytes of each chunk but the last."""
        return self._upload.chunk_size

    @property
    def length(self) -> int:
        """Bytes of the file, once it is stored; AttributeError before."""
        length: int = self._stored_field("length")
        return length

    @property
    def upload_date(self) -> datetime.datetime:
        """When the file was stored; AttributeError before."""
        date: datetime.datetime = self._stored_field("uploadDate")
        return date

    @property
    def md5(self) -> str | None:
        """None: motorlite does not compute it, as the specification wants."""
        return self._fields.get("md5")

    def _stored_field(self, name: str) -> Any:
        if not self._is_stored:
            raise AttributeError(f"the file has no {name} before it is closed")
        return self._fields[name]

    def _set_property(self, name: str, value: Any) -> None:
        if self._closed:  # for other fields, PyMongo raises AttributeError
            raise InvalidOperation(f"{name!r} cannot be set on a closed file; use set()")
        self._set(name, value)

    def _set(self, name: str, value: Any) -> None:
        if self._closed:
            raise AttributeError(f"{name!r} cannot be set on a closed file; use set()")
        if name in ("_id", "chunkSize"):  # which the chunks depend on
            fields = {**self._fields, name: value}
            size = fields["chunkSize"] = converted("chunkSize", fields["chunkSize"], chunk_size)
            self._upload.change(fields["_id"], size)
            value = fields[name]
        self._fields[name] = value

    async def set(self, name: str, value: Any) -> None:
        """Set a field of the file's document: before the file is closed without an operation.

        Args:
            name: The field. `_id` and `chunkSize` can be set before the first write.
            value: Its value.

        Raises:
            TypeError, ValueError: `chunkSize` is no size of chunks.
            InvalidOperation: The upload was given up or cancelled, or `name` is `_id` or `chunkSize` and something was
                written already.
            PyMongoError: The operation failed.

        Retries: as a retryable write (docs/retries.md).
        """
        if self._closed and not self._is_stored:
            raise InvalidOperation("the upload was aborted, so there is no file")
        if not self._closed:
            self._set(name, value)
            return
        check_session(None)
        await self._store.files.update_one({"_id": self._id}, {"$set": {name: value}})
        self._fields[name] = value

    def __getattr__(self, name: str) -> Any:
        if name != "_fields" and name in self._fields:
            return self._fields[name]
        raise AttributeError(f"AsyncGridIn has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if hasattr(type(self), name):
            object.__setattr__(self, name, value)
        else:
            self._set(name, value)
