"""Cancelling a coroutine at each of its await points."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import anyio
import anyio.lowlevel
import pytest

from motorlite.testing.cancellation import cancel_at, cancel_at_every_point, count_await_points
from tests.support.event_loops import EVERY_LOOP, LOOPS
from tests.support.kept_errors import garbage, without_collector

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio
ON_ASYNCIO: Final = pytest.mark.parametrize(
    "anyio_backend", [LOOPS["asyncio"], LOOPS["uvloop"]], ids=["asyncio", "uvloop"]
)


class Work:
    """Three await points, one of them in an asynchronous iterator, and a note of how far a run came."""

    def __init__(self) -> None:
        self.reached: list[str] = []

    async def run(self) -> None:
        self.reached.append("-")
        await anyio.lowlevel.checkpoint()
        self.reached[-1] = "a"
        async for step in self.steps():
            self.reached[-1] += step

    async def steps(self) -> AsyncIterator[str]:
        for step in "bc":
            await anyio.lowlevel.checkpoint()
            yield step

    async def check(self) -> None:
        self.reached[-1] += "."


@EVERY_LOOP
async def test_points_are_counted() -> None:
    assert await count_await_points(Work().run) == await count_await_points(Work().run) > 2


@EVERY_LOOP
async def test_each_point_is_cancelled_once() -> None:
    work = Work()
    points = await count_await_points(work.run)
    assert await cancel_at_every_point(work.run, work.check) == points
    assert len(work.reached) == points + 2
    # The last run was not cancelled.
    assert set(work.reached[1:-1]) == {"-.", "a.", "ab."}
    assert work.reached[-1] == "abc."
    assert await cancel_at_every_point(work.run) == points


@EVERY_LOOP
async def test_a_point_beyond_the_last_is_not_reached() -> None:
    work = Work()
    points = await count_await_points(work.run)
    assert await cancel_at(work.run, points)
    assert not await cancel_at(work.run, points + 1)
    assert work.reached == ["abc", "ab", "abc"]


@EVERY_LOOP
async def test_there_is_no_point_zero() -> None:
    with pytest.raises(ValueError, match="point"):
        await cancel_at(Work().run, 0)


@EVERY_LOOP
async def test_an_error_is_raised() -> None:
    async def fail_at_the_end() -> None:
        try:
            await anyio.lowlevel.checkpoint()
        finally:
            raise KeyError(1)

    async def fail_before() -> None:
        raise KeyError(2)

    with pytest.raises(KeyError, match="1"):
        await cancel_at(fail_at_the_end, 1)
    with pytest.raises(KeyError, match="2"):
        await cancel_at(fail_before, 1)
    # The task is as before.
    await anyio.lowlevel.checkpoint()


@EVERY_LOOP
async def test_the_cancellation_of_the_caller_goes_on() -> None:
    work = Work()

    async def wait() -> None:
        try:
            await anyio.lowlevel.checkpoint()
        except anyio.get_cancelled_exc_class():
            scope.cancel()
            raise

    with anyio.CancelScope() as scope:
        await cancel_at(wait, 1)
        # On asyncio, a scope cancels its task with the next turn of the event loop.
        await anyio.lowlevel.checkpoint()
        await work.run()
    assert work.reached == []
    with anyio.move_on_after(0.01) as limit:
        await cancel_at(anyio.sleep_forever, 1_000)
    assert limit.cancelled_caught


@EVERY_LOOP
async def test_nothing_is_kept_alive() -> None:
    with without_collector():
        for late in (False, True):
            await cancel_at_every_point(Work().run, late=late)
        assert garbage() == []


@ON_ASYNCIO
async def test_a_late_cancellation_meets_a_result() -> None:
    loop = asyncio.get_running_loop()
    handed: list[asyncio.Future[int]] = []
    received: list[int] = []

    async def take() -> None:
        future = loop.create_future()
        handed.append(future)

        def hand_over() -> None:
            if not future.done():
                future.set_result(7)

        loop.call_soon(hand_over)
        received.append(await future)

    assert await cancel_at(take, 1)
    assert handed[0].cancelled()
    assert await cancel_at(take, 1, late=True)
    assert handed[1].result() == 7
    assert received == []
    assert not await cancel_at(take, 2, late=True)
    assert received == [7]


@ON_ASYNCIO
async def test_a_cancellation_may_be_ignored() -> None:
    async def ignore() -> None:
        try:
            await asyncio.sleep(0.001)
        except asyncio.CancelledError:
            await asyncio.sleep(0)

    assert await cancel_at_every_point(ignore) == 1
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


@ON_ASYNCIO
async def test_a_task_that_is_cancelled_twice_ends() -> None:
    async def wait() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            task.cancel()
            await asyncio.sleep(60)

    async def run() -> None:
        await cancel_at(wait, 1)

    task = asyncio.create_task(run())
    with pytest.raises(asyncio.CancelledError):
        await task
