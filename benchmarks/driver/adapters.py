"""Net: the drivers, each behind the operations that the tasks need.

The tasks are written once, as coroutines. For the blocking driver those never wait, and run without an event loop.
"""

from __future__ import annotations

import importlib
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from benchmarks.arms import ARMS as ASYNC_ARMS
from benchmarks.arms import POOL_SIZE, Arm
from benchmarks.loops import THREADS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

DATABASE, COLLECTION = "perftest", "corpus"


class Adapter:
    """A driver's database, and how to use it."""

    def __init__(
        self,
        database: Any,
        *,
        read_all: Callable[[Any], Awaitable[list[Any]]],
        models: Any,
        bucket: Callable[[Any], Any] | None,
        is_blocking: bool = False,
    ) -> None:
        self.client = database.client
        self.database = database
        self.corpus = database[COLLECTION]
        self.read_all = read_all
        # The module with InsertOne and the like, or None.
        self.models = models
        # Makes a GridFS bucket of a database; None: the driver has other methods.
        self._bucket: Any = bucket
        self.wait = _value if is_blocking else _awaited

    async def run_command(self, command: dict[str, Any]) -> Any:
        """Run a command."""
        return await self.wait(self.database.command(command))

    async def upload(self, name: str, data: bytes) -> None:
        """Store a file in GridFS."""
        await self.wait(self._bucket(self.database).upload_from_stream(name, data))

    async def download(self, file_id: str) -> bytes:
        """Read a file from GridFS."""
        stream = self._bucket(self.database).open_download_stream(file_id)
        data: bytes = await self.wait((await self.wait(stream)).read())
        return data


class MongojetAdapter(Adapter):
    """mongojet, whose GridFS and commands have other names."""

    async def run_command(self, command: dict[str, Any]) -> Any:
        return await self.database.run_command(command)

    async def upload(self, name: str, data: bytes) -> None:
        await self.database.gridfs_bucket().put(data, filename=name)

    async def download(self, file_id: str) -> bytes:
        data: bytes = await self.database.gridfs_bucket().get_by_id(file_id)
        return data


async def _awaited(value: Any) -> Any:
    return await value


async def _value(value: Any) -> Any:
    return value


def _async_arm(name: str, bucket: str = "") -> Arm:
    arm, kind = ASYNC_ARMS[name], MongojetAdapter if name == "mongojet" else Adapter
    module, _, maker = bucket.partition(":")

    @asynccontextmanager
    async def open_adapter(uri: str) -> AsyncIterator[Adapter]:
        async with arm.open(uri) as driver:
            make = getattr(importlib.import_module(module), maker) if bucket else None
            database = driver.database.client[DATABASE]
            yield kind(database, read_all=driver.read_all, models=driver.models, bucket=make)

    return replace(arm, open=open_adapter)


@asynccontextmanager
async def _open_pymongo(uri: str) -> AsyncIterator[Adapter]:
    import pymongo
    from gridfs import GridFSBucket

    async def read_all(cursor: Any) -> list[Any]:
        found: list[Any] = cursor.to_list()
        return found

    with pymongo.MongoClient[dict[str, Any]](uri, maxPoolSize=POOL_SIZE) as client:
        yield Adapter(client[DATABASE], read_all=read_all, models=pymongo, bucket=GridFSBucket, is_blocking=True)


_MOTORLITE = "motorlite.gridfs:AsyncGridFSBucket"
ARMS = {
    arm.name: arm
    for arm in (
        _async_arm("motorlite", _MOTORLITE),
        _async_arm("motorlite-uvloop", _MOTORLITE),
        _async_arm("motorlite-trio", _MOTORLITE),
        _async_arm("pymongo", "gridfs.asynchronous:AsyncGridFSBucket"),
        Arm("pymongo-sync", ("pymongo",), _open_pymongo, THREADS, note="blocking"),
        _async_arm("motor", "motor.motor_asyncio:AsyncIOMotorGridFSBucket"),
        _async_arm("mongojet"),
    )
}
