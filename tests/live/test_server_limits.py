"""Limits that servers enforce: expensive operations end there, and nothing goes on for callers that left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

import motorlite
from motorlite import DeleteMany
from motorlite.errors import ExecutionTimeout, PyMongoError, WriteExecutionTimeout
from tests.live.clients import numbered
from tests.support.clients import make_client
from tests.support.events import Recorder
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from motorlite.testing import LocalServer
    from tests.support.clients import Client

pytestmark = pytest.mark.anyio

# Longer than any limit here, and long enough for a busy machine to see it in progress.
ENDLESS = {"$where": "sleep(100) || true"}
# Without JavaScript: the server reports an interrupted $function with code 11601 at times. About 50 ms per document.
NUMBERS = {"$range": [0, {"$add": ["$_id", 200_000]}]}
SLOWLY = {"$min": [1, {"$reduce": {"input": NUMBERS, "initialValue": 1, "in": {"$add": ["$$value", 1]}}}]}
OPERATIONS: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "find": lambda c: c.find(ENDLESS).to_list(),
    "aggregate": lambda c: c.aggregate([{"$project": {"x": SLOWLY}}]).to_list(),
    "count_documents": lambda c: c.count_documents({"$expr": {"$eq": [SLOWLY, 1]}}),
    "count": lambda c: c.database.command("count", c.name, query=ENDLESS),
    "distinct": lambda c: c.distinct("_id", ENDLESS),
    "find_one_and_update": lambda c: c.find_one_and_update({"$where": "sleep(100) && false"}, {"$set": {"x": 1}}),
    "update_many": lambda c: c.update_many(ENDLESS, {"$set": {"x": 1}}),
    "delete_many": lambda c: c.delete_many(ENDLESS),
}


def in_progress(server: LocalServer, database: str) -> list[dict[str, Any]]:
    pipeline = [{"$currentOp": {"allUsers": True}}, {"$match": {"ns": f"{database}.c", "op": {"$ne": "none"}}}]
    reply = server.command({"aggregate": 1, "pipeline": pipeline, "cursor": {}})
    found: list[dict[str, Any]] = reply["cursor"]["firstBatch"]
    return found


async def leave(client: Client, server: LocalServer, database: str, **options: Any) -> None:
    """Cancel an endless read once it is in progress."""
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: client[database].c.find(ENDLESS, **options).to_list())
            await until(lambda: [one for one in in_progress(server, database) if "find" in one["command"]])
            scope.cancel()


@pytest.mark.parametrize("name", OPERATIONS)
async def test_the_server_ends_it_in_time(replica_set: LocalServer, database_name: str, name: str) -> None:
    async with make_client(replica_set) as client:
        collection = client[database_name].c
        await collection.insert_many(numbered(200))
        client.set_default_max_time(0.2)
        started = anyio.current_time()
        with pytest.raises(ExecutionTimeout) as raised:
            await OPERATIONS[name](collection)
        # The server looks at the time after each document at the latest, that is every 100 ms here.
        assert 0.199 <= anyio.current_time() - started < 1.2
        error = raised.value
        assert (error.timeout, error.client_limit, error.server_limit) == (True, None, 0.2)
        details = error.details or {}
        assert details["code"] == 50
        assert not in_progress(replica_set, database_name)
        # A write is reported as a write error by some servers, and as the command's error by others.
        assert isinstance(error, WriteExecutionTimeout) or details["codeName"] == "MaxTimeMSExpired"


WRITES: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "update_one": lambda c: c.update_one({"$where": "sleep(100) && false"}, {"$set": {"x": 1}}, max_time_ms=200),
    "update_many": lambda c: c.update_many(ENDLESS, {"$set": {"x": 1}}, max_time_ms=200),
    "replace_one": lambda c: c.replace_one({"$where": "sleep(100) && false"}, {"x": 1}, max_time_ms=200),
    "delete_one": lambda c: c.delete_one({"$where": "sleep(100) && false"}, max_time_ms=200),
    "delete_many": lambda c: c.delete_many(ENDLESS, max_time_ms=200),
    "bulk_write": lambda c: c.bulk_write([DeleteMany(ENDLESS)], max_time_ms=200),
}


@pytest.mark.parametrize("name", WRITES)
async def test_a_write_ends_at_its_own_limit(replica_set: LocalServer, database_name: str, name: str) -> None:
    async with make_client(replica_set, defaultMaxTimeMS=60_000) as client:
        collection = client[database_name].c
        await collection.insert_many(numbered(200))
        started = anyio.current_time()
        with pytest.raises(ExecutionTimeout) as raised:
            await WRITES[name](collection)
        assert 0.199 <= anyio.current_time() - started < 1.2
        assert (raised.value.client_limit, raised.value.server_limit) == (None, 0.2)
        assert not in_progress(replica_set, database_name)


@pytest.mark.parametrize("own", [{}, {"max_time_ms": 200}], ids=["default", "its own"])
async def test_an_insert_that_waits_for_a_lock_ends_at_its_limit(
    replica_set: LocalServer, database_name: str, own: dict[str, Any]
) -> None:
    """The time spent waiting for resources counts as well."""
    async with make_client(replica_set) as client:
        collection = client[database_name].c
        await collection.insert_one({"_id": 0})
        client.set_default_max_time(60 if own else 0.2)
        replica_set.command({"fsync": 1, "lock": True})
        try:
            for write in (collection.insert_one({"_id": 1}, **own), collection.insert_many(numbered(3), **own)):
                with pytest.raises(ExecutionTimeout) as raised:
                    await write
                assert (raised.value.timeout, raised.value.server_limit) == (True, 0.2)
        finally:
            replica_set.command({"fsyncUnlock": 1})
        assert await collection.count_documents({}) == 1


async def test_a_block_limits_everything_in_it(replica_set: LocalServer, database_name: str) -> None:
    record = Recorder()
    async with make_client(replica_set, event_listeners=[record]) as client:
        collection = client[database_name].c
        await collection.insert_many(numbered(200))
        record.clear()
        with motorlite.timeout(0.5):
            assert await collection.find_one({"$where": "sleep(50) || true"}) == {"_id": 0}
            with pytest.raises(PyMongoError) as caught:
                await collection.find(ENDLESS).to_list()
            assert caught.value.timeout
            # The time is used up: nothing is sent any more.
            with pytest.raises(PyMongoError):
                await collection.find_one()
        first, second = (command["maxTimeMS"] for command in record.commands("find"))
        assert second <= first - 50 <= 450
        assert await collection.find_one() == {"_id": 0}


async def test_the_error_is_close_to_the_limit(replica_set: LocalServer, database_name: str) -> None:
    async with make_client(replica_set) as client:
        collection = client[database_name].c
        await collection.insert_many(numbered(1000))
        for limit in (0.05, 0.1, 0.3):
            client.set_default_max_time(limit)
            started = anyio.current_time()
            with pytest.raises(ExecutionTimeout):
                await collection.find({"$where": "sleep(1) || true"}, batch_size=1000).to_list()
            assert limit <= anyio.current_time() - started < limit + 1


@pytest.mark.slow
async def test_the_server_ends_it_only_where_it_looks_at_the_time(replica_set: LocalServer, database_name: str) -> None:
    """It does so between two documents, so one that takes long is finished, whatever the limit is."""
    whole = {"$map": {"input": {"$range": [0, 20]}, "in": SLOWLY}}
    async with make_client(replica_set) as client:
        collection = client[database_name].c
        await collection.insert_one({"_id": 0})
        started = anyio.current_time()
        await collection.aggregate([{"$project": {"x": whole}}]).to_list()
        needed = anyio.current_time() - started
        started = anyio.current_time()
        with pytest.raises(ExecutionTimeout):
            await collection.aggregate([{"$project": {"x": whole}}], maxTimeMS=50).to_list()
        # A machine that is busy the first time may be faster now.
        assert anyio.current_time() - started > max(needed / 4, 0.1)


async def test_every_command_accepts_the_default(replica_set: LocalServer, database_name: str) -> None:
    record = Recorder()
    async with make_client(replica_set, defaultMaxTimeMS=30_000, event_listeners=[record]) as client:
        database, collection = client[database_name], client[database_name].c
        await collection.insert_one({"_id": 1, "x": 1})
        await collection.insert_many([{"_id": 2}, {"_id": 3}])
        await collection.update_one({"_id": 1}, {"$set": {"y": 1}})
        await collection.replace_one({"_id": 2}, {"z": 1})
        await collection.find_one_and_update({"_id": 3}, {"$set": {"y": 1}})
        await collection.create_index("x")
        await collection.list_indexes().to_list()
        await collection.index_information()
        await collection.drop_indexes()
        await collection.aggregate([{"$out": "copy"}]).to_list()
        assert await collection.count_documents({}) == 3
        assert await collection.estimated_document_count() == 3
        assert await collection.distinct("_id") == [1, 2, 3]
        cursor = collection.find(batch_size=2)
        assert len(await cursor.to_list(3)) == 3
        await cursor.close()
        await collection.find().explain()
        await database.create_collection("made")
        await database.made.rename("renamed")
        await database.list_collection_names()
        await database.validate_collection("c")
        await client.list_database_names()
        await client.server_info()
        await collection.delete_one({"_id": 1})
        await collection.drop()
        await client.drop_database(database_name)
        limited = {event.command_name: event.command.get("maxTimeMS") for event in record.started_events}
    unlimited = {name for name, limit in limited.items() if limit != 30_000}
    assert len(limited) > 18
    assert unlimited <= {"getMore", "killCursors"}


# --- from a document ---


@pytest.mark.slow
async def test_all_clients_see_the_document_within_ten_seconds(replica_set: LocalServer, database_name: str) -> None:
    where: dict[str, Any] = {"defaultMaxTimeNamespace": f"{database_name}.cmongo_settings"}
    async with make_client(replica_set, **where) as client, make_client(replica_set, **where) as other:
        settings = client[database_name].cmongo_settings
        await settings.insert_one({"_id": "maxTimeMS", "value": 300})
        with anyio.fail_after(10):
            await until(lambda: client.default_max_time == other.default_max_time == 0.3)
        await other[database_name].c.insert_many(numbered(200), timeoutMS=0)
        with pytest.raises(ExecutionTimeout):
            await other[database_name].c.find(ENDLESS).to_list()


# --- abandoned operations ---


async def test_an_abandoned_operation_is_killed(replica_set: LocalServer, database_name: str) -> None:
    record = Recorder()
    async with make_client(replica_set, killAbandoned=True, event_listeners=[record]) as client:
        await client[database_name].c.insert_many(numbered(200))
        record.clear()
        await leave(client, replica_set, database_name)
        await until(lambda: "killOp" in record.names)
        await until(lambda: not in_progress(replica_set, database_name))
        assert record.names.count("killOp") == 1
        # The server's answer, that the operation was interrupted, arrives while it is waited for.
        await until(lambda: next(iter(client.stats().servers.values())).pending == 0)
        (stats,) = client.stats().servers.values()
        assert (stats.replies_drained, stats.replies_given_up) == (1, 0)


async def test_a_user_may_kill_its_own_operations(secured: LocalServer, database_name: str) -> None:
    """Without the privileges inprog and killop."""
    roles = [{"role": "readWrite", "db": database_name}]
    secured.command({"createUser": "reader", "pwd": "secret", "roles": roles}, database_name)
    options: dict[str, Any] = {"username": "reader", "password": "secret", "authSource": database_name}
    async with make_client(secured, killAbandoned=True, minPoolSize=2, **options) as client:
        await client[database_name].c.insert_many(numbered(200))
        # Authentication must not use up the second within which the reply has to arrive.
        await until(lambda: next(iter(client.stats().servers.values())).idle == 2)
        await leave(client, secured, database_name)
        await until(lambda: not in_progress(secured, database_name))
        await until(lambda: next(iter(client.stats().servers.values())).replies_drained == 1)


async def test_a_closed_connection_ends_it_too_but_costs_the_connection(
    replica_set: LocalServer, database_name: str
) -> None:
    """The way of servers since 4.2, on which nothing here relies."""
    async with make_client(replica_set) as client:
        await client[database_name].c.insert_many(numbered(200))
        await leave(client, replica_set, database_name)
        await until(lambda: next(iter(client.stats().servers.values())).replies_given_up == 1)
        await until(lambda: not in_progress(replica_set, database_name))
        (stats,) = client.stats().servers.values()
        assert (stats.replies_drained, stats.replies_given_up) == (0, 1)
