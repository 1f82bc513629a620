"""GridFS on real servers: read and written by PyMongo too, from and to files, cancelled at random points."""

from __future__ import annotations

import io
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import gridfs
import pymongo
import pytest

from motorlite._gridfs import upload
from motorlite.errors import OperationFailure, PyMongoError
from motorlite.gridfs import AsyncGridFS, AsyncGridFSBucket, CorruptGridFile, FileExists, NoFile
from tests.support.clients import make_client
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from pathlib import Path

    from motorlite.testing import LocalServer
    from tests.support.clients import Client

pytestmark = pytest.mark.anyio

# Several chunks of 255 KiB, and a rest.
CONTENT = random.Random(0).randbytes(700_000)


async def ask_pymongo(server: LocalServer, database: str, question: Callable[[gridfs.GridFSBucket], Any]) -> Any:
    """What PyMongo's GridFS answers."""

    def ask() -> Any:
        client: pymongo.MongoClient[dict[str, Any]]
        with pymongo.MongoClient(server.uri) as client:
            return question(gridfs.GridFSBucket(client[database]))

    return await anyio.to_thread.run_sync(ask)


async def test_pymongo_reads_what_was_stored(deployment: LocalServer, database_name: str) -> None:
    async with make_client(deployment) as client:
        bucket = AsyncGridFSBucket(client[database_name])
        file_id = await bucket.upload_from_stream("f", CONTENT, metadata={"a": 1})
        assert await ask_pymongo(
            deployment, database_name, lambda found: found.open_download_stream(file_id).read()
        ) == (CONTENT)
        names = await ask_pymongo(deployment, database_name, lambda found: [file.name for file in found.find({})])
        assert names == ["f"]
        indexes = await client[database_name].fs.chunks.index_information()
        assert indexes["files_id_1_n_1"] == {"v": 2, "key": [("files_id", 1), ("n", 1)], "unique": True}
        assert "filename_1_uploadDate_1" in await client[database_name].fs.files.index_information()


async def test_what_pymongo_stored_is_read(deployment: LocalServer, database_name: str) -> None:
    def store(bucket: gridfs.GridFSBucket) -> Any:
        return bucket.upload_from_stream("f", CONTENT, 100_000, {"a": 1})

    file_id = await ask_pymongo(deployment, database_name, store)
    async with make_client(deployment) as client:
        bucket = AsyncGridFSBucket(client[database_name])
        async with await bucket.open_download_stream(file_id) as file:
            assert await file.read() == CONTENT
            assert (file.filename, file.length, file.chunk_size, file.metadata) == ("f", 700_000, 100_000, {"a": 1})
            await file.seek(650_000)
            assert await file.read(60_000) == CONTENT[650_000:]


async def test_both_store_the_same(deployment: LocalServer, database_name: str) -> None:
    async with make_client(deployment) as client:
        database = client[database_name]
        await AsyncGridFSBucket(database).upload_from_stream_with_id(1, "f", CONTENT, metadata={"a": 1})
        await ask_pymongo(
            deployment,
            database_name,
            lambda bucket: bucket.upload_from_stream_with_id(2, "f", CONTENT, metadata={"a": 1}),
        )
        one, other = await database.fs.files.find(sort={"_id": 1}).to_list()
        assert set(one) == set(other)
        for field in set(one) - {"_id", "uploadDate"}:
            assert (type(one[field]), one[field]) == (type(other[field]), other[field])
        for chunk, same in zip(
            *[await database.fs.chunks.find({"files_id": n}, sort={"n": 1}).to_list() for n in (1, 2)], strict=True
        ):
            assert set(chunk) == set(same)
            assert (chunk["n"], chunk["data"]) == (same["n"], same["data"])


async def test_files(deployment: LocalServer, database_name: str, tmp_path: Path) -> None:
    path, copy = tmp_path / "file", tmp_path / "copy"
    path.write_bytes(CONTENT)
    async with make_client(deployment) as client:
        bucket = AsyncGridFSBucket(client[database_name])
        with path.open("rb") as source:
            await bucket.upload_from_stream_with_id(1, "f", source)
        with copy.open("wb") as target:
            await bucket.download_to_stream(1, target)
        assert copy.read_bytes() == CONTENT
        async with await anyio.open_file(path, "rb") as opened:
            await bucket.upload_from_stream_with_id(2, "g", opened)
        async with await anyio.open_file(copy, "wb") as opened:
            await bucket.download_to_stream_by_name("g", opened)
        assert copy.read_bytes() == CONTENT


async def test_a_stream_from_file_to_file(deployment: LocalServer, database_name: str) -> None:
    async with make_client(deployment) as client:
        bucket = AsyncGridFSBucket(client[database_name], "other", 1000)
        await bucket.upload_from_stream_with_id(1, "f", CONTENT)
        async with await bucket.open_download_stream(1) as source:
            await bucket.upload_from_stream_with_id(2, "g", source)
        async with await bucket.open_download_stream(2) as copied:
            assert b"".join([line async for line in copied]) == CONTENT


async def test_files_and_their_names(deployment: LocalServer, database_name: str) -> None:
    async with make_client(deployment) as client:
        bucket, fs = AsyncGridFSBucket(client[database_name]), AsyncGridFS(client[database_name])
        for number in range(3):
            await bucket.upload_from_stream_with_id(number, "f", str(number).encode())
            # Revisions are told apart by milliseconds.
            await anyio.sleep(0.002)
        for revision, content in ((0, b"0"), (-1, b"2"), (-2, b"1")):
            target = io.BytesIO()
            await bucket.download_to_stream_by_name("f", target, revision)
            assert target.getvalue() == content
        with pytest.raises(FileExists):
            await bucket.upload_from_stream_with_id(0, "f", b"x")
        assert await (await fs.get(0)).read() == b"0"
        await bucket.rename(0, "g")
        await bucket.rename_by_name("f", "h")
        assert sorted(await fs.list()) == ["g", "h"]
        assert [file._id async for file in bucket.find({"filename": "h"}).sort("uploadDate", -1)] == [2, 1]
        await bucket.delete(0)
        await bucket.delete_by_name("h")
        with pytest.raises(NoFile):
            await bucket.delete(0)
        assert await client[database_name].fs.chunks.find_one() is None
        await bucket.drop()
        assert await client[database_name].list_collection_names() == []


# --- cancelled at random points ---

SMALL = CONTENT[:200_000]


async def pieces() -> AsyncGenerator[bytes, None]:
    for start in range(0, len(SMALL), 30_000):
        await anyio.lowlevel.checkpoint()
        yield SMALL[start : start + 30_000]


async def what_is_left(client: Client, name: str) -> tuple[list[Any], list[Any]]:
    """The ids of all files, and those of chunks without one. Reads every file."""
    bucket = AsyncGridFSBucket(client[name])
    stored = [file["_id"] for file in await client[name].fs.files.find().to_list()]
    for file_id in stored:
        try:
            assert await (await bucket.open_download_stream(file_id)).read() == SMALL
        except CorruptGridFile as error:
            raise AssertionError(f"the file {file_id} is not whole: {error}") from error
    return stored, [each for each in await client[name].fs.chunks.distinct("files_id") if each not in stored]


async def cancel_at_random(client: Client, name: str, times: int, seed: int) -> None:
    """Upload files from ten tasks, and cancel most of them meanwhile."""
    numbers = random.Random(seed)
    bucket = AsyncGridFSBucket(client[name], chunk_size_bytes=9000)
    started = anyio.current_time()
    await bucket.upload_from_stream_with_id("first", "first", SMALL)
    usual = anyio.current_time() - started
    completed: list[int] = []

    async def one(file_id: int, patience: float) -> None:
        # The server knows the limit of the scope too, and its error may come before the cancellation.
        with suppress(OperationFailure):
            await upload_for(file_id, patience)

    async def upload_for(file_id: int, patience: float) -> None:
        with anyio.move_on_after(patience):
            if file_id % 3 == 0:
                await bucket.upload_from_stream_with_id(file_id, "f", SMALL)
            elif file_id % 3 == 1:
                source = pieces()
                try:
                    await bucket.upload_from_stream_with_id(file_id, "f", source)
                finally:
                    await source.aclose()
            else:
                async with bucket.open_upload_stream_with_id(file_id, "f") as stream:
                    for start in range(0, len(SMALL), 50_000):
                        await stream.write(SMALL[start : start + 50_000])
            completed.append(file_id)

    for first in range(0, times, 10):
        async with anyio.create_task_group() as group:
            for file_id in range(first, first + 10):
                group.start_soon(one, file_id, numbers.random() * usual * 4)
    stored, orphans = await what_is_left(client, name)
    assert set(completed) <= set(stored)
    assert orphans == []
    # The test is about those that were cancelled in the middle.
    assert len(completed) < times


@pytest.mark.slow
@pytest.mark.parametrize("topology", ["replica_set3", "replica_set", "standalone"])
async def test_uploads_that_are_cancelled_at_random_points(
    topology: str, request: pytest.FixtureRequest, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "BATCH", 40_000)
    async with make_client(request.getfixturevalue(topology)) as client:
        await cancel_at_random(client, database_name, 120, seed=7)


async def test_uploads_without_retryable_writes(
    replica_set: LocalServer, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "BATCH", 40_000)
    async with make_client(replica_set, retryWrites=False) as client:
        await cancel_at_random(client, database_name, 30, seed=8)


async def test_deletions_that_are_cancelled_at_random_points(replica_set: LocalServer, database_name: str) -> None:
    numbers = random.Random(9)
    async with make_client(replica_set) as client:
        bucket = AsyncGridFSBucket(client[database_name], chunk_size_bytes=9000)
        for number in range(30):
            await bucket.upload_from_stream_with_id(number, "f", SMALL)
            with anyio.move_on_after(numbers.random() * 0.01), suppress(PyMongoError):
                await bucket.delete(number)

        _, orphans = await what_is_left(client, database_name)
        assert orphans == []


async def test_a_file_is_whole_or_not_there_while_it_is_uploaded(replica_set: LocalServer, database_name: str) -> None:
    async with make_client(replica_set) as client:
        bucket = AsyncGridFSBucket(client[database_name], chunk_size_bytes=5000)
        reads: list[bool] = []
        is_over = False

        async def read() -> None:
            while not is_over:
                try:
                    async with await bucket.open_download_stream_by_name("f") as file:
                        assert await file.read() == SMALL
                        reads.append(True)
                except NoFile:
                    reads.append(False)

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await until(lambda: False in reads)
            await bucket.upload_from_stream("f", pieces())
            await until(lambda: True in reads)
            is_over = True


async def test_a_timeout(replica_set: LocalServer, database_name: str) -> None:
    async with make_client(replica_set, timeoutMS=10_000) as client:
        bucket = AsyncGridFSBucket(client[database_name])
        await bucket.upload_from_stream("f", b"first")

        async def slowly() -> AsyncGenerator[bytes, None]:
            while True:
                yield b"x"
                await anyio.sleep(0.05)

        source = slowly()
        with pytest.raises(PyMongoError) as caught:
            await bucket.upload_from_stream("f", source, timeoutMS=200)
        await source.aclose()
        assert caught.value.timeout
        assert len(await bucket.find({}).to_list()) == 1
