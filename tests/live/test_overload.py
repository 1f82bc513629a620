"""The overload policy against a real server. Each rule, its delays and its tokens are in tests/sim, in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest
from bson import ObjectId

from motorlite import InsertOne, OverloadRetry, UpdateMany
from motorlite.errors import AutoReconnect, OperationFailure
from motorlite.testing import failpoints
from tests.live.clients import numbered
from tests.support.clients import make_client
from tests.support.events import Recorder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from motorlite import AsyncCollection
    from motorlite.monitoring import CommandFailedEvent
    from motorlite.testing import LocalServer
    from tests.live.conftest import Fail

pytestmark = pytest.mark.anyio

BOTH = ("SystemOverloadedError", "RetryableError")


def in_turn(server: LocalServer, record: Recorder, documents: list[dict[str, Any]]) -> None:
    """Set the first failpoint now, and each further one when a command has failed."""
    rest = iter(documents)
    server.command(next(rest))

    def advance(_event: CommandFailedEvent) -> None:
        server.command(next(rest, failpoints.off()))

    record.on_failure = advance


async def test_the_real_jitter_is_between_0_and_1_and_not_always_the_same(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    record = Recorder()
    policy = OverloadRetry(base_backoff=0.001)
    async with make_client(replica_set, overload_policy=policy, event_listeners=[record]) as client:
        fail(replica_set, failpoints.overload(1.0, ["find"]))
        for _ in range(4):
            with pytest.raises(OperationFailure):
                await client[database_name].c.find_one()
        permitted = [event for event in record.retries if event.permitted]
        shares = [event.delay / (0.001 * 2 ** (event.attempt - 1)) for event in permitted]
        assert all(0 <= share < 1 for share in shares)
        assert len(set(shares)) == 20


# Of each kind one; tests/sim/test_every_operation.py has all.
OPERATIONS: dict[str, Callable[[AsyncCollection[dict[str, Any]]], Awaitable[Any]]] = {
    "find": lambda c: c.find().to_list(),
    "getMore": lambda c: c.find(batch_size=3).to_list(),
    "aggregate": lambda c: c.aggregate([{"$out": "d"}]).to_list(),
    "insert": lambda c: c.insert_many([{"a": 1}, {"a": 2}]),
    "update": lambda c: c.update_many({}, {"$set": {"a": 1}}),
    "findAndModify": lambda c: c.find_one_and_delete({}),
    "ping": lambda c: c.database.command("ping"),
    "create": lambda c: c.database.create_collection("new"),
    "createIndexes": lambda c: c.create_index("a"),
    "dropDatabase": lambda c: c.database.client.drop_database(c.database),
}


@pytest.mark.parametrize("command", OPERATIONS)
async def test_operations_of_each_kind_are_retried(
    replica_set: LocalServer, database_name: str, fail: Fail, command: str
) -> None:
    record = Recorder()
    async with make_client(replica_set, jitter=0.0, event_listeners=[record]) as client:
        collection = client[database_name].c
        await collection.insert_many(numbered(5))
        record.clear()
        fail(replica_set, failpoints.overload(commands=[command], times=2))
        await OPERATIONS[command](collection)
        ended = [
            outcome for outcome in record.history if outcome.endswith(f"ed {command}") and "started" not in outcome
        ]
        assert ended[:3] == [f"failed {command}"] * 2 + [f"succeeded {command}"]
        assert [(event.command_name, event.reason) for event in record.retries] == [(command, "overload")] * 2


async def test_a_killed_cursor_is_retried_and_a_getmore_loses_nothing(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    record = Recorder()
    async with make_client(replica_set, jitter=0.0, maxAdaptiveRetries=50, event_listeners=[record]) as client:
        collection = client[database_name].c
        await collection.insert_many(numbered(10))
        fail(replica_set, failpoints.overload(0.5, ["getMore"]))
        found = [document["_id"] async for document in collection.find(batch_size=2)]
        assert found == list(range(10))
        replica_set.command(failpoints.overload(commands=["killCursors"], times=2))
        cursor = await collection.find(batch_size=2)
        record.clear()
        await cursor.close()
        assert record.names == ["killCursors"] * 3


async def test_each_batch_of_a_bulk_write_has_retries_of_its_own(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    record = Recorder()
    async with make_client(replica_set, jitter=0.0, event_listeners=[record]) as client:
        fail(replica_set, failpoints.off())
        insert, update = (
            failpoints.overload(commands=[name], times=1, namespace=f"{database_name}.c")
            for name in ("insert", "update")
        )
        in_turn(replica_set, record, [*[insert] * 4, *[update] * 4])
        requests: list[Any] = [InsertOne({"_id": 1, "n": 0}), UpdateMany({}, {"$inc": {"n": 1}})]
        # The fourth failure of the insert makes way for the first of the update.
        result = await client[database_name].c.bulk_write(requests)
        assert (result.inserted_count, result.modified_count) == (1, 1)
        assert record.names == ["insert"] * 5 + ["update"] * 5
        assert len({event.operation_id for event in record.started_events}) == 1
        assert await client[database_name].c.find_one() == {"_id": 1, "n": 1}


async def test_a_write_keeps_its_transaction_number_through_both_kinds_of_retry(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    record = Recorder()
    namespace = f"{database_name}.c"
    async with make_client(replica_set, jitter=0.0, event_listeners=[record]) as client:
        fail(replica_set, failpoints.off())
        overload = failpoints.overload(commands=["insert"], times=1, namespace=namespace)
        closed = failpoints.fail_command(["insert"], close_connection=True, times=1, namespace=namespace)
        in_turn(replica_set, record, [overload, closed, overload])
        await client[database_name].c.insert_one({"_id": 1})
        inserts = record.commands("insert")
        assert len(inserts) == 4
        assert len({(command["lsid"]["id"], command["txnNumber"]) for command in inserts}) == 1
        assert [event.reason for event in record.retries] == ["overload", "connection lost in flight", "overload"]
        assert await client[database_name].c.count_documents({}) == 1


async def test_a_connection_that_is_refused_is_an_overload_of_the_operation_that_wanted_it(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    record = Recorder()
    app_name = str(ObjectId())
    options: dict[str, Any] = {"appName": app_name, "event_listeners": [record], "maxPoolSize": 2}
    async with make_client(replica_set, jitter=0.0, **options) as client:
        collection = client[database_name].c
        await collection.insert_one({})
        # The monitor has its connections; the next handshake is that of a second pooled one.
        handshakes = ["hello", "isMaster", "ismaster"]
        fail(replica_set, failpoints.fail_command(handshakes, close_connection=True, times=1, app_name=app_name))
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(collection.find_one, {"$where": "sleep(500) || true"})
        assert [(event.reason, event.rule) for event in record.retries] == [("server not available", "overload policy")]
        assert isinstance(record.retries[0].error, AutoReconnect)
        assert record.retries[0].error.error_labels >= set(BOTH)
        server = client.stats().servers[replica_set.addresses[0]]
        assert (server.generation, server.server_type) == (0, "RSPrimary")
