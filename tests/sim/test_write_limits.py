"""`max_time_ms` of writes: the server's limit of one command, and of all commands of a bulk write, in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import anyio
import pytest

import motorlite
from motorlite import DeleteOne, InsertOne, UpdateOne, WriteConcern
from motorlite.errors import (
    BulkWriteExecutionTimeout,
    ClientBulkWriteException,
    ExecutionTimeout,
    NetworkTimeout,
    PyMongoError,
    WriteExecutionTimeout,
)
from motorlite.testing.scripted import Hang, Reply, ScriptedDeployment
from tests.support.clients import one_member
from tests.support.core import HOST_UNREACHABLE, OVERLOADED, limits, replica_set

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

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


def limited(
    answers: dict[str, Any] | None = None, deployment: ScriptedDeployment | None = None, **options: Any
) -> AbstractAsyncContextManager[Any]:
    """A client whose server takes two writes at once, and that server."""
    deployment = deployment or replica_set(wire_version=25)
    deployment["a:1"].hello["maxWriteBatchSize"] = 2
    usual = {"bulkWrite": written(1), **dict.fromkeys(("insert", "update", "delete"), WRITTEN)}
    return one_member({**usual, **(answers or {})}, deployment=deployment, **options)


writes: Final = pytest.mark.parametrize("write", WRITES)


@writes
async def test_the_caller_s_own_value_wins_over_the_default(write: str) -> None:
    name, run = WRITES[write]
    async with limited(defaultMaxTimeMS=500) as (client, a):
        coll = client.db.coll
        for options in ({}, {"max_time_ms": 70}, {"max_time_ms": 0}, {"max_time_ms": None}, {}):
            await run(coll, **options)
        assert limits(a, name) == [500, 70, 0, 500, 500]


@writes
async def test_a_timeout_replaces_it(write: str) -> None:
    name, run = WRITES[write]
    async with limited() as (client, a):
        coll = client.db.coll
        await run(coll, max_time_ms=70, timeoutMS=2_000)
        await run(coll, max_time_ms=70, timeoutMS=0)
        with motorlite.timeout(4):
            await run(coll, max_time_ms=70)
        assert limits(a, name) == pytest.approx([2_000, None, 4_000], abs=1)


@writes
async def test_with_other_options(write: str) -> None:
    name, run = WRITES[write]
    async with limited() as (client, a), client.start_session() as session:
        await run(client.db.coll, comment="c", session=session, max_time_ms=70)
        (command,) = a.commands(name)
        assert (command["maxTimeMS"], command["comment"], "lsid" in command) == (70, "c", True)


@writes
async def test_without_an_acknowledgement(write: str) -> None:
    name, run = WRITES[write]
    async with limited() as (client, a):
        if write == "client.bulk_write":
            await run(client.db.coll, max_time_ms=70, write_concern=WriteConcern(0), ordered=False)
        else:
            await run(client.db.coll.with_options(write_concern=WriteConcern(0)), max_time_ms=70)
        await client.admin.command("ping")
        assert limits(a, name) == [70]


@writes
@pytest.mark.parametrize(("wrong", "error"), [("5", TypeError), (-1, ValueError), (True, TypeError)])
async def test_wrong_values(write: str, wrong: Any, error: type[Exception]) -> None:
    async with limited() as (client, a):
        with pytest.raises(error, match="max_time_ms must be"):
            await WRITES[write][1](client.db.coll, max_time_ms=wrong)
    assert a.received == []


@writes
async def test_each_attempt_carries_it(write: str) -> None:
    """As for reads: the server's clock begins anew, and a retry after an overload error has done nothing before."""
    name, run = WRITES[write]
    answer = written(1) if name == "bulkWrite" else WRITTEN
    async with limited({name: [OVERLOADED, OVERLOADED, answer]}) as (client, a):
        await run(client.db.coll, max_time_ms=70)
        assert limits(a, name) == [70, 70, 70]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"max_time_ms": 70}, (None, 0.07)),
        ({"max_time_ms": 70, "timeoutMS": 2000}, (2.0, 2.0)),
        ({"max_time_ms": 70, "timeoutMS": 0}, (None, None)),
        ({"timeoutMS": 0}, (None, None)),
        ({"max_time_ms": 0}, (None, None)),
    ],
)
async def test_the_error_names_the_limit(options: dict[str, Any], expected: Any) -> None:
    late = {"n": 0, "writeErrors": [{"index": 0, "code": 50, "errmsg": "time limit"}]}
    async with limited({"insert": late}, defaultMaxTimeMS=500) as (client, _):
        coll = client.db.coll
        for write, kind in (
            (coll.insert_one({}, **options), WriteExecutionTimeout),
            (coll.insert_many([{}], **options), BulkWriteExecutionTimeout),
        ):
            with pytest.raises(kind) as raised:
                await write
            assert (raised.value.client_limit, raised.value.server_limit) == expected


# --- bulk writes: one limit for all commands ---


async def test_each_command_of_a_bulk_write_carries_what_remains() -> None:
    answers = {
        "insert": [Reply({"n": 2}, 3), HOST_UNREACHABLE, Reply({"n": 2}, 1)],
        "update": Reply({"n": 1, "nModified": 1}, 0.5),
    }
    async with limited(answers, defaultMaxTimeMS=500) as (client, a):
        inserts = [InsertOne[dict[str, Any]]({}) for _ in range(4)]
        requests: list[Any] = [*inserts, UpdateOne({}, {"$set": {"x": 1}}), DeleteOne({})]
        await client.db.coll.bulk_write(requests, max_time_ms=10_000)
        # The retry carries what its command did.
        assert limits(a, "insert") == [10_000, 7_000, 7_000]
        assert limits(a, "update") == [6_000]
        assert limits(a, "delete") == [5_500]
        await client.db.coll.insert_many([{}] * 3, max_time_ms=10_000)
        assert limits(a, "insert")[3:] == [10_000, 9_000]


async def test_each_command_of_a_client_s_bulk_write_carries_what_remains() -> None:
    answers = [Reply(written(2), 3), Reply(written(2), 1), written(1)]
    async with limited({"bulkWrite": answers}, defaultMaxTimeMS=500) as (client, a):
        models = [InsertOne[Any]({}, namespace=NAMESPACE) for _ in range(5)]
        await client.bulk_write(models, max_time_ms=10_000)
        assert limits(a, "bulkWrite") == [10_000, 7_000, 6_000]


@pytest.mark.parametrize("limit", [0, None])
async def test_without_a_limit_no_command_has_less(limit: int | None) -> None:
    async with limited({"insert": Reply({"n": 2}, 3)}, defaultMaxTimeMS=500) as (client, a):
        await client.db.coll.insert_many([{}] * 6, max_time_ms=limit)
        assert limits(a, "insert") == [500 if limit is None else 0] * 3


async def test_a_bulk_write_whose_time_is_up_sends_no_further_command() -> None:
    async with limited({"insert": Reply({"n": 2}, 3)}) as (client, a):
        with pytest.raises(ExecutionTimeout, match="time limit") as raised:
            await client.db.coll.insert_many([{}] * 6, max_time_ms=6_000)
        assert limits(a, "insert") == [6_000, 3_000]
        error = raised.value
        assert (error.timeout, error.code, error.client_limit, error.server_limit) == (True, 50, None, 6.0)
        assert error.phase == "before sending"
        assert error.partial_result is not None
        assert error.partial_result.inserted_count == 4


async def test_a_client_s_bulk_write_whose_time_is_up_sends_no_further_command() -> None:
    async with limited({"bulkWrite": Reply(written(2), 3)}) as (client, a):
        models = [InsertOne[Any]({}, namespace=NAMESPACE) for _ in range(6)]
        with pytest.raises(ClientBulkWriteException) as raised:
            await client.bulk_write(models, max_time_ms=6_000)
        assert limits(a, "bulkWrite") == [6_000, 3_000]
        cause = raised.value.error
        assert isinstance(cause, ExecutionTimeout)
        assert (cause.code, cause.client_limit, cause.server_limit) == (50, None, 6.0)
        assert raised.value.partial_result is not None
        assert raised.value.partial_result.inserted_count == 4


async def test_a_timeout_replaces_the_limit_of_a_bulk_write_however_long_it_takes() -> None:
    async with limited({"insert": Reply({"n": 2}, 3)}) as (client, a):
        await client.db.coll.insert_many([{}] * 6, max_time_ms=4_000, timeoutMS=20_000)
        assert limits(a, "insert") == pytest.approx([20_000, 17_000, 14_000], abs=1)
        await client.db.coll.insert_many([{}] * 6, max_time_ms=4_000, timeoutMS=0)
        assert limits(a, "insert")[3:] == [None] * 3


async def test_less_than_a_millisecond_is_no_lack_of_a_limit() -> None:
    """maxTimeMS=0 would lift the limit."""
    async with limited({"insert": [Reply({"n": 2}, 0.9995), {"n": 2}]}) as (client, a):
        await client.db.coll.insert_many([{}] * 4, max_time_ms=1_000)
        assert limits(a, "insert") == [1_000, 1]


@pytest.mark.parametrize(("wire_version", "enforced"), [(9, None), (13, 10.0)])
async def test_an_older_mongos_ignores_it(wire_version: int, enforced: float | None) -> None:
    """So nothing relies on it there: the error says that the server has no limit."""
    deployment = ScriptedDeployment(["a:1"], mongos=True, wire_version=wire_version)
    options = {"socketTimeoutMS": 300, "killAbandoned": True, "retryWrites": False}
    async with limited({"insert": Hang()}, deployment, **options) as (client, a):
        with pytest.raises(NetworkTimeout) as raised:
            await client.db.coll.insert_one({}, max_time_ms=10_000)
        assert limits(a, "insert") == [10_000]
        assert (raised.value.client_limit, raised.value.server_limit) == (0.3, enforced)


@writes
async def test_an_error_of_an_applied_write_at_the_very_end_of_a_scope_is_left_to_the_scope(
    write: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server knows the limit of the caller's cancel scope, and may report it before the scope ends the call."""
    name, run = WRITES[write]
    expired = {"code": 50, "codeName": "MaxTimeMSExpired", "errmsg": "operation exceeded time limit"}
    answer = {**(written(1) if name == "bulkWrite" else WRITTEN), "writeConcernError": expired}
    async with limited({name: Reply(answer, 0.5)}) as (client, _):
        await client.admin.command("ping")
        start = anyio.current_time()
        with monkeypatch.context() as patch:
            # Nobody's scope: what comes after the chance that it gets can be seen.
            patch.setattr(client._core, "scope_deadline", lambda: start + 0.5)
            patch.setattr(client._core._runtime, "deadline_here", lambda: start + 0.5)
            with pytest.raises(PyMongoError):
                await run(client.db.coll)
        assert anyio.current_time() == pytest.approx(start + 0.501, abs=1e-9)
