"""Net: the drivers, each behind the operations that the tasks need.

The tasks are written once, as coroutines. For the blocking driver those never wait, and run without an event loop.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from benchmarks.arms import ARMS as ASYNC_ARMS
from benchmarks.arms import POOL_SIZE, Arm, Driver
from benchmarks.loops import THREADS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

DATABASE, COLLECTION = "perftest", "corpus"


class Adapter:
    """A driver's database, and how to use it."""

    def __init__(self, driver: Driver, arm: Arm) -> None:
        self.client = driver.database.client
        self.database = self.client[DATABASE]
        self.corpus = self.database[COLLECTION]
        self.read_all: Any = driver.read_all
        self.models = driver.models
        self._bucket = driver.bucket
        self.wait = _value if arm.loop is THREADS else _awaited

    async def run_command(self, command: dict[str, Any]) -> Any:
        # mongojet, which has no bucket of this kind either, has another name for it.
        run = self.database.run_command if self._bucket is None else self.database.command
        return await self.wait(run(command))

    async def upload(self, name: str, data: bytes) -> None:
        if self._bucket is None:
            await self.database.gridfs_bucket().put(data, filename=name)
        else:
            await self.wait(self._bucket(self.database).upload_from_stream(name, data))

    async def download(self, file_id: str) -> bytes:
        data: bytes
        if self._bucket is None:
            data = await self.database.gridfs_bucket().get_by_id(file_id)
        else:
            stream = self._bucket(self.database).open_download_stream(file_id)
            data = await self.wait((await self.wait(stream)).read())
        return data


async def _awaited(value: Any) -> Any:
    return await value


async def _value(value: Any) -> Any:
    return value


@asynccontextmanager
async def _open_blocking(uri: str) -> AsyncIterator[Driver]:
    import pymongo
    from gridfs import GridFSBucket

    async def read_all(cursor: Any) -> list[Any]:
        found: list[Any] = cursor.to_list()
        return found

    with pymongo.MongoClient[dict[str, Any]](uri, maxPoolSize=POOL_SIZE) as client:
        database: Any = client[DATABASE]
        yield Driver(database[COLLECTION].find_one, database, read_all, pymongo, GridFSBucket)


ARMS = {
    **{name: ASYNC_ARMS[name] for name in ("motorlite", "motorlite-uvloop", "motorlite-trio", "pymongo")},
    "pymongo-sync": Arm("pymongo-sync", ("pymongo",), _open_blocking, THREADS, note="blocking"),
    **{name: ASYNC_ARMS[name] for name in ("motor", "mongojet")},
}
