"""A bucket: its indexes, downloads, names, deletions, settings and wrong arguments."""

from __future__ import annotations

import copy
import io
import pickle
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite.errors import ConfigurationError, InvalidName, OperationFailure, PyMongoError
from motorlite.gridfs import AsyncGridFSBucket, GridFSError, NoFile
from motorlite.read_concern import ReadConcern
from motorlite.read_preferences import ReadPreference
from motorlite.testing.scripted import Reply, failure
from motorlite.write_concern import WriteConcern
from tests.support.stored_files import stored_files

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support.clients import Client
    from tests.support.stored_files import StoredFiles

pytestmark = pytest.mark.anyio

LOOK = "find fs.files"
LIST_FILES, LIST_CHUNKS = "listIndexes fs.files", "listIndexes fs.chunks"
INDEX_FILES, INDEX_CHUNKS = "createIndexes fs.files", "createIndexes fs.chunks"
INSERTS = ["insert fs.chunks", "insert fs.files", "find fs.chunks"]


# --- indexes ---


async def test_indexes_are_created_before_the_first_file(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    stream = bucket.open_upload_stream("f")
    await stream.write(b"x")
    assert files.names() == []
    await stream.close()
    assert files.names() == [LOOK, LIST_FILES, INDEX_FILES, LIST_CHUNKS, INDEX_CHUNKS, *INSERTS]
    assert [index["key"] for index in files.indexes["fs.files"]] == [{"filename": 1, "uploadDate": 1}]
    (chunks,) = files.indexes["fs.chunks"]
    assert (chunks["key"], chunks["unique"]) == ({"files_id": 1, "n": 1}, True)
    files.server.received.clear()
    # Once for a bucket.
    await bucket.upload_from_stream("f", b"x")
    assert files.names() == INSERTS


async def test_no_indexes_where_there_are_files(files: StoredFiles, bucket: AsyncGridFSBucket, client: Client) -> None:
    await bucket.upload_from_stream("f", b"x")
    files.server.received.clear()
    await AsyncGridFSBucket(client.db).upload_from_stream("f", b"x")
    assert files.names() == [LOOK, *INSERTS]
    look = files.server.commands("find")[0]
    assert (look["filter"], look["projection"], look["limit"]) == ({}, {"_id": 1}, 1)


async def test_no_indexes_that_exist(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    files.indexes["fs.files"] = [{"key": {"filename": 1.0, "uploadDate": 1}}]
    files.indexes["fs.chunks"] = [{"key": {"files_id": 1, "n": 1.0}}]
    await bucket.upload_from_stream("f", b"x")
    assert files.names() == [LOOK, LIST_FILES, LIST_CHUNKS, *INSERTS]


async def test_an_index_that_cannot_be_created(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    files.answers[INDEX_FILES] = [failure(13)]
    with pytest.raises(OperationFailure):
        await bucket.upload_from_stream("f", b"x")
    assert files.files == files.chunks == []
    # The next upload tries it again.
    await bucket.upload_from_stream("f", b"x")
    assert set(files.indexes) == {"fs.files", "fs.chunks"}


async def test_reading_creates_no_indexes(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    for step in (bucket.delete, bucket.open_download_stream, bucket.delete_by_name):
        with pytest.raises(NoFile):
            await step("f")
    assert not {LIST_FILES, INDEX_FILES} & set(files.names())


# --- downloads ---


async def test_download(bucket: AsyncGridFSBucket) -> None:
    seen: list[tuple[int, int | None]] = []
    file_id = await bucket.upload_from_stream("f", b"0123456789")
    for is_by_name in (False, True):
        seen.clear()
        target = io.BytesIO()
        if is_by_name:
            await bucket.download_to_stream_by_name("f", target, progress=lambda *now: seen.append(now))
        else:
            await bucket.download_to_stream(file_id, target, progress=lambda *now: seen.append(now))
        assert target.getvalue() == b"0123456789"
        assert not target.closed
        assert seen == [(4, 10), (8, 10), (10, 10)]


async def test_a_destination_that_fails(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    class Broken(io.BytesIO):
        def write(self, _data: Any) -> int:
            raise OSError("the disk is full")

    await bucket.upload_from_stream_with_id(1, "f", bytes(100))
    with pytest.raises(OSError, match="the disk is full"):
        await bucket.download_to_stream(1, Broken())
    assert files.cursors == {}
    with pytest.raises(TypeError, match="destination"):
        await bucket.download_to_stream(1, "path")


REVISIONS = [(0, b"0"), (1, b"1"), (2, b"2"), (-1, b"2"), (-2, b"1"), (-3, b"0")]


async def test_revisions(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    for number in range(3):
        await bucket.upload_from_stream("f", str(number).encode())
    files.spread()
    for revision, content in REVISIONS:
        async with await bucket.open_download_stream_by_name("f", revision) as stream:
            assert await stream.read() == content
    assert await (await bucket.open_download_stream_by_name("f")).read() == b"2"
    for revision in (3, -4, 2**40):
        with pytest.raises(NoFile, match=rf"db\.fs\.files has no revision {revision} of the file with filename 'f'"):
            await bucket.open_download_stream_by_name("f", revision)
    for revision in (0, -1, 5):
        with pytest.raises(NoFile, match=r"db\.fs\.files has no file with filename 'g'"):
            await bucket.open_download_stream_by_name("g", revision)
    for wrong in ("1", None, 1.0, True):
        with pytest.raises(TypeError, match="revision must be an integer"):
            await bucket.open_download_stream_by_name("f", wrong)  # type: ignore[arg-type]


# --- names and deletions ---


async def test_rename(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    await bucket.upload_from_stream_with_id(1, "f", b"x")
    await bucket.upload_from_stream_with_id(2, "f", b"x")
    await bucket.rename(1, "g")
    assert [file["filename"] for file in files.files] == ["g", "f"]
    await bucket.upload_from_stream_with_id(3, "f", b"x")
    await bucket.rename_by_name("f", "h")
    assert [file["filename"] for file in files.files] == ["g", "h", "h"]
    with pytest.raises(NoFile, match=r"db\.fs\.files has no file with the id 9 to rename"):
        await bucket.rename(9, "g")
    with pytest.raises(NoFile, match=r"db\.fs\.files has no file named 'f' to rename"):
        await bucket.rename_by_name("f", "g")


async def test_delete(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    await bucket.upload_from_stream_with_id(1, "f", bytes(10))
    await bucket.upload_from_stream_with_id(2, "f", bytes(10))
    files.server.received.clear()
    await bucket.delete(1)
    assert files.names() == ["delete fs.files", "delete fs.chunks"]
    assert [file["_id"] for file in files.files] == [2]
    assert {chunk["files_id"] for chunk in files.chunks} == {2}
    with pytest.raises(NoFile, match=r"db\.fs\.files has no file with the id 1 to delete"):
        await bucket.delete(1)


async def test_deleting_what_is_left_of_a_file(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    await bucket.upload_from_stream_with_id(1, "f", bytes(10))
    files.files.clear()
    with pytest.raises(NoFile):
        await bucket.delete(1)
    assert files.chunks == []


async def test_delete_by_name(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    for number, name in enumerate(["f", "g", "f"]):
        await bucket.upload_from_stream_with_id(number, name, bytes(10))
    files.server.received.clear()
    await bucket.delete_by_name("f")
    assert files.names() == [LOOK, "delete fs.files", "delete fs.chunks"]
    assert [file["_id"] for file in files.files] == [1]
    assert {chunk["files_id"] for chunk in files.chunks} == {1}
    with pytest.raises(NoFile, match=r"db\.fs\.files has no file named 'f' to delete"):
        await bucket.delete_by_name("f")


@pytest.mark.parametrize("step", ["delete", "delete_by_name"])
async def test_the_chunks_of_a_file_that_is_still_there_are_kept(
    files: StoredFiles, bucket: AsyncGridFSBucket, step: str
) -> None:
    await bucket.upload_from_stream_with_id("f", "f", bytes(10))
    # As if the deletion had not arrived.
    files.answers["delete fs.files"] = [Reply({"n": 0}, 1.0)]
    with anyio.move_on_after(0.5):
        await getattr(bucket, step)("f")
    await anyio.sleep(5)
    assert len(files.chunks) == 3
    assert await (await bucket.open_download_stream("f")).read() == bytes(10)


async def test_drop(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    await bucket.upload_from_stream_with_id(1, "f", bytes(10))
    files.server.received.clear()
    await bucket.drop()
    assert files.names() == ["drop fs.files", "drop fs.chunks"]
    assert files.files == files.chunks == []


@pytest.mark.parametrize("fails", [False, True])
async def test_indexes_are_created_again_after_a_drop(
    files: StoredFiles, bucket: AsyncGridFSBucket, fails: bool
) -> None:
    await bucket.upload_from_stream("f", b"x")
    if fails:
        files.answers["drop fs.chunks"] = [failure(2)]
        with pytest.raises(PyMongoError, match="scripted"):
            await bucket.drop()
    else:
        await bucket.drop()
    files.server.received.clear()
    await bucket.upload_from_stream("f", b"x")
    created = [name for name in files.names() if name.startswith("createIndexes")]
    assert created == ([INDEX_FILES] if fails else [INDEX_FILES, INDEX_CHUNKS])
    assert set(files.indexes) == {"fs.files", "fs.chunks"}


@pytest.mark.parametrize("file_id", [{"$gt": ""}, {"a": 1}, "x", 5, None], ids=str)
async def test_ids_of_any_type(files: StoredFiles, bucket: AsyncGridFSBucket, file_id: Any) -> None:
    await bucket.upload_from_stream_with_id("other", "g", b"othr")
    await bucket.upload_from_stream_with_id(file_id, "f", b"0123456789")
    assert await (await bucket.open_download_stream(file_id)).read() == b"0123456789"
    await bucket.rename(file_id, "h")
    await bucket.delete(file_id)
    assert [file["filename"] for file in files.files] == ["g"]
    assert [chunk["files_id"] for chunk in files.chunks] == ["other"]


# --- settings ---


async def test_settings(files: StoredFiles, client: Client) -> None:
    bucket = AsyncGridFSBucket(
        client.db,
        "images",
        9,
        WriteConcern("majority"),
        ReadPreference.PRIMARY_PREFERRED,
        ReadConcern("majority"),
        5000,
    )
    await bucket.upload_from_stream_with_id(1, "f", bytes(10))
    await (await bucket.open_download_stream(1)).read()
    assert {name.partition(" ")[2] for name in files.names()} == {"images.files", "images.chunks"}
    for received in files.server.received:
        command = received.document
        assert 0 < command["maxTimeMS"] <= 5000
        if received.name == "insert":
            assert command["writeConcern"] == {"w": "majority"}
        if received.name == "find":
            # The last look for the chunks of an upload sees what was just written.
            is_check = "skip" in command
            assert command["readConcern"] == {"level": "local" if is_check else "majority"}
    looks = [received.document.get("$readPreference") for received in files.server.received]
    # The primary knows whether there are files.
    assert looks[0] is None
    assert {"mode": "primaryPreferred"} in looks
    assert [len(chunk["data"]) for chunk in files.documents("images.chunks")] == [9, 1]


async def test_the_database_s_settings(files: StoredFiles, client: Client) -> None:
    database = client.db.with_options(timeoutMS=5000, write_concern=WriteConcern(2))
    await AsyncGridFSBucket(database).upload_from_stream("f", b"x")
    used = [command["maxTimeMS"] for command in files.server.commands()]
    # All commands of the call share it.
    assert used == sorted(used, reverse=True)
    assert 0 < used[-1] <= used[0] - 9 < 5000
    assert files.server.commands("insert")[0]["writeConcern"] == {"w": 2}


CALLS: dict[str, Callable[[AsyncGridFSBucket, float], Awaitable[Any]]] = {
    "upload": lambda bucket, limit: bucket.upload_from_stream("f", b"x", timeoutMS=limit),
    "upload with id": lambda bucket, limit: bucket.upload_from_stream_with_id(2, "f", b"x", timeoutMS=limit),
    "download": lambda bucket, limit: bucket.download_to_stream(1, io.BytesIO(), timeoutMS=limit),
    "download by name": lambda bucket, limit: bucket.download_to_stream_by_name("f", io.BytesIO(), timeoutMS=limit),
    "open": lambda bucket, limit: bucket.open_download_stream(1, timeoutMS=limit),
    "open by name": lambda bucket, limit: bucket.open_download_stream_by_name("f", timeoutMS=limit),
    "rename": lambda bucket, limit: bucket.rename(1, "g", timeoutMS=limit),
    "rename by name": lambda bucket, limit: bucket.rename_by_name("f", "g", timeoutMS=limit),
    "delete": lambda bucket, limit: bucket.delete(1, timeoutMS=limit),
    "delete by name": lambda bucket, limit: bucket.delete_by_name("f", timeoutMS=limit),
    "drop": lambda bucket, limit: bucket.drop(timeoutMS=limit),
}


@pytest.mark.parametrize("call", CALLS)
async def test_every_call_has_a_timeout_for_all_that_it_does(call: str) -> None:
    async with stored_files() as (files, bucket, _):
        await bucket.upload_from_stream_with_id(1, "f", bytes(10))
        files.server.received.clear()
        await CALLS[call](bucket, 1000)
        used = [received.document["maxTimeMS"] for received in files.server.received]
        assert used == sorted(used, reverse=True)
        assert 900 < used[0] <= 1000
        # Each command takes 10 ms of what is left for all of them.
        assert len(used) == 1 or used[-1] <= used[0] - 9
    async with stored_files() as (files, bucket, _):
        await bucket.upload_from_stream_with_id(1, "f", bytes(10))
        files.delays.update(dict.fromkeys(["find", "insert", "update", "delete", "drop"], 0.15))
        started = anyio.current_time()
        with pytest.raises(PyMongoError) as caught:
            await CALLS[call](bucket, 100)
        assert caught.value.timeout
        assert anyio.current_time() - started == pytest.approx(0.1)


async def test_0_is_no_limit() -> None:
    async with stored_files(timeoutMS=50) as (files, bucket, _):
        files.delays.update(dict.fromkeys(["find", "insert", "listIndexes", "createIndexes"], 1))
        with pytest.raises(PyMongoError):
            await bucket.upload_from_stream("f", b"x")
        await bucket.upload_from_stream_with_id(1, "f", b"x", timeoutMS=0)
        await bucket.download_to_stream(1, io.BytesIO(), timeoutMS=0)
        assert "maxTimeMS" not in files.server.commands("find")[-1]


@pytest.mark.parametrize("limit", [-1, float("nan"), "5", True])
async def test_wrong_timeouts(bucket: AsyncGridFSBucket, client: Client, limit: Any) -> None:
    for call in CALLS.values():
        with pytest.raises((TypeError, ValueError), match="timeoutMS"):
            await call(bucket, limit)
    with pytest.raises((TypeError, ValueError), match="timeoutMS"):
        AsyncGridFSBucket(client.db, timeoutMS=limit)


async def test_wrong_arguments(files: StoredFiles, bucket: AsyncGridFSBucket, client: Client) -> None:
    with pytest.raises(TypeError, match="db must be an instance of AsyncDatabase"):
        AsyncGridFSBucket(client)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="bucket_name"):
        AsyncGridFSBucket(client.db, 5)  # type: ignore[arg-type]
    with pytest.raises(InvalidName):
        AsyncGridFSBucket(client.db, "")
    with pytest.raises(ValueError, match="chunk_size_bytes must be an integer of at least 1"):
        AsyncGridFSBucket(client.db, chunk_size_bytes=0)
    with pytest.raises(ConfigurationError, match="acknowledged"):
        AsyncGridFSBucket(client.db, write_concern=WriteConcern(w=0))
    with pytest.raises(ValueError, match="chunk_size_bytes"):
        bucket.open_upload_stream("f", 0)
    with pytest.raises(TypeError, match="metadata must be a mapping"):
        bucket.open_upload_stream("f", metadata=5)  # type: ignore[arg-type]
    calls: list[Callable[[], Awaitable[Any]]] = [
        lambda: bucket.upload_from_stream(5, b""),  # type: ignore[arg-type]
        lambda: bucket.open_download_stream_by_name(5),  # type: ignore[arg-type]
        lambda: bucket.download_to_stream_by_name(5, io.BytesIO()),  # type: ignore[arg-type]
        lambda: bucket.delete_by_name(5),  # type: ignore[arg-type]
        lambda: bucket.rename(1, 5),  # type: ignore[arg-type]
        lambda: bucket.rename_by_name("f", 5),  # type: ignore[arg-type]
        lambda: bucket.rename_by_name(5, "f"),  # type: ignore[arg-type]
    ]
    for call in calls:
        with pytest.raises(TypeError, match="filename must be a string"):
            await call()
    assert files.names() == []


def test_errors_are_the_driver_s() -> None:
    assert issubclass(GridFSError, PyMongoError)
    assert issubclass(NoFile, GridFSError)
    assert NoFile.__module__ == "motorlite.gridfs.errors"


async def test_streams_are_not_copied(bucket: AsyncGridFSBucket) -> None:
    upload = bucket.open_upload_stream_with_id(1, "f")
    await upload.close()
    for stream in (upload, await bucket.open_download_stream(1)):
        for step in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="cannot be copied or pickled"):
                step(stream)
