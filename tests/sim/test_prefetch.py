"""Cursors that request a batch while the program works through the one before."""

from __future__ import annotations

import weakref
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import motorlite
from motorlite import CursorType
from motorlite._base.deadline import NO_DEADLINE
from motorlite._client.prefetch import Prefetch
from motorlite.errors import AutoReconnect, CursorNotFound, ExecutionTimeout, InvalidOperation, OperationFailure
from motorlite.testing.cancellation import cancel_at, count_await_points
from motorlite.testing.scripted import Close, Hang, Reply, ScriptedDeployment, failure, overloaded
from tests.support.cancellation import settle
from tests.support.clients import scripted_client
from tests.support.kept_errors import without_collector

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from motorlite.stats import ServerStats
    from motorlite.testing.scripted import ScriptedServer
    from tests.support.clients import Client

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

FIRST = {"cursor": {"id": 7, "ns": "db.coll", "firstBatch": [{"_id": 0}, {"_id": 1}]}}
LAST = {"cursor": {"id": 0, "ns": "db.coll", "nextBatch": [{"_id": 9}]}}
# Seconds that the server needs for a batch.
SLOWLY = 0.1


def more(*identifiers: int) -> dict[str, Any]:
    return {"cursor": {"id": 7, "ns": "db.coll", "nextBatch": [{"_id": each} for each in identifiers]}}


class Scene:
    def __init__(self, client: Client, server: ScriptedServer) -> None:
        self.client = client
        self.server = server

    def find(self, **options: Any) -> Any:
        return self.client.db.coll.find(**{"prefetch": 1, **options})

    @property
    def stats(self) -> ServerStats:
        (stats,) = self.client.stats().servers.values()
        return stats

    def names(self) -> list[str]:
        return [item.name for item in self.server.received]


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    server = deployment["a:1"]
    server.on("find", FIRST)
    server.on("aggregate", FIRST)
    server.on("getMore", *(Reply(each, SLOWLY) for each in (more(2, 3), more(4, 5), LAST)))
    async with scripted_client(deployment) as client:
        await client.aconnect(timeoutMS=0)
        yield Scene(client, server)


async def ids(cursor: Any, work: float = 0.0) -> list[int]:
    found = []
    async for document in cursor:
        found.append(document["_id"])
        await anyio.sleep(work)
    return found


@pytest.mark.parametrize("kind", ["find", "aggregate"])
@pytest.mark.parametrize(("prefetch", "seconds"), [(0, 7 * 0.05 + 3 * SLOWLY), (1, 7 * 0.05)])
async def test_the_server_works_while_the_program_does(scene: Scene, kind: str, prefetch: int, seconds: float) -> None:
    coll = scene.client.db.coll
    cursor: Any = coll.find(prefetch=prefetch) if kind == "find" else coll.aggregate([], prefetch=prefetch)
    began = anyio.current_time()
    assert await ids(cursor, work=0.05) == [0, 1, 2, 3, 4, 5, 9]
    assert anyio.current_time() - began == pytest.approx(seconds)
    assert scene.names() == [kind, "getMore", "getMore", "getMore"]
    assert scene.stats.in_use == 0
    assert scene.client.stats().sessions == 1


async def test_one_batch_ahead_and_no_more(scene: Scene) -> None:
    cursor = scene.find()
    await cursor.next()
    await anyio.sleep(1)
    assert scene.names() == ["find", "getMore"]
    assert cursor.cursor_id == 7
    await cursor.next()
    await anyio.sleep(1)
    assert scene.names() == ["find", "getMore"]
    await cursor.next()
    await anyio.sleep(1)
    assert scene.names() == ["find", "getMore", "getMore"]
    assert cursor.retrieved == 4
    await cursor.close()
    assert scene.names()[-1] == "killCursors"


async def test_batches(scene: Scene) -> None:
    assert [[document["_id"] for document in batch] async for batch in scene.find().batches()] == [
        [0, 1],
        [2, 3],
        [4, 5],
        [9],
    ]


async def test_to_list(scene: Scene) -> None:
    cursor = scene.find()
    assert [document["_id"] for document in await cursor.to_list(3)] == [0, 1, 2]
    assert [document["_id"] for document in await cursor.to_list()] == [3, 4, 5, 9]
    assert not cursor.alive


async def test_an_empty_batch_is_followed_by_another_request(scene: Scene) -> None:
    scene.server.on("getMore", more(), more(), LAST)
    assert await ids(scene.find()) == [0, 1, 9]


async def test_a_limit_is_not_exceeded(scene: Scene) -> None:
    cursor = scene.find(limit=4, batch_size=2)
    assert await ids(cursor) == [0, 1, 2, 3]
    assert scene.names() == ["find", "getMore", "killCursors"]
    assert scene.server.commands("getMore")[0]["batchSize"] == 2


@pytest.mark.parametrize("how", ["clone", "bound session", "session", "tailable", "tailable await"])
async def test_where_it_has_an_effect(scene: Scene, how: str) -> None:
    """A session is used by the program alone."""
    types = {"tailable": CursorType.TAILABLE, "tailable await": CursorType.TAILABLE_AWAIT}
    options: dict[str, Any] = {"cursor_type": types[how]} if how in types else {}
    if how == "session":
        options["session"] = scene.client.start_session()
    async with scene.client.start_session().bind() if how == "bound session" else nullcontext():
        cursor = scene.find(**options).clone()
        await cursor.next()
        await anyio.sleep(1)
        assert scene.names() == ["find", "getMore"][: 1 + (how == "clone")]
        if how not in types:
            assert await ids(cursor) == [1, 2, 3, 4, 5, 9]
        await cursor.close()


@pytest.mark.parametrize("value", [2, -1, True, "1", 0.5])
@pytest.mark.parametrize("kind", ["find", "aggregate"])
async def test_wrong_values(scene: Scene, kind: str, value: Any) -> None:
    coll = scene.client.db.coll
    with pytest.raises((TypeError, ValueError), match=r"prefetch must be (0 or 1|an integer), not"):
        _ = coll.find(prefetch=value) if kind == "find" else coll.aggregate([], prefetch=value)


# --- errors ---


@pytest.mark.parametrize("code", [2, 43])
async def test_an_error_is_raised_when_the_batch_is_needed(scene: Scene, code: int) -> None:
    scene.server.on("getMore", failure(code))
    cursor = scene.find()
    await cursor.next()
    await anyio.sleep(1)
    assert (await cursor.next())["_id"] == 1
    with pytest.raises(OperationFailure) as caught:
        await cursor.next()
    assert isinstance(caught.value, CursorNotFound) is (code == 43)
    assert (caught.value.code, caught.value.address) == (code, ("a", 1))
    with pytest.raises((InvalidOperation, StopAsyncIteration), match="cannot continue" if code == 2 else None):
        await cursor.next()
    await cursor.close()
    assert scene.names() == ["find", "getMore", "killCursors"][: 2 + (code == 2)]
    assert scene.client.stats().sessions == 1


async def test_overload_is_retried_in_the_background(scene: Scene) -> None:
    scene.server.on("getMore", overloaded(), Reply(LAST))
    began = anyio.current_time()
    assert await ids(scene.find(), work=0.2) == [0, 1, 9]
    # The backoff of 0.1 s was over in time.
    assert anyio.current_time() - began == pytest.approx(0.6)


@pytest.mark.parametrize("answer", [overloaded(), failure(462, "RetryableError")], ids=["overload", "retryable"])
async def test_what_was_not_executed_may_be_tried_again(scene: Scene, answer: Any) -> None:
    scene.server.on("getMore", *[answer] * 6, LAST)
    cursor = scene.find()
    with pytest.raises(OperationFailure):
        await ids(cursor)
    assert await ids(cursor) == [9]


# --- time limits ---


async def test_a_step_waits_no_longer_than_its_block(scene: Scene) -> None:
    scene.server.on("getMore", Reply(LAST, 1.0))
    cursor = scene.find()
    await cursor.to_list(2)
    await anyio.sleep(0.01)  # the request has begun
    with motorlite.timeout(0.3), pytest.raises(ExecutionTimeout) as caught:
        await cursor.next()
    assert caught.value.timeout
    assert (caught.value.phase, caught.value.client_limit) == ("reply", 0.3)
    # The batch is still on its way, and nothing is lost.
    assert (await cursor.next())["_id"] == 9


async def test_the_time_limit_of_the_cursor(scene: Scene) -> None:
    scene.server.on("getMore", Hang())
    cursor = scene.find(timeoutMS=500)
    began = anyio.current_time()
    with pytest.raises(motorlite.errors.PyMongoError) as caught:
        await ids(cursor)
    assert caught.value.timeout
    assert anyio.current_time() - began == pytest.approx(0.5, abs=0.01)
    await cursor.close()
    await anyio.sleep(2)
    assert scene.stats.in_use == 0


async def test_the_callers_scope_is_not_that_of_the_background(scene: Scene) -> None:
    cursor = scene.find()
    with anyio.move_on_after(0.05):
        await cursor.next()
        await anyio.sleep(1)
    assert await ids(cursor) == [1, 2, 3, 4, 5, 9]


# --- cancelled, closed, dropped ---


async def test_a_cancelled_wait_loses_nothing(scene: Scene) -> None:
    cursor = scene.find()
    await cursor.to_list(2)
    await anyio.sleep(0.01)  # the request has begun
    with anyio.move_on_after(SLOWLY / 2) as scope:
        await cursor.next()
    assert scope.cancelled_caught
    assert await ids(cursor) == [2, 3, 4, 5, 9]


async def test_two_readers(scene: Scene) -> None:
    cursor = scene.find()
    await cursor.to_list(2)
    errors = []

    async def read() -> None:
        try:
            await cursor.next()
        except InvalidOperation as error:
            errors.append(str(error))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        tasks.start_soon(read)
    assert len(errors) == 1
    assert errors[0].startswith("two tasks are reading from the same cursor")
    await cursor.close()


async def test_a_batch_belongs_to_the_task_that_waits_for_it() -> None:
    class EventWaiter:
        def __init__(self) -> None:
            self._event = anyio.Event()

        def offer(self, value: object) -> bool:
            self._event.set()
            return True

        async def wait(self, until: float) -> None:
            await self._event.wait()

    waiter: Any = EventWaiter
    ahead = Prefetch(waiter)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ahead.wait, NO_DEADLINE)
        await anyio.sleep(0.01)
        ahead.finish(None, None)
        # The other task was woken, but has not run yet.
        with pytest.raises(InvalidOperation, match="two tasks"):
            await ahead.wait(NO_DEADLINE)


@pytest.mark.parametrize("is_dropped", [False, True])
@pytest.mark.parametrize("when", [0.0, SLOWLY / 2, 2 * SLOWLY])
async def test_closed_or_dropped(scene: Scene, when: float, is_dropped: bool) -> None:
    with without_collector():
        cursor = scene.find()
        await cursor.next()
        if when:
            await anyio.sleep(when)
        if is_dropped:
            reference = weakref.ref(cursor)
            del cursor
            assert reference() is None
        else:
            await cursor.close()
            assert await ids(cursor) == []
            assert cursor.cursor_id == 0
        await anyio.sleep(2)
        assert "killCursors" in scene.names()
        assert (scene.stats.in_use, scene.stats.pending) == (0, 0)


async def test_closed_while_another_task_waits(scene: Scene) -> None:
    scene.server.on("getMore", Hang())
    cursor = scene.find()
    await cursor.to_list(2)
    await anyio.sleep(0.01)  # the request has begun
    errors = []

    async def read() -> None:
        with pytest.raises(InvalidOperation, match="was closed while the next batch was on its way"):
            await cursor.next()
        errors.append(1)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await anyio.sleep(0.01)
        await cursor.close()
    assert errors == [1]


async def test_the_last_batch_needs_no_end(scene: Scene) -> None:
    scene.server.on("getMore", LAST)
    cursor = scene.find()
    await cursor.next()
    await anyio.sleep(1)
    # Nobody has read the last batch, but the server has forgotten the cursor.
    assert cursor.cursor_id == 0
    assert cursor.alive
    assert scene.client.stats().sessions == 1
    del cursor
    await anyio.sleep(1)
    assert scene.names() == ["find", "getMore"]


@pytest.mark.parametrize("late", [False, True])
async def test_cancelled_at_every_await(scene: Scene, late: bool) -> None:
    scene.server.on("find", Reply(FIRST, 0.01))

    async def read() -> None:
        scene.server.on("getMore", *(Reply(each, SLOWLY) for each in (more(2, 3), LAST)))
        async with scene.find() as cursor:
            await ids(cursor)

    points = await count_await_points(read)
    assert points >= 3
    for point in range(1, points + 1):
        await cancel_at(read, point, late=late)
        await settle(lambda: anyio.sleep(2))
        assert (scene.stats.in_use, scene.stats.pending) == (0, 0), point


async def test_the_client_is_closed(scene: Scene) -> None:
    scene.server.on("getMore", Hang())
    cursor = scene.find()
    await cursor.to_list(2)

    async def read() -> None:
        with pytest.raises((InvalidOperation, AutoReconnect)):
            await cursor.next()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await anyio.sleep(0.01)
            await scene.client.close(0.1)


async def test_behind_a_load_balancer() -> None:
    deployment = ScriptedDeployment(["lb:1"], services=1)
    (service,) = deployment.services
    service.on("find", FIRST)
    service.on("getMore", Reply(more(2), SLOWLY), Close())
    async with scripted_client(deployment) as client:
        cursor = client.db.coll.find(prefetch=1)
        assert [document["_id"] for document in await cursor.to_list(3)] == [0, 1, 2]
        assert {item.connection for item in service.received} == {1}
        with pytest.raises(AutoReconnect):
            await cursor.next()
        await cursor.close()
        cursor = client.db.coll.find(prefetch=1)
        await cursor.next()
        await cursor.close()
        await anyio.sleep(2)
        (stats,) = client.stats().servers.values()
        assert (stats.in_use, stats.pending) == (0, 0)
