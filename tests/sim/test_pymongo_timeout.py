"""`pymongo.timeout` around operations, in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pymongo
import pytest

from motorlite.errors import PyMongoError
from motorlite.testing.scripted import Hang, ScriptedDeployment
from tests.support.clients import scripted_client
from tests.support.pymongo_clock import pymongo_clock  # noqa: F401  # a fixture

if TYPE_CHECKING:
    from collections.abc import Awaitable

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("pymongo_clock")]


def deployment(name: str = "find") -> ScriptedDeployment:
    made = ScriptedDeployment(["a:1"], replica_set="rs")
    made["a:1"].on(name, *[Hang()] * 5)
    return made


async def times_out(seconds: float, operation: Awaitable[Any]) -> PyMongoError:
    started = anyio.current_time()
    with pytest.raises(PyMongoError) as caught:
        await operation
    assert caught.value.timeout
    assert anyio.current_time() - started == pytest.approx(seconds, abs=0.01)
    return caught.value


async def test_it_ends_the_wait_and_tells_the_server() -> None:
    server = deployment()
    async with scripted_client(server, timeoutMS=30_000) as client:
        with pymongo.timeout(2):
            error = await times_out(2, client.d.c.find_one())
            # The whole block has one limit.
            await times_out(0, client.d.c.find_one())
    assert error.client_limit == 2
    assert [command["maxTimeMS"] for command in server["a:1"].commands("find")] == [pytest.approx(2000, abs=20)]


async def test_a_cancel_scope_around_it() -> None:
    async with scripted_client(deployment()) as client:
        with anyio.move_on_after(1) as scope, pymongo.timeout(2):
            await client.d.c.find_one()
        assert scope.cancelled_caught


async def test_a_cursor_begun_outside() -> None:
    server = ScriptedDeployment(["a:1"], replica_set="rs")
    server["a:1"].on("find", {"ok": 1, "cursor": {"id": 7, "ns": "d.c", "firstBatch": [{"_id": 1}]}})
    server["a:1"].on("getMore", Hang())
    async with scripted_client(server) as client:
        cursor = client.d.c.find()
        assert await cursor.next() == {"_id": 1}
        with pymongo.timeout(2):
            await times_out(2, cursor.next())


async def test_with_transaction() -> None:
    server = deployment("insert")
    async with scripted_client(server) as client, client.start_session() as session:

        async def insert(session: Any) -> None:
            await client.d.c.insert_one({}, session=session)

        with pymongo.timeout(2):
            await times_out(2, session.with_transaction(insert))
