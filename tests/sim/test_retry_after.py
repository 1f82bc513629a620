"""`retry_after` of refused operations: from what is in flight now, and longer for callers that return."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite.errors import (
    AdmissionError,
    CircuitBreakerOpenError,
    PyMongoError,
    RateLimitError,
    WaitQueueTimeoutError,
)
from motorlite.overload import CircuitBreaker, ConcurrencyLimit, RateLimit, WaitQueue
from motorlite.testing.scripted import Reply, ScriptedDeployment, failure
from tests.support.clients import scripted_client
from tests.support.core import A, replica_set
from tests.support.pools import settle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from motorlite import AsyncMongoClient
    from tests.support.clients import Client

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

QUICK = 0.0001


@asynccontextmanager
async def fast_then_blocked(
    seconds: float, deployment: ScriptedDeployment | None = None, **options: Any
) -> AsyncIterator[Client]:
    """A client whose operations took 0.1 ms, and whose only connection an operation now holds for `seconds`."""
    deployment = deployment or replica_set()
    server = deployment.services[0] if deployment.services else deployment["a:1"]
    server.on("quick", Reply({"ok": 1}, QUICK))
    server.on("slow", Reply({"ok": 1}, seconds))
    async with (
        scripted_client(deployment, **{"maxPoolSize": 1, **options}) as client,
        anyio.create_task_group() as group,
    ):
        for _ in range(50):
            # Two at a time, so that one waits: without a configured queue, only such durations are measured.
            async with anyio.create_task_group() as pair:
                for _ in range(2 if options.get("wait_queue") is None else 1):
                    pair.start_soon(client.db.command, "quick")
        group.start_soon(client.db.command, "slow")
        await settle()
        yield client


async def refused(client: AsyncMongoClient[Any]) -> AdmissionError:
    with pytest.raises(AdmissionError) as raised:
        await client.db.command("quick")
    return raised.value


def advice(error: AdmissionError) -> float:
    assert error.retry_after is not None
    return error.retry_after


@pytest.mark.parametrize("is_limited", [False, True], ids=["pool", "concurrency limit"])
async def test_it_grows_while_the_pool_is_blocked(is_limited: bool) -> None:
    options: dict[str, Any] = {"wait_queue": WaitQueue("reject")}
    if is_limited:
        options |= {"concurrency_limit": ConcurrencyLimit(initial=1, minimum=1), "maxPoolSize": 10}
    async with fast_then_blocked(3.0, **options) as client:
        assert advice(await refused(client)) == pytest.approx(QUICK)
        await anyio.sleep(0.5)
        assert advice(await refused(client)) >= 0.5
        await anyio.sleep(2.0)
        assert advice(await refused(client)) >= 2.5


@pytest.mark.parametrize("queue", [WaitQueue("reject"), WaitQueue("queue", max_depth=1, timeout=0.001), None])
async def test_a_caller_that_obeys_is_seldom_refused(queue: WaitQueue | None) -> None:
    """It was refused 2,000 times by a pool that was blocked for 2.5 s."""
    options: dict[str, Any] = {} if queue is not None else {"waitQueueTimeoutMS": 1}
    async with fast_then_blocked(2.5, wait_queue=queue, **options) as client:
        refusals, began = 0, anyio.current_time()
        while True:
            try:
                await client.db.command("quick")
            except AdmissionError as error:
                refusals += 1
                await anyio.sleep(advice(error))
            else:
                break
        assert refusals < 20
        assert anyio.current_time() - began < 8


@pytest.mark.parametrize("blocked", [0.0, 2.5])
@pytest.mark.parametrize("queue", [WaitQueue("reject"), WaitQueue("queue", max_depth=5, timeout=0.5), None])
async def test_callers_that_are_refused_together_do_not_return_together(
    queue: WaitQueue | None, blocked: float
) -> None:
    """A hundred callers found a free pool of four, obeyed, and the last one was served after ten minutes."""
    options: dict[str, Any] = {} if queue is not None else {"waitQueueTimeoutMS": 1}
    began: list[float] = []
    ended: list[float] = []
    refusals = 0

    async def call() -> None:
        nonlocal refusals
        while True:
            try:
                await client.db.command("quick")
            except AdmissionError as error:
                refusals += 1
                await anyio.sleep(advice(error))
            else:
                ended.append(anyio.current_time())
                return

    async with fast_then_blocked(blocked, wait_queue=queue, maxPoolSize=4, **options) as client:
        for _ in range(20):
            async with anyio.create_task_group() as group:
                for _ in range(3 if queue is not None else 8):
                    group.start_soon(client.db.command, "quick")
        async with anyio.create_task_group() as group:
            if blocked:
                for _ in range(3):
                    group.start_soon(client.db.command, "slow")
                await settle()
            began.append(anyio.current_time())
            for _ in range(100):
                group.start_soon(call)
    assert len(ended) == 100
    assert ended[-1] - began[0] < (8 if blocked else 0.2)
    assert refusals < 2000


@pytest.mark.parametrize("queue", [WaitQueue("queue", timeout=0.5), None], ids=["configured", "waitQueueTimeoutMS"])
async def test_it_is_never_less_than_the_caller_has_waited(queue: WaitQueue | None) -> None:
    options: dict[str, Any] = {} if queue is not None else {"waitQueueTimeoutMS": 500}
    async with fast_then_blocked(60.0, wait_queue=queue, **options) as client:
        for _ in range(3):
            error = await refused(client)
            assert isinstance(error, WaitQueueTimeoutError)
            assert error.wait_time == pytest.approx(0.5)
            assert advice(error) >= 0.5


async def test_so_it_is_for_one_that_was_dropped() -> None:
    queue = WaitQueue("queue", max_depth=1, timeout=10, overflow_strategy="drop_oldest")
    async with fast_then_blocked(0.7, wait_queue=queue) as client, anyio.create_task_group() as group:
        errors: list[AdmissionError] = []

        async def dropped() -> None:
            errors.append(await refused(client))

        group.start_soon(dropped)
        await anyio.sleep(0.4)
        await client.db.command("quick")
        assert [round(error.wait_time, 3) for error in errors] == [0.4]
        assert advice(errors[0]) >= 0.4


async def test_callers_ahead_count() -> None:
    async with fast_then_blocked(10.0, wait_queue=WaitQueue("queue", max_depth=3)) as client:
        await anyio.sleep(1.0)
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(client.db.command, "quick")
            await settle()
            assert advice(await refused(client)) >= 4.0
            group.cancel_scope.cancel()


async def test_behind_a_load_balancer() -> None:
    deployment = ScriptedDeployment(["a:1"], services=1)
    async with fast_then_blocked(3.0, deployment, wait_queue=WaitQueue("reject")) as client:
        await anyio.sleep(2.0)
        assert advice(await refused(client)) >= 2.0


async def test_an_overload_error_without_a_hint_counts_what_is_in_flight() -> None:
    deployment = replica_set()
    async with fast_then_blocked(3.0, deployment, maxPoolSize=2, maxAdaptiveRetries=0) as client:
        deployment["a:1"].on("refused", failure(462, "SystemOverloadedError", "RetryableError"))
        with pytest.raises(PyMongoError) as raised:
            await client.db.command("refused")
        assert raised.value.retry_after is not None
        assert raised.value.retry_after >= QUICK


# --- histograms ---


async def test_the_histogram_of_retry_after_sees_breakers() -> None:
    deployment = replica_set()
    deployment["a:1"].on("ping", failure(462, "SystemOverloadedError"))
    breaker = CircuitBreaker(min_operations=2)
    async with scripted_client(deployment, circuit_breaker=breaker) as client:
        errors = []
        for _ in range(12):
            try:
                await client.db.command("ping")
            except CircuitBreakerOpenError as error:
                errors.append(error)
            except PyMongoError:
                continue
        stats = client.stats().servers[A].breaker
        assert stats is not None
        assert stats.advised.count == stats.refused == len(errors) == 10
        assert stats.advised.total == pytest.approx(sum(map(advice, errors)))


async def test_the_histogram_of_retry_after_sees_what_waited_when_the_breaker_opened() -> None:
    deployment = replica_set()
    deployment["a:1"].on("ping", Reply(failure(462, "SystemOverloadedError"), 1.0))
    async with scripted_client(deployment, circuit_breaker=CircuitBreaker(min_operations=2), maxPoolSize=1) as client:
        await client.db.command("hello")

        async def ping() -> None:
            with pytest.raises(PyMongoError):
                await client.db.command("ping")

        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(ping)
        stats = client.stats().servers[A].breaker
        assert stats is not None
        assert (stats.refused, stats.advised.count) == (3, 3)
        assert stats.advised.total == pytest.approx(15.0)


async def test_the_histograms_of_a_rate_limit() -> None:
    """Those of `retry_after`, and of the waits for a token."""
    limits = {"a": RateLimit(rate=10, burst=1), "b": RateLimit(rate=10, burst=1, strategy="queue", timeout=0.25)}
    async with scripted_client(replica_set(), rate_limit=limits) as client:
        await client.a.command("ping")
        for _ in range(3):
            with pytest.raises(RateLimitError):
                await client.a.command("ping")
        found = client.stats().rate_limits["a"].queue
        assert (found.retry_after.count, found.waits.count) == (3, 0)
        assert found.retry_after.total == pytest.approx(0.3)
        await client.b.command("ping")

        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(client.b.command, "ping")
            await settle()
            with pytest.raises(RateLimitError) as raised:
                await client.b.command("ping")
            assert advice(raised.value) == pytest.approx(0.3)
        found = client.stats().rate_limits["b"].queue
        assert (found.waits.count, found.retry_after.count) == (2, 1)
        assert found.waits.total == pytest.approx(0.1 + 0.2)
