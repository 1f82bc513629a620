"""The memory of operations that wait for a connection: overload is when there are thousands of them."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import tracemalloc
from typing import TYPE_CHECKING, Any, Final

import anyio
import pytest
import trio

from motorlite.testing.scripted import Hang
from tests.support.clients import scripted_client
from tests.support.core import A, replica_set
from tests.support.pools import settle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

WAITERS: Final = 500
# Bytes besides the task of the caller and the arguments. Most of them are the coroutines from `find_one` to the
# check-out.
MOST: Final = 1_900
FILTER: Final[dict[str, Any]] = {"_id": 1}


async def memory_of(work: Callable[[], Awaitable[object]]) -> float:
    """Bytes for each of many tasks that do this."""

    async def task() -> None:
        await work()

    async with anyio.create_task_group() as group:
        gc.collect()
        tracemalloc.start()
        try:
            for _ in range(WAITERS):
                group.start_soon(task)
            await settle()
            gc.collect()
            taken = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        group.cancel_scope.cancel()
    return taken / WAITERS


def shortest_wait(backend: str) -> Callable[[], Awaitable[object]]:
    """Return a function that waits for ever, with the least that the event loop needs for it."""
    return trio.sleep_forever if backend == "trio" else asyncio.get_running_loop().create_future


async def test_an_operation_in_the_queue_takes_little_memory(anyio_backend_name: str) -> None:
    deployment = replica_set()
    deployment.servers[A].on("find", Hang())
    async with scripted_client(deployment, maxPoolSize=1) as client, anyio.create_task_group() as group:
        collection = client.db.coll
        await client.db.command("ping")
        group.start_soon(collection.find_one, FILTER)
        await settle()
        bare, waiting = 0.0, 0.0
        for _ in range(2):  # the first time includes what is made once
            bare = await memory_of(shortest_wait(anyio_backend_name))
            waiting = await memory_of(lambda: collection.find_one(FILTER))
        print(f"{waiting - bare:.0f} bytes for each waiting operation")
        assert bare < waiting
        # Measuring coverage keeps an object for each frame.
        assert waiting - bare < MOST + (0 if sys.gettrace() is None else 1_600)
        group.cancel_scope.cancel()


ATTEMPTS: Final = """
import tracemalloc
from motorlite._execution.run import Attempt

def one(**attributes):
    attempt = Attempt()
    for name, value in attributes.items():
        setattr(attempt, name, value)
    return attempt

usual = {"server": None, "description": None, "sent_at": None, "connection": None}
kept = [one(**usual) for _ in range(100)]
tracemalloc.start()
kept = [one(**usual) for _ in range(1000)]
before = tracemalloc.get_traced_memory()[0]
kept += [one(waited_from=None, request=None, **usual) for _ in range(1000)]
print((tracemalloc.get_traced_memory()[0] - 2 * before) / 1000)
"""


def test_attempts_that_wait_take_no_more_memory_than_those_before_them() -> None:
    """In a new process, since what counts is which attempts it makes first."""
    more = float(subprocess.check_output([sys.executable, "-c", ATTEMPTS]))
    print(f"{more:.0f} bytes more")
    assert more < 50
