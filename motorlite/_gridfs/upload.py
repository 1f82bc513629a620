"""Shell: what an upload sends: its chunks in batches, the document of the file at the end, or its deletion.

A file exists when its document does, so an upload writes that last, after the server has acknowledged all chunks. A
deletion by the file's id takes the chunks of an upload in progress for orphans. So an upload checks its chunks after it
has written the document, and a deletion that has found chunks without a file looks for the document again
(`Store.delete`): one of the two notices the other.

A server may still carry out an operation that was cancelled. All writes of an upload use one session, which makes them
retryable writes with rising transaction numbers: a later one waits for an earlier one that is in progress, and makes
the server refuse one that has not arrived yet. So the deletion begins with such a write. Where there are no retryable
writes (a standalone server, ``retryWrites=False``), it waits until the pool has received the replies to abandoned
operations. If one does not arrive, chunks may stay without a file, but never a file without chunks.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from bson.objectid import ObjectId

from motorlite._api.time_limits import refreshed, within
from motorlite._gridfs.errors import FileExists, NoFile
from motorlite._gridfs.files import equal, file_document, this_upload
from motorlite._gridfs.store import check_session, have_replies_arrived, is_cancellation, note_part
from motorlite.errors import AutoReconnect, BulkWriteError, DuplicateKeyError, InvalidOperation, detached

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from motorlite._api.session import AsyncClientSession
    from motorlite._base.deadline import Deadline
    from motorlite._base.values import Document
    from motorlite._gridfs.store import Store


# Cuts what is written to an upload into chunks.

# Bytes of an ObjectId.
_ID: Final = 12


class Splitter:
    """The chunks of one upload, made as the data arrives."""

    __slots__ = ("_ids", "_new_id", "_number", "_tail", "chunk_size", "file_id", "length")

    def __init__(self, file_id: Any, chunk_size: int, new_id: Callable[[], ObjectId]) -> None:
        self.file_id: Any = file_id
        self.chunk_size: int = chunk_size
        # Bytes written so far.
        self.length: int = 0
        self._new_id = new_id
        # The number of the next chunk.
        self._number = 0
        # What does not fill a chunk yet.
        self._tail = bytearray()
        # The ids of all chunks, one after the other: as objects they would need five times the memory.
        self._ids = bytearray()

    def cut(self, data: bytes | bytearray | memoryview) -> Iterator[Document]:
        """Take all of `data`, and make the chunks that it completes. Has to be read to its end."""
        self.length += len(data)
        size, tail, start = self.chunk_size, self._tail, 0
        if not tail and type(data) is bytes and len(data) == size:
            yield self._chunk(data)
            return
        with memoryview(data) as view:
            if tail:
                start = min(size - len(tail), len(view))
                tail += view[:start]
                if len(tail) < size:
                    return
                yield self._chunk(bytes(tail))
                tail.clear()
            while start + size <= len(view):
                yield self._chunk(bytes(view[start : start + size]))
                start += size
            tail += view[start:]

    @property
    def count(self) -> int:
        """The number of chunks made so far."""
        return self._number

    def rest(self) -> Document | None:
        """Make the last chunk, if something is left for it."""
        tail, self._tail = self._tail, bytearray()
        return self._chunk(bytes(tail)) if tail else None

    def ids(self, at_once: int) -> Iterator[list[ObjectId]]:
        """The ids of all chunks that were made, in lists of at most `at_once`."""
        for start in range(0, len(self._ids), at_once * _ID):
            part = bytes(self._ids[start : start + at_once * _ID])
            yield [ObjectId(part[at : at + _ID]) for at in range(0, len(part), _ID)]

    def _chunk(self, data: bytes) -> Document:
        identifier = self._new_id()
        self._ids += identifier.binary
        number, self._number = self._number, self._number + 1
        return {"_id": identifier, "files_id": self.file_id, "n": number, "data": data}


# Bytes and chunks of a batch. Larger ones are hardly faster (docs/gridfs.md), and their bytes are held twice while they
# are sent.
BATCH: Final = 4 * 1024 * 1024
BATCH_CHUNKS: Final = 1000
# Chunks that one command deletes.
_DELETED_AT_ONCE: Final = 10_000

_DUPLICATE_KEY: Final = 11000


def _unknown() -> AutoReconnect:
    error = AutoReconnect("the reply to the insertion of the file was lost: the file may be stored, now or later")
    error.may_have_been_executed = True
    return error


@dataclass(slots=True, eq=False)
class Upload:
    """The state of one upload between its operations.

    Args:
        store: The collections.
        file_id: The id of the file.
        chunk_size: Bytes of a chunk.
        session: The caller's session.
        deadline: Of all operations together.
        progress: Called with the bytes that are stored, and the bytes in all if they are known.
    """

    _store: Store
    _splitter: Splitter
    # None: one of its own is taken for the first operation.
    _session: AsyncClientSession | None
    deadline: Deadline
    _progress: Callable[[int, int | None], None] | None
    _has_session: bool = field(init=False)
    # Of the process among its forks.
    _generation: int = field(init=False)
    # The chunks that are not sent yet, and their bytes.
    _batch: list[Document] = field(default_factory=list)
    _batch_size: int = 0
    # Bytes in chunks that the server has acknowledged.
    _stored: int = 0
    # Whether the newest insertion was sent, but not acknowledged.
    _in_doubt: bool = False
    # The document of the file, once it is sent.
    _document: Document | None = None
    # Whether the upload was given up: another task may still be writing.
    _is_over: bool = False
    # Whether an insertion is in flight, and the number of those before it.
    _is_inserting: bool = False
    _insertions: int = 0
    # Whether nothing is left to delete.
    _is_deleted: bool = False
    # Bytes that the application will write, if that is known.
    total: int | None = None
    # The error after which a part of the file is missing.
    failure: BaseException | None = None
    # Whether that is of an operation.
    was_refused: bool = False
    # Whether an operation was started that may store something.
    has_begun: bool = False

    def __post_init__(self) -> None:
        self._has_session = self._session is None
        self._generation = self._store.files._core.generation

    @property
    def chunk_size(self) -> int:
        """Bytes of a chunk."""
        return self._splitter.chunk_size

    @property
    def is_of_parent(self) -> bool:
        """Whether the upload was begun before a fork, by the parent process, which may still write to it."""
        return self._store.files._core.is_of_parent(self._generation)

    def change(self, file_id: Any, chunk_size: int) -> None:
        """Change the id of the file and the size of its chunks.

        Raises:
            InvalidOperation: Something was written already.
        """
        if self._splitter.length:
            raise InvalidOperation("the id and the chunkSize of a file cannot be set after something was written to it")
        self._splitter = Splitter(file_id, chunk_size, ObjectId)

    def _check_session(self) -> None:
        """Refuse a session in which a transaction has begun since the upload did.

        Raises:
            InvalidOperation: One has.
        """
        # None would mean the session that the caller has bound. The upload takes one of its own instead.
        if self._session is not None:
            check_session(self._session)

    async def add(self, data: bytes | bytearray | memoryview) -> None:
        """Add bytes to the file, and send what fills a batch."""
        self._refuse_if_over()
        try:
            for chunk in self._splitter.cut(data):
                self._batch.append(chunk)
                self._batch_size += len(chunk["data"])
                if self._batch_size >= BATCH or len(self._batch) >= BATCH_CHUNKS:
                    await self._send_batch()
        except BaseException as error:
            self.fail(error)
            raise

    def fail(self, error: BaseException) -> None:
        """Note that a part of the data is missing now, so that the rest is no file."""
        self.failure = self.failure or detached(error)

    async def complete(self, fields: Document) -> Document:
        """Send the rest of the chunks, and then the document of the file, which is returned.

        Raises:
            FileExists: There is a file with this id.
            NoFile: Chunks were deleted meanwhile. Nothing of the file is left.
        """
        # Before anything is lost: the file can be closed after the transaction.
        self._check_session()
        chunk = self._splitter.rest()
        if chunk is not None:
            self._batch.append(chunk)
            self._batch_size += len(chunk["data"])
        if self._batch:
            await self._send_batch()
        # The time when the upload was completed ("uploadDate").
        document = file_document(fields, self._splitter.length, datetime.datetime.now(datetime.UTC))
        await self._send(self._insert_file, document)
        if self._splitter.count:
            await self._send(self._check_chunks, self._splitter.count)
        return document

    async def _send_batch(self) -> None:
        batch, size = self._batch, self._batch_size
        self._batch, self._batch_size = [], 0
        await self._send(self._insert_chunks, batch)
        self._stored += size
        if self._progress is not None:
            try:
                self._progress(self._stored, self.total)
            except BaseException as error:
                self.fail(error)
                raise

    async def _send(self, step: Callable[[Any], Awaitable[None]], what: Any) -> None:
        self._refuse_if_over()
        if self._session is None:
            self._session = self._store.new_session()
        self.has_begun = True
        try:
            self._check_session()
            with within(self.deadline):
                await self._store.ensure_indexes(self._session)
                if not self._is_over:
                    await step(what)
                    if self._is_over:  # meanwhile, and the deletion may have come first
                        await self.delete()
            self._refuse_if_over()
        except BaseException as error:
            if self._has_stored:
                note_part(error)
            self.failure = detached(error)
            self.was_refused = isinstance(error, Exception) and not is_cancellation(error, self._store.chunks)
            raise

    def _refuse_if_over(self) -> None:
        if self._is_over:
            raise InvalidOperation("another task has given up the upload, so there is no file")

    @property
    def _has_stored(self) -> bool:
        """Whether the server has acknowledged chunks or the document, and they are not deleted."""
        return not self._is_deleted and (self._stored > 0 or (self._document is not None and not self._in_doubt))

    async def _insert(self, insertion: Awaitable[object]) -> None:
        self._in_doubt = self._is_inserting = True
        try:
            await insertion
        except BaseException:
            # Again: another task's deletion may have come first, and the server may still carry this out.
            self._in_doubt = True
            raise
        finally:
            self._is_inserting = False
            self._insertions += 1
        self._in_doubt = False

    async def _insert_chunks(self, batch: list[Document]) -> None:
        try:
            await self._insert(self._store.chunks.insert_many(batch, session=self._session))
        except BulkWriteError as error:
            self._in_doubt = False
            codes = [each.get("code") for each in (error.details or {}).get("writeErrors", ())]
            if _DUPLICATE_KEY in codes:
                raise self._exists() from error
            raise

    async def _insert_file(self, document: Document) -> None:
        self._document = document
        try:
            await self._insert(self._store.files.insert_one(document, session=self._session))
        except DuplicateKeyError as error:
            self._document, self._in_doubt = None, False
            raise self._exists() from error

    async def _check_chunks(self, count: int) -> None:
        file_id = self._splitter.file_id
        if await self._store.has_chunks(file_id, count, self._session):
            return
        await self.delete()
        raise NoFile(
            f"the file with the id {file_id!r} was deleted while it was uploaded: chunks in "
            f"{self._store.chunks.full_name} are gone"
        )

    def _exists(self) -> FileExists:
        return FileExists(f"{self._store.files.full_name} has a file with the id {self._splitter.file_id!r} already")

    # --- the end ---

    def give_up(self) -> None:
        """Store nothing more, not even what another task writes."""
        self._is_over = True
        self._batch.clear()

    async def abort(self) -> None:
        """Delete what this upload has stored, with a time limit as long as its own, which may have passed."""
        if self.deadline.is_set:
            self.deadline = refreshed(self._store.files._core, self.deadline.timeout)
        await self.delete()

    async def delete(self) -> None:
        """Delete what this upload has stored, but nothing of another file with its id. It stores nothing afterwards.

        Raises:
            PyMongoError: An operation failed.
        """
        if self._is_deleted or self.is_of_parent:
            return
        self._check_session()
        self.give_up()
        before = self._insertions
        with within(self.deadline):
            if self._in_doubt and not self._is_ordered and not await have_replies_arrived(self._store.chunks):
                if self._document is not None:
                    # It may be written later, and then needs its chunks.
                    raise _unknown()
            elif self._document is not None:
                await self._store.files.delete_one(this_upload(self._document), session=self._session)
                self._in_doubt = False
            await self._delete_chunks()
        # Not if another task has inserted meanwhile: its insertion may have come last.
        self._is_deleted = not self._is_inserting and before == self._insertions

    async def _delete_chunks(self) -> None:
        chunks, session, file_id = self._store.chunks, self._session, equal(self._splitter.file_id)
        for ids in self._splitter.ids(_DELETED_AT_ONCE):
            if self._in_doubt and self._is_ordered:
                # Retryable, unlike the deletion of many: comes after the batch that is in doubt.
                await chunks.delete_one({"files_id": file_id, "_id": ids[0]}, session=session)
            self._in_doubt = False
            await chunks.delete_many({"files_id": file_id, "_id": {"$in": ids}}, session=session)

    @property
    def _is_ordered(self) -> bool:
        """Whether the server carries out the writes of the session in their order."""
        state = None if self._session is None else self._session._state.server_session
        is_used = state is not None and state.transaction_number > 0
        return is_used and self._store.files._core.options.retry_writes

    async def release(self) -> None:
        """Give back the session."""
        session, self._session = self._session, None
        if self._has_session and session is not None:
            await session.end_session()
