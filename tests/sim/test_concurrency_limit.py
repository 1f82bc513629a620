"""The adaptive concurrency limit from end to end, on a server with a capacity, in virtual time."""

from __future__ import annotations

from collections import deque
from functools import partial
from statistics import mean
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite import CursorType
from motorlite.errors import OperationFailure, PyMongoError
from motorlite.overload import ConcurrencyLimit
from motorlite.testing.cancellation import cancel_at
from motorlite.testing.scripted import Hang, Reply, ScriptedDeployment
from tests.support.cancellation import settle
from tests.support.clients import scripted_client
from tests.support.core import BAD_VALUE, OVERLOADED_ONLY, A, Driver, driver, fails, get_more, replica_set, run_command

if TYPE_CHECKING:
    from motorlite._admission.concurrency_limit import AdaptiveLimit

pytestmark = pytest.mark.anyio


class Machine:
    """Answers pings: `capacity` at once, each for `seconds`, the others wait inside the server."""

    def __init__(self, deployment: ScriptedDeployment, capacity: int, seconds: float = 0.01) -> None:
        self._deployment = deployment
        self.capacity = capacity
        self.seconds = seconds
        self._free_at: deque[float] = deque()
        self.delays: list[float] = []
        deployment["a:1"].on("ping", self._answer)

    def _answer(self, _: dict[str, Any]) -> Reply:
        now = self._deployment.now()
        while self._free_at and self._free_at[0] <= now:
            self._free_at.popleft()
        # The earliest end of those before it that leaves room.
        start = self._free_at[-self.capacity] if len(self._free_at) >= self.capacity else now
        self._free_at.append(start + self.seconds)
        self.delays.append(start + self.seconds - now)
        return Reply({"ok": 1}, start + self.seconds - now)


def limit(client: Driver) -> AdaptiveLimit:
    found = client.server().pool.state.limit
    assert found is not None
    return found


async def load(client: Driver, seconds: float, callers: int = 60) -> int:
    """Commands that ended, sent one after the other by `callers`."""
    ended, until = 0, client.now + seconds

    async def caller() -> None:
        nonlocal ended
        while client.now < until:
            await client.run(run_command())
            ended += 1

    async with anyio.create_task_group() as group:
        for _ in range(callers):
            group.start_soon(caller)
    return ended


@pytest.mark.slow
async def test_it_finds_the_capacity_and_follows_it() -> None:
    deployment = replica_set()
    machine = Machine(deployment, 10)
    async with driver(deployment, concurrency_limit=ConcurrencyLimit(probe_interval=2.0)) as client:
        for capacity in (10, 5, 10):
            machine.capacity = capacity
            await load(client, 5)
            machine.delays.clear()
            ended = await load(client, 5)
            # The server has work all the time, and 60 callers do not make a queue of 60.
            assert ended / 5 >= 0.95 * capacity / 0.01
            assert capacity <= limit(client).value <= 3 * capacity
            assert mean(machine.delays) <= 0.03


async def test_operations_above_the_limit_wait_in_the_pools_queue() -> None:
    deployment = replica_set()
    Machine(deployment, 100, seconds=1.0)
    limits = ConcurrencyLimit(initial=3, minimum=1)
    async with (
        driver(deployment, concurrency_limit=limits) as client,
        anyio.create_task_group() as group,
    ):
        for _ in range(10):
            group.start_soon(client.run, run_command())
        await anyio.sleep(0.5)
        stats = client.core.stats().servers[A]
        assert (stats.concurrency_limit, stats.in_use, stats.waiting) == (3, 3, 7)
        assert len(deployment["a:1"].received) == 3


@pytest.mark.parametrize("answer", [OVERLOADED_ONLY, Hang()], ids=["overload", "timeout"])
async def test_overload_errors_and_timeouts_lower_it_at_once(answer: Any) -> None:
    deployment = replica_set()
    deployment["a:1"].on("ping", answer)
    async with driver(deployment, concurrency_limit=ConcurrencyLimit()) as client:
        await fails(client, run_command(), timeout=0.5)
        assert limit(client).value == 18


async def test_cancellations_and_other_errors_do_not() -> None:
    deployment = replica_set()
    async with driver(deployment, concurrency_limit=ConcurrencyLimit()) as client:
        for answer in ({"ok": 0, "code": 2, "errmsg": "bad value"}, Hang()):
            deployment["a:1"].on("ping", answer)
            with anyio.move_on_after(1), pytest.raises(PyMongoError):
                await client.run(run_command())
        assert limit(client).value == 20


async def test_waiting_for_data_is_not_slow() -> None:
    """getMore of an awaitData cursor takes as long as there is nothing new; it says nothing about the server."""
    deployment = replica_set()
    deployment["a:1"].on("getMore", Reply({"cursor": {"id": 7, "ns": "db.coll", "nextBatch": []}}, 1.0))
    async with driver(deployment, concurrency_limit=ConcurrencyLimit()) as client:
        for _ in range(3):
            operation = get_more()
            operation.is_await_data = True
            await client.run(operation)
        assert limit(client)._durations == [pytest.approx(0.0)]  # of the command that connected


async def test_a_slow_reader_of_an_exhaust_cursor_does_not_make_the_server_slow() -> None:
    """Its connection is in use all the time, and the server sends the batches before they are read."""
    more = {"cursor": {"id": 7, "ns": "db.coll", "nextBatch": [{"_id": 1}]}}
    deployment = replica_set()
    deployment["a:1"].on("find", {"cursor": {"id": 7, "ns": "db.coll", "firstBatch": [{"_id": 0}]}})
    deployment["a:1"].on("getMore", *[more] * 3, BAD_VALUE)
    async with scripted_client(deployment, concurrency_limit=ConcurrencyLimit()) as client:
        cursor = client.db.coll.find(cursor_type=CursorType.EXHAUST)
        for _ in range(4):
            await cursor.next()
            await anyio.sleep(1)
        with pytest.raises(OperationFailure):
            await cursor.next()
        (server,) = client._core.topology.servers
        assert server.gate is not None
        assert server.gate.limit is not None
        assert server.gate.limit._durations == [pytest.approx(0.0)]  # of the find


async def test_waiting_for_data_takes_no_place() -> None:
    """Or a few change streams would keep everything else from the server."""
    deployment = replica_set()
    deployment["a:1"].on("getMore", Reply({"cursor": {"id": 7, "ns": "db.coll", "nextBatch": []}}, 10.0))
    async with driver(deployment, concurrency_limit=ConcurrencyLimit(initial=2, minimum=1)) as client:
        async with anyio.create_task_group() as group:
            for _ in range(5):
                operation = get_more()
                operation.is_await_data = True
                group.start_soon(client.run, operation)
            await anyio.sleep(1)
            assert len(deployment["a:1"].times("getMore")) == 5
            started = client.now
            for _ in range(3):
                await client.run(run_command())
            assert client.now == started
            # The others find the limit as it is.
            Machine(deployment, 100, seconds=1.0)
            for _ in range(4):
                group.start_soon(client.run, run_command())
            await anyio.sleep(0.5)
            stats = client.core.stats().servers[A]
            assert (stats.concurrency_limit, stats.in_use, stats.waiting) == (2, 7, 2)
        assert limit(client).value == 2


@pytest.mark.parametrize("late", [False, True])
async def test_waiting_for_data_that_is_cancelled_anywhere_leaves_the_limit_as_it_was(late: bool) -> None:
    point, was_cancelled = 0, True
    deployment = replica_set()
    deployment["a:1"].on("getMore", Reply({"cursor": {"id": 7, "ns": "db.coll", "nextBatch": []}}, 0.5))
    async with driver(deployment, concurrency_limit=ConcurrencyLimit(initial=2, minimum=1)) as client:
        while was_cancelled:
            point += 1
            deployment["a:1"].drop_connections()
            operation = get_more()
            operation.is_await_data = True
            was_cancelled = await cancel_at(partial(client.run, operation), point, late=late)
            await settle()
            assert limit(client).value == limit(client).own == 2
    assert point > 2


async def test_every_server_has_its_own() -> None:
    deployment = ScriptedDeployment(["a:1", "b:1"], mongos=True)
    async with driver(deployment, concurrency_limit=ConcurrencyLimit()) as client:
        limits = [server.pool.state.limit for server in client.core.topology.servers]
        assert len({id(each) for each in limits}) == 2
        assert None not in limits
