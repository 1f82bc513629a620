"""Threads of authentication: few at a time, shared, and counted until they end."""

from __future__ import annotations

import gc
import weakref
from contextlib import asynccontextmanager
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from motorlite._connection.auth.thread_work import MAX_THREADS, ThreadWork
from motorlite._net.current import current_runtime
from motorlite._net.runtime import WaitTimeout
from motorlite.errors import ConfigurationError, InvalidOperation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio


class Threads:
    """Stands for threads: each call takes ten seconds of virtual time and cannot be cancelled by its caller."""

    def __init__(self) -> None:
        runtime: Any = current_runtime()
        runtime.run_in_thread = self._run
        self.runtime = runtime
        self.host = self.runtime.host("test", lambda: None)
        self.work = ThreadWork(self.runtime, self.host)
        self.calls = self.running = self.most = 0

    async def _run(self, function: Any, until: float = inf) -> Any:
        self.calls += 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.runtime.sleep(10)
            return function()
        finally:
            self.running -= 1

    async def get(self, key: object, seconds: float = 1000, value: Any = "value", **arguments: Any) -> Any:
        return await self.work.result(key, lambda: value, self.runtime.now() + seconds, **arguments)


@asynccontextmanager
async def threads() -> AsyncIterator[Threads]:
    found = Threads()
    try:
        yield found
    finally:
        await found.host.close()


async def test_the_result_is_shared() -> None:
    async with threads() as found:
        results = []

        async def get() -> None:
            results.append(await found.get("k"))

        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(get)
        assert results == ["value"] * 20
        assert found.calls == 1
        assert await found.get("k") == "value"
        assert found.calls == 2, "it is no cache"


async def test_no_more_than_so_many_run_however_many_give_up() -> None:
    async with threads() as found:
        for number in range(30):
            with pytest.raises(WaitTimeout):
                await found.get(number, seconds=1)
        assert found.most == MAX_THREADS
        # Each ends, and what nobody waited for any more when its turn came never began.
        assert found.calls <= 2 * (30 // 10 + 1)
        await anyio.sleep(20)
        assert found.running == 0
        assert await found.get("k", seconds=11) == "value"


async def test_those_that_wait_come_in_turn() -> None:
    async with threads() as found:
        order: list[int] = []

        async def get(number: int) -> None:
            await found.get(number)
            order.append(number)

        async with anyio.create_task_group() as group:
            for number in range(6):
                group.start_soon(get, number)
                await anyio.sleep(0.1)
        assert order == [0, 1, 2, 3, 4, 5]
        assert found.most == MAX_THREADS


async def test_a_cancelled_waiter_takes_nothing_from_others() -> None:
    async with threads() as found:
        async with anyio.create_task_group() as group:
            group.start_soon(found.get, "k")
            with anyio.move_on_after(5) as scope:
                await found.get("k")
            assert scope.cancelled_caught
            assert await found.get("k", seconds=6) == "value"
        assert found.calls == 1


async def test_a_result_that_came_too_late_is_kept() -> None:
    async with threads() as found:
        kept: list[Any] = []
        with pytest.raises(WaitTimeout):
            await found.get("k", seconds=1, keep=kept.append)
        assert kept == []
        await anyio.sleep(10)
        assert kept == ["value"]


@pytest.mark.parametrize("error", [ConfigurationError("none"), ZeroDivisionError("none")])
async def test_each_gets_an_error_of_its_own(error: Exception) -> None:
    def fail() -> None:
        raise error

    async with threads() as found:
        errors: list[Exception] = []

        async def get() -> None:
            with pytest.raises(type(error), match="none") as caught:
                await found.work.result("k", fail, inf)
            errors.append(caught.value)

        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(get)
        assert len(errors) == 2
        # The pool says more about each of the driver's own.
        assert (errors[0] is not errors[1]) == isinstance(error, ConfigurationError)
        assert found.calls == 1
        assert await found.get("k") == "value"


class Secret:
    """What a function is bound to."""

    def fail(self, error: type[Exception]) -> None:
        raise error("no")


@pytest.mark.parametrize("error", [ConfigurationError, ZeroDivisionError])
async def test_an_error_keeps_nothing_alive(error: type[Exception]) -> None:
    async with threads() as found:
        await checkpoint()  # the host has begun
        gc.collect()
        gc.disable()
        try:
            secret = Secret()
            alive = weakref.ref(secret)
            with pytest.raises(error) as caught:
                await found.work.result("k", partial(secret.fail, error), inf)
            del caught, secret
            await checkpoint()
            assert alive() is None
        finally:
            gc.enable()


async def test_nobody_waits_for_a_client_that_is_closed() -> None:
    """Neither for a thread that runs, nor in the queue."""
    async with threads() as found:
        ended: list[float] = []

        async def get(key: int) -> None:
            with pytest.raises(InvalidOperation, match="the client is closed"):
                await found.get(key)
            ended.append(found.runtime.now())

        async with anyio.create_task_group() as group:
            for key in range(MAX_THREADS + 3):
                group.start_soon(get, key)
            await anyio.sleep(1)
            await found.host.close()
            closed = found.runtime.now()
        await get(0)
        assert ended == [closed] * (MAX_THREADS + 4)
