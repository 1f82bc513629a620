"""GridFS on real servers: read and written by PyMongo too, cancelled at random points, read meanwhile."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import gridfs
import pymongo
import pytest

from motorlite._gridfs import upload
from motorlite.errors import OperationFailure
from motorlite.gridfs import AsyncGridFSBucket, CorruptGridFile, NoFile
from tests.support.clients import make_client
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

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
@pytest.mark.parametrize("topology", ["replica_set", "standalone"])
async def test_uploads_that_are_cancelled_at_random_points(
    topology: str, request: pytest.FixtureRequest, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "BATCH", 40_000)
    async with make_client(request.getfixturevalue(topology)) as client:
        await cancel_at_random(client, database_name, 60, seed=7)


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
