"""Shell: sends requests through the driver and counts their outcomes."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import anyio
import pymongo.errors
import pymongo.monitoring

from motorlite.errors import PyMongoError
from motorlite.monitoring import CommandListener, RetryListener

if TYPE_CHECKING:
    from benchmarks.demo.scenario import Load
    from benchmarks.demo.tally import Tally
    from motorlite import AsyncCollection
    from motorlite.monitoring import CommandStartedEvent, RetryEvent

    Items = AsyncCollection[dict[str, Any]]

# The two drivers have the same labels, and no exception in common.
ERRORS = (PyMongoError, pymongo.errors.PyMongoError)
ITEMS = 200
SHELVES = 20


class Watch(CommandListener, RetryListener):
    """Counts attempts and the driver's own retries."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def started(self, event: CommandStartedEvent) -> None:
        self._tally.now.attempts += 1

    def retry(self, event: RetryEvent) -> None:
        self._tally.now.retries += event.permitted


class PyMongoWatch(pymongo.monitoring.CommandListener):
    """Counts the attempts of PyMongo, which has no events for retries."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def started(self, event: pymongo.monitoring.CommandStartedEvent) -> None:
        self._tally.now.attempts += 1

    def succeeded(self, event: pymongo.monitoring.CommandSucceededEvent) -> None:
        """PyMongo wants all three."""

    def failed(self, event: pymongo.monitoring.CommandFailedEvent) -> None:
        """PyMongo wants all three."""


async def prepare(items: Items) -> None:
    await items.drop()
    await items.insert_many([{"_id": number, "shelf": number % SHELVES, "sold": 0} for number in range(ITEMS)])


async def run_load(items: Items, tally: Tally, load: Load, application_retries: int = 0) -> None:
    """Send all requests of the load; return when the last one has succeeded or failed."""
    start = anyio.current_time()

    async def task(number: int) -> None:
        chance = random.Random(number)  # seeded: the same requests for every policy
        for request in range(load.requests_per_task):
            await anyio.sleep_until(start + load.due(number, request))
            await send(items, tally, chance, application_retries)

    async with anyio.create_task_group() as group:
        for number in range(load.tasks):
            group.start_soon(task, number)


async def send(items: Items, tally: Tally, chance: random.Random, retries: int) -> None:
    """Send one request; if the server rejects it, retry immediately up to `retries` times."""
    kind, number = chance.random(), chance.randrange(ITEMS)
    before = anyio.current_time()
    while True:
        try:
            await _request(items, kind, number)
        except ERRORS as error:
            if not error.has_error_label("SystemOverloadedError"):
                tally.surprises.append(f"{type(error).__name__}: {error}")
            elif retries:
                retries -= 1
                tally.now.retries += 1
                continue
            tally.now.failed += 1
        else:
            tally.now.served += 1
        tally.now.latencies.append(anyio.current_time() - before)
        return


async def _request(items: Items, kind: float, number: int) -> None:
    """Send a read or a write, sometimes one that retryable writes do not cover (updateMany)."""
    if kind < 0.6:
        await items.find_one({"_id": number})
    elif kind < 0.8:
        await items.update_one({"_id": number}, {"$inc": {"sold": 1}})
    elif kind < 0.85:
        await items.update_many({"shelf": number % SHELVES}, {"$set": {"checked": True}})
    elif kind < 0.95:
        await items.insert_one({"ordered": number})
    else:
        cursor = await items.aggregate([{"$match": {"shelf": number % SHELVES}}, {"$limit": 5}])
        await cursor.to_list()
