"""`max_time_ms` of writes: the server's limit of one command, and of all commands of a bulk write, in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

import motorlite
from motorlite import DeleteOne, InsertOne, UpdateOne, WriteConcern
from motorlite.errors import (
    BulkWriteExecutionTimeout,
    ClientBulkWriteException,
    ExecutionTimeout,
    NetworkTimeout,
    WriteExecutionTimeout,
)
from motorlite.testing.scripted import Hang, Reply, ScriptedDeployment
from tests.support.clients import scripted_client
from tests.support.core import HOST_UNREACHABLE, OVERLOADED, replica_set

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

pytestmark = pytest.mark.anyio

NAMESPACE: Final = "db.coll"
WRITES: Final[dict[str, tuple[str, Callable[..., Awaitable[Any]]]]] = {
    "insert_one": ("insert", lambda c, **options: c.insert_one({}, **options)),
    "insert_many": ("insert", lambda c, **options: c.insert_many([{}, {}], **options)),
    "update_one": ("update", lambda c, **options: c.update_one({}, {"$set": {"x": 1}}, **options)),
    "update_many": ("update", lambda c, **options: c.update_many({}, {"$set": {"x": 1}}, **options)),
    "replace_one": ("update", lambda c, **options: c.replace_one({}, {"x": 1}, **options)),
    "delete_one": ("delete", lambda c, **options: c.delete_one({}, **options)),
    "delete_many": ("delete", lambda c, **options: c.delete_many({}, **options)),
    "bulk_write": ("delete", lambda c, **options: c.bulk_write([DeleteOne({})], **options)),
    "client.bulk_write": (
        "bulkWrite",
        lambda c, **options: c.database.client.bulk_write([InsertOne({}, namespace=NAMESPACE)], **options),
    ),
}
WRITTEN: Final = {"n": 1, "nModified": 1}
CURSOR: Final = {"id": 0, "ns": "admin.$cmd.bulkWrite", "firstBatch": []}


def written(count: int) -> dict[str, Any]:
    """The reply to a command bulkWrite with `count` inserts."""
    results = [{"ok": 1, "idx": index, "n": 1} for index in range(count)]
    return {"cursor": {**CURSOR, "firstBatch": results}, "nErrors": 0, "nInserted": count}


def scripted(batch: int = 2, **arguments: Any) -> ScriptedDeployment:
    """A replica set that takes `batch` writes at once."""
    deployment = replica_set(**{"wire_version": 25, **arguments})
    deployment["a:1"].hello["maxWriteBatchSize"] = batch
    for name in ("insert", "update", "delete"):
        deployment["a:1"].on(name, WRITTEN)
    deployment["a:1"].on("bulkWrite", written(1))
    return deployment


def limits(deployment: ScriptedDeployment, name: str) -> list[int | None]:
    return [command.get("maxTimeMS") for command in deployment["a:1"].commands(name)]


writes: Final = pytest.mark.parametrize("write", WRITES)


@writes
async def test_the_caller_s_own_value_wins_over_the_default(write: str) -> None:
    deployment = scripted()
    name, run = WRITES[write]
    async with scripted_client(deployment, defaultMaxTimeMS=500) as client:
        coll = client.db.coll
        await run(coll)
        await run(coll, max_time_ms=70)
        await run(coll, max_time_ms=0)
        await run(coll, max_time_ms=None)
        await run(coll)
        assert limits(deployment, name) == [500, 70, 0, 500, 500]


@writes
async def test_a_timeout_replaces_it(write: str) -> None:
    deployment = scripted()
    name, run = WRITES[write]
    async with scripted_client(deployment) as client:
        coll = client.db.coll
        await run(coll, max_time_ms=70, timeoutMS=2_000)
        await run(coll, max_time_ms=70, timeoutMS=0)
        with motorlite.timeout(4):
            await run(coll, max_time_ms=70)
        assert limits(deployment, name) == pytest.approx([2_000, None, 4_000], abs=1)


@writes
async def test_with_other_options(write: str) -> None:
    deployment = scripted()
    name, run = WRITES[write]
    async with scripted_client(deployment) as client, client.start_session() as session:
        await run(client.db.coll, comment="c", session=session, max_time_ms=70)
        (command,) = deployment["a:1"].commands(name)
        assert (command["maxTimeMS"], command["comment"], "lsid" in command) == (70, "c", True)


@writes
async def test_without_an_acknowledgement(write: str) -> None:
    deployment = scripted()
    name, run = WRITES[write]
    async with scripted_client(deployment) as client:
        if write == "client.bulk_write":
            await run(client.db.coll, max_time_ms=70, write_concern=WriteConcern(0), ordered=False)
        else:
            await run(client.db.coll.with_options(write_concern=WriteConcern(0)), max_time_ms=70)
        await client.admin.command("ping")
        assert limits(deployment, name) == [70]


@writes
@pytest.mark.parametrize(("wrong", "error"), [("5", TypeError), (-1, ValueError), (True, TypeError)])
async def test_wrong_values(write: str, wrong: Any, error: type[Exception]) -> None:
    deployment = scripted()
    async with scripted_client(deployment) as client:
        with pytest.raises(error, match="max_time_ms must be"):
            await WRITES[write][1](client.db.coll, max_time_ms=wrong)
    assert deployment["a:1"].commands(WRITES[write][0]) == []


@writes
async def test_each_attempt_carries_it(write: str) -> None:
    """As for reads: the server's clock begins anew, and a retry after an overload error has done nothing before."""
    deployment = scripted()
    name, run = WRITES[write]
    answer = written(1) if name == "bulkWrite" else WRITTEN
    deployment["a:1"].on(name, OVERLOADED, OVERLOADED, answer)
    async with scripted_client(deployment) as client:
        await run(client.db.coll, max_time_ms=70)
        assert limits(deployment, name) == [70, 70, 70]


async def test_the_error_names_the_limit() -> None:
    deployment = scripted()
    deployment["a:1"].on("insert", {"n": 0, "writeErrors": [{"index": 0, "code": 50, "errmsg": "time limit"}]})
    async with scripted_client(deployment, defaultMaxTimeMS=500) as client:
        with pytest.raises(WriteExecutionTimeout) as raised:
            await client.db.coll.insert_one({}, max_time_ms=70)
        assert (raised.value.client_limit, raised.value.server_limit) == (None, 0.07)
        with pytest.raises(BulkWriteExecutionTimeout) as raised_by_bulk:
            await client.db.coll.insert_many([{}], max_time_ms=70)
        assert (raised_by_bulk.value.client_limit, raised_by_bulk.value.server_limit) == (None, 0.07)
        with pytest.raises(BulkWriteExecutionTimeout) as raised_by_bulk:
            await client.db.coll.insert_many([{}], max_time_ms=70, timeoutMS=900)
        assert (raised_by_bulk.value.client_limit, raised_by_bulk.value.server_limit) == (0.9, 0.9)
        timeouts: tuple[dict[str, Any], ...] = (
            {"timeoutMS": 0},
            {"timeoutMS": 0, "max_time_ms": 70},
            {"max_time_ms": 0},
        )
        for options in timeouts:
            with pytest.raises(BulkWriteExecutionTimeout) as raised_by_bulk:
                await client.db.coll.insert_many([{}], **options)
            assert (raised_by_bulk.value.client_limit, raised_by_bulk.value.server_limit) == (None, None)


# --- bulk writes: one limit for all commands ---


async def test_each_command_of_a_bulk_write_carries_what_remains() -> None:
    deployment = scripted()
    server = deployment["a:1"]
    server.on("insert", Reply({"n": 2}, 3), HOST_UNREACHABLE, Reply({"n": 2}, 1))
    server.on("update", Reply({"n": 1, "nModified": 1}, 0.5))
    server.on("delete", {"n": 1})
    async with scripted_client(deployment, defaultMaxTimeMS=500) as client:
        inserts = [InsertOne[dict[str, Any]]({}) for _ in range(4)]
        requests: list[Any] = [*inserts, UpdateOne({}, {"$set": {"x": 1}}), DeleteOne({})]
        await client.db.coll.bulk_write(requests, max_time_ms=10_000)
        # The retry carries what its command did.
        assert limits(deployment, "insert") == [10_000, 7_000, 7_000]
        assert limits(deployment, "update") == [6_000]
        assert limits(deployment, "delete") == [5_500]
        await client.db.coll.insert_many([{}] * 3, max_time_ms=10_000)
        assert limits(deployment, "insert")[3:] == [10_000, 9_000]


async def test_each_command_of_a_client_s_bulk_write_carries_what_remains() -> None:
    deployment = scripted()
    deployment["a:1"].on("bulkWrite", Reply(written(2), 3), Reply(written(2), 1), written(1))
    async with scripted_client(deployment, defaultMaxTimeMS=500) as client:
        models = [InsertOne[Any]({}, namespace=NAMESPACE) for _ in range(5)]
        await client.bulk_write(models, max_time_ms=10_000)
        assert limits(deployment, "bulkWrite") == [10_000, 7_000, 6_000]


@pytest.mark.parametrize("limit", [0, None])
async def test_without_a_limit_no_command_has_less(limit: int | None) -> None:
    deployment = scripted()
    deployment["a:1"].on("insert", Reply({"n": 2}, 3))
    async with scripted_client(deployment, defaultMaxTimeMS=500) as client:
        await client.db.coll.insert_many([{}] * 6, max_time_ms=limit)
        assert limits(deployment, "insert") == [500 if limit is None else 0] * 3


async def test_a_bulk_write_whose_time_is_up_sends_no_further_command() -> None:
    deployment = scripted()
    deployment["a:1"].on("insert", Reply({"n": 2}, 3))
    async with scripted_client(deployment) as client:
        with pytest.raises(ExecutionTimeout, match="time limit") as raised:
            await client.db.coll.insert_many([{}] * 6, max_time_ms=6_000)
        assert limits(deployment, "insert") == [6_000, 3_000]
        error = raised.value
        assert (error.timeout, error.code, error.client_limit, error.server_limit) == (True, 50, None, 6.0)
        assert error.phase == "before sending"
        assert error.partial_result is not None
        assert error.partial_result.inserted_count == 4


async def test_a_client_s_bulk_write_whose_time_is_up_sends_no_further_command() -> None:
    deployment = scripted()
    deployment["a:1"].on("bulkWrite", Reply(written(2), 3))
    async with scripted_client(deployment) as client:
        models = [InsertOne[Any]({}, namespace=NAMESPACE) for _ in range(6)]
        with pytest.raises(ClientBulkWriteException) as raised:
            await client.bulk_write(models, max_time_ms=6_000)
        assert limits(deployment, "bulkWrite") == [6_000, 3_000]
        cause = raised.value.error
        assert isinstance(cause, ExecutionTimeout)
        assert (cause.code, cause.client_limit, cause.server_limit) == (50, None, 6.0)
        assert raised.value.partial_result is not None
        assert raised.value.partial_result.inserted_count == 4


async def test_a_timeout_replaces_the_limit_of_a_bulk_write_however_long_it_takes() -> None:
    deployment = scripted()
    deployment["a:1"].on("insert", Reply({"n": 2}, 3))
    async with scripted_client(deployment) as client:
        await client.db.coll.insert_many([{}] * 6, max_time_ms=4_000, timeoutMS=20_000)
        assert limits(deployment, "insert") == pytest.approx([20_000, 17_000, 14_000], abs=1)
        await client.db.coll.insert_many([{}] * 6, max_time_ms=4_000, timeoutMS=0)
        assert limits(deployment, "insert")[3:] == [None] * 3


async def test_less_than_a_millisecond_is_no_lack_of_a_limit() -> None:
    """maxTimeMS=0 would lift the limit."""
    deployment = scripted()
    deployment["a:1"].on("insert", Reply({"n": 2}, 0.9995), {"n": 2})
    async with scripted_client(deployment) as client:
        await client.db.coll.insert_many([{}] * 4, max_time_ms=1_000)
        assert limits(deployment, "insert") == [1_000, 1]


@pytest.mark.parametrize(("wire_version", "enforced"), [(9, None), (13, 10.0)])
async def test_an_older_mongos_ignores_it(wire_version: int, enforced: float | None) -> None:
    """So nothing relies on it there: the error says that the server has no limit."""
    deployment = ScriptedDeployment(["a:1"], mongos=True, wire_version=wire_version)
    deployment["a:1"].on("insert", Hang())
    async with scripted_client(deployment, socketTimeoutMS=300, killAbandoned=True, retryWrites=False) as client:
        with pytest.raises(NetworkTimeout) as raised:
            await client.db.coll.insert_one({}, max_time_ms=10_000)
        assert limits(deployment, "insert") == [10_000]
        assert (raised.value.client_limit, raised.value.server_limit) == (0.3, enforced)
