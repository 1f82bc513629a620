"""Large replies of real servers, which are decoded in slices: every way to read them, and leaving in between."""

from __future__ import annotations

import gc
import random
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import bson
import pytest
from bson.codec_options import CodecOptions, TypeDecoder, TypeRegistry
from bson.raw_bson import RawBSONDocument
from bson.son import SON

from motorlite import CursorType
from motorlite._wire.slices import SLICE
from motorlite.gridfs import AsyncGridFSBucket
from tests.live.load import is_at_rest
from tests.support.clients import make_client
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from motorlite.testing import LocalServer

pytestmark = pytest.mark.anyio

COUNT = 6000
# Small ones, some with arrays that look like a batch, and a few that are larger than a slice.
DOCUMENTS = [
    {
        "_id": number,
        "name": f"name {number}",
        "items": [{"a": index} for index in range(number % 50)],
        "text": "x" * (SLICE + 1000 if number % 2000 == 1999 else number % 100),
    }
    for number in range(COUNT)
]


class Shout(TypeDecoder):
    bson_type = str

    def transform_bson(self, value: str) -> str:
        return value.upper()


@pytest.fixture
async def coll(deployment: LocalServer, database_name: str) -> AsyncIterator[Any]:
    async with make_client(deployment) as client:
        await client[database_name].c.insert_many(DOCUMENTS)
        yield client[database_name].c
        await until(lambda: is_at_rest(client))


async def iterated(cursor: Any) -> list[Any]:
    return [document async for document in cursor]


async def batched(cursor: Any) -> list[Any]:
    return [document async for batch in cursor.batches() for document in batch]


READERS: dict[str, Callable[[Any], Any]] = {
    "to_list": lambda coll: coll.find().to_list(),
    "async for": lambda coll: iterated(coll.find()),
    "batches": lambda coll: batched(coll.find()),
    "one batch": lambda coll: coll.find(batch_size=COUNT).to_list(),
    "prefetch": lambda coll: coll.find(prefetch=1).to_list(),
    "exhaust": lambda coll: coll.find(cursor_type=CursorType.EXHAUST).to_list(),
    "aggregate": lambda coll: coll.aggregate([{"$match": {}}]).to_list(),
    "command": lambda coll: coll.database.cursor_command("find", "c", batchSize=COUNT).to_list(),
}
CLASSES: dict[str, CodecOptions[Any]] = {
    "dict": CodecOptions(),
    "time zones": CodecOptions(tz_aware=True),
    "SON": CodecOptions(document_class=SON),
    "raw": CodecOptions(document_class=RawBSONDocument),
}


async def test_every_reader_gets_all(coll: Any) -> None:
    for name, reader in READERS.items():
        assert await reader(coll) == DOCUMENTS, name
        assert gc.isenabled()


@pytest.mark.parametrize("compressor", ["zlib", "snappy", "zstd"])
async def test_compressed(coll: Any, deployment: LocalServer, compressor: str) -> None:
    chance = random.Random(0)
    async with make_client(deployment, compressors=[compressor], maxPoolSize=1) as client:
        compressed = client[coll.database.name].c
        assert await compressed.find(batch_size=COUNT).to_list() == DOCUMENTS
        for _ in range(10):
            with anyio.move_on_after(chance.random() * 0.2):
                await compressed.find(batch_size=COUNT).to_list()
            assert await compressed.find_one({"_id": 5}) == DOCUMENTS[5]
        await until(lambda: is_at_rest(client))


async def test_codec_options(coll: Any) -> None:
    for options in CLASSES.values():
        found = await coll.with_options(codec_options=options).find().to_list()
        assert {type(document) for document in found} == {options.document_class}
        if options.document_class is RawBSONDocument:
            found = [bson.decode(document.raw) for document in found]
        assert found == DOCUMENTS
    options = CodecOptions(type_registry=TypeRegistry([Shout()]))
    found = await coll.with_options(codec_options=options).find({}, {"name": 1}).to_list()
    assert found == [{"_id": number, "name": f"NAME {number}"} for number in range(COUNT)]


async def test_raw_batches(coll: Any) -> None:
    for cursor in (coll.find_raw_batches(), coll.aggregate_raw_batches([{"$match": {}}])):
        found = [document for batch in await cursor.to_list() for document in bson.decode_all(batch)]
        assert found == DOCUMENTS


async def test_other_tasks_get_their_turns(coll: Any) -> None:
    turns, is_done = 0, False

    async def count() -> None:
        nonlocal turns
        while not is_done:
            turns += 1
            await anyio.lowlevel.checkpoint()

    await coll.find_one()
    async with anyio.create_task_group() as group:
        group.start_soon(count)
        await coll.find(batch_size=COUNT)
        is_done = True
    assert turns >= sum(len(bson.encode(document)) for document in DOCUMENTS) // SLICE // 2


async def test_cancelled_at_random_moments(coll: Any) -> None:
    chance = random.Random(0)
    for _ in range(30):
        with anyio.move_on_after(chance.random() * 0.15):
            assert len(await coll.find().to_list()) == len(DOCUMENTS)
        assert gc.isenabled()
    assert await coll.find().to_list() == DOCUMENTS
    # The cursors whose first batch was on its way are killed in the background.
    for _ in range(1000):
        if not await open_cursors(coll):
            break
        await anyio.sleep(0.01)
    else:
        pytest.fail("a cursor is left")


async def open_cursors(coll: Any) -> int:
    """How many cursors of this collection the server keeps."""
    pipeline = [
        {"$currentOp": {"allUsers": True, "idleCursors": True}},
        {"$match": {"ns": f"{coll.database.name}.{coll.name}", "cursor": {"$exists": True}}},
    ]
    return len(await (await coll.database.client.admin.aggregate(pipeline)).to_list())


async def test_grid_fs(coll: Any) -> None:
    content = random.Random(0).randbytes(3_000_000)
    bucket = AsyncGridFSBucket(coll.database, chunk_size_bytes=1000)
    file_id = await bucket.upload_from_stream("f", content)
    assert await (await bucket.open_download_stream(file_id)).read() == content


async def test_a_change_stream_whose_steps_are_cancelled(coll: Any) -> None:
    numbers: list[int] = []
    async with coll.watch(max_await_time_ms=100) as stream:
        await coll.update_many({}, {"$set": {"text": "y" * 1000}})
        with anyio.fail_after(120):
            limit = 0.02
            while len(numbers) < COUNT:
                with anyio.move_on_after(limit):
                    numbers += [change["documentKey"]["_id"] for change in await stream.to_list()]
                limit *= 1.5
    assert numbers == list(range(COUNT))
