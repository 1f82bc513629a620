"""A load of reads and majority writes, and what a client has left when a fault is over."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections import Counter
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

import anyio
import sniffio
import trio

from motorlite.errors import PyMongoError
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from motorlite.testing import LocalServer
    from tests.support.clients import Client

HOSTS = ("AsyncioHost._main", "TrioHost._main")
SPAWNED = ("_AsyncioTask._run", "_TrioTask.run")


@dataclass(slots=True)
class Load:
    """What the tasks did: each inserts, counts in a document of its own, and reads that, in turn."""

    database: Any
    # Further settings of every operation.
    options: dict[str, Any]
    inserted: list[str] = field(default_factory=list)
    counted: Counter[int] = field(default_factory=Counter)
    # Writes that failed: they may have been applied or not.
    uncertain: Counter[int] = field(default_factory=Counter)
    errors: list[PyMongoError] = field(default_factory=list)
    # How often each task came round without an error.
    rounds: Counter[int] = field(default_factory=Counter)
    is_over: bool = False

    async def run(self, task: int) -> None:
        number = 0
        while not self.is_over:
            number += 1
            try:
                name = f"{task}-{number}"
                await self.database.inserts.insert_one({"_id": name}, **self.options)
                self.inserted.append(name)
                await self._count(task)
                found = await self.database.counts.find_one({"_id": task}, **self.options)
                assert found["n"] >= self.counted[task]
            except PyMongoError as error:
                self.errors.append(error)
                await anyio.sleep(0.01)  # a task that fails at once must not keep the others from running
            else:
                self.rounds[task] += 1

    async def _count(self, task: int) -> None:
        try:
            await self.database.counts.update_one({"_id": task}, {"$inc": {"n": 1}}, upsert=True, **self.options)
        except PyMongoError:
            self.uncertain[task] += 1
            raise
        self.counted[task] += 1

    async def goes_on(self, tasks: int, rounds: int = 2) -> None:
        """Wait until every task has come round once more and again."""
        before = self.rounds.copy()
        try:
            await until(lambda: all(self.rounds[task] - before[task] >= rounds for task in range(tasks)), 30)
        except TimeoutError:
            seen = self.database.client.topology_description
            raise AssertionError(f"no progress: {self.rounds - before}, errors {self.errors}, {seen}") from None

    async def verify(self) -> None:
        """Every acknowledged write is there exactly once."""
        ids = set(await self.database.inserts.distinct("_id"))
        assert [one for one in self.inserted if one not in ids] == []
        async for document in self.database.counts.find():
            task, count = document["_id"], document["n"]
            assert self.counted[task] <= count <= self.counted[task] + self.uncertain[task]


@asynccontextmanager
async def under_load(client: Client, name: str, *, tasks: int = 12, **options: Any) -> AsyncIterator[Load]:
    """The load runs while the block does, and before it begins; afterwards the writes are verified."""
    load = Load(client[name], options)
    await load.database.inserts.insert_one({"_id": "first"})
    async with anyio.create_task_group() as group:
        for task in range(tasks):
            group.start_soon(load.run, task)
        try:
            await load.goes_on(tasks)
            yield load
            await load.goes_on(tasks)
        finally:
            load.is_over = True
    await load.verify()


async def in_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function that waits for servers."""
    return await anyio.to_thread.run_sync(function, *args)


async def kill_primary(server: LocalServer, more: Callable[[], Awaitable[None]]) -> None:
    """Kill the primary and start it again. `more` waits for more work to be done: before, meanwhile and afterwards."""
    await more()
    primary = await in_thread(server.wait_for_primary)
    await in_thread(server.kill, primary)
    await more()
    await in_thread(server.restart, primary)
    await more()


# --- what is left ---


def background() -> Counter[str]:
    """The background tasks of all clients of this event loop, by what they do."""
    found: Counter[str] = Counter()
    coroutines = _coroutines_of_trio() if sniffio.current_async_library() == "trio" else _coroutines_of_asyncio()
    for coroutine in coroutines:
        name = coroutine.__qualname__
        if name in HOSTS:
            found["host"] += 1
        elif name in SPAWNED:
            found[coroutine.cr_frame.f_locals["self"]._function.__qualname__] += 1
    return found


def _coroutines_of_asyncio() -> Iterator[Any]:
    for task in asyncio.all_tasks():
        yield task.get_coro()


def _coroutines_of_trio() -> Iterator[Any]:
    root = trio.lowlevel.current_root_task()
    waiting = [root] if root is not None else []
    while waiting:
        task = waiting.pop()
        waiting += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
        yield task.coro


def sockets_to(ports: set[int | None]) -> int:
    """How many sockets of this process are connected to one of the ports."""
    count = 0
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):  # closed meanwhile, or not connected
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as copy:
                peer = copy.getpeername()
            count += isinstance(peer, tuple) and peer[1] in ports
    return count


def has_timers() -> bool:
    """Whether anything on this event loop still waits for a moment."""
    if sniffio.current_async_library() == "trio":
        return trio.lowlevel.current_statistics().seconds_to_next_deadline != inf
    # uvloop does not say.
    return any(not handle.cancelled() for handle in getattr(asyncio.get_running_loop(), "_scheduled", ()))


def is_at_rest(client: Client) -> bool:
    """Whether nothing is in use, under way or awaited."""
    servers = client.stats().servers.values()
    return not any(one.in_use or one.waiting or one.connecting or one.pending or one.operations for one in servers)


async def assert_nothing_left(client: Client, members: int = 3) -> None:
    """The client has what its topology needs: tasks and sockets of its monitors, idle connections; then, nothing.

    All members are to be up. Closes the client.
    """
    await until(lambda: is_at_rest(client))
    await until(lambda: sum(one.server_type != "Unknown" for one in client.stats().servers.values()) == members)
    expected = Counter({"host": 1, "Monitor._run": members, "Monitor._measure": members})
    await until(lambda: background() == expected)
    # Not those of `client.nodes`, which a member leaves while it is unknown.
    ports = {port for _, port in client.stats().servers}
    # Lost connections of the round-trip time measurements come back with their next turn.
    await until(lambda: sockets_to(ports) == 2 * members + sum(one.idle for one in client.stats().servers.values()))
    await client.close()
    assert background() == Counter()
    await until(lambda: sockets_to(ports) == 0)
    assert not has_timers()
