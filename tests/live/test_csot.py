"""Deadlines: `timeoutMS` at each level, `motorlite.timeout`, cancel scopes, and what the server is told."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import anyio
import pymongo
import pytest

import motorlite
from motorlite import CursorType
from motorlite.errors import (
    ConfigurationError,
    ExecutionTimeout,
    NetworkTimeout,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
)
from motorlite.testing import failpoints
from tests.live.clients import numbered
from tests.support.clients import make_client
from tests.support.events import Recorder
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from motorlite.testing import LocalServer
    from tests.live.conftest import Fail
    from tests.support.clients import Client

pytestmark = pytest.mark.anyio


# How long a server blocks a command whose limit, a quarter of a second, passes meanwhile. Both leave time to a busy
# machine: to send the command, and to notice that its time is over. (A failpoint is off when none is blocked any more.)
BLOCKED_MS = 800


async def timed_out(operation: Awaitable[Any], least: float = 0.0, most: float = BLOCKED_MS / 1000) -> PyMongoError:
    """The timeout of an operation, which must come between `least` and `most` seconds: when the server still blocks."""
    started = anyio.current_time()
    with pytest.raises(PyMongoError) as caught:
        await operation
    assert least <= anyio.current_time() - started < most
    assert caught.value.timeout, caught.value
    return caught.value


# --- levels ---

LEVELS: dict[str, Callable[[Client, str], Any]] = {
    "database": lambda client, name: client[name].with_options(timeoutMS=250).c.find_one(),
    "collection": lambda client, name: client[name].c.with_options(timeoutMS=250).find_one(),
    "operation": lambda client, name: client[name].c.find_one(timeoutMS=250),
    "get_collection": lambda client, name: client[name].get_collection("c", timeoutMS=250).find_one(),
}


@pytest.mark.parametrize("level", LEVELS)
async def test_each_level_limits_the_operation(
    replica_set: LocalServer, database_name: str, fail: Fail, level: str
) -> None:
    record = Recorder()
    # The narrower level wins over the client's.
    async with make_client(replica_set, timeoutMS=30_000, event_listeners=[record]) as client:
        await client[database_name].c.find_one()
        fail(replica_set, failpoints.fail_command(["find"], block_ms=BLOCKED_MS))
        record.clear()
        error = await timed_out(LEVELS[level](client, database_name), 0.25)
        assert error.phase == "reply"
        assert 0 < record.commands("find")[0]["maxTimeMS"] <= 250


async def test_the_client_s_level_and_0_for_no_limit(replica_set: LocalServer, database_name: str, fail: Fail) -> None:
    record = Recorder()
    async with make_client(replica_set, timeoutMS=250, event_listeners=[record]) as client:
        collection = client[database_name].c
        await collection.find_one(timeoutMS=0)
        fail(replica_set, failpoints.fail_command(["find"], block_ms=BLOCKED_MS))
        await timed_out(collection.find_one(), 0.25)
        record.clear()
        assert await collection.find_one(timeoutMS=0) is None
        assert await collection.with_options(timeoutMS=0).find_one() is None
        assert all("maxTimeMS" not in command for command in record.commands("find"))
        assert (client.timeoutMS, collection.timeoutMS) == (250, 250)


@pytest.mark.parametrize(
    ("command", "call"),
    [
        ("insert", lambda c: c.insert_one({}, timeoutMS=250)),
        ("insert", lambda c: c.insert_many([{}], timeoutMS=250)),
        ("update", lambda c: c.update_many({}, {"$set": {"a": 1}}, timeoutMS=250)),
        ("delete", lambda c: c.delete_one({}, timeoutMS=250)),
        ("findAndModify", lambda c: c.find_one_and_delete({}, timeoutMS=250)),
        ("aggregate", lambda c: c.aggregate([], timeoutMS=250).to_list()),
        ("aggregate", lambda c: c.count_documents({}, timeoutMS=250)),
        ("distinct", lambda c: c.distinct("a", timeoutMS=250)),
        ("count", lambda c: c.estimated_document_count(timeoutMS=250)),
        ("createIndexes", lambda c: c.create_index("a", timeoutMS=250)),
        ("listIndexes", lambda c: c.list_indexes(timeoutMS=250).to_list()),
        ("dropIndexes", lambda c: c.drop_indexes(timeoutMS=250)),
        ("drop", lambda c: c.drop(timeoutMS=250)),
        ("listCollections", lambda c: c.database.list_collection_names(timeoutMS=250)),
        ("listDatabases", lambda c: c.database.client.list_database_names(timeoutMS=250)),
        ("ping", lambda c: c.database.command("ping", timeoutMS=250)),
    ],
)
async def test_every_operation_takes_a_timeout(
    replica_set: LocalServer, database_name: str, fail: Fail, command: str, call: Callable[[Any], Awaitable[Any]]
) -> None:
    record = Recorder()
    async with make_client(replica_set, event_listeners=[record]) as client:
        await client[database_name].c.insert_one({"_id": 1})
        fail(replica_set, failpoints.fail_command([command], block_ms=BLOCKED_MS, times=1))
        record.clear()
        error = await timed_out(call(client[database_name].c), 0.25)
        assert error.phase == "reply"
        assert 0 < record.commands(command)[0]["maxTimeMS"] <= 250


# --- motorlite.timeout ---


async def test_a_block_of_pymongo(replica_set: LocalServer, database_name: str, fail: Fail) -> None:
    # PyMongo's clock is not that of every event loop.
    record = Recorder()
    async with make_client(replica_set, event_listeners=[record]) as client:
        collection = client[database_name].c
        await collection.insert_one({"_id": 1})
        fail(replica_set, failpoints.fail_command(["find"], block_ms=BLOCKED_MS, times=1))
        record.clear()
        with pymongo.timeout(0.25):
            await timed_out(collection.find_one(), 0.25)
        assert 0 < record.commands("find")[0]["maxTimeMS"] <= 250


async def test_a_block_limits_everything_in_it(replica_set: LocalServer, database_name: str, fail: Fail) -> None:
    record = Recorder()
    async with make_client(replica_set, event_listeners=[record]) as client:
        collection = client[database_name].c
        await collection.insert_one({"_id": 1})
        record.clear()
        with motorlite.timeout(1):
            assert await collection.find_one() == {"_id": 1}
            assert await collection.find_one({"$where": "sleep(50) || true"}) == {"_id": 1}
            fail(replica_set, failpoints.fail_command(["find"], block_ms=1_500))
            with pytest.raises(PyMongoError) as caught:
                await collection.find_one()
            assert caught.value.timeout
            # The time is used up: nothing is sent any more.
            sent = len(record.names)
            await timed_out(collection.find_one())
            assert len(record.names) == sent
        limits = [command["maxTimeMS"] for command in record.commands("find")]
        assert sorted(limits, reverse=True) == limits
        assert limits[0] <= 1000
        assert limits[2] <= 950
        replica_set.command(failpoints.off())
        assert await collection.find_one() == {"_id": 1}


async def test_an_inner_block_and_an_operation_cannot_extend_the_outer_one(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    async with make_client(replica_set, timeoutMS=30_000) as client:
        collection = client[database_name].c
        await collection.find_one()
        fail(replica_set, failpoints.fail_command(["find"], block_ms=BLOCKED_MS))
        with motorlite.timeout(0.06), motorlite.timeout(10):
            await timed_out(collection.find_one(timeoutMS=5_000), 0.05)
        with motorlite.timeout(10), motorlite.timeout(0.06):
            await timed_out(collection.find_one(), 0.05)


async def test_a_block_of_0_lifts_what_was_inherited(replica_set: LocalServer, database_name: str, fail: Fail) -> None:
    async with make_client(replica_set, timeoutMS=50) as client:
        fail(replica_set, failpoints.fail_command(["find"], block_ms=500))
        with motorlite.timeout(0):
            assert await client[database_name].c.find_one() is None
        with motorlite.timeout(None):
            await timed_out(client[database_name].c.find_one(), 0.04)


async def test_all_commands_of_a_bulk_write_share_one_deadline(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    record = Recorder()
    async with make_client(replica_set, event_listeners=[record]) as client:
        collection = client[database_name].c
        await collection.insert_one({"_id": 0})
        fail(replica_set, failpoints.fail_command(["insert", "update"], block_ms=200, namespace=f"{database_name}.c"))
        requests: list[Any] = []
        for number in range(1, 5):
            requests += [motorlite.InsertOne({"_id": number}), motorlite.UpdateOne({"_id": 0}, {"$inc": {"n": 1}})]
        record.clear()
        await timed_out(collection.bulk_write(requests, timeoutMS=700), 0.4, 1.6)
        # Each has less time than the one before, and the last ones are not sent: eight would take 1.6 seconds.
        limits = [event.command["maxTimeMS"] for event in record.started_events]
        assert 2 <= len(limits) <= 4
        assert all(after <= before - 200 for before, after in pairwise(limits))


# --- phases ---


async def test_phase_selection(database_name: str) -> None:
    # Nobody listens on port 1.
    async with make_client("mongodb://127.0.0.1:1/", serverSelectionTimeoutMS=10_000) as client:
        error = await timed_out(client[database_name].c.find_one(timeoutMS=250), 0.25)
        assert isinstance(error, ServerSelectionTimeoutError)
        assert error.phase == "selection"
        assert "127.0.0.1:1" in str(error)


async def test_the_smaller_of_both_limits_selects(database_name: str) -> None:
    async with make_client("mongodb://127.0.0.1:1/", serverSelectionTimeoutMS=50, timeoutMS=10_000) as client:
        error = await timed_out(client[database_name].c.find_one(), 0.04)
        assert isinstance(error, ServerSelectionTimeoutError)


async def test_phase_queue(replica_set: LocalServer, database_name: str, fail: Fail) -> None:
    async with make_client(replica_set, maxPoolSize=1) as client:
        collection = client[database_name].c
        await collection.find_one()
        fail(replica_set, failpoints.fail_command(["find"], block_ms=1_000, times=1))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(collection.find_one)
            await until(lambda: client.stats().servers[replica_set.addresses[0]].in_use == 1)
            error = await timed_out(collection.find_one(timeoutMS=250), 0.25)
            assert isinstance(error, WaitQueueTimeoutError)
            assert error.phase == "queue"


async def test_phase_connecting(standalone: LocalServer, database_name: str, fail: Fail) -> None:
    app_name = "test_phase_connecting"
    async with make_client(standalone, appName=app_name) as client:
        await client[database_name].c.insert_one({})
        handshakes = ["hello", "isMaster", "ismaster"]
        fail(standalone, failpoints.fail_command(handshakes, block_ms=BLOCKED_MS, app_name=app_name))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client[database_name].c.find_one, {"$where": "sleep(1000) || true"})
            await until(lambda: client.stats().servers[standalone.addresses[0]].in_use == 1)
            error = await timed_out(client[database_name].c.find_one(timeoutMS=250), 0.25)
            assert error.phase == "connecting"
        standalone.command(failpoints.off())


async def test_phase_reply_and_the_connection_afterwards(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    async with make_client(replica_set, maxPoolSize=1) as client:
        collection = client[database_name].c
        await collection.insert_one({"_id": 1})
        fail(replica_set, failpoints.fail_command(["find"], block_ms=1_000, times=1))
        error = await timed_out(collection.find_one(timeoutMS=250), 0.25)
        assert isinstance(error, NetworkTimeout | ExecutionTimeout)
        assert error.phase == "reply"
        # No later operation gets the late reply.
        for _ in range(5):
            assert await collection.count_documents({}) == 1


async def test_the_server_s_own_timeout(replica_set: LocalServer, database_name: str) -> None:
    async with make_client(replica_set) as client:
        collection = client[database_name].c
        await collection.insert_many(numbered(50))
        with pytest.raises(ExecutionTimeout) as caught:
            await collection.find({"$where": "sleep(10) || true"}, max_time_ms=30).to_list()
        assert caught.value.code == 50
        assert caught.value.timeout


async def test_with_a_timeout_ordinary_retries_go_on_until_the_deadline(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    record = Recorder()
    async with make_client(replica_set, event_listeners=[record]) as client:
        collection = client[database_name].c
        await collection.find_one()
        fail(replica_set, failpoints.fail_command(["find"], error_code=262, times=4))
        record.clear()
        assert await collection.find_one(timeoutMS=5_000) is None
        assert record.names == ["find"] * 5
        replica_set.command(failpoints.fail_command(["find"], error_code=262, times=4))
        with pytest.raises(OperationFailure):
            await collection.find_one()


# --- cancel scopes ---


async def test_an_enclosing_scope_lowers_max_time_ms_but_is_not_reported(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    record = Recorder()
    async with make_client(replica_set, event_listeners=[record]) as client:
        collection = client[database_name].c
        await collection.insert_one({})
        record.clear()
        with anyio.fail_after(20):
            await collection.count_documents({})
            await collection.insert_one({})
            await collection.find().to_list()
        aggregate, insert, find = (event.command for event in record.started_events)
        # A little more than what remains, so that it is the scope that ends the operation.
        assert 1_000 < aggregate["maxTimeMS"] <= 20_010
        assert 1_000 < insert["maxTimeMS"] <= 20_010
        # It would limit the cursor, which may outlive the scope.
        assert "maxTimeMS" not in find
        fail(replica_set, failpoints.fail_command(["insert"], block_ms=BLOCKED_MS))
        with anyio.move_on_after(0.05) as scope:
            await collection.insert_one({})
        assert scope.cancelled_caught


async def test_a_cancelled_operation_leaves_a_pool_that_works(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    async with make_client(replica_set, maxPoolSize=2) as client:
        collection = client[database_name].c
        await collection.insert_many(numbered(20))
        fail(replica_set, failpoints.fail_command(["find"], block_ms=30))
        for number in range(10):
            with anyio.move_on_after(0.01 * (number % 5)):
                await collection.find_one({"_id": number})
        replica_set.command(failpoints.off())
        for number in range(20):
            assert await collection.find_one({"_id": number}) == {"_id": number}
        server = client.stats().servers[replica_set.addresses[0]]
        assert (server.in_use, server.waiting, server.operations) == (0, 0, 0)


# --- cursors ---


async def test_by_default_the_limit_is_that_of_the_cursor_s_life(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    record = Recorder()
    async with make_client(replica_set, event_listeners=[record]) as client:
        collection = client[database_name].c
        await collection.insert_many(numbered(20))
        fail(replica_set, failpoints.fail_command(["getMore"], block_ms=200))
        record.clear()
        cursor = collection.find(batch_size=2, timeoutMS=700)
        error = await timed_out(cursor.to_list(), 0.4, 1.8)
        assert error.phase == "reply"
        # All of them would take two seconds.
        assert 2 <= record.names.count("getMore") <= 4
        assert 0 < record.commands("find")[0]["maxTimeMS"] <= 700
        assert all("maxTimeMS" not in command for command in record.commands("getMore"))
        # Closed with a deadline of its own.
        await cursor.close()
        assert "succeeded killCursors" in record.history


async def test_in_iteration_mode_each_step_has_the_whole_time(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    record = Recorder()
    async with make_client(replica_set, event_listeners=[record]) as client:
        collection = client[database_name].c
        await collection.insert_many(numbered(12))
        # All five together take longer than the limit.
        fail(replica_set, failpoints.fail_command(["getMore"], block_ms=250))
        record.clear()
        cursor = collection.find(batch_size=2, timeoutMS=1_000, timeoutMode="iteration")
        assert [document["_id"] async for document in cursor] == list(range(12))
        assert "maxTimeMS" not in record.commands("find")[0]


async def test_a_tailable_cursor_s_limit_is_that_of_each_step(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    record = Recorder()
    async with make_client(replica_set, event_listeners=[record]) as client:
        database = client[database_name]
        await database.create_collection("c", capped=True, size=50_000)
        await database.c.insert_one({"_id": 1})
        record.clear()
        options: dict[str, Any] = {"cursor_type": CursorType.TAILABLE_AWAIT, "max_await_time_ms": 40}
        cursor = database.c.find(timeoutMS=1_000, **options)
        assert await cursor.to_list() == [{"_id": 1}]
        for _ in range(3):
            assert await cursor.to_list() == []
        assert all(0 < command["maxTimeMS"] <= 40 for command in record.commands("getMore"))
        await cursor.close()
        with pytest.raises(ConfigurationError, match="maxAwaitTimeMS"):
            await database.c.find(timeoutMS=30, **options).to_list()
        with pytest.raises(ConfigurationError, match="tailable"):
            database.c.find(timeoutMS=100, timeoutMode="cursorLifetime", **options)


async def test_max_time_ms_is_what_remains_less_the_round_trip(replica_set: LocalServer, database_name: str) -> None:
    record = Recorder()
    async with make_client(replica_set, heartbeatFrequencyMS=500, event_listeners=[record]) as client:
        collection = client[database_name].c
        await collection.find_one()

        def minimum() -> float:
            return client.stats().servers[replica_set.addresses[0]].min_round_trip_time

        # Two samples are needed; the second comes with the first measurement while streaming.
        await until(minimum)
        record.clear()
        await collection.find_one(timeoutMS=1_000)
        limit = record.commands("find")[0]["maxTimeMS"]
        assert limit < 1_000
        # A deadline shorter than the round trip: nothing is sent.
        record.clear()
        await timed_out(collection.find_one(timeoutMS=minimum() * 500))
        assert record.names == []
