"""Operations that are cancelled or run out of time, on a real server: the connection stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

import motorlite
from motorlite.errors import PyMongoError
from motorlite.testing import failpoints
from tests.live.clients import make_client, numbered, until

if TYPE_CHECKING:
    from motorlite.stats import ServerStats
    from motorlite.testing import LocalServer
    from tests.live.clients import Client
    from tests.live.conftest import Fail

pytestmark = pytest.mark.anyio


def stats(client: Client) -> ServerStats:
    (found,) = client.stats().servers.values()
    return found


async def test_after_timeouts(replica_set: LocalServer, database_name: str, fail: Fail) -> None:
    async with make_client(replica_set) as client:
        collection = client[database_name].c
        await collection.insert_one({"_id": 1})
        fail(replica_set, failpoints.fail_command(["find"], block_ms=80))
        for _ in range(5):
            with motorlite.timeout(0.04), pytest.raises(PyMongoError):
                await collection.find_one()
            await until(lambda: stats(client).pending == 0)
        assert stats(client).connections_created == 1
        assert stats(client).replies_drained == 5
        assert await collection.find_one() == {"_id": 1}


async def test_after_cancellations(replica_set: LocalServer, database_name: str, fail: Fail) -> None:
    async with make_client(replica_set) as client:
        collection = client[database_name].c
        await collection.insert_one({"_id": 1})
        fail(replica_set, failpoints.fail_command(["find"], block_ms=60))

        async def cancelled() -> None:
            with anyio.move_on_after(0.02):
                await collection.find_one()

        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(cancelled)
        await until(lambda: stats(client).pending == 0)
        made = stats(client).connections_created
        assert stats(client).in_use == 0
        async with anyio.create_task_group() as group:
            for _ in range(made):
                group.start_soon(collection.find_one)
        assert stats(client).connections_created == made
        assert stats(client).replies_given_up == 0


async def test_an_abandoned_find_leaves_no_cursor(replica_set: LocalServer, database_name: str, fail: Fail) -> None:
    def open_cursors() -> int:
        status = replica_set.command({"serverStatus": 1})
        return int(status["metrics"]["cursor"]["open"]["total"])

    async with make_client(replica_set) as client:
        collection = client[database_name].c
        await collection.insert_many(numbered(200))
        before = open_cursors()
        fail(replica_set, failpoints.fail_command(["find"], block_ms=80, times=1))
        cursor: Any = collection.find(batch_size=2)
        with anyio.move_on_after(0.03):
            await cursor.next()
        await until(lambda: stats(client).replies_drained == 1)
        await until(lambda: open_cursors() <= before)


async def test_what_takes_too_long_is_stopped_on_the_server(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    def running() -> int:
        asked = {"currentOp": 1, "active": True, "command.find": "c", "ns": f"{database_name}.c"}
        return len(replica_set.command(asked)["inprog"])

    async with make_client(replica_set) as client:
        collection = client[database_name].c
        await collection.insert_one({"_id": 1})
        slow = {"$where": "sleep(20000) || true"}
        # Not a cancel scope, whose deadline the server would be told.
        async with anyio.create_task_group() as group:
            group.start_soon(collection.find_one, slow)
            await until(lambda: running() == 1)
            group.cancel_scope.cancel()
        assert stats(client).pending == 1
        await until(lambda: stats(client).replies_given_up == 1)
        await until(lambda: running() == 0)
        assert await collection.find_one() == {"_id": 1}
