"""Net: the operations whose instructions are counted, on each driver."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.bare import BareClient
from benchmarks.documents import COLLECTION, DATABASE, document

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
    from contextlib import AbstractAsyncContextManager

    Operation = Callable[[], Awaitable[Any]]


# Of one document each, and of many.
SINGLE = ("find_one", "insert_one", "update_one", "replace_one")
MANY = ("find", "insert_many")
OPERATIONS = SINGLE + MANY


@dataclass(frozen=True, slots=True)
class Arm:
    """A driver on an event loop."""

    open: Callable[[int, int], AbstractAsyncContextManager[Callable[[str, int], Operation]]]
    # Run a main program, and a function in so many tasks. Not by anyio, whose presence costs the driver something.
    run: Callable[[Callable[[], Coroutine[Any, Any, None]]], None]
    at_once: Callable[[int, Callable[[], Coroutine[Any, Any, None]]], Awaitable[None]]


def _run_asyncio(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(main())


async def _asyncio_tasks(tasks: int, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(tasks):
            group.create_task(work())


def _run_uvloop(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def _run_trio(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    import trio

    trio.run(main)


async def _trio_tasks(tasks: int, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    import trio

    async with trio.open_nursery() as nursery:
        for _ in range(tasks):
            nursery.start_soon(work)


def _run_anyio(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    import anyio

    anyio.run(main)


async def _anyio_tasks(tasks: int, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    import anyio

    async with anyio.create_task_group() as group:
        for _ in range(tasks):
            group.start_soon(work)


def operations(collection: Any, count: int) -> dict[str, Operation]:
    """The operations; `count` is the number of documents of those that have many."""
    number, chosen = 1, document(1)

    async def find() -> None:
        found = await collection.find({"address.code": {"$gte": number}}).to_list()
        if len(found) != count:
            raise ValueError(f"expected {count} documents, got {len(found)}")

    async def find_one() -> None:
        found = await collection.find_one({"_id": number})
        if found["_id"] != 0:
            raise ValueError(f"got the document {found['_id']!r}")

    return {
        "find_one": find_one,
        "find": find,
        "insert_one": lambda: collection.insert_one({**chosen}),
        "update_one": lambda: collection.update_one({"_id": number}, {"$inc": {"visits": 1}}),
        "replace_one": lambda: collection.replace_one({"_id": number}, chosen),
        "insert_many": lambda: collection.insert_many([{**chosen} for _ in range(count)]),
    }


def uri(port: int) -> str:
    """The pool of the other benchmarks, and no heartbeats in the middle."""
    return f"mongodb://127.0.0.1:{port}/?maxPoolSize=100&heartbeatFrequencyMS=3600000"


@asynccontextmanager
async def _bare(port: int, tasks: int) -> AsyncIterator[Callable[[str, int], Operation]]:
    client = BareClient("127.0.0.1", port, min(tasks, 100))

    async def find_one() -> None:
        found = await client.find_one({"_id": 1})
        if found is None or found["_id"] != 0:
            raise ValueError(f"got the document {found!r}")

    def operation(name: str, _count: int) -> Operation:
        if name != "find_one":
            raise SystemExit(f"the bare arm has no {name}")
        return find_one

    try:
        yield operation
    finally:
        client.close()


@asynccontextmanager
async def _motorlite(port: int, tasks: int) -> AsyncIterator[Callable[[str, int], Operation]]:
    from motorlite import AsyncMongoClient

    async with AsyncMongoClient(uri(port)) as client:
        yield lambda name, count: operations(client[DATABASE][COLLECTION], count)[name]


@asynccontextmanager
async def _pymongo(port: int, tasks: int) -> AsyncIterator[Callable[[str, int], Operation]]:
    from pymongo import AsyncMongoClient

    async with AsyncMongoClient(uri(port)) as client:
        yield lambda name, count: operations(client[DATABASE][COLLECTION], count)[name]


ARMS = {
    "bare": Arm(_bare, _run_asyncio, _asyncio_tasks),
    "bare-uvloop": Arm(_bare, _run_uvloop, _asyncio_tasks),
    "motorlite": Arm(_motorlite, _run_asyncio, _asyncio_tasks),
    "motorlite-anyio": Arm(_motorlite, _run_anyio, _anyio_tasks),
    "motorlite-uvloop": Arm(_motorlite, _run_uvloop, _asyncio_tasks),
    "motorlite-trio": Arm(_motorlite, _run_trio, _trio_tasks),
    "pymongo": Arm(_pymongo, _run_asyncio, _asyncio_tasks),
}
