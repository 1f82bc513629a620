"""Cursors: as PyMongo reads them, what is left on the server, and tailable ones."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import bson
import pytest

from motorlite import CursorType
from tests.live.clients import numbered, open_cursors
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
async def explain(db: Any, lib: Any) -> Any:
    c = await filled(db)
    plan = await c.find({"mod": 1}, sort=[("_id", 1)], limit=3).explain()
    return [plan["queryPlanner"]["parsedQuery"], plan["command"]["filter"], plan["command"]["limit"]]


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
async def tailable_on_an_empty_collection(db: Any, lib: Any) -> Any:
    await db.create_collection("c", capped=True, size=4096)
    cursor = db.c.find(cursor_type=lib.CursorType.TAILABLE)
    return [await ids(cursor), cursor.alive]


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


# --- what is left on the server ---


async def test_close_kills_the_cursor_on_the_server(standalone: LocalServer, database_name: str) -> None:
    async with make_client(standalone) as client:
        collection = client[database_name].c
        await collection.insert_many(numbered(10))
        cursors = [await collection.find(batch_size=2) for _ in range(3)]
        assert open_cursors(standalone, collection.full_name) == 3
        await cursors[0].close()
        assert open_cursors(standalone, collection.full_name) == 2
        async with cursors[1] as cursor:
            await cursor.next()
        assert open_cursors(standalone, collection.full_name) == 1
        assert await cursors[2].to_list() == numbered(10)
        assert open_cursors(standalone, collection.full_name) == 0
        for cursor in cursors:
            await cursor.close()  # once more, which does nothing


async def test_a_cursor_that_nobody_holds_is_killed_in_the_background(
    standalone: LocalServer, database_name: str
) -> None:
    async with make_client(standalone) as client:
        collection = client[database_name].c
        await collection.insert_many(numbered(10))

        async def first() -> Any:
            async for document in collection.find(batch_size=2):
                return document

        assert await first() == {"_id": 0}
        cursor = await collection.aggregate([], batchSize=2)
        del cursor
        gc.collect()
        # And their sessions are in the pool again, once killCursors was answered.
        await until(lambda: open_cursors(standalone, collection.full_name) == 0 and client.stats().sessions >= 1)


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
        assert await cursor.next() == {"_id": 0}
        async with anyio.create_task_group() as tasks:

            async def insert_later() -> None:
                await until(lambda: "getMore" in record.names)
                await database.c.insert_one({"_id": 1})

            tasks.start_soon(insert_later)
            assert await cursor.next() == {"_id": 1}
        # The getMore waited for the document, and no longer: the test would hang.
        assert record.names.count("getMore") == 1
        await cursor.close()
