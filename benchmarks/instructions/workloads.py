"""Net: the operations whose instructions are counted, on each driver."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.bare import BareClient
from benchmarks.documents import COLLECTION, DATABASE, document
from benchmarks.loops import ANYIO, ASYNCIO, TRIO, UVLOOP, Loop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
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
    loop: Loop = ASYNCIO


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
    "bare": Arm(_bare),
    "bare-uvloop": Arm(_bare, UVLOOP),
    "motorlite": Arm(_motorlite),
    "motorlite-anyio": Arm(_motorlite, ANYIO),
    "motorlite-uvloop": Arm(_motorlite, UVLOOP),
    "motorlite-trio": Arm(_motorlite, TRIO),
    "pymongo": Arm(_pymongo),
}
