"""Large replies of real servers, which are decoded in slices: every way to read them, and leaving in between."""

from __future__ import annotations

import gc
import random
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

from motorlite import CursorType
from motorlite._wire.slices import SLICE
from tests.live.clients import open_cursors
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


async def test_cancelled_at_random_moments(coll: Any, deployment: LocalServer) -> None:
    chance = random.Random(0)
    for _ in range(30):
        with anyio.move_on_after(chance.random() * 0.15):
            assert len(await coll.find().to_list()) == len(DOCUMENTS)
        assert gc.isenabled()
    assert await coll.find().to_list() == DOCUMENTS
    # The cursors whose first batch was on its way are killed in the background.
    await until(lambda: open_cursors(deployment, coll.full_name) == 0)
