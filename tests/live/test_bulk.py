"""Bulk writes: as PyMongo does them, and the server's limits on what a command and a document may hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from motorlite import InsertOne, UpdateOne
from motorlite.errors import BulkWriteError, DocumentTooLarge, WriteError
from motorlite.testing import failpoints
from tests.live.clients import numbered
from tests.live.oracle import Cases, same_outcome
from tests.support.clients import make_client
from tests.support.events import Recorder

if TYPE_CHECKING:
    from motorlite.monitoring import CommandFailedEvent
    from motorlite.testing import LocalServer
    from tests.live.conftest import Fail
    from tests.live.oracle import Oracle

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
CASES = Cases()


async def content(collection: Any) -> Any:
    return await collection.find().sort("_id").to_list()


def mixed(lib: Any) -> list[Any]:
    return [
        lib.InsertOne({"_id": 1, "n": 1}),
        lib.InsertOne({"_id": 2, "n": 1}),
        lib.UpdateOne({"_id": 1}, {"$inc": {"n": 1}}),
        lib.UpdateMany({"n": 1}, {"$set": {"x": 1}}),
        lib.UpdateOne({"_id": 5}, {"$set": {"n": 5}}, upsert=True),
        lib.ReplaceOne({"_id": 2}, {"n": 7}),
        lib.ReplaceOne({"_id": 6}, {"n": 6}, upsert=True),
        lib.InsertOne({"_id": 3}),
        lib.DeleteOne({"_id": 3}),
        lib.UpdateMany({"none": 1}, [{"$set": {"y": 2}}], upsert=False),
        lib.DeleteMany({"n": {"$gt": 6}}),
        lib.UpdateMany({"_id": 8}, {"$set": {"n": 8}}, upsert=True, hint="_id_"),
        lib.UpdateOne({"_id": 8}, {"$set": {"n": 9}}, collation={"locale": "en"}),
    ]


@CASES.add
async def ordered(db: Any, lib: Any) -> Any:
    return [await db.c.bulk_write(mixed(lib)), await content(db.c)]


@CASES.add
async def unordered(db: Any, lib: Any) -> Any:
    await db.c.insert_many(numbered(10, n=0))
    requests = [
        lib.UpdateOne({"_id": 1}, {"$inc": {"n": 1}}),
        lib.DeleteOne({"_id": 2}),
        lib.UpdateOne({"_id": 20}, {"$set": {"n": 1}}, upsert=True),
        lib.InsertOne({"_id": 30}),
        lib.DeleteMany({"_id": {"$in": [3, 4]}}),
        lib.ReplaceOne({"_id": 21}, {"n": 2}, upsert=True),
        lib.InsertOne({"_id": 31}),
    ]
    return [await db.c.bulk_write(requests, ordered=False), await content(db.c)]


def with_errors(lib: Any) -> list[Any]:
    return [
        lib.InsertOne({"_id": 1}),
        lib.UpdateOne({"_id": 9}, {"$set": {"a": 1}}, upsert=True),
        lib.InsertOne({"_id": 1}),
        lib.UpdateOne({"_id": 1}, {"$inc": {"_id": 5}}),
        lib.InsertOne({"_id": 2}),
        lib.DeleteOne({"_id": 1}),
        lib.InsertOne({"_id": 9}),
        lib.ReplaceOne({"_id": 10}, {"b": 1}, upsert=True),
    ]


@CASES.add
async def ordered_with_errors(db: Any, lib: Any) -> Any:
    try:
        await db.c.bulk_write(with_errors(lib))
    except lib.errors.BulkWriteError as error:
        return [error.code, without_requests(error.details), await content(db.c)]


@CASES.add
async def unordered_with_errors(db: Any, lib: Any) -> Any:
    try:
        await db.c.bulk_write(with_errors(lib), ordered=False)
    except lib.errors.BulkWriteError as error:
        return [error.code, without_requests(error.details), await content(db.c)]


def without_requests(details: Any) -> Any:
    errors = sorted((error["index"], error["code"], error["errmsg"]) for error in details["writeErrors"])
    return {**details, "writeErrors": errors}


@CASES.add
async def the_request_that_failed(db: Any, lib: Any) -> Any:
    try:
        await db.c.bulk_write([lib.InsertOne({"_id": 1}), lib.InsertOne({"_id": 1, "a": 2})])
    except lib.errors.BulkWriteError as error:
        return error.details["writeErrors"][0]["op"]


@CASES.add
async def the_updates_that_failed(db: Any, lib: Any) -> Any:
    await db.c.insert_many([{"_id": 1, "a": 1}, {"_id": 2}])
    requests = [
        lib.UpdateOne({"_id": 1}, {"$set": {"_id": 2}}),
        lib.UpdateMany({"a": 1}, {"$foo": 1}, upsert=True),
        lib.UpdateOne({"_id": 1}, {"$set": {"a.b": 1}}, upsert=False, hint="_id_", collation={"locale": "en"}),
    ]
    try:
        await db.c.bulk_write(requests, ordered=False)
    except lib.errors.BulkWriteError as error:
        return [error["op"] for error in error.details["writeErrors"]]


@CASES.add
async def one_kind_only(db: Any, lib: Any) -> Any:
    inserted = await db.c.bulk_write([lib.InsertOne({"_id": number}) for number in range(3)])
    changed = await db.c.bulk_write([lib.UpdateMany({}, {"$set": {"a": 1}})], let={"x": 1}, comment="bulk")
    deleted = await db.c.bulk_write([lib.DeleteMany({}, collation={"locale": "en"}, hint="_id_")])
    return [inserted, changed, deleted]


@CASES.add
async def array_filters(db: Any, lib: Any) -> Any:
    await db.c.insert_one({"_id": 1, "a": [1, 5, 9]})
    change = lib.UpdateOne({"_id": 1}, {"$set": {"a.$[x]": 0}}, array_filters=[{"x": {"$gt": 4}}])
    return [await db.c.bulk_write([change]), await content(db.c)]


@CASES.add
async def unacknowledged(db: Any, lib: Any) -> Any:
    c = db.c.with_options(write_concern=lib.WriteConcern(w=0))
    requests = mixed(lib)[:-2]  # without hint and collation, which PyMongo refuses here
    results = [await c.bulk_write(requests), await c.bulk_write(requests, ordered=False)]
    await db.command("ping")  # on the same connection, so after them
    return results


@pytest.mark.parametrize("name", CASES)
async def test_as_pymongo(name: str, deployment: LocalServer, database_name: str, oracle: Oracle) -> None:
    await same_outcome(CASES[name], deployment, database_name, oracle)


# --- 100,000 writes in one command ---


@pytest.mark.parametrize("is_ordered", [True, False])
async def test_more_documents_than_one_command_may_hold(
    standalone: LocalServer, database_name: str, is_ordered: bool
) -> None:
    record = Recorder()
    async with make_client(standalone, event_listeners=[record]) as client:
        collection = client[database_name].c
        result = await collection.insert_many(numbered(100_001), ordered=is_ordered)
        assert record.names == ["insert"] * 2
        assert result.inserted_ids == list(range(100_001))
        assert await collection.estimated_document_count() == 100_001
        (operation_id,) = {event.operation_id for event in record.started_events[:2]}
        assert operation_id
        # Duplicates on both sides of the split, and what there is of each batch besides.
        documents = numbered(100_004)
        for document in documents:
            document["_id"] += 200_000
        for index in (5, 99_999, 100_000, 100_003):
            documents[index]["_id"] = 7
        with pytest.raises(BulkWriteError) as caught:
            await collection.insert_many(documents, ordered=is_ordered)
        details = caught.value.details
        assert details is not None
        indices = [error["index"] for error in details["writeErrors"]]
        assert indices == ([5] if is_ordered else [5, 99_999, 100_000, 100_003])
        assert details["nInserted"] == (5 if is_ordered else 100_000)
        assert details["writeErrors"][-1]["op"] == {"_id": 7}


# --- 16 MiB in one document ---


async def test_a_document_of_16_mib_fits_and_one_byte_more_does_not(
    standalone: LocalServer, database_name: str
) -> None:
    async with make_client(standalone) as client:
        collection = client[database_name].c
        overhead = 4 + len(b"\x10_id\0....") + len(b"\x02t\0....\0") + 1
        largest: dict[str, Any] = {"_id": 1, "t": "x" * (16 * MIB - overhead)}
        await collection.insert_one(largest)
        found = await collection.find_one({"_id": 1})
        assert found == largest
        too_large = {"_id": 2, "t": largest["t"] + "x"}
        with pytest.raises(WriteError, match=r"16777217.*16777216"):
            await collection.insert_one(too_large)
        with pytest.raises(BulkWriteError, match=r"16777217.*16777216") as caught:
            await collection.insert_many([{"_id": 3}, too_large])
        assert caught.value.details["nInserted"] == 1
        # The server would read no more than this.
        with pytest.raises(DocumentTooLarge, match=r"insert 1 .*16793601.*16793600"):
            await collection.insert_many([{"_id": 4}, {"_id": 5, "t": largest["t"] + "x" * (16 * 1024 + 1)}])
        # What came before it was written, as in any ordered bulk write; and the client goes on.
        assert await collection.distinct("_id") == [1, 3, 4]


# --- retries ---


async def test_a_lost_connection_in_a_later_batch_writes_nothing_twice(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    record = Recorder()

    def end(_event: CommandFailedEvent) -> None:
        replica_set.command(failpoints.off())

    record.on_failure = end
    async with make_client(replica_set, event_listeners=[record]) as client:
        collection = client[database_name].c
        await collection.insert_one({"_id": 1, "n": 0})
        namespace = f"{database_name}.c"
        record.clear()
        fail(replica_set, failpoints.fail_command(["update"], close_connection=True, skip=1, namespace=namespace))
        increment = UpdateOne({"_id": 1}, {"$inc": {"n": 1}})
        result = await collection.bulk_write([increment, InsertOne({"_id": 2}), increment, increment])
        assert result.modified_count == 3
        assert record.names == ["update", "insert", "update", "update"]
        assert await collection.find_one({"_id": 1}) == {"_id": 1, "n": 3}
