"""What is done between two looks at the figures; each scenario runs in a process of its own."""

from __future__ import annotations

import asyncio
import gc
import os
import warnings
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.lowlevel

import motorlite
from motorlite.errors import InvalidOperation, PyMongoError
from tests.leaks.figures import Figures, figures
from tests.support.clients import make_client
from tests.support.faulty_server import DATABASE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from motorlite import AsyncCollection, AsyncMongoClient

    Client = AsyncMongoClient[dict[str, Any]]
    Collection = AsyncCollection[dict[str, Any]]
    Scenario = Callable[[str, int], Awaitable[tuple[Figures, Figures]]]

WORKERS: Final = 50
# Before the first look: caches fill, and all connections are opened.
WARM_UP: Final = 3_000


# --- operations, most of which fail ---


async def find_one(client: Client, collection: Collection) -> None:
    await collection.find_one({"_id": 1})


async def overloaded(client: Client, collection: Collection) -> None:
    await client[DATABASE].briefly.find_one({"_id": 1})


async def overloaded_write(client: Client, collection: Collection) -> None:
    await client[DATABASE].briefly.insert_one({})


async def failed_write(client: Client, collection: Collection) -> None:
    await client[DATABASE].failing.insert_many([{}, {}])


async def timed_out(client: Client, collection: Collection) -> None:
    async with motorlite.timeout(0.002):
        await client[DATABASE].slow.find_one({"_id": 1})


async def cancelled(client: Client, collection: Collection) -> None:
    with anyio.move_on_after(0.002):
        await client[DATABASE].slow.find_one({"_id": 1})


async def dropped_cursor(client: Client, collection: Collection) -> None:
    await client[DATABASE].cursor.find().next()


async def read_cursor(client: Client, collection: Collection) -> None:
    async for _ in client[DATABASE].cursor.find():
        pass


async def closed_cursor(client: Client, collection: Collection) -> None:
    async with client[DATABASE].cursor.aggregate([]) as cursor:
        await cursor.next()


async def dropped_stream(client: Client, collection: Collection) -> None:
    with anyio.move_on_after(0.002):
        async with client[DATABASE].slow.watch():
            pass


async def aborted(client: Client, collection: Collection) -> None:
    async with client.start_session() as session, session.start_transaction():
        await collection.insert_one({}, session=session)
        raise InvalidOperation("of the application")


async def dropped_session(client: Client, collection: Collection) -> None:
    session = client.start_session()
    await collection.find_one({}, session=session)


async def refused(client: Client, collection: Collection) -> None:
    await collection.update_one({}, {"a": 1})  # no operator


async def lost(client: Client, collection: Collection) -> None:
    await client[DATABASE].lost.find_one({"_id": 1})


async def half(client: Client, collection: Collection) -> None:
    await client[DATABASE].half.insert_one({})


async def lied_to(client: Client, collection: Collection) -> None:
    async with motorlite.timeout(0.05):
        await client[DATABASE].lying.find_one({"_id": 1})


OFTEN: Final = (
    *(find_one, overloaded, overloaded_write, failed_write, timed_out, cancelled, dropped_cursor, read_cursor),
    *(closed_cursor, dropped_stream, aborted, dropped_session, refused, find_one),
)
# After each, the client looks at the server again before it goes on.
RARELY: Final = (lost, half, lied_to)
RARE: Final = 200


def chosen() -> Iterator[Callable[[Client, Collection], Awaitable[None]]]:
    for number in count():
        yield RARELY[number // RARE % len(RARELY)] if number % RARE == 0 else OFTEN[number % len(OFTEN)]


async def perform(client: Client, operations: int) -> None:
    """So many operations, by several tasks at once."""
    left, work = iter(range(operations)), chosen()
    collection = client[DATABASE].ok

    async def worker() -> None:
        for _ in left:
            try:
                await next(work)(client, collection)
            except (PyMongoError, ValueError):
                continue

    async with anyio.create_task_group() as group:
        for _ in range(WORKERS):
            group.start_soon(worker)


async def at_rest(client: Client) -> int:
    """Wait until nothing is in use and the pool is full again; return the number of idle connections."""
    for _ in range(1000):
        await anyio.sleep(0.02)
        gc.collect()
        (server,) = client.stats().servers.values()
        busy = server.in_use + server.pending + server.waiting + server.connecting + server.operations
        if not busy and server.server_type != "Unknown" and server.idle >= client.options.pool_options.min_pool_size:
            # After an error, monitoring begins anew.
            await anyio.sleep(1)
            return server.idle
    raise AssertionError(f"not at rest: {client.stats()}")


def new_client(uri: str, **options: Any) -> Client:
    return make_client(uri, maxPoolSize=WORKERS, **options)


async def operations(uri: str, number: int) -> tuple[Figures, Figures]:
    """Operations with every kind of error, on one client."""
    # Each connection has a buffer: before and after, all of them are open.
    async with new_client(uri, minPoolSize=WORKERS) as client:
        await perform(client, min(WARM_UP, 2 * number))
        before = figures(connections=await at_rest(client))
        await perform(client, number)
        return before, figures(connections=await at_rest(client))


async def clients(uri: str, number: int) -> tuple[Figures, Figures]:
    """Clients that are opened, used, and closed."""

    async def some(wanted: int) -> Figures:
        for _ in range(wanted):
            async with new_client(uri) as client:
                await perform(client, 3)
        await anyio.sleep(0.2)
        return figures()

    return await some(20), await some(number)


async def dropped(uri: str, number: int) -> tuple[Figures, Figures]:
    """Clients that are never closed."""

    async def some(wanted: int) -> Figures:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ResourceWarning)
            for _ in range(wanted):
                client = new_client(uri)
                await find_one(client, client[DATABASE].ok)
                del client
                gc.collect()
                await anyio.lowlevel.checkpoint()
        assert sum("without close()" in str(each.message) for each in caught) == wanted
        del caught
        await anyio.sleep(0.5)
        return figures()

    return await some(10), await some(number)


async def forks(uri: str, number: int) -> tuple[Figures, Figures]:
    """Children that use the client of their parent, and the parent afterwards."""
    async with new_client(uri) as client:

        async def some(wanted: int) -> Figures:
            for _ in range(wanted):
                await anyio.to_thread.run_sync(_fork_and_use, client)
                await find_one(client, client[DATABASE].ok)
            return figures(connections=await at_rest(client))

        await perform(client, 100)
        return await some(3), await some(number)


def _fork_and_use(client: Client) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads and forks
        child = os.fork()
    if child == 0:
        # Whatever fails, this is not the parent.
        try:
            asyncio.run(_in_child(client))
        except BaseException:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"a child ended with {status}"


async def _in_child(client: Client) -> None:
    inherited = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        await find_one(client, client[DATABASE].ok)
    await client.close()
    await asyncio.sleep(0.05)
    # The descriptors of the parent's connections are closed, not used; there are no further ones.
    assert len(os.listdir("/proc/self/fd")) <= inherited


async def second_loop(uri: str, number: int) -> tuple[Figures, Figures]:
    """Event loops in threads, each with a client of its own, which another one's refuses."""
    async with new_client(uri) as ours:
        await find_one(ours, ours[DATABASE].ok)

        async def on_another() -> None:
            async with new_client(uri) as theirs:
                await find_one(theirs, theirs[DATABASE].ok)
                try:
                    await find_one(ours, ours[DATABASE].ok)
                except InvalidOperation:
                    return
                raise AssertionError("a client served two event loops")

        async def some(wanted: int) -> Figures:
            for _ in range(wanted):
                await anyio.to_thread.run_sync(asyncio.run, on_another())
            return figures(connections=await at_rest(ours))

        return await some(5), await some(number)


async def threads(uri: str, number: int) -> tuple[Figures, Figures]:
    """Event loops in two threads at the same time, of asyncio and of trio, each with a client of its own."""

    async def use() -> None:
        async with new_client(uri) as client:
            await perform(client, 100)

    async def some(wanted: int) -> Figures:
        for _ in range(wanted):
            async with anyio.create_task_group() as group:
                for backend in ("asyncio", "trio"):
                    group.start_soon(anyio.to_thread.run_sync, partial(anyio.run, use, backend=backend))
        return figures()

    return await some(5), await some(number)


# With the number of repetitions.
SCENARIOS: Final[dict[str, tuple[Scenario, int]]] = {
    "operations": (operations, 100_000),
    "clients": (clients, 1_000),
    "dropped": (dropped, 200),
    "forks": (forks, 50),
    "second-loop": (second_loop, 200),
    "threads": (threads, 100),
}
