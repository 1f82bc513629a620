"""Shell: the two collections of a bucket, and the deadline of what is done with them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio
from bson.codec_options import TypeRegistry

from motorlite._api.session import is_in_transaction, session_of_one_call
from motorlite._api.time_limits import deadline, is_timeout_set
from motorlite._api.turns import Turns, give_way
from motorlite._base.arguments import converted
from motorlite._base.deadline import NO_DEADLINE
from motorlite._gridfs.errors import NoFile
from motorlite._gridfs.files import CHUNKS_INDEX, FILES_INDEX, among, checked_file, equal, has_index, revision_order
from motorlite.errors import AutoReconnect, ConfigurationError, InvalidOperation, PyMongoError
from motorlite.read_concern import ReadConcern
from motorlite.read_preferences import ReadPreference

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from motorlite._api.handles import AsyncCollection
    from motorlite._api.session import AsyncClientSession
    from motorlite._base.deadline import Deadline
    from motorlite.stats import ClientStats


# What is still done for a call that was cancelled, so that no half file remains.

LIMIT: Final = 5.0
"""Seconds for which a cancelled call may go on to delete chunks."""


# Seconds between two looks for the replies to cancelled operations, and how many there are: they make three seconds.
# Without a limit on the server, the pool gives up such a reply after one.
_LOOK_EVERY: Final = 0.01
_LOOKS: Final = 300


def is_cancellation(error: BaseException, chunks: AsyncCollection[Any]) -> bool:
    """Whether an exception cancels the call: that of the event loop, or an error in a cancel scope that has expired.

    A scope's deadline limits the operations in it on the server too, whose error may come first on a busy machine.
    """
    if isinstance(error, Exception):
        core = chunks._core
        return core.scope_deadline() <= core.now()
    return not isinstance(error, (GeneratorExit, KeyboardInterrupt, SystemExit))


async def have_replies_arrived(chunks: AsyncCollection[Any]) -> bool:
    """Wait for the replies to operations that were cancelled. False if one did not arrive."""
    client = chunks.database.client
    lost = _lost_replies(client.stats())
    for _ in range(_LOOKS):
        stats = client.stats()
        if not any(server.pending for server in stats.servers.values()):
            return _lost_replies(stats) == lost
        await anyio.sleep(_LOOK_EVERY)
    return False


def _lost_replies(stats: ClientStats) -> int:
    return sum(server.replies_given_up for server in stats.servers.values())


async def finish(chunks: AsyncCollection[Any], error: BaseException, work: Callable[[], Awaitable[None]]) -> None:
    """Delete chunks because of `error`, which gets a note if that fails. Not cancelled, and limited to `LIMIT`."""
    if not chunks.database.client.topology_description.has_writable_server():
        error.add_note(
            f"there may be chunks without a file in {chunks.full_name}: no server is known that takes writes"
        )
        return
    with anyio.move_on_after(LIMIT, shield=True) as scope:
        try:
            await work()
        except PyMongoError as failure:
            error.add_note(f"there may be chunks without a file in {chunks.full_name}: {failure}")
        except BaseException as second:
            # asyncio cancels a second time in spite of the shield.
            second.add_note(f"there may be chunks without a file in {chunks.full_name}: their deletion was cancelled")
            raise
    if scope.cancelled_caught:
        error.add_note(f"there may be chunks without a file in {chunks.full_name}: {LIMIT:g} s were not enough")


def note_part(error: BaseException) -> None:
    """Note in the error that ends a call of several operations that an earlier one has changed something."""
    if isinstance(error, PyMongoError):
        error.may_have_been_executed = True


class Store:
    """The collections of files and chunks. Streams of one bucket share it.

    Args:
        root: The collection ``"fs"``, which has their settings and is never used itself.

    Raises:
        ConfigurationError: The write concern is w=0.
    """

    __slots__ = ("_drops", "_has_indexes", "chunks", "files")

    def __init__(self, root: AsyncCollection[Any]) -> None:
        if not root.write_concern.acknowledged:
            raise ConfigurationError("GridFS needs an acknowledged write concern: a file exists when its chunks do")
        # An answer that is not the server's could have an upload delete the file that it has just stored.
        root = root._with_settings(root.name, root._settings.without_fallback())
        # Types of the application's own may change documents: those of GridFS stay as they are.
        options = root.codec_options.with_options(type_registry=TypeRegistry())
        self.files: AsyncCollection[Any] = root.with_options(options)["files"]
        plain: Any = options.with_options(document_class=dict)
        self.chunks: AsyncCollection[Any] = root.with_options(plain)["chunks"]
        # Whether `ensure_indexes` has nothing left to do.
        self._has_indexes: bool = False
        # How often `drop` has run, which takes away the indexes that `ensure_indexes` creates meanwhile.
        self._drops = 0

    def lifetime(self, timeout_ms: float | None = None) -> Deadline:
        """Return the deadline of a call or stream that begins now; without any timeout, of each of its operations."""
        inherited = self.files._settings.timeout
        if not is_timeout_set(inherited, timeout_ms):
            return NO_DEADLINE
        core = self.files._core
        core.enter()
        return deadline(core, inherited, timeout_ms)

    async def turns(self, deadline: Deadline) -> Turns:
        """Return the turns of a stream, which may compute on bytes in memory for a long time."""
        core = self.files._core
        try:
            core.enter()
        except PyMongoError:
            await give_way()
            raise
        return Turns(core, deadline)

    def new_session(self) -> AsyncClientSession:
        """Return a session for the writes of one upload."""
        return session_of_one_call(self.files.database.client, self.files._core)

    # --- files ---

    async def find_file(self, file_id: Any, session: AsyncClientSession | None) -> Mapping[str, Any]:
        """Return the document of a file.

        Raises:
            NoFile: There is none.
        """
        check_session(session)
        found = await self.files.find_one({"_id": equal(file_id)}, session=session)
        if found is None:
            raise NoFile(f"{self.files.full_name} has no file with the id {file_id!r}")
        return checked_file(found)

    async def find_revision(
        self, query: Mapping[str, Any], revision: int, session: AsyncClientSession | None
    ) -> Mapping[str, Any]:
        """Return the document of one of the files that match, by their age.

        Raises:
            NoFile: There are not so many, or there is none at all.
        """
        direction, skip = converted("revision", revision, revision_order)
        check_session(session)
        found = await self.files.find_one(query, skip=skip, sort={"uploadDate": direction}, session=session)
        if found is None:
            where = f"{self.files.full_name} has no"
            if skip and await self.files.find_one(query, {"_id": 1}, session=session) is not None:
                raise NoFile(f"{where} revision {revision} of the file with {_described(query)}")
            raise NoFile(f"{where} file with {_described(query)}")
        return checked_file(found)

    async def delete(self, file_id: Any, session: AsyncClientSession | None) -> bool:
        """Delete a file and then its chunks. Return whether there was such a file.

        Chunks without a file may belong to an upload in progress. If the upload wrote its document meanwhile, this
        deletes the file after all; if it writes it later, the upload notices (`Upload.complete`).
        """
        check_session(session)
        file, chunks = {"_id": equal(file_id)}, {"files_id": equal(file_id)}
        count = 0
        try:
            deleted = await self.files.delete_one(file, session=session)
            count = deleted.deleted_count
            found = await self.chunks.delete_many(chunks, session=session)
            count += found.deleted_count
            if found.deleted_count and not deleted.deleted_count:
                deleted = await self.files.delete_one(file, session=session)
                if deleted.deleted_count:
                    await self.chunks.delete_many(chunks, session=session)
        except BaseException as error:
            if count:
                note_part(error)
            if is_cancellation(error, self.chunks):
                await finish(self.chunks, error, partial(self._delete_orphans, [file_id], session))
            raise
        return deleted.deleted_count > 0

    async def has_chunks(self, file_id: Any, count: int, session: AsyncClientSession | None) -> bool:
        """Return whether the primary has the first `count` chunks of a file. It reads only their index."""
        chunks = self.chunks.with_options(read_preference=ReadPreference.PRIMARY, read_concern=ReadConcern("local"))
        # Numbers are unique, so the last one is in its place if none is missing.
        fields, last = {"_id": 0, "n": 1}, count - 1
        found = await chunks.find_one({"files_id": equal(file_id)}, fields, sort={"n": 1}, skip=last, session=session)
        return found is not None and found["n"] == last

    async def delete_named(self, filename: str, session: AsyncClientSession | None) -> bool:
        """Delete all files of a name and then their chunks. Return whether there were any."""
        check_session(session)
        async with self.files.find({"filename": filename}, {"_id": 1}, session=session) as files:
            file_ids = [file["_id"] for file in await files.to_list()]
        if not file_ids:
            return False
        count = 0
        try:
            deleted = await self.files.delete_many({"_id": {"$in": file_ids}}, session=session)
            count = deleted.deleted_count
            await self.chunks.delete_many({"files_id": {"$in": file_ids}}, session=session)
        except BaseException as error:
            if count:
                note_part(error)
            if is_cancellation(error, self.chunks):
                await finish(self.chunks, error, partial(self._delete_orphans, file_ids, session))
            raise
        return count > 0

    async def _delete_orphans(self, file_ids: list[Any], session: AsyncClientSession | None) -> None:
        """Delete the chunks of files that are gone. The server may still be carrying out a cancelled deletion."""
        are_known = await have_replies_arrived(self.chunks)
        # Read with `local`: majority-committed data may still contain the files.
        primary = self.files.with_options(read_preference=ReadPreference.PRIMARY, read_concern=ReadConcern("local"))
        async with primary.find({"_id": among(file_ids)}, {"_id": 1}, session=session) as files:
            left = [file["_id"] for file in await files.to_list()]
        gone = [file_id for file_id in file_ids if file_id not in left]
        if gone:
            # A stale primary may have answered, and its deletion may be rolled back. So delete the files again before
            # their chunks, with the write concern of the bucket.
            await self.files.delete_many({"_id": among(gone)}, session=session)
            await self.chunks.delete_many({"files_id": among(gone)}, session=session)
        if left and not are_known:
            raise AutoReconnect("a reply was lost: the deletion of a file may be carried out later")

    async def drop(self, session: AsyncClientSession | None) -> None:
        """Drop both collections, so that no file is left without chunks."""
        try:
            await self.files.drop(session)
            try:
                await self.chunks.drop(session)
            except PyMongoError as error:
                note_part(error)
                raise
        finally:
            # The indexes are gone with their collections, perhaps even after an error.
            self._has_indexes = False
            self._drops += 1

    # --- indexes ---

    async def ensure_indexes(self, session: AsyncClientSession | None) -> None:
        """Create the indexes of GridFS before the bucket's first file (specification, "Before write operations")."""
        if self._has_indexes:
            return
        drops = self._drops
        files = self.files.with_options(read_preference=ReadPreference.PRIMARY)
        if await files.find_one({}, {"_id": 1}, session=session) is None:
            await _ensure_index(self.files, FILES_INDEX, session)
            await _ensure_index(self.chunks, CHUNKS_INDEX, session, unique=True)
        self._has_indexes = drops == self._drops


async def _ensure_index(
    collection: AsyncCollection[Any], keys: dict[str, int], session: AsyncClientSession | None, **options: Any
) -> None:
    # Looked at first: an application may be allowed to see indexes, but not to create them.
    async with collection.list_indexes(session) as indexes:
        if has_index(keys, await indexes.to_list()):
            return
    await collection.create_index(keys, session, **options)


def _described(query: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value!r}" for name, value in query.items()) or "any name"


def check_session(session: AsyncClientSession | None) -> None:
    """Refuse a session in a transaction, which would have to hold whole files.

    Raises:
        TypeError: `session` is not a session.
        InvalidOperation: It, or the session that is bound here, is in one.
    """
    if is_in_transaction(session):
        raise InvalidOperation("GridFS cannot be used in a transaction: files are larger than transactions may be")
