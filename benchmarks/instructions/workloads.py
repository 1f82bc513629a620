"""Net: the operations whose instructions are counted, on each driver."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from benchmarks import arms
from benchmarks.documents import COLLECTION, document
from benchmarks.instructions.peer import REPLICA_SET

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from benchmarks.arms import Driver

    Operation = Callable[[], Awaitable[Any]]


# Of one document each, and of many.
SINGLE = ("find_one", "insert_one", "update_one", "replace_one")
MANY = ("find", "insert_many")
OPERATIONS = SINGLE + MANY


def operations(driver: Driver, count: int) -> dict[str, Operation]:
    """The operations; `count` is the number of documents of those that have many. The bare arm has one."""
    number, chosen = 1, document(1)
    collection: Any = None if driver.database is None else driver.database[COLLECTION]

    async def find() -> None:
        found = await collection.find({"address.code": {"$gte": number}}).to_list()
        if len(found) != count:
            raise ValueError(f"expected {count} documents, got {len(found)}")

    async def find_one() -> None:
        found = await driver.find_one({"_id": number})
        if found is None or found["_id"] != 0:
            raise ValueError(f"got the document {found!r}")

    if collection is None:
        return {"find_one": find_one}
    return {
        "find_one": find_one,
        "find": find,
        "insert_one": lambda: collection.insert_one({**chosen}),
        "update_one": lambda: collection.update_one({"_id": number}, {"$inc": {"visits": 1}}),
        "replace_one": lambda: collection.replace_one({"_id": number}, chosen),
        "insert_many": lambda: collection.insert_many([{**chosen} for _ in range(count)]),
    }


def uri(port: int, members: int = 0) -> str:
    """The pool of the other benchmarks, and no heartbeats in the middle; of a replica set, all members are read."""
    nearest = f"&replicaSet={REPLICA_SET}&readPreference=nearest&localThresholdMS=60000" if members else ""
    return f"mongodb://127.0.0.1:{port}/?maxPoolSize=100&heartbeatFrequencyMS=3600000{nearest}"


@asynccontextmanager
async def _live(uri: str) -> AsyncIterator[Driver]:
    """With `motorlite.exporters.live`, and no reader."""
    from motorlite.exporters import live

    with live():
        async with arms.ARMS["motorlite"].open(uri) as driver:
            yield driver


@asynccontextmanager
async def _watched(uri: str) -> AsyncIterator[Driver]:
    """With each operation followed, as while ``python -m motorlite.top`` reads.

    There is no reader: its snapshots come by the clock, and under callgrind all else takes fifty times as long.
    """
    async with arms.ARMS["motorlite"].open(uri) as driver:
        await driver.find_one({"_id": 1})
        if driver.database.client._core.watch() is None:
            raise ValueError("the client is not bound yet")
        yield driver


ARMS = {
    name: arms.ARMS[name]
    for name in ("bare", "motorlite", "motorlite-anyio", "motorlite-uvloop", "motorlite-trio", "pymongo")
}
ARMS |= {
    name: replace(arms.ARMS["motorlite"], name=name, open=opened)
    for name, opened in (("motorlite-live", _live), ("motorlite-watched", _watched))
}
