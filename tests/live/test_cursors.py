"""Cursors: batches, what is left on the server, and all the ways to read one."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import bson
import pytest
from bson.datetime_ms import DatetimeMS
from bson.errors import InvalidBSON

from motorlite import CursorType
from motorlite.errors import CursorNotFound, InvalidOperation, OperationFailure
from tests.live.clients import numbered
from tests.live.load import is_at_rest
from tests.live.oracle import Cases, same_outcome
from tests.support.clients import make_client
from tests.support.events import Recorder
from tests.support.waiting import until

if TYPE_CHECKING:
    from motorlite.testing import LocalServer
    from tests.live.oracle import Oracle

pytestmark = pytest.mark.anyio

CASES = Cases()


async def filled(db: Any) -> Any:
    await db.c.insert_many([{"_id": n, "mod": n % 3, "name": "AaBb"[n % 4]} for n in range(20)])
    return db.c


async def ids(cursor: Any) -> list[Any]:
    return [document["_id"] async for document in cursor]


@CASES.add
async def options_of_find(db: Any, lib: Any) -> Any:
    c = await filled(db)
    await c.create_index("mod")
    return [
        await ids(c.find()),
        await ids(c.find({"mod": 1}, batch_size=2)),
        await ids(c.find(skip=5, limit=4)),
        await ids(c.find(limit=-3)),
        await ids(c.find(limit=7, batch_size=2)),
        await ids(c.find(sort=[("mod", -1), ("_id", 1)])),
        await ids(c.find({"name": "B"}, collation={"locale": "en", "strength": 2})),
        await ids(c.find({"mod": {"$gt": 0}}, hint="mod_1", sort=[("_id", 1)])),
        await ids(c.find(hint=[("mod", 1)], min={"mod": 1}, max={"mod": 2}).sort("_id", 1)),
        await c.find({}, {"name": 1, "_id": 0}).limit(2).to_list(),
        await c.find({"_id": 3}, show_record_id=True).to_list(),
        await c.find({"mod": 1}, return_key=True, hint="mod_1", limit=1).to_list(),
        await ids(c.find({"$expr": {"$eq": ["$mod", "$$m"]}}, let={"m": 2})),
        await ids(c.find(allow_disk_use=True, sort=[("name", 1), ("_id", 1)], comment={"a": 1}, max_time_ms=5000)),
        await ids(c.find(no_cursor_timeout=True, allow_partial_results=True, limit=2)),
    ]


@CASES.add
async def setters(db: Any, lib: Any) -> Any:
    c = await filled(db)
    await c.create_index("mod")
    return [
        await ids(c.find().skip(3).limit(5).batch_size(2)),
        await ids(c.find().sort("_id", -1).limit(3)),
        await ids(c.find().sort([("mod", 1), ("_id", -1)])),
        await ids(c.find().sort("mod").hint("mod_1").limit(2)),
        await ids(c.find().hint([("mod", 1)]).min([("mod", 1)]).max([("mod", 2)]).sort("_id")),
        await ids(c.find({"name": "A"}).collation({"locale": "en", "strength": 2}).comment("x").max_time_ms(5000)),
        await ids(c.find().where("this._id > 16").allow_disk_use(True)),
        await ids(c.find().limit(0)),
        await ids(c.find().limit(-2)),
    ]


@CASES.add
async def reading(db: Any, lib: Any) -> Any:
    c = await filled(db)
    cursor = c.find(batch_size=3)
    seen: list[Any] = [cursor.alive, cursor.retrieved]
    seen.append(await cursor.next())
    seen += [cursor.alive, cursor.retrieved]
    seen.append(await cursor.to_list(4))
    seen.append(await ids(cursor))
    seen += [cursor.alive, cursor.cursor_id]
    seen.append(await cursor.to_list())
    await cursor.rewind()
    seen.append(await cursor.to_list(2))
    seen.append(await ids(cursor.clone().limit(3)))
    seen.append(await cursor.to_list())
    return seen


@CASES.add
async def an_empty_cursor(db: Any, lib: Any) -> Any:
    cursor = db.none.find()
    found: list[Any] = [await cursor.to_list(), cursor.alive, cursor.cursor_id]
    try:
        await db.none.find().next()
    except StopAsyncIteration:
        found.append("stop")
    return found


@CASES.add
async def changed_after_the_start(db: Any, lib: Any) -> Any:
    c = await filled(db)
    cursor = c.find()
    await cursor.next()
    refused = []
    for change, value in ((cursor.limit, 1), (cursor.sort, "_id"), (cursor.hint, "x")):
        try:
            change(value)
        except lib.errors.InvalidOperation:
            refused.append("refused")
    await cursor.close()
    return refused


@CASES.add
async def explain(db: Any, lib: Any) -> Any:
    c = await filled(db)
    plan = await c.find({"mod": 1}, sort=[("_id", 1)], limit=3).explain()
    return [plan["queryPlanner"]["parsedQuery"], plan["command"]["filter"], plan["command"]["limit"]]


@CASES.add
async def a_wrong_hint(db: Any, lib: Any) -> Any:
    await (await filled(db)).find(hint="none").to_list()


@CASES.add
async def aggregation_cursor(db: Any, lib: Any) -> Any:
    c = await filled(db)
    cursor = await c.aggregate([{"$match": {"mod": 1}}, {"$sort": {"_id": 1}}], batchSize=2)
    seen: list[Any] = [cursor.alive, await cursor.next(), await cursor.try_next(), await cursor.to_list(1)]
    seen += [await cursor.to_list(), cursor.alive, await cursor.try_next()]
    return seen


@CASES.add
async def tailable_that_was_overtaken(db: Any, lib: Any) -> Any:
    await db.create_collection("c", capped=True, size=4096, max=3)
    await db.c.insert_many(numbered(3))
    cursor = db.c.find(cursor_type=lib.CursorType.TAILABLE)
    first = [await ids(cursor), cursor.alive]
    await db.c.insert_many([{"_id": number} for number in range(3, 10)])
    return [first, await ids(cursor), cursor.alive]


@CASES.add
async def tailable_on_a_collection_that_is_not_capped(db: Any, lib: Any) -> Any:
    c = await filled(db)
    await c.find(cursor_type=lib.CursorType.TAILABLE).to_list()


@CASES.add
async def raw_batches(db: Any, lib: Any) -> Any:
    c = await filled(db)
    pipeline = [{"$match": {"mod": 1}}, {"$sort": {"_id": 1}}]
    found = [
        [batch async for batch in c.find_raw_batches({}, ["_id"], batch_size=7).sort("_id")],
        [batch async for batch in c.find_raw_batches({"mod": 1}, skip=1, limit=3).sort("_id")],
        [batch async for batch in c.find_raw_batches({"mod": 5})],
        [batch async for batch in await _opened(c.aggregate_raw_batches(pipeline, batchSize=3))],
        await c.find_raw_batches({}, {"_id": 1}, batch_size=9).sort("_id").to_list(),
    ]
    plan = await c.find_raw_batches({"mod": 1}).explain()
    return [*found, sorted(bson.decode_all(found[0][0]), key=str), type(plan), sorted(plan)]


async def _opened(cursor: Any) -> Any:
    return await cursor


@CASES.add
async def exhaust_cursors(db: Any, lib: Any) -> Any:
    c = await filled(db)
    exhaust = lib.CursorType.EXHAUST
    found = [
        await ids(c.find(cursor_type=exhaust, batch_size=3).sort("_id")),
        await ids(c.find({"mod": 5}, cursor_type=exhaust)),
        await ids(c.find({"mod": 1}, cursor_type=exhaust, sort=[("_id", -1)], batch_size=2)),
    ]
    cursor = c.find(cursor_type=exhaust, batch_size=3).sort("_id")
    found.append([(await cursor.next())["_id"] for _ in range(5)])
    await cursor.close()
    return [*found, await c.count_documents({})]


@pytest.mark.parametrize("name", CASES)
async def test_as_pymongo(name: str, deployment: LocalServer, database_name: str, oracle: Oracle) -> None:
    await same_outcome(CASES[name], deployment, database_name, oracle)


# --- batches ---


async def test_batches_and_the_commands_that_fetch_them(deployment: LocalServer, database_name: str) -> None:
    record = Recorder()
    async with make_client(deployment, event_listeners=[record]) as client:
        collection = client[database_name].c
        await collection.insert_many(numbered(10))
        record.clear()
        assert await ids(collection.find(batch_size=4, comment="told")) == list(range(10))
        assert record.names == ["find", "getMore", "getMore"]
        assert [command["batchSize"] for command in record.commands("getMore")] == [4, 4]
        assert {command["comment"] for command in record.commands("getMore")} == {"told"}
        # One session, from the first command to the last; and one server.
        assert len(record.session_ids) == 1
        record.clear()
        assert await ids(collection.find(limit=5, batch_size=3)) == list(range(5))
        assert record.names == ["find", "getMore"]
        assert record.commands("getMore")[0]["batchSize"] == 2
        record.clear()
        await collection.find(limit=-2).to_list()
        assert record.names == ["find"]


async def test_the_default_batch_and_a_large_one(deployment: LocalServer, database_name: str) -> None:
    record = Recorder()
    async with make_client(deployment, event_listeners=[record]) as client:
        collection = client[database_name].c
        await collection.insert_many(numbered(2_000, text="x" * 30_000))
        record.clear()
        cursor = await collection.find()
        assert cursor.retrieved == 101
        assert len(await cursor.to_list()) == 2_000
        # 16 MiB in a batch.
        assert record.names == ["find", *["getMore"] * 4]


# --- what is left on the server ---


def open_cursors(server: LocalServer) -> int:
    metrics: int = server.command({"serverStatus": 1})["metrics"]["cursor"]["open"]["total"]
    return metrics


async def test_close_kills_the_cursor_on_the_server(standalone: LocalServer, database_name: str) -> None:
    async with make_client(standalone) as client:
        collection = client[database_name].c
        await collection.insert_many(numbered(10))
        before = open_cursors(standalone)
        cursors = [await collection.find(batch_size=2) for _ in range(3)]
        assert open_cursors(standalone) == before + 3
        await cursors[0].close()
        assert open_cursors(standalone) == before + 2
        async with cursors[1] as cursor:
            await cursor.next()
        assert open_cursors(standalone) == before + 1
        assert await cursors[2].to_list() == numbered(10)
        assert open_cursors(standalone) == before
        for cursor in cursors:
            await cursor.close()  # once more, which does nothing


async def test_a_limit_that_is_reached_leaves_nothing(standalone: LocalServer, database_name: str) -> None:
    async with make_client(standalone) as client:
        collection = client[database_name].c
        await collection.insert_many(numbered(10))
        before = open_cursors(standalone)
        cursor = collection.find(limit=4, batch_size=2)
        assert len(await cursor.to_list()) == 4
        assert not cursor.alive
        assert open_cursors(standalone) == before


async def test_a_cursor_that_nobody_holds_is_killed_in_the_background(
    standalone: LocalServer, database_name: str
) -> None:
    async with make_client(standalone) as client:
        collection = client[database_name].c
        await collection.insert_many(numbered(10))
        before = open_cursors(standalone)

        async def first() -> Any:
            async for document in collection.find(batch_size=2):
                return document

        assert await first() == {"_id": 0}
        cursor = await collection.aggregate([], batchSize=2)
        del cursor
        gc.collect()
        # And their sessions are in the pool again, once killCursors was answered.
        await until(lambda: open_cursors(standalone) == before and client.stats().sessions >= 1)


async def test_max_time_limits_what_explain_executes(standalone: LocalServer, database_name: str) -> None:
    """The server heeds it at the top of the explain command only, and tells then in the plan."""
    async with make_client(standalone) as client:
        collection = client[database_name].c
        await collection.insert_many(numbered(5))
        query = collection.find({"$where": "sleep(100) || true"})
        assert (await query.clone().explain())["executionStats"]["executionSuccess"]
        stats = (await query.max_time_ms(50).explain())["executionStats"]
        assert (stats["executionSuccess"], stats["errorCode"]) == (False, 50)


async def test_a_read_that_is_cancelled_leaves_nothing(standalone: LocalServer, database_name: str) -> None:
    async with make_client(standalone) as client:
        collection = client[database_name].c
        await collection.insert_many(numbered(10))
        before = open_cursors(standalone)
        with anyio.move_on_after(0.02):
            async with collection.find({"$where": "sleep(15) || true"}, batch_size=2) as cursor:
                async for _ in cursor:
                    await anyio.sleep(0.001)
        await until(lambda: open_cursors(standalone) == before)
        assert await collection.count_documents({}) == 10


async def test_a_cursor_that_the_server_has_lost(standalone: LocalServer, database_name: str) -> None:
    async with make_client(standalone) as client:
        collection = client[database_name].c
        await collection.insert_many(numbered(10))
        cursor = await collection.find(batch_size=2)
        standalone.command({"killCursors": "c", "cursors": [cursor.cursor_id]}, database_name)
        with pytest.raises(CursorNotFound) as caught:
            await cursor.to_list()
        assert caught.value.code == 43
        assert not cursor.alive
        assert await collection.count_documents({}) == 10


# --- ways to read ---


async def test_slices(deployment: LocalServer, database_name: str) -> None:
    async with make_client(deployment) as client:
        collection = client[database_name].c
        await collection.insert_many(numbered(10))
        assert await ids(collection.find()[3:5]) == [3, 4]
        assert await ids(collection.find()[8:]) == [8, 9]
        assert await ids(collection.find()[:2]) == [0, 1]
        assert await ids(collection.find()[4:4]) == []
        with pytest.raises(IndexError, match="not a sequence"):
            collection.find()[0]  # type: ignore[index]  # the mistake


async def test_a_closed_cursor_has_no_more_documents(deployment: LocalServer, database_name: str) -> None:
    async with make_client(deployment) as client:
        collection = client[database_name].c
        await collection.insert_many(numbered(5))
        cursor = await collection.find()
        assert await cursor.next() == {"_id": 0}
        await cursor.close()
        assert not cursor.alive
        assert await cursor.to_list() == []


async def test_every_cursor_can_be_awaited_and_iterated(deployment: LocalServer, database_name: str) -> None:
    async with make_client(deployment) as client:
        database = client[database_name]
        await database.c.insert_many(numbered(5))
        for make in (
            database.c.find,
            lambda: database.c.aggregate([]),
            database.c.list_indexes,
            database.list_collections,
            # By name: other tests create databases meanwhile, and a size may change at any time.
            lambda: client.list_databases(filter={"name": database_name}, nameOnly=True),
            lambda: database.cursor_command({"find": "c", "batchSize": 2}),
        ):
            opened = await make()
            assert opened.cursor_id is not None
            first = await opened.to_list()
            assert first
            assert [document async for document in make()] == first
            assert await (await make()).to_list() == first
            async with make() as cursor:
                assert await cursor.next() == first[0]


async def test_two_tasks_cannot_read_from_one_cursor(deployment: LocalServer, database_name: str) -> None:
    async with make_client(deployment) as client:
        collection = client[database_name].c
        await collection.insert_many(numbered(10))
        cursor = await collection.find(batch_size=2)
        await cursor.to_list(2)
        outcomes: list[Any] = []

        async def read() -> None:
            try:
                outcomes.append(await cursor.next())
            except InvalidOperation as error:
                outcomes.append(str(error))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            tasks.start_soon(read)
        assert {"_id": 2} in outcomes
        assert any("two tasks" in str(outcome) for outcome in outcomes)


async def test_a_client_that_is_closed_closes_no_cursor_but_says_so(
    deployment: LocalServer, database_name: str
) -> None:
    async with make_client(deployment) as client:
        collection = client[database_name].c
        await collection.insert_many(numbered(10))
        cursor = await collection.find(batch_size=2)
    with pytest.raises(InvalidOperation, match="closed"):
        await cursor.to_list()
    await cursor.close()


# --- tailable cursors ---


@pytest.mark.parametrize("kind", [CursorType.TAILABLE, CursorType.TAILABLE_AWAIT])
async def test_a_tailable_cursor_sees_what_is_added(deployment: LocalServer, database_name: str, kind: int) -> None:
    async with make_client(deployment) as client:
        database = client[database_name]
        await database.create_collection("c", capped=True, size=100_000)
        await database.c.insert_many(numbered(3))
        cursor = database.c.find(cursor_type=kind, max_await_time_ms=20 if kind == CursorType.TAILABLE_AWAIT else None)
        assert await ids(cursor) == [0, 1, 2]
        assert cursor.alive
        assert await ids(cursor) == []
        await database.c.insert_one({"_id": 3})
        assert await ids(cursor) == [3]
        assert cursor.alive
        await cursor.close()
        assert not cursor.alive


async def test_a_tailable_cursor_waits_for_a_document(deployment: LocalServer, database_name: str) -> None:
    record = Recorder()
    async with make_client(deployment, event_listeners=[record]) as client:
        database = client[database_name]
        await database.create_collection("c", capped=True, size=100_000)
        await database.c.insert_one({"_id": 0})
        cursor = database.c.find(cursor_type=CursorType.TAILABLE_AWAIT, max_await_time_ms=30_000)
        assert await ids_of(cursor, 1) == [0]
        async with anyio.create_task_group() as tasks:

            async def insert_later() -> None:
                await until(lambda: "getMore" in record.names)
                await database.c.insert_one({"_id": 1})

            tasks.start_soon(insert_later)
            assert await cursor.next() == {"_id": 1}
        # The getMore waited for the document, and no longer: the test would hang.
        assert record.names.count("getMore") == 1
        await cursor.close()


async def ids_of(cursor: Any, count: int) -> list[Any]:
    return [(await cursor.next())["_id"] for _ in range(count)]


async def test_a_tailable_cursor_on_an_empty_collection_is_dead_at_once(
    deployment: LocalServer, database_name: str
) -> None:
    async with make_client(deployment) as client:
        database = client[database_name]
        await database.create_collection("c", capped=True, size=100_000)
        cursor = database.c.find(cursor_type=CursorType.TAILABLE)
        assert await ids(cursor) == []
        assert not cursor.alive


async def test_an_error_of_the_first_batch_is_told_where_the_cursor_is_read(
    deployment: LocalServer, database_name: str
) -> None:
    async with make_client(deployment) as client:
        cursor = client[database_name].c.find({"$bad": 1})
        with pytest.raises(OperationFailure, match="bad"):
            await cursor.to_list()
        with pytest.raises(OperationFailure, match="bad"):
            await cursor


async def test_a_value_that_python_cannot_hold_leaves_no_cursor_open(
    replica_set: LocalServer, database_name: str
) -> None:
    def open_cursors() -> int:
        status = replica_set.command({"serverStatus": 1})
        return int(status["metrics"]["cursor"]["open"]["total"])

    async with make_client(replica_set) as client:
        collection = client[database_name].c
        await collection.insert_many([{"_id": n, "at": DatetimeMS(2**55)} for n in range(200)])
        before = open_cursors()
        for _ in range(20):
            with pytest.raises(InvalidBSON):
                await collection.find().to_list()
            with pytest.raises(InvalidBSON):
                await client[database_name].command("find", "c")
        await until(lambda: open_cursors() <= before)
        # The server closes a cursor before its reply to killCursors is here.
        await until(lambda: is_at_rest(client))
        assert await collection.count_documents({}) == 200


async def test_a_cursor_that_is_collected_in_another_thread_is_closed(
    replica_set: LocalServer, database_name: str
) -> None:
    record = Recorder()
    async with make_client(replica_set, event_listeners=[record]) as client:
        collection = client[database_name].c
        await collection.insert_many(numbered(10))
        gc.disable()
        try:
            holder: list[Any] = [await collection.find(batch_size=2)]
            holder.append(holder)
            del holder
            await anyio.to_thread.run_sync(gc.collect)
        finally:
            gc.enable()
        await until(lambda: "succeeded killCursors" in record.history)
