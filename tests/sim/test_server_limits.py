"""The limits that servers get with a client's commands, and what errors say about them, in virtual time."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

import anyio
import pytest

import motorlite
from motorlite import AsyncMongoClient, CursorType, DeleteOne, InsertOne, UpdateOne
from motorlite.errors import (
    BulkWriteError,
    BulkWriteExecutionTimeout,
    ExecutionTimeout,
    NetworkTimeout,
    PyMongoError,
    WriteConcernExecutionTimeout,
    WriteError,
    WriteExecutionTimeout,
    WTimeoutError,
)
from motorlite.testing.scripted import Hang, Reply, ScriptedDeployment, failure
from tests.support.clients import one_member
from tests.support.core import FOUND, HOST_UNREACHABLE, OVERLOADED, limits, replica_set
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from tests.support.clients import Client

pytestmark = pytest.mark.anyio

EXPIRED: Final = failure(50, message="operation exceeded time limit", codeName="MaxTimeMSExpired")
CALLS: Final[dict[str, tuple[str, Callable[[Any], Awaitable[Any]]]]] = {
    "find": ("find", lambda c: c.find().to_list()),
    "find_one": ("find", lambda c: c.find_one()),
    "find_one_and_update": ("findAndModify", lambda c: c.find_one_and_update({}, {"$set": {"x": 1}})),
    "aggregate": ("aggregate", lambda c: c.aggregate([]).to_list()),
    "count_documents": ("aggregate", lambda c: c.count_documents({})),
    "estimated_document_count": ("count", lambda c: c.estimated_document_count()),
    "distinct": ("distinct", lambda c: c.distinct("x")),
    "insert_one": ("insert", lambda c: c.insert_one({})),
    "insert_many": ("insert", lambda c: c.insert_many([{}, {}])),
    "update_many": ("update", lambda c: c.update_many({}, {"$set": {"x": 1}})),
    "delete_many": ("delete", lambda c: c.delete_many({})),
    "bulk_write": ("delete", lambda c: c.bulk_write([DeleteOne({})])),
    "create_index": ("createIndexes", lambda c: c.create_index("x")),
    "drop": ("drop", lambda c: c.drop()),
    "list_collections": ("listCollections", lambda c: c.database.list_collection_names()),
    "list_databases": ("listDatabases", lambda c: c.database.client.list_database_names()),
    "command": ("ping", lambda c: c.database.command("ping")),
}
ANSWERS: Final[dict[str, dict[str, Any]]] = {
    "count": {"n": 0},
    "insert": {"n": 1},
    "update": {"n": 1, "nModified": 1},
    "delete": {"n": 1},
    "distinct": {"values": []},
    "listDatabases": {"databases": []},
    "findAndModify": {"value": None},
}


def limited(answers: dict[str, Any] | None = None, **options: Any) -> AbstractAsyncContextManager[Any]:
    """A client whose server answers every call, and that server."""
    return one_member({**ANSWERS, **(answers or {})}, **options)


# --- the default ---


@pytest.mark.parametrize("call", CALLS)
async def test_every_operation_carries_the_default(call: str) -> None:
    name, run = CALLS[call]
    async with limited(defaultMaxTimeMS=500) as (client, a):
        await run(client.db.coll)
        assert limits(a, name) == [500]
        # Only the server is limited: the client waits for as long as it takes.
        a.on(name, Reply(ANSWERS.get(name, {"cursor": {"id": 0, "ns": "db.c", "firstBatch": []}}), 999))
        await run(client.db.coll)


async def test_each_attempt_and_each_batch_carries_the_whole_default() -> None:
    answers = [HOST_UNREACHABLE, OVERLOADED, Reply({"n": 2}, 3), {"n": 2}, {"n": 1}]
    async with limited({"insert": answers}, defaultMaxTimeMS=500) as (client, a):
        a.hello["maxWriteBatchSize"] = 2
        await client.db.coll.insert_many([{}] * 5)
        assert limits(a, "insert") == [500] * 5


async def test_each_batch_carries_what_remains_of_a_timeout() -> None:
    answers = [Reply({"n": 2}, 3), OVERLOADED, Reply({"n": 2}, 1), {"n": 1}]
    async with limited({"insert": answers}, defaultMaxTimeMS=500, timeoutMS=10_000) as (client, a):
        a.hello["maxWriteBatchSize"] = 2
        await client.db.coll.insert_many([{}] * 5)
        # One retry, 100 ms after the overload error.
        assert limits(a, "insert") == pytest.approx([10_000, 7000, 6900, 5900], abs=1)


async def test_the_caller_s_own_value_wins() -> None:
    async with limited(defaultMaxTimeMS=500) as (client, a):
        coll = client.db.coll
        await coll.find_one(max_time_ms=7)
        await coll.find_one(max_time_ms=0)
        await coll.find().max_time_ms(9_000).to_list()
        await coll.find_one(timeoutMS=2_000)
        await coll.find_one(timeoutMS=0)
        await coll.with_options(timeoutMS=3_000).find_one()
        with motorlite.timeout(4):
            await coll.find_one()
        await coll.find_one()
        assert limits(a, "find") == pytest.approx([7, 0, 9_000, 2_000, None, 3_000, 4_000, 500], abs=1)
        await client.db.command("ping", maxTimeMS=8)
        await coll.create_index("x", maxTimeMS=0)
        await coll.insert_one({}, timeoutMS=0)
        assert [limits(a, name) for name in ("ping", "createIndexes", "insert")] == [[8], [0], [None]]


async def test_a_cancel_scope_shortens_the_default() -> None:
    async with limited(defaultMaxTimeMS=500) as (client, a):
        await client.db.coll.find_one()
        with anyio.move_on_after(0.2):
            await client.db.coll.find_one()
        with anyio.move_on_after(20):
            await client.db.coll.find_one()
        assert limits(a, "find") == pytest.approx([500, 205, 500], abs=1)


async def test_a_block_of_0_lifts_timeouts_and_the_default_as_timeout_ms_does() -> None:
    async with limited(defaultMaxTimeMS=500, timeoutMS=9_000) as (client, a):
        with motorlite.timeout(0):
            await client.db.coll.find_one()
        await client.db.coll.find_one(timeoutMS=0)
        assert limits(a, "find") == [None, None]


@pytest.mark.parametrize("value", [0, None])
async def test_0_is_no_default(value: int | None) -> None:
    async with limited(defaultMaxTimeMS=value) as (client, a):
        await client.db.coll.find_one()
        assert (limits(a, "find"), client.default_max_time) == ([None], 0)


async def test_a_change_takes_effect_for_the_next_command() -> None:
    async with limited({"find": [*[FOUND] * 4, Reply(OVERLOADED, 1), FOUND]}, defaultMaxTimeMS=500) as (client, a):
        coll = client.db.coll
        await coll.find_one()
        client.set_default_max_time(2)
        assert client.default_max_time == 2
        await coll.find_one()
        client.set_default_max_time(0)
        await coll.find_one()
        client.set_default_max_time(None)
        await coll.find_one()
        async with anyio.create_task_group() as group:
            group.start_soon(coll.find_one)
            await anyio.sleep(0.5)
            client.set_default_max_time(1e-6)
        # The last two are attempts of one operation.
        assert limits(a, "find") == [500, 2000, None, 500, 500, 1]


@pytest.mark.parametrize(
    ("wrong", "error"),
    [("5", TypeError), (True, TypeError), ([1], TypeError), (-1, ValueError), (float("nan"), ValueError)],
)
async def test_a_wrong_default(wrong: Any, error: type[Exception]) -> None:
    async with limited() as (client, _):
        with pytest.raises(error, match="seconds must be a number of seconds"):
            client.set_default_max_time(wrong)


async def test_the_ends_of_the_range() -> None:
    """The default may be set before the first operation."""
    async with limited() as (client, a):
        client.set_default_max_time(float("inf"))
        assert client.default_max_time == 0
        client.set_default_max_time(1e300)
        assert client.default_max_time == (2**31 - 1) / 1000
        client.set_default_max_time(3)
        await client.db.coll.find_one()
        assert limits(a, "find") == [3000]


# --- what never carries it ---


async def test_getmore_killcursors_and_endsessions_never_carry_it() -> None:
    batch = {"id": 9, "ns": "db.coll"}
    answers = {
        "find": {"cursor": {**batch, "firstBatch": [{}]}},
        "getMore": {"cursor": {**batch, "nextBatch": [{}]}},
    }
    async with limited(answers, defaultMaxTimeMS=500) as (client, a):
        cursor = client.db.coll.find()
        await cursor.to_list(2)
        await cursor.close()
        lost = client.db.coll.find()
        await lost.to_list(1)
        del lost
        await anyio.sleep(1)
    assert [limits(a, name) for name in ("find", "getMore", "killCursors")] == [[500, 500], [None], [None, None]]
    assert limits(a, "endSessions") == [None]


async def test_monitors_and_handshakes_never_carry_it() -> None:
    deployment = replica_set(streaming=True)
    async with limited(deployment=deployment, defaultMaxTimeMS=500, timeoutMS=60_000) as (client, a):
        await client.db.coll.find_one()
        await anyio.sleep(30)
    assert len(a.hellos) >= 4
    assert not any("maxTimeMS" in hello.document for hello in a.hellos)
    assert limits(a, "endSessions") == [None]


async def test_a_tailable_cursor_has_no_end() -> None:
    """On the server the limit of find covers the whole life of a cursor that does not wait for data."""
    async with limited(defaultMaxTimeMS=500) as (client, a):
        await client.db.coll.find(cursor_type=CursorType.TAILABLE).to_list(1)
        await client.db.coll.find(cursor_type=CursorType.TAILABLE_AWAIT).to_list(1)
        assert limits(a, "find") == [None, 500]


# --- errors ---


async def raised(operation: Awaitable[Any]) -> PyMongoError:
    with pytest.raises(PyMongoError) as caught:
        await operation
    return caught.value


def clocks(error: PyMongoError) -> tuple[float | None, float | None]:
    return error.client_limit, error.server_limit


async def test_error_50_names_both_clocks() -> None:
    async with limited({"find": EXPIRED}, defaultMaxTimeMS=500) as (client, a):
        error = await raised(client.db.coll.find_one())
        assert isinstance(error, ExecutionTimeout)
        assert (error.timeout, error.code, clocks(error)) == (True, 50, (None, 0.5))
        assert error.details is not None
        assert error.details["codeName"] == "MaxTimeMSExpired"
        assert str(error).startswith(
            "operation exceeded time limit (server a:1; time limits: client none, server 0.5 s)"
        )
        error = await raised(client.db.coll.find_one(timeoutMS=4_000))
        assert (isinstance(error, ExecutionTimeout), clocks(error)) == (True, (4.0, 4.0))
        assert "time limits: client 4 s, server 4 s" in str(error)
        error = await raised(client.db.coll.find_one(max_time_ms=0))
        assert (isinstance(error, ExecutionTimeout), clocks(error)) == (True, (None, None))
        assert len(a.commands("find")) == 3, "nothing is retried"


async def test_a_wait_that_the_client_ended_names_both_clocks() -> None:
    options = {"socketTimeoutMS": 300, "killAbandoned": True, "retryReads": False}
    async with limited({"find": Hang()}, **options) as (client, _):
        error = await raised(client.db.coll.find_one())
        assert (isinstance(error, NetworkTimeout), clocks(error)) == (True, (0.3, None))
        assert "time limits: client 0.3 s, server none" in str(error)
        error = await raised(client.db.coll.find_one(max_time_ms=9_000))
        assert clocks(error) == (0.3, 9.0)
        error = await raised(client.db.coll.find_one(timeoutMS=100))
        assert clocks(error) == pytest.approx((0.1, 0.1), abs=0.002)


async def test_other_errors_name_no_clock() -> None:
    taken = {"n": 0, "writeErrors": [{"index": 0, "code": 11000, "errmsg": "taken"}]}
    async with limited({"find": failure(2), "update": taken}, defaultMaxTimeMS=500) as (client, _):
        error = await raised(client.db.coll.find_one())
        assert (error.timeout, clocks(error)) == (False, (None, None))
        assert "time limits" not in str(error)
        error = await raised(client.db.coll.bulk_write([UpdateOne({}, {"$set": {"x": 1}})]))
        assert (type(error), error.timeout, clocks(error)) == (BulkWriteError, False, (None, None))


WRITE_ERROR: Final = {"n": 0, "writeErrors": [{"index": 0, "code": 50, "errmsg": "operation exceeded time limit"}]}
CONCERN_ERROR: Final = {"n": 1, "writeConcernError": {"code": 50, "errmsg": "waiting for replication timed out"}}


@pytest.mark.parametrize(
    ("write", "reply", "kind", "base", "code"),
    [
        ("insert_one", WRITE_ERROR, WriteExecutionTimeout, WriteError, 50),
        ("insert_one", CONCERN_ERROR, WriteConcernExecutionTimeout, WTimeoutError, 50),
        ("find_one_and_delete", CONCERN_ERROR, WriteConcernExecutionTimeout, WTimeoutError, 50),
        ("bulk_write", WRITE_ERROR, BulkWriteExecutionTimeout, BulkWriteError, 65),
        ("bulk_write", CONCERN_ERROR, BulkWriteExecutionTimeout, BulkWriteError, 65),
    ],
)
@pytest.mark.parametrize(
    ("options", "expected"),
    [({"defaultMaxTimeMS": 500}, (None, 0.5)), ({"timeoutMS": 2000}, (2.0, 2.0)), ({}, (None, None))],
)
async def test_error_50_in_the_reply_of_a_write(
    write: str, reply: dict[str, Any], kind: type, base: type, code: int, options: dict[str, Any], expected: Any
) -> None:
    async with limited({"insert": reply, "findAndModify": {"value": None, **reply}}, **options) as (client, _):
        error = await raised(getattr(client.db.coll, write)([InsertOne({})] if write == "bulk_write" else {}))
        assert type(error) is kind
        assert isinstance(error, base)
        assert isinstance(error, ExecutionTimeout)
        assert (error.timeout, error.code, clocks(error)) == (True, code, expected)
        if options and write != "bulk_write":
            client_limit = "none" if expected[0] is None else f"{expected[0]:g} s"
            assert f"time limits: client {client_limit}, server {expected[1]:g} s" in str(error)


async def test_a_server_that_shuts_down_interrupts_and_a_read_is_retried() -> None:
    interrupted = failure(11600, message="interrupted at shutdown")
    async with limited({"find": [interrupted, FOUND]}, defaultMaxTimeMS=500) as (client, a):
        assert await client.db.coll.find_one() == {"_id": 1}
        assert limits(a, "find") == [500, 500]


# --- the avalanche that an option invites ---


def warned(**options: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        AsyncMongoClient("mongodb://a", **options)
    assert all(warning.filename == __file__ for warning in caught)
    return [str(warning.message) for warning in caught]


async def test_a_socket_timeout_without_any_limit_on_the_server_warns_once() -> None:
    (message,) = warned(socketTimeoutMS=500)
    assert message.startswith("socketTimeoutMS ends only the client's wait: the server goes on with the operation")
    (message,) = warned(socketTimeoutMS=500, timeoutMS=0, defaultMaxTimeMS=0)
    assert "Set timeoutMS" in message


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"socketTimeoutMS": 0},
        {"socketTimeoutMS": 500, "timeoutMS": 400},
        {"socketTimeoutMS": 500, "defaultMaxTimeMS": 400},
        {"socketTimeoutMS": 500, "defaultMaxTimeNamespace": "config.settings"},
        {"socketTimeoutMS": 500, "killAbandoned": True},
        {"timeoutMS": 400},
    ],
)
async def test_no_warning(options: dict[str, Any]) -> None:
    assert warned(**options) == []


# --- mongos up to 4.4 ---


@pytest.mark.parametrize(("wire_version", "seconds"), [(9, 1), (13, 10)])
async def test_a_limit_that_mongos_ignores_is_treated_as_absent(wire_version: int, seconds: float) -> None:
    """A late reply is waited for as if the write had no limit: for a second, not until the limit and a second more."""
    deployment = ScriptedDeployment(["a:1"], mongos=True, wire_version=wire_version)
    options = {"defaultMaxTimeMS": 10_000, "socketTimeoutMS": 1000, "retryWrites": False}
    async with one_member({"insert": Hang()}, deployment=deployment, **options) as (client, a):
        error = await raised(client.db.coll.insert_one({}))
        assert clocks(error) == (1.0, None if wire_version == 9 else 10.0)
        assert limits(a, "insert") == [10_000]
        started = anyio.current_time()
        await until(lambda: not _connections(client))
        assert anyio.current_time() - started == pytest.approx(seconds, abs=0.01)


def _connections(client: Client) -> int:
    (server,) = client.stats().servers.values()
    return server.in_use + server.pending + server.idle


# --- callers that give up and try again ---


@pytest.mark.parametrize(
    ("options", "most"),
    [
        # As many as there are callers, and those whose time ends while the next attempts begin.
        ({"timeoutMS": 250}, 16),
        ({"socketTimeoutMS": 250, "defaultMaxTimeMS": 250}, 16),
        ({"socketTimeoutMS": 250, "killAbandoned": False}, None),
    ],
)
async def test_callers_that_try_again_do_not_pile_up(options: dict[str, Any], most: int | None) -> None:
    ends: list[float] = []
    in_progress: list[int] = []

    def execute(command: dict[str, Any]) -> Reply:
        now = anyio.current_time()
        in_progress.append(1 + sum(now < end for end in ends))
        # The operation takes a minute, unless its limit ends it.
        seconds = min(60.0, command.get("maxTimeMS", 60_000) / 1000)
        ends.append(now + seconds)
        return Reply(EXPIRED, seconds)

    async def call(client: Client) -> None:
        for _ in range(20):
            with pytest.raises(PyMongoError) as caught:
                await client.db.coll.update_many({}, {"$set": {"x": 1}})
            assert caught.value.timeout

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        async with limited({"update": execute}, **options) as (client, _), anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(call, client)
    if most is None:
        assert max(in_progress) == 8 * 20
    else:
        assert max(in_progress) <= most
