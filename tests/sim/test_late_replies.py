"""Replies whose operation was cancelled or ran out of time: the connection is kept, and nothing else goes wrong."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from bson.timestamp import Timestamp

from motorlite._operations.commands import RunCommand
from motorlite._operations.cursors import GetMore
from motorlite.errors import NetworkTimeout
from motorlite.monitoring import PendingReplySucceededEvent
from motorlite.testing.scripted import Hang, Raw, Reply, failure
from tests.support.clients import scripted_client
from tests.support.core import FOUND, A, Driver, driver, fails, find, insert, later, replica_set
from tests.support.pools import settle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from motorlite._operations.contract import Operation
    from motorlite.testing.scripted import Answer, ScriptedServer

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def cancel_after(seconds: float, client: Driver, operation: Operation[Any]) -> None:
    with anyio.move_on_after(seconds) as scope:
        await client.run(operation)
    assert scope.cancelled_caught


def counts(client: Driver) -> tuple[int, int, int, int, int]:
    """Connections in use, pending, idle; replies that came late, and that were given up."""
    stats = client.core.stats().servers[A]
    return stats.in_use, stats.pending, stats.idle, stats.replies_drained, stats.replies_given_up


@asynccontextmanager
async def too_late(*answers: Answer, **options: Any) -> AsyncIterator[tuple[Driver, ScriptedServer]]:
    """A client and its server, whose first answer to a find did not come within half a second."""
    deployment = replica_set()
    async with driver(deployment, **options) as client:
        deployment["a:1"].on("find", *answers)
        assert isinstance(await fails(client, find(), timeout=0.5), NetworkTimeout)
        yield client, deployment["a:1"]


async def test_after_a_timeout_the_connection_is_used_again() -> None:
    async with too_late(later(FOUND, 0.6), FOUND) as (client, server):
        assert counts(client) == (0, 1, 0, 0, 0)
        await anyio.sleep(0.2)
        assert counts(client) == (0, 0, 1, 1, 0)
        assert client.pool_log.words() == [
            "check-out started",
            "checked out 1",
            "checked in 1",
            "reply awaited 1",
            "reply arrived 1",
        ]
        await client.run(find())
        assert client.core.stats().servers[A].connections_created == 1
        assert len({received.connection for received in server.received}) == 1


async def test_after_a_cancellation_too() -> None:
    deployment = replica_set()
    async with driver(deployment) as client:
        deployment["a:1"].on("find", later(FOUND, 0.9), FOUND)
        await cancel_after(0.1, client, find())
        # The cancel scope's deadline was told to the server: no second is waited for more than that and a margin.
        await anyio.sleep(0.9)
        assert counts(client) == (0, 0, 1, 1, 0)
        (arrived,) = client.pool_log.of(PendingReplySucceededEvent)
        assert arrived.duration == pytest.approx(0.8)


@pytest.mark.parametrize(
    "ends", ["cancelled", "cancelled by a scope with a deadline", "timed out", "timed out by the socket", "refused"]
)
async def test_only_callers_whose_limit_is_hidden_count_as_impatient(ends: str) -> None:
    """How long such callers wait decides which waiter gets a connection. Without waiters it does not matter."""
    deployment = replica_set()
    options: dict[str, Any] = {"socketTimeoutMS": 100, "retryReads": False} if ends == "timed out by the socket" else {}
    async with driver(deployment, maxPoolSize=1, **options) as client, anyio.create_task_group() as waiters:
        deployment["a:1"].on("find", failure(2) if ends == "refused" else later(FOUND, 0.9), FOUND)
        if ends == "cancelled":
            async with anyio.create_task_group() as group:
                group.start_soon(client.run, find())
                await settle()
                waiters.start_soon(client.run, insert())
                await settle()
                group.cancel_scope.cancel()
        else:
            waiters.start_soon(_after_settling, client)
            if ends == "timed out":
                await fails(client, find(), timeout=0.1)
            elif ends in ("timed out by the socket", "refused"):
                await fails(client, find())
            else:
                await cancel_after(0.1, client, find())
        assert (client.server().pool.state.pace.part_left > 0) is (ends == "cancelled")


async def _after_settling(client: Driver) -> None:
    await settle()
    await client.run(insert())


async def test_another_operation_meanwhile_gets_its_own_reply_on_another_connection() -> None:
    other = {"cursor": {"id": 0, "ns": "db.coll", "firstBatch": [{"_id": 2}]}}
    async with too_late(later(FOUND, 0.6), other) as (client, _):
        assert (await client.run(find())).reply.documents == [{"_id": 2}]
        await anyio.sleep(0.5)
        assert (await client.run(find())).reply.documents == [{"_id": 2}]
        assert client.core.stats().servers[A].connections_created == 2


@pytest.mark.parametrize(
    ("limit", "window"),
    [(None, 1.0), (4.0, 5.0)],
    ids=["without a time limit: a second", "with one: that and a second"],
)
async def test_the_window_and_its_end(limit: float | None, window: float) -> None:
    deployment = replica_set()
    async with driver(deployment) as client:
        deployment["a:1"].on("find", Hang())
        operation = find() if limit is None else RunCommand("db", {"find": 1, "maxTimeMS": int(limit * 1000)})
        async with anyio.create_task_group() as group:

            async def run() -> None:
                await client.run(operation)

            group.start_soon(run)
            await settle()
            group.cancel_scope.cancel()
        assert counts(client) == (0, 1, 0, 0, 0)
        await anyio.sleep(window - 0.01)
        assert counts(client) == (0, 1, 0, 0, 0)
        await anyio.sleep(0.02)
        assert counts(client) == (0, 0, 0, 0, 1)
        assert client.pool_log.words()[-3:] == ["reply awaited 1", "reply given up 1", "closed 1 error"]


async def test_the_session_is_not_used_again() -> None:
    deployment = replica_set()
    async with driver(deployment) as client:
        deployment["a:1"].on("insert", later({"n": 1}, 0.6), {"n": 1})
        await client.run(find())
        await fails(client, insert(), timeout=0.5)
        await anyio.sleep(1)
        await client.run(insert())
        first, second = (command["lsid"] for command in deployment["a:1"].commands("insert"))
        assert first != second


async def test_no_command_event_but_gossip() -> None:
    newer = {"clusterTime": Timestamp(100, 1), "signature": {}}
    async with too_late(later({**FOUND, "$clusterTime": newer}, 0.6), FOUND) as (client, server):
        await anyio.sleep(0.5)
        assert client.recorder.history == ["started find", "failed find"]
        await client.run(find())
        assert server.commands("find")[-1]["$clusterTime"] == newer


async def test_a_cursor_in_it_is_killed() -> None:
    opened = {"cursor": {"id": 77, "ns": "db.coll", "firstBatch": [{"_id": 1}]}}
    async with too_late(later(opened, 0.6)) as (_, server):
        await anyio.sleep(0.5)
        (kill,) = server.commands("killCursors")
        assert (kill["$db"], kill["killCursors"], kill["cursors"]) == ("db", "coll", [77])


async def test_an_error_that_comes_late_is_nobodys_error() -> None:
    async with too_late(Reply(failure(10107), 0.6), FOUND) as (client, _):
        await anyio.sleep(0.5)
        assert counts(client) == (0, 0, 1, 1, 0)
        await client.run(find())


async def test_an_operation_that_needs_the_connection_gets_a_new_one() -> None:
    async with too_late(Hang(), FOUND, maxPoolSize=1) as (client, _):
        await client.run(find())
        assert counts(client) == (0, 0, 1, 0, 1)
        assert client.pool_log.words("given up|closed|created|checked out 2") == [
            "reply given up 1",
            "closed 1 error",
            "created 2",
            "checked out 2",
        ]


async def test_awaited_data_is_never_waited_for() -> None:
    deployment = replica_set()
    async with driver(deployment) as client:
        deployment["a:1"].on("getMore", Hang())
        await cancel_after(0.1, client, GetMore("db", "coll", 7, address=A, is_await_data=True))
        assert counts(client) == (0, 0, 0, 0, 0)


@pytest.mark.parametrize("kind", ["aggregate", "cursor_command"])
async def test_a_change_stream_waits_for_data_whether_it_was_told_how_long_or_not(kind: str) -> None:
    deployment = replica_set()
    server = deployment["a:1"]
    server.on("aggregate", {"cursor": {"id": 7, "ns": "db.coll", "firstBatch": []}})
    server.on("getMore", Hang())
    pipeline: list[dict[str, Any]] = [{"$changeStream": {}}]
    async with scripted_client(deployment) as client:
        cursor: Any
        if kind == "aggregate":
            cursor = await client.db.coll.aggregate(pipeline)
        else:
            cursor = await client.db.cursor_command({"aggregate": "coll", "pipeline": pipeline, "cursor": {}})
        with anyio.move_on_after(1):
            await cursor.next()
        (command,) = server.commands("getMore")
        assert "maxTimeMS" not in command
        stats = client.stats().servers[A]
        assert (stats.in_use, stats.pending, stats.idle) == (0, 0, 0)


BEYOND_PYTHON = bytes.fromhex("10000000096400ffffffffffffff7f00")


@pytest.mark.parametrize(
    ("answer", "is_kept"),
    [
        (Raw(b"\x10\0\0\0" + bytes(8) + b"\x01\0\0\0"), False),
        (Raw(b"", close=True), False),
        (Raw(b"\xff" * 40), False),
        # Values that Python cannot have do no harm: nobody looks at them.
        (None, True),
    ],
    ids=["another protocol", "closed", "garbage", "beyond Python"],
)
async def test_a_late_reply_that_is_none_closes_the_connection(answer: Raw | None, is_kept: bool) -> None:
    async with too_late(Hang(), FOUND) as (client, server):
        (connection,) = client.server().pool.state.pending
        if answer is None:
            header = (37, 1, connection.owed or 0, 2013, 0)
            answer = Raw(b"".join(number.to_bytes(4, "little") for number in header) + b"\0" + BEYOND_PYTHON)
        server._perform(connection.stream, 0, {}, answer)  # type: ignore[arg-type]  # the stream of a scripted server
        await settle()
        assert counts(client) == ((0, 0, 1, 1, 0) if is_kept else (0, 0, 0, 0, 1))
        ends = ["reply arrived 1"] if is_kept else ["reply given up 1", "closed 1 error"]
        assert client.pool_log.words()[-len(ends) :] == ends
        await client.run(find())


async def test_closing_the_client_ends_the_waiting() -> None:
    deployment = replica_set()
    async with driver(deployment) as client:
        deployment["a:1"].on("insert", Hang())
        await fails(client, insert(), timeout=0.5)
        await client.core.close()
        assert client.pool_log.words("given up|closed") == ["reply given up 1", "closed 1 poolClosed", "pool closed"]
        assert not deployment["a:1"].open_connections
