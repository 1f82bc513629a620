"""A few more callers than connections, each with less time than waiting and working take together.

Of what ten connections can do, nearly all must end in an answer that a caller still waits for, without new connections.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite.errors import PyMongoError, WaitQueueTimeoutError
from motorlite.testing.scripted import Hang
from tests.support.core import FOUND, A, Driver, driver, find, later, replica_set, run_command
from tests.support.pools import settle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

CONNECTIONS, OPERATIONS = 10, 400
TAKES, WAITS = 0.03, 0.05


async def hidden(group: anyio.abc.TaskGroup, work: Callable[[], Awaitable[Any]]) -> bool:
    """A limit that nothing tells the driver of: another task cancels."""
    done = anyio.Event()

    async def cancel() -> None:
        with anyio.move_on_after(WAITS) as waiting:
            await done.wait()
        if waiting.cancelled_caught:
            scope.cancel()

    with anyio.CancelScope() as scope:
        group.start_soon(cancel)
        await work()
    done.set()
    return not scope.cancelled_caught


async def seen(_: anyio.abc.TaskGroup, work: Callable[[], Awaitable[Any]]) -> bool:
    with anyio.move_on_after(WAITS) as scope:
        await work()
    return not scope.cancelled_caught


async def crowd(client: Driver, tasks: int, limit: str, phase: float = 0.0) -> tuple[int, float]:
    """How many operations succeeded, and how long all of them took."""
    left, succeeded = OPERATIONS, 0
    started = anyio.current_time()

    async def one(group: anyio.abc.TaskGroup) -> bool:
        if limit == "timeoutMS":
            try:
                await client.run(find(), timeout=WAITS)
            except PyMongoError as error:
                if not error.timeout:
                    raise
                return False
            return True
        return await (hidden if limit == "hidden" else seen)(group, lambda: client.run(find()))

    async def work(group: anyio.abc.TaskGroup, delay: float) -> None:
        nonlocal left, succeeded
        await anyio.sleep(delay)
        while left > 0:
            left -= 1
            answered = await one(group)
            succeeded += answered

    async with anyio.create_task_group() as group:
        for number in range(tasks):
            group.start_soon(work, group, phase * number)
    return succeeded, anyio.current_time() - started


async def warm(client: Driver) -> None:
    async with anyio.create_task_group() as group:
        for _ in range(CONNECTIONS):
            group.start_soon(client.run, find())
    assert client.core.stats().servers[A].connections_created == CONNECTIONS


@pytest.mark.parametrize("phase", [0.0, 0.0037], ids=["in step", "out of step"])
@pytest.mark.parametrize("limit", ["hidden", "scope", "timeoutMS"])
@pytest.mark.parametrize("tasks", [10, 13, 20, 40])
async def test_connections_work_for_callers_that_still_wait(tasks: int, limit: str, phase: float) -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", later(FOUND, TAKES))
    async with driver(deployment, maxPoolSize=CONNECTIONS) as client:
        await warm(client)
        succeeded, elapsed = await crowd(client, tasks, limit, phase)
        possible = min(OPERATIONS, CONNECTIONS * elapsed / TAKES)
        assert succeeded >= 0.85 * possible, f"{succeeded} of {possible:.0f}"
        assert client.core.stats().servers[A].connections_created == CONNECTIONS
        await anyio.sleep(1)
        stats = client.core.stats().servers[A]
        assert (stats.in_use, stats.pending, stats.idle) == (0, 0, CONNECTIONS)


@pytest.mark.parametrize("limit", ["scope", "timeoutMS"])
async def test_a_short_limit_among_long_operations_is_no_reason_to_starve(limit: str) -> None:
    # A quick look-up has half a second; others keep every connection busy with what takes longer.
    deployment = replica_set()
    deployment["a:1"].on("find", later(FOUND, 0.6))
    deployment["a:1"].on("ping", later({"ok": 1}, 0.01))
    async with driver(deployment, maxPoolSize=CONNECTIONS) as client:
        await warm(client)
        failures = 0

        async def long() -> None:
            while True:
                await client.run(find())

        async def quick() -> None:
            nonlocal failures
            with anyio.move_on_after(0.5 if limit == "scope" else None) as scope:
                try:
                    await client.run(run_command(), timeout=inf if limit == "scope" else 0.5)
                except WaitQueueTimeoutError:
                    failures += 1
            failures += scope.cancelled_caught

        async with anyio.create_task_group() as group:
            for _ in range(CONNECTIONS + 2):
                group.start_soon(long)
                await anyio.sleep(0.06)
            for _ in range(100):
                await quick()
                await anyio.sleep(0.05)
            group.cancel_scope.cancel()
        assert failures <= 2


async def test_a_reply_that_is_overdue_makes_room() -> None:
    """Two operations that do not return, and a caller with all the time in the world."""
    deployment = replica_set()
    server = deployment["a:1"]
    async with driver(deployment, maxPoolSize=2) as client:
        await client.run(find())
        server.on("find", Hang(), Hang(), FOUND)
        async with anyio.create_task_group() as group:
            with anyio.move_on_after(0.05):
                async with anyio.create_task_group() as lost:
                    lost.start_soon(client.run, find())
                    lost.start_soon(client.run, find())
            await settle()
            assert client.core.stats().servers[A].pending == 2
            started = anyio.current_time()
            group.start_soon(client.run, find())
            await anyio.sleep(0.049)
            assert client.core.stats().servers[A].replies_given_up == 0, "it may still come"
        assert anyio.current_time() - started < 0.2, "long before the second in which a late reply is awaited"
        stats = client.core.stats().servers[A]
        assert (stats.replies_given_up, stats.pending) == (1, 1)
        await anyio.sleep(2)
        stats = client.core.stats().servers[A]
        assert (stats.replies_given_up, stats.pending) == (2, 0)
