"""A pool with a configured wait queue: its callers, its timers and its events."""

from __future__ import annotations

import gc
import tracemalloc
from itertools import count
from typing import Any

import anyio
import pytest

from motorlite._admission.pool_queue import Ticket
from motorlite._base.deadline import Deadline
from motorlite._net.runtime import WaitTimeout
from motorlite.errors import (
    PoolClearedError,
    WaitQueueFullError,
    WaitQueueTimeoutError,
)
from motorlite.overload import WaitQueue
from motorlite.testing.scripted import ScriptedDeployment
from tests.support.pools import PoolDriver, pool_on, settle, slow, start

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

ORDERINGS = ("fifo", "priority", "adaptive")


@pytest.fixture
def deployment() -> ScriptedDeployment:
    return ScriptedDeployment(["a:1"])


def queue(strategy: Any = "queue", *arguments: Any, **options: Any) -> WaitQueue:
    return WaitQueue(strategy, *arguments, **options)


@pytest.mark.parametrize(
    ("seconds", "is_set", "wait_queue_timeout", "ends_after"),
    [
        (None, False, None, 0.5),
        (0.2, True, None, 0.2),
        (0.2, False, None, 0.2),
        (2.0, True, None, 0.5),
        (2.0, False, None, 0.5),
        (None, False, 0.3, 0.3),
    ],
)
async def test_a_waiter_leaves_at_the_earlier_limit(
    deployment: ScriptedDeployment,
    seconds: float | None,
    is_set: bool,
    wait_queue_timeout: float | None,
    ends_after: float,
) -> None:
    """Its own time limit or that of the queue, which counts with timeoutMS too, or waitQueueTimeoutMS."""
    options: dict[str, Any] = {"wait_queue_timeout": wait_queue_timeout, "wait_queue": queue(timeout=0.5)}
    async with pool_on(deployment, max_size=1, **options) as subject, anyio.create_task_group() as group:
        connection = await subject.check_out()
        began = subject.now
        deadline = Deadline() if seconds is None else Deadline(began + seconds, is_set=is_set)
        waiting = await start(subject, group, deadline=deadline)
        await anyio.sleep(3)
        assert waiting.ended_at == began + ends_after
        error = waiting.error
        assert isinstance(error, WaitQueueTimeoutError)
        assert (error.phase, error.limit, error.depth) == ("queue", 100, 0)
        assert error.wait_time == pytest.approx(ends_after)
        assert error.retry_after == 1.0
        assert subject.words("failed") == ["check-out failed timeout"]
        assert subject.pool.state.queue.count == 0
        subject.pool.check_in(connection)


class LateRuntime:
    """A runtime whose tasks see a timeout a second late, because the event loop is busy."""

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime, name)

    def waiter(self) -> Any:
        return LateWaiter(self._runtime.waiter())


class LateWaiter:
    def __init__(self, waiter: Any) -> None:
        self.offer = waiter.offer
        self.take_back = waiter.take_back
        self._wait = waiter.wait

    async def wait(self, until: float) -> Any:
        try:
            return await self._wait(until)
        except WaitTimeout:
            await anyio.sleep(1.0)
            raise


@pytest.mark.parametrize("options", [None, *(queue(timeout=0.5, ordering=each) for each in ORDERINGS)])
@pytest.mark.parametrize("others", [0, 1])
async def test_ones_own_connection_is_opened_at_the_moment_of_the_timeout(
    deployment: ScriptedDeployment, options: WaitQueue | None, others: int
) -> None:
    slow(deployment, 1.0)
    async with (
        pool_on(deployment, max_size=1, wait_queue_timeout=0.5, wait_queue=options) as subject,
        anyio.create_task_group() as group,
    ):
        subject.pool._runtime = LateRuntime(subject.pool._runtime)
        waiting = await start(subject, group)
        await anyio.sleep(0.75)
        # One that comes later gets the connection while the first one does not take it.
        later = [await start(subject, group) for _ in range(others)]
        await anyio.sleep(0.5)
        for other in later:
            assert other.connection is not None
        await anyio.sleep(1)
        for other in later:
            assert waiting.error is None
            assert other.connection is not None
            subject.pool.check_in(other.connection)
            await settle()
        assert waiting.connection is not None
        subject.pool.check_in(waiting.connection)
        assert not subject.pool.state.queue
        bounded = subject.pool.state.bounded
        assert bounded is None or bounded.memory == 0


@pytest.mark.parametrize("others", [0, 1])
async def test_a_pool_is_cleared_after_ones_own_connection_was_opened_at_the_moment_of_the_timeout(
    deployment: ScriptedDeployment, others: int
) -> None:
    slow(deployment, 1.0)
    options = queue(timeout=0.5, ordering="priority")
    async with (
        pool_on(deployment, max_size=1, wait_queue=options) as subject,
        anyio.create_task_group() as group,
    ):
        subject.pool._runtime = LateRuntime(subject.pool._runtime)
        waiting = await start(subject, group)
        await anyio.sleep(0.75)
        later = [await start(subject, group) for _ in range(others)]
        await anyio.sleep(0.5)
        subject.pool.clear(None)
        await anyio.sleep(1)
        assert isinstance(waiting.error, PoolClearedError)
        for other in later:
            assert other.connection is not None
            subject.pool.check_in(other.connection)


@pytest.mark.parametrize("how", ["its turn", "drop"])
async def test_one_whose_timeout_is_seen_late_is_counted_once(deployment: ScriptedDeployment, how: str) -> None:
    """Before it sees its timeout, its turn comes, or it is dropped for another one."""
    options = queue(max_depth=1, timeout=0.5, overflow_strategy="drop_oldest")
    async with pool_on(deployment, max_size=1, wait_queue=options) as subject, anyio.create_task_group() as group:
        connection = await subject.check_out()
        subject.pool._runtime = LateRuntime(subject.pool._runtime)
        late = await start(subject, group)
        await anyio.sleep(0.75)
        another = None if how == "its turn" else await start(subject, group)
        subject.pool.check_in(connection)
        await anyio.sleep(1)
        assert isinstance(late.error, WaitQueueFullError if another else WaitQueueTimeoutError)
        if another is not None:
            assert another.connection is not None
            subject.pool.check_in(another.connection)
        assert subject.pool.state.bounded is not None
        stats = subject.pool.state.bounded.stats()
        assert stats.rejected == {"queue_full" if another else "timeout": 1}
        assert stats.retry_after.count == 1


# --- cancellation ---


@pytest.mark.parametrize("moment", ["check in, cancel", "cancel, check in", "drop, cancel", "cancel, drop"])
async def test_cancelled_at_the_moment_of_the_answer(deployment: ScriptedDeployment, moment: str) -> None:
    options = queue("queue", 1, overflow_strategy="drop_oldest")
    async with pool_on(deployment, max_size=1, wait_queue=options) as subject, anyio.create_task_group() as group:
        connection = await subject.check_out()
        waiting = await start(subject, group)
        later = []
        for action in moment.split(", "):
            if action == "cancel":
                waiting.scope.cancel()
            elif action == "check in":
                subject.pool.check_in(connection)
            else:
                later.append(await start(subject, group))
        await settle()
        if later:
            subject.pool.check_in(connection)
            await settle()
            assert later[0].connection is connection
        if waiting.connection is not None:  # trio delivers what a task has accepted
            subject.pool.check_in(waiting.connection)
        elif later:
            subject.pool.check_in(connection)
        assert list(subject.pool.state.idle) == [connection]
        assert not subject.pool.state.in_use
        assert subject.pool.state.queue.count == 0


# --- many ---


async def crowd(subject: PoolDriver, group: anyio.abc.TaskGroup, priorities: list[int]) -> list[int]:
    """Start a caller for each priority; return the numbers of those that are served, a list that grows."""
    served: list[int] = []
    arrived = count()

    async def one() -> None:
        # trio starts the tasks of one moment in any order.
        number = next(arrived)
        ticket = Ticket(subject.now, int, priorities[number], priorities[number])
        connection = await subject.pool.check_out(Deadline(), float("inf"), subject.now, ticket)
        served.append(number)
        await anyio.sleep(0.001)
        subject.pool.check_in(connection)

    for number in range(len(priorities)):
        group.start_soon(one)
        if number % 100 == 99:
            await settle()
    await settle()
    return served


def in_tens(numbers: list[int]) -> list[list[int]]:
    return [sorted(numbers[at : at + 10]) for at in range(0, len(numbers), 10)]


@pytest.mark.slow
@pytest.mark.parametrize("ordering", ["fifo", "priority"])
async def test_ten_thousand_callers_on_ten_connections(deployment: ScriptedDeployment, ordering: str) -> None:
    options = queue("queue", 10_000, 60.0, ordering)
    # All come at the same moment, so age makes no difference.
    priorities = [number * 37 % 101 for number in range(10_000)]
    async with pool_on(deployment, max_size=10, wait_queue=options, listen=False) as subject:
        connections = await subject.check_outs(10)
        async with anyio.create_task_group() as group:
            served = await crowd(subject, group, priorities)
            assert subject.pool.state.queue.count == 10_000
            with pytest.raises(WaitQueueFullError):
                await subject.check_out()
            for connection in connections:
                subject.pool.check_in(connection)
        expected = list(range(10_000))
        if ordering == "priority":
            expected.sort(key=lambda number: -priorities[number])
        if subject.runtime.name == "trio":
            # Ten tasks are woken at a time, and run in any order.
            assert in_tens(served) == in_tens(expected)
        else:
            assert served == expected


@pytest.mark.slow
async def test_what_a_waiter_costs(deployment: ScriptedDeployment) -> None:
    options = queue("queue", 10_000, 60.0)
    async with pool_on(deployment, max_size=10, wait_queue=options, listen=False) as subject:
        connections = await subject.check_outs(10)
        async with anyio.create_task_group() as group:
            gc.collect()
            tracemalloc.start()
            try:
                served = await crowd(subject, group, [50] * 10_000)
                per_waiter = tracemalloc.get_traced_memory()[0] / 10_000
            finally:
                tracemalloc.stop()
            print(f"{per_waiter:.0f} bytes for each waiter and its task on {subject.runtime.name}")
            for connection in connections:
                subject.pool.check_in(connection)
        # Most of it is the task; a waiter must not cost several times that.
        assert 500 < per_waiter < 10_000
        assert len(served) == 10_000
        assert list(subject.pool.state.queue) == []
