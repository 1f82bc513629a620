"""Shell: sends requests and counts their outcomes, and makes the server behave as if overloaded."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pymongo.errors
import pymongo.monitoring

from benchmarks.demo.scenario import COLLECTION, DATABASE
from motorlite.errors import PyMongoError
from motorlite.monitoring import CommandListener, RetryListener
from motorlite.testing import failpoints

if TYPE_CHECKING:
    from benchmarks.demo.scenario import Load
    from benchmarks.demo.tables import Tally
    from motorlite import AsyncCollection
    from motorlite.monitoring import CommandStartedEvent, RetryEvent

    Items = AsyncCollection[dict[str, Any]]
    from collections.abc import AsyncIterator, Callable

    from motorlite import AsyncMongoClient


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
    """Counts the attempts of PyMongo, which has no events for retries, and wants all three methods."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def started(self, event: pymongo.monitoring.CommandStartedEvent) -> None:
        self._tally.now.attempts += 1

    def succeeded(self, event: pymongo.monitoring.CommandSucceededEvent) -> None: ...

    def failed(self, event: pymongo.monitoring.CommandFailedEvent) -> None: ...


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


# --- the server ---


APP_NAME = "overload demo"
WINDOW = 0.05  # seconds


async def reject(control: AsyncMongoClient[dict[str, Any]], share: float) -> None:
    """Reject this share of all commands from now on, regardless of the load."""
    await control.admin.command(_of_demo(failpoints.overload(share)) if share else failpoints.off())


@asynccontextmanager
async def limited(control: AsyncMongoClient[dict[str, Any]], capacity: Callable[[float], float]) -> AsyncIterator[None]:
    """Admit `capacity(elapsed)` commands per second and reject the others, like a rate limiter.

    In every window, the server admits as many commands as the rate allows, in order of arrival.
    """
    async with anyio.create_task_group() as group:
        group.start_soon(_limit, control, capacity)
        try:
            yield
        finally:
            group.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await control.admin.command(failpoints.off())


async def _limit(control: AsyncMongoClient[dict[str, Any]], capacity: Callable[[float], float]) -> None:
    start = anyio.current_time()
    allowed, before = 0.0, start - WINDOW
    while True:
        now = anyio.current_time()
        # A fraction of an attempt is carried over to the next window.
        allowed += capacity(now - start) * (now - before)
        admitted, before = int(allowed), now
        allowed -= admitted
        await control.admin.command(
            _of_demo(
                failpoints.fail_command(
                    failpoints.ORDINARY_COMMANDS,
                    error_code=failpoints.INGRESS_REQUEST_RATE_LIMIT_EXCEEDED,
                    error_labels=failpoints.OVERLOAD_LABELS,
                    skip=admitted,
                )
            )
        )
        await anyio.sleep_until(now + WINDOW)


def _of_demo(failpoint: dict[str, Any]) -> dict[str, Any]:
    """Restrict the failpoint to the commands of the demo's clients.

    Without the namespace, it would also hit the internal find in config.transactions with which the server prepares
    the first retryable write of a session, and writes would be rejected more often than reads.
    """
    data = {**failpoint["data"], "appName": APP_NAME, "namespace": f"{DATABASE}.{COLLECTION}"}
    return {**failpoint, "data": data}
