"""Operations that are cancelled or run out of time, on a real server: the connection stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite.testing import failpoints
from tests.live.clients import numbered, open_cursors
from tests.live.load import is_at_rest
from tests.support.clients import make_client
from tests.support.waiting import until

if TYPE_CHECKING:
    from motorlite.stats import ServerStats
    from motorlite.testing import LocalServer
    from tests.live.conftest import Fail
    from tests.support.clients import Client

pytestmark = pytest.mark.anyio


def stats(client: Client) -> ServerStats:
    (found,) = client.stats().servers.values()
    return found


def paused(database_name: str) -> dict[str, Any]:
    """A failpoint: a find of the collection `c` waits until it is off, or something ends the operation."""
    data = {"nss": f"{database_name}.c", "shouldCheckForInterrupt": True}
    return {"configureFailPoint": PAUSE, "mode": "alwaysOn", "data": data}


PAUSE = "waitInFindBeforeMakingBatch"


def running(server: LocalServer, database_name: str) -> int:
    """How many finds of the collection `c` the server is executing."""
    asked = {"currentOp": 1, "active": True, "command.find": "c", "ns": f"{database_name}.c"}
    return len(server.command(asked)["inprog"])


async def test_after_cancellations(replica_set: LocalServer, database_name: str, fail: Fail) -> None:
    tasks = 10
    async with make_client(replica_set) as client:
        collection = client[database_name].c
        await collection.insert_one({"_id": 1})
        for turn in (1, 2):
            fail(replica_set, paused(database_name))
            async with anyio.create_task_group() as group:
                for _ in range(tasks):
                    group.start_soon(collection.find_one)
                await until(lambda: running(replica_set, database_name) == tasks)
                group.cancel_scope.cancel()
            assert stats(client).pending == tasks
            replica_set.command(failpoints.off(PAUSE))
            await until(lambda: is_at_rest(client))
            # The second time on the same connections.
            assert (stats(client).in_use, stats(client).connections_created) == (0, tasks)
            assert (stats(client).replies_drained, stats(client).replies_given_up) == (turn * tasks, 0)
        assert await collection.find_one() == {"_id": 1}


async def test_an_abandoned_find_leaves_no_cursor(replica_set: LocalServer, database_name: str, fail: Fail) -> None:
    async with make_client(replica_set) as client:
        collection = client[database_name].c
        await collection.insert_many(numbered(200))
        fail(replica_set, paused(database_name))
        cursor: Any = collection.find(batch_size=2)
        async with anyio.create_task_group() as group:
            group.start_soon(cursor.next)
            await until(lambda: running(replica_set, database_name) == 1)
            group.cancel_scope.cancel()
        replica_set.command(failpoints.off(PAUSE))
        await until(lambda: stats(client).replies_drained == 1)
        await until(lambda: open_cursors(replica_set, collection.full_name) == 0)


async def test_what_takes_too_long_is_stopped_on_the_server(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    async with make_client(replica_set) as client:
        collection = client[database_name].c
        await collection.insert_one({"_id": 1})
        slow = {"$where": "sleep(20000) || true"}
        # Not a cancel scope, whose deadline the server would be told.
        async with anyio.create_task_group() as group:
            group.start_soon(collection.find_one, slow)
            await until(lambda: running(replica_set, database_name) == 1)
            group.cancel_scope.cancel()
        assert stats(client).pending == 1
        await until(lambda: stats(client).replies_given_up == 1)
        await until(lambda: running(replica_set, database_name) == 0)
        assert await collection.find_one() == {"_id": 1}
