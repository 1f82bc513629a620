"""Replies whose operation was cancelled or ran out of time: the connection is kept, and nothing else goes wrong."""

from __future__ import annotations

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
    from motorlite._operations.contract import Operation

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def cancel_after(seconds: float, client: Driver, operation: Operation[Any]) -> None:
    with anyio.move_on_after(seconds) as scope:
        await client.run(operation)
    assert scope.cancelled_caught


def counts(client: Driver) -> tuple[int, int, int, int, int]:
    """Connections in use, pending, idle; replies that came late, and that were given up."""
    stats = client.core.stats().servers[A]
    return stats.in_use, stats.pending, stats.idle, stats.replies_drained, stats.replies_given_up


async def test_after_a_timeout_the_connection_is_used_again() -> None:
    deployment = replica_set()
    async with driver(deployment) as client:
        deployment["a:1"].on("find", later(FOUND, 0.6), FOUND)
        error = await fails(client, find(), timeout=0.5)
        assert isinstance(error, NetworkTimeout)
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
        assert {received.connection for received in deployment["a:1"].received} == {
            deployment["a:1"].received[0].connection
        }


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
        assert (client.server().pool.state.pace._part_left > 0) is (ends == "cancelled")


async def _after_settling(client: Driver) -> None:
    await settle()
    await client.run(insert())


async def test_another_operation_meanwhile_gets_its_own_reply_on_another_connection() -> None:
    deployment = replica_set()
    async with driver(deployment) as client:
        other = {"cursor": {"id": 0, "ns": "db.coll", "firstBatch": [{"_id": 2}]}}
        deployment["a:1"].on("find", later(FOUND, 0.6), other)
        await fails(client, find(), timeout=0.5)
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
    deployment = replica_set()
    newer = {"clusterTime": Timestamp(100, 1), "signature": {}}
    async with driver(deployment) as client:
        deployment["a:1"].on("find", later({**FOUND, "$clusterTime": newer}, 0.6), FOUND)
        await fails(client, find(), timeout=0.5)
        told = list(client.recorder.history)
        assert told == ["started find", "failed find"]
        await anyio.sleep(0.5)
        assert client.recorder.history == told
        await client.run(find())
        assert deployment["a:1"].commands("find")[-1]["$clusterTime"] == newer


async def test_a_cursor_in_it_is_killed() -> None:
    deployment = replica_set()
    async with driver(deployment) as client:
        opened = {"cursor": {"id": 77, "ns": "db.coll", "firstBatch": [{"_id": 1}]}}
        deployment["a:1"].on("find", later(opened, 0.6))
        await fails(client, find(), timeout=0.5)
        await anyio.sleep(0.5)
        (kill,) = deployment["a:1"].commands("killCursors")
        assert (kill["$db"], kill["killCursors"], kill["cursors"]) == ("db", "coll", [77])


async def test_whoever_needs_the_connection_gets_a_new_one() -> None:
    deployment = replica_set()
    async with driver(deployment, maxPoolSize=1) as client:
        deployment["a:1"].on("find", Hang(), FOUND)
        await fails(client, find(), timeout=0.5)
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


@pytest.mark.parametrize(
    "answer",
    [Raw(b"\x10\0\0\0" + bytes(8) + b"\x01\0\0\0"), Raw(b"", close=True), Raw(b"\xff" * 40)],
    ids=["another protocol", "closed", "garbage"],
)
async def test_a_late_reply_that_is_none_closes_the_connection(answer: Raw) -> None:
    deployment = replica_set()
    server = deployment["a:1"]
    async with driver(deployment) as client:
        server.on("find", Hang(), FOUND)
        await fails(client, find(), timeout=0.5)
        (stream,) = (connection.stream for connection in client.server().pool.state.pending)
        server._perform(stream, 0, {}, answer)  # type: ignore[arg-type]  # the stream of a scripted server
        await settle()
        assert counts(client) == (0, 0, 0, 0, 1)
        assert client.pool_log.words()[-2:] == ["reply given up 1", "closed 1 error"]
        await client.run(find())


async def test_an_error_that_comes_late_is_nobodys_error() -> None:
    deployment = replica_set()
    async with driver(deployment) as client:
        deployment["a:1"].on("find", Reply(failure(10107), 0.6), FOUND)
        await fails(client, find(), timeout=0.5)
        await anyio.sleep(0.5)
        assert counts(client) == (0, 0, 1, 1, 0)
        await client.run(find())


async def test_values_that_python_cannot_have_do_no_harm() -> None:
    deployment = replica_set()
    server = deployment["a:1"]
    beyond = bytes.fromhex("10000000096400ffffffffffffff7f00")
    async with driver(deployment) as client:
        server.on("find", Hang(), FOUND)
        await fails(client, find(), timeout=0.5)
        (connection,) = client.server().pool.state.pending
        body = b"\0" + beyond
        length = 16 + 4 + len(body)
        header = b"".join(n.to_bytes(4, "little") for n in (length, 1, connection.owed or 0, 2013, 0))
        server._perform(connection.stream, 0, {}, Raw(header + body))  # type: ignore[arg-type]  # as above
        await settle()
        assert counts(client) == (0, 0, 1, 1, 0)


async def test_closing_the_client_ends_the_waiting() -> None:
    deployment = replica_set()
    async with driver(deployment) as client:
        deployment["a:1"].on("insert", Hang())
        await fails(client, insert(), timeout=0.5)
        await client.core.close()
        assert client.pool_log.words("given up|closed") == ["reply given up 1", "closed 1 poolClosed", "pool closed"]
        assert not deployment["a:1"].open_connections
