"""Rate limits from end to end: which operations take tokens, who waits, and what refuses to."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite import call_options
from motorlite._operations.cursors import KillCursors
from motorlite._operations.find import Find
from motorlite._operations.reads import Explain
from motorlite.errors import InvalidOperation, PyMongoError, RateLimitError
from motorlite.overload import RateLimit, WaitQueue
from motorlite.read_preferences import ReadPreference
from motorlite.retry import RetryAction
from motorlite.testing.cancellation import cancel_at
from tests.support.clients import scripted_client
from tests.support.core import (
    HOST_UNREACHABLE,
    OVERLOADED,
    A,
    Driver,
    driver,
    fails,
    find,
    gaps,
    get_more,
    insert,
    replica_set,
    run_command,
)
from tests.support.kept_errors import garbage, without_collector
from tests.support.strategies import Strategy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from motorlite._operations.contract import Operation
    from motorlite.testing.scripted import ScriptedDeployment

pytestmark = pytest.mark.anyio


def find_in(database: str, collection: str) -> Find:
    return Find(database, collection, {}, selector=ReadPreference.PRIMARY)


async def rested(client: Driver) -> None:
    """Let the tokens come back that the first connection took."""
    await anyio.sleep(100)


@asynccontextmanager
async def limited(limit: Any, deployment: ScriptedDeployment | None = None) -> AsyncIterator[Driver]:
    """A client that has all of its tokens."""
    async with driver(deployment or replica_set(), rate_limit=limit) as client:
        await rested(client)
        yield client


def tokens(client: Driver, name: str = "*") -> float:
    return client.core.stats().rate_limits[name].tokens


# --- reject ---


async def test_without_a_token_it_fails_at_once() -> None:
    deployment = replica_set()
    async with driver(deployment, rate_limit=RateLimit(rate=2, burst=3)) as client:
        client.drain_to(10)
        await rested(client)
        for _ in range(3):
            await client.run(run_command())
        retry_tokens = client.tokens
        error = await fails(client, run_command())
        assert isinstance(error, RateLimitError)
        assert error.retry_after == pytest.approx(0.5)
        assert (error.limit, error.wait_time, error.address) == (3, 0.0, None)
        assert (error.attempts, error.retry_reasons, client.tokens) == (1, (), retry_tokens)
        assert not error.timeout
        assert not error.error_labels
        assert str(error) == "the client may start 2 operations per second (burst 3)"
        assert len(deployment["a:1"].received) == 3
        await anyio.sleep(0.5)
        await client.run(run_command())
        assert client.core.stats().rate_limits["*"].rejected == 1


async def test_retry_after_is_honest() -> None:
    async with limited(RateLimit(rate=3, burst=1)) as client:
        for _ in range(10):
            await client.run(run_command())
            error = await fails(client, run_command())
            assert error.retry_after is not None
            await anyio.sleep(error.retry_after)


async def test_it_comes_before_selection() -> None:
    """An operation without a token does not wait for a server."""
    deployment = replica_set()
    async with limited(RateLimit(rate=1, burst=1), deployment) as client:
        await client.run(run_command())
        client.recorder.clear()
        started = client.now
        assert isinstance(await fails(client, find(selector=("nowhere", 1))), RateLimitError)
        assert client.now == started
        assert not client.recorder.words("selection")


# --- namespaces ---


async def test_limits_of_databases_and_collections() -> None:
    limits = {
        "*": RateLimit(rate=100, burst=16),
        "shop": RateLimit(rate=1, burst=3),
        "shop.orders": RateLimit(rate=1, burst=1),
    }
    async with limited(limits) as client:
        # What is explained belongs to its collection.
        await client.run(Explain(find_in("shop", "orders")))
        error = await fails(client, find_in("shop", "orders"))
        assert "shop.orders may start 1 operations per second (burst 1)" in str(error)
        await client.run(find_in("shop", "goods"))
        await client.run(find_in("shop", "goods"))
        for _ in range(12):
            assert "shop may start" in str(await fails(client, find_in("shop", "goods")))
        for _ in range(10):
            await client.run(find_in("other", "orders"))
        # A refusal takes no token of another limit.
        assert tokens(client) == 3


async def test_a_refusal_takes_no_token_of_another_limit() -> None:
    limits = {"*": RateLimit(rate=0.001, burst=1), "shop": RateLimit(rate=0.001, burst=5)}
    async with driver(replica_set(), rate_limit=limits, connect=False) as client:
        await client.run(find_in("shop", "goods"))
        for _ in range(10):
            await fails(client, find_in("shop", "goods"))
        assert tokens(client, "shop") == pytest.approx(4, abs=0.01)


# --- what takes a token ---


@pytest.mark.parametrize("answer", [OVERLOADED, HOST_UNREACHABLE])
async def test_retries_take_none(answer: Any) -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", answer, {"cursor": {"id": 0, "ns": "db.coll", "firstBatch": []}})
    async with driver(deployment, rate_limit=RateLimit(rate=0.01, burst=5)) as client:
        before = tokens(client)
        await client.run(find())
        assert len(deployment["a:1"].times("find")) == 2
        assert before - tokens(client) == pytest.approx(1, abs=0.01)


async def test_get_more_is_never_refused_but_later_operations_pay() -> None:
    async with limited(RateLimit(rate=1, burst=2)) as client:
        for _ in range(10):
            await client.run(KillCursors("db", "coll", [7], address=A))
        assert tokens(client) == 2, "housekeeping is free"
        for _ in range(3):
            await client.run(get_more())
        assert tokens(client) == -1
        error = await fails(client, find())
        assert error.retry_after == pytest.approx(2.0)


# --- wait ---

WAITING = RateLimit(rate=10, burst=1, strategy="queue", timeout=1.0)


async def waiting(client: Driver, count: int, make: Callable[[], Operation[Any]] = run_command) -> list[Any]:
    """Run `count` operations at once; when they ended, in order, or their errors."""
    ended: list[Any] = []

    async def one(number: int) -> None:
        try:
            await client.run(make())
            ended.append((number, round(client.now - started, 6)))
        except RateLimitError as error:
            ended.append((number, error))

    started = client.now
    async with anyio.create_task_group() as group:
        for number in range(count):
            group.start_soon(one, number)
            await anyio.lowlevel.checkpoint()
    return ended


async def test_it_waits_its_turn() -> None:
    async with limited(WAITING) as client:
        assert await waiting(client, 5) == [(0, 0.0), (1, 0.1), (2, 0.2), (3, 0.3), (4, 0.4)]
        assert gaps(client.deployment["a:1"].times("ping")) == [0.1] * 4


async def test_priorities_in_the_queue_of_a_rate_limit() -> None:
    limit = RateLimit(rate=10, burst=1, strategy="queue", queue=WaitQueue("queue", ordering="priority"))
    deployment = replica_set()
    async with scripted_client(deployment, rate_limit=limit) as client:
        await client.db.command("ping")
        ended: list[int] = []

        async def one(priority: int) -> None:
            with call_options(priority=priority):
                await client.db.command("ping")
            ended.append(priority)

        async with anyio.create_task_group() as group:
            for priority in (10, 50, 90, 100, 0):
                group.start_soon(one, priority)
                await anyio.sleep(0.001)
        assert ended == [100, 90, 50, 10, 0]


async def test_one_that_is_overtaken_is_refused_when_its_time_is_up() -> None:
    queue = WaitQueue("queue", ordering="priority", timeout=0.35)
    limit = RateLimit(rate=10, burst=1, strategy="queue", queue=queue)
    async with scripted_client(replica_set(), rate_limit=limit) as client:
        await client.db.command("ping")
        began, refused = anyio.current_time(), list[float]()

        async def low() -> None:
            with pytest.raises(RateLimitError) as raised, call_options(priority=0):
                await client.db.command("ping")
            refused.append(anyio.current_time() - began)
            assert raised.value.wait_time == pytest.approx(refused[0])

        async def high() -> None:
            with call_options(priority=100):
                await client.db.command("ping")

        async with anyio.create_task_group() as group:
            group.start_soon(low)
            await anyio.sleep(0.001)
            for _ in range(4):
                group.start_soon(high)
                await anyio.sleep(0.05)
        assert refused
        assert refused[0] <= 0.351
        assert client.stats().rate_limits["*"].queue.timeouts == 1


@pytest.mark.parametrize("limit", ["timeoutMS", "scope"])
async def test_the_deadline_counts_too(limit: str) -> None:
    async with limited(WAITING) as client:
        await client.run(run_command())
        started = client.now
        with anyio.move_on_after(0.05 if limit == "scope" else None):
            error = await (fails(client, find()) if limit == "scope" else fails(client, find(), timeout=0.05))
        assert isinstance(error, RateLimitError)
        assert client.now == started
        # As with a backoff that does not fit: time has not run out.
        assert not error.timeout
        await client.run(find(), timeout=0.2)


async def test_who_gives_up_makes_room() -> None:
    async with limited(WAITING) as client:
        started, ended = client.now, list[tuple[int, float]]()

        async def one(number: int) -> None:
            with anyio.CancelScope() as scopes[number]:
                await client.run(run_command())
                ended.append((number, round(client.now - started, 6)))

        scopes: dict[int, anyio.CancelScope] = {}
        async with anyio.create_task_group() as group:
            for number in range(6):
                group.start_soon(one, number)
                await anyio.lowlevel.checkpoint()
            await anyio.sleep(0.05)
            # The first one in the queue, and one in the middle.
            for number in (1, 3):
                scopes[number].cancel()
        assert ended == [(0, 0.0), (2, 0.1), (4, 0.2), (5, 0.3)]
        assert client.core.stats().rate_limits["*"].waiting == 0


@pytest.mark.parametrize("late", [False, True])
async def test_cancelled_anywhere_it_leaves_nothing_behind(late: bool) -> None:
    limits = {"*": WAITING, "db": WAITING, "db.coll": WAITING}
    point, was_cancelled = 0, True

    async def cancelled(client: Driver) -> None:
        nonlocal was_cancelled
        was_cancelled = await cancel_at(lambda: client.run(insert()), point, late=late)

    while was_cancelled:
        point += 1
        async with driver(replica_set(), rate_limit=limits) as client:
            await rested(client)
            await client.run(find())
            async with anyio.create_task_group() as group:
                # One waits before it, and one behind it.
                group.start_soon(client.run, find())
                await anyio.lowlevel.checkpoint()
                group.start_soon(cancelled, client)
                group.start_soon(behind, client)
            stats = client.core.stats().rate_limits
            assert {name: limit.waiting for name, limit in stats.items()} == dict.fromkeys(limits, 0)
            # If it was not sent, all of its tokens are back.
            assert len({limit.tokens for limit in stats.values()}) == 1
            is_sent = bool(client.deployment["a:1"].times("insert"))
            assert gaps(client.deployment["a:1"].times("find")) == [0.1, 0.2 if is_sent else 0.1]
    assert point > 2


async def behind(client: Driver) -> None:
    await anyio.lowlevel.checkpoint()
    await client.run(find())


async def test_narrow_limits_do_not_hold_up_others() -> None:
    limits = {"*": RateLimit(rate=100, burst=1, strategy="queue"), "slow.coll": WAITING}
    async with limited(limits) as client, anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(client.run, find_in("slow", "coll"))
        await anyio.sleep(0.01)
        started = client.now
        for _ in range(5):
            await client.run(find_in("fast", "coll"))
        assert client.now - started <= 0.070001


async def test_time_runs_out_if_cursors_take_the_tokens() -> None:
    """getMores do not wait, so they may delay what waits; then the limit of the wait applies."""
    async with limited(WAITING) as client:
        await client.run(run_command())
        started, errors = client.now, list[PyMongoError]()

        async def one(timeout: float | None) -> None:  # noqa: ASYNC109
            with pytest.raises(RateLimitError) as raised:
                await (client.run(find()) if timeout is None else client.run(find(), timeout=timeout))
            errors.append(raised.value)
            assert client.now - started <= (timeout or 1.0) + 1e-6

        async def read() -> None:
            while len(errors) < 2:
                await client.run(get_more())
                await anyio.sleep(0.05)

        async with anyio.create_task_group() as group:
            group.start_soon(one, None)
            await anyio.lowlevel.checkpoint()
            group.start_soon(one, 0.5)
            await anyio.lowlevel.checkpoint()
            group.start_soon(read)
        assert all(error.retry_after is not None and error.retry_after > 0 for error in errors)
        assert client.core.stats().rate_limits["*"].waiting == 0


async def test_closing_the_client_ends_the_wait() -> None:
    async with limited(RateLimit(rate=0.1, burst=1, strategy="queue", timeout=60)) as client:
        await client.run(run_command())
        errors: list[PyMongoError] = []

        async def one() -> None:
            errors.append(await fails(client, find()))

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(one)
            await anyio.sleep(1)
            started = client.now
            await client.core.close()
            assert client.now == started
        assert [type(error) for error in errors] == [InvalidOperation] * 3


async def test_refused_operations_keep_nothing_alive() -> None:
    async with driver(replica_set(), rate_limit=RateLimit(rate=0.001, burst=1)) as client:
        with without_collector():
            for _ in range(3):
                with pytest.raises(RateLimitError):
                    await client.run(insert())
            assert not garbage()


async def test_refusals_that_a_strategy_repeats_keep_nothing_alive() -> None:
    options: dict[str, Any] = {"rate_limit": RateLimit(rate=0.001, burst=1)}
    strategy = Strategy(0.0, 0.0, RetryAction.no_retry())
    async with scripted_client(replica_set(), retry_strategy=strategy, **options) as client:
        await client.db.coll.find_one()
        with without_collector():
            with pytest.raises(RateLimitError) as caught:
                await client.db.coll.find_one()
            assert caught.value.attempts == 3
            del caught
            assert not garbage()
