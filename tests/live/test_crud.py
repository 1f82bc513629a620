"""Reads and writes of a collection: as PyMongo does them, on the same server."""

from __future__ import annotations

import datetime
import re
import uuid
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from bson import Binary, Code, DBRef, Decimal128, Int64, MaxKey, MinKey, Regex, Timestamp
from bson.codec_options import CodecOptions, TypeDecoder, TypeRegistry
from bson.errors import InvalidBSON, InvalidDocument
from bson.raw_bson import RawBSONDocument
from bson.son import SON

from motorlite.errors import PyMongoError
from tests.live.oracle import Cases, same_outcome
from tests.support.clients import make_client

if TYPE_CHECKING:
    from motorlite.testing import LocalServer
    from tests.live.oracle import Oracle
    from tests.support.clients import Client

pytestmark = pytest.mark.anyio

PEOPLE: list[dict[str, Any]] = [
    {"_id": 1, "name": "Ada", "age": 36, "tags": ["a", "b"], "scores": [1, 5, 9]},
    {"_id": 2, "name": "ada", "age": 20, "tags": ["b"], "scores": [2, 6]},
    {"_id": 3, "name": "Bob", "age": 50, "tags": [], "scores": []},
    {"_id": 4, "name": "Cyd", "age": 20, "tags": ["c"], "scores": [7]},
]
NO_CASE = {"locale": "en", "strength": 2}
CASES = Cases()


async def people(db: Any) -> Any:
    await db.people.insert_many([dict(person) for person in PEOPLE])
    return db.people


async def content(collection: Any) -> Any:
    return await collection.find().sort("_id").to_list()


# --- insert ---


@CASES.add
async def insert_one(db: Any, lib: Any) -> Any:
    document = {"a": 1}
    first = await db.c.insert_one(document)
    assert first.inserted_id == document["_id"]
    second = await db.c.insert_one({"_id": "mine", "a": 2}, comment="told", bypass_document_validation=True)
    return [first, second, await content(db.c)]


@CASES.add
async def insert_one_raw(db: Any, lib: Any) -> Any:
    raw = RawBSONDocument(b"\x0e\x00\x00\x00\x10_id\x00\x07\x00\x00\x00\x00")
    return [await db.c.insert_one(raw), await content(db.c)]


@CASES.add
async def insert_many(db: Any, lib: Any) -> Any:
    result = await db.c.insert_many([{"_id": 1}, {"_id": 2, "a": {"b": [1]}}, {"a": 3}])
    return [result, await db.c.count_documents({})]


@CASES.add
async def insert_many_ordered_stops(db: Any, lib: Any) -> Any:
    try:
        await db.c.insert_many([{"_id": 1}, {"_id": 1}, {"_id": 2}])
    except lib.errors.BulkWriteError as error:
        return [error.code, error.details, await content(db.c)]


@CASES.add
async def insert_many_unordered_goes_on(db: Any, lib: Any) -> Any:
    try:
        await db.c.insert_many([{"_id": 1}, {"_id": 1}, {"_id": 2}, {"_id": 2}, {"_id": 3}], ordered=False)
    except lib.errors.BulkWriteError as error:
        return [error.code, error.details, await content(db.c)]


# --- find ---


@CASES.add
async def find_one(db: Any, lib: Any) -> Any:
    c = await people(db)
    return [
        await c.find_one(),
        await c.find_one(3),
        await c.find_one({"_id": 99}),
        await c.find_one({"age": 20}, sort=[("name", -1)]),
        await c.find_one({"age": 20}, {"name": 1}),
        await c.find_one({"age": 20}, ["age"]),
        await c.find_one({"age": 20}, {"_id": 0, "age": 0}, skip=1, sort=[("_id", 1)]),
        await c.find_one({"name": "ADA"}, collation=NO_CASE, sort=[("_id", 1)]),
        await c.find_one({}, hint=[("_id", 1)], max_time_ms=5000, comment="found", batch_size=2),
        await c.find_one({"$expr": {"$eq": ["$age", "$$x"]}}, let={"x": 50}),
        await c.find_one({"name": re.compile("^b", re.IGNORECASE)}),
    ]


@CASES.add
async def find_error(db: Any, lib: Any) -> Any:
    await db.c.find_one({"$noSuchOperator": 1})


@CASES.add
async def distinct(db: Any, lib: Any) -> Any:
    c = await people(db)
    return [
        await c.distinct("age"),
        await c.distinct("tags", {"age": {"$lt": 40}}),
        await c.distinct("name", collation=NO_CASE),
        await c.distinct("nothing"),
        await c.find({"age": 20}).distinct("name"),
    ]


@CASES.add
async def counts(db: Any, lib: Any) -> Any:
    c = await people(db)
    await c.create_index("age")
    return [
        await c.count_documents({}),
        await c.count_documents({"age": 20}),
        await c.count_documents({"age": 20}, skip=1),
        await c.count_documents({}, limit=3, hint="age_1", maxTimeMS=5000),
        await c.count_documents({"name": "ADA"}, collation=NO_CASE),
        await c.count_documents({"none": 1}),
        await c.estimated_document_count(),
        await c.estimated_document_count(maxTimeMS=5000),
        await db.missing.estimated_document_count(),
        await db.missing.count_documents({}),
    ]


# --- update ---


@CASES.add
async def update_one(db: Any, lib: Any) -> Any:
    c = await people(db)
    return [
        await c.update_one({"age": 20}, {"$inc": {"age": 1}}),
        await c.update_one({"age": 99}, {"$inc": {"age": 1}}),
        await c.update_one({"_id": 1}, {"$set": {"name": "Ada"}}),
        await c.update_one({"_id": 9}, {"$set": {"name": "New"}}, upsert=True),
        await c.update_one({"new": 1}, {"$set": {"name": "New"}}, upsert=True),
        await c.update_one({"_id": 2}, [{"$set": {"double": {"$multiply": ["$age", "$$by"]}}}], let={"by": 2}),
        await c.update_one({"_id": 1}, {"$set": {"scores.$[big]": 0}}, array_filters=[{"big": {"$gt": 4}}]),
        await c.update_one({"name": "CYD"}, {"$set": {"name": "cyd"}}, collation=NO_CASE, hint=[("_id", 1)]),
        await c.find({}, {"_id": 0}).sort("name").to_list(),
    ]


@CASES.add
async def update_many(db: Any, lib: Any) -> Any:
    c = await people(db)
    return [
        await c.update_many({"age": 20}, {"$inc": {"age": 1}}),
        await c.update_many({}, {"$set": {"age": 21}}),
        await c.update_many({"_id": 8}, {"$set": {"age": 8}}, upsert=True, comment="new"),
        await c.update_many({}, {"$mul": {"scores.$[x]": 10}}, array_filters=[{"x": {"$lt": 6}}]),
        await c.update_many({"name": "ADA"}, [{"$unset": ["tags"]}], collation=NO_CASE),
        await content(c),
    ]


@CASES.add
async def update_error(db: Any, lib: Any) -> Any:
    c = await people(db)
    await c.update_one({"_id": 1}, {"$inc": {"name": 1}})


@CASES.add
async def update_to_a_duplicate(db: Any, lib: Any) -> Any:
    c = await people(db)
    await c.create_index("name", unique=True)
    await c.update_one({"_id": 1}, {"$set": {"name": "Bob"}})


@CASES.add
async def replace_one(db: Any, lib: Any) -> Any:
    c = await people(db)
    return [
        await c.replace_one({"_id": 1}, {"name": "Eve"}),
        await c.replace_one({"_id": 7}, {"name": "Fay"}),
        await c.replace_one({"_id": 7}, {"name": "Fay"}, upsert=True),
        await c.replace_one({"name": "BOB"}, {"x": 1}, collation=NO_CASE, hint="_id_", let={"y": 1}),
        await content(c),
    ]


# --- delete ---


@CASES.add
async def delete(db: Any, lib: Any) -> Any:
    c = await people(db)
    return [
        await c.delete_one({"age": 20}),
        await c.delete_one({"age": 99}),
        await c.delete_many({"name": "ADA"}, collation=NO_CASE, hint=[("_id", 1)], comment="gone"),
        await c.delete_many({"$expr": {"$gt": ["$age", "$$x"]}}, let={"x": 40}),
        await content(c),
        await c.delete_many({}),
        await c.count_documents({}),
    ]


# --- find and modify ---


@CASES.add
async def find_one_and_update(db: Any, lib: Any) -> Any:
    c = await people(db)
    after = lib.ReturnDocument.AFTER
    return [
        await c.find_one_and_update({"_id": 1}, {"$inc": {"age": 1}}),
        await c.find_one_and_update({"_id": 1}, {"$inc": {"age": 1}}, return_document=after),
        await c.find_one_and_update({"age": 20}, {"$set": {"x": 1}}, {"name": 1}, sort=[("name", -1)]),
        await c.find_one_and_update({"_id": 99}, {"$set": {"x": 1}}),
        await c.find_one_and_update({"_id": 9}, {"$set": {"x": 1}}, upsert=True),
        await c.find_one_and_update({"_id": 10}, {"$set": {"x": 1}}, upsert=True, return_document=after),
        await c.find_one_and_update(
            {"_id": 1},
            {"$set": {"scores.$[big]": 0}},
            projection=["scores"],
            array_filters=[{"big": {"$gt": 4}}],
            return_document=after,
        ),
        await c.find_one_and_update({"_id": 2}, [{"$set": {"y": "$age"}}], projection={"y": 1}, return_document=after),
        await c.find_one_and_update({"name": "ADA"}, {"$set": {"z": 1}}, collation=NO_CASE, hint=[("_id", 1)]),
        await c.find_one_and_update({"_id": 1}, {"$set": {"z": 2}}, maxTimeMS=5000, let={"a": 1}, comment="c"),
    ]


@CASES.add
async def find_one_and_replace(db: Any, lib: Any) -> Any:
    c = await people(db)
    return [
        await c.find_one_and_replace({"_id": 1}, {"a": 1}),
        await c.find_one_and_replace({"_id": 1}, {"a": 2}, return_document=lib.ReturnDocument.AFTER),
        await c.find_one_and_replace({"age": {"$gt": 1}}, {"b": 1}, projection=["name"], sort=[("age", -1)]),
        await c.find_one_and_replace({"_id": 77}, {"b": 1}, upsert=True),
        await content(c),
    ]


@CASES.add
async def find_one_and_delete(db: Any, lib: Any) -> Any:
    c = await people(db)
    return [
        await c.find_one_and_delete({"age": 20}, sort=[("name", 1)]),
        await c.find_one_and_delete({"_id": 1}, projection={"name": 1, "_id": 0}),
        await c.find_one_and_delete({"_id": 1}),
        await c.find_one_and_delete({"name": "BOB"}, collation=NO_CASE, hint="_id_", let={"x": 1}),
        await c.count_documents({}),
    ]


@CASES.add
async def find_one_and_update_error(db: Any, lib: Any) -> Any:
    c = await people(db)
    await c.create_index("name", unique=True)
    await c.find_one_and_update({"_id": 1}, {"$set": {"name": "Bob"}})


# --- aggregate ---


@CASES.add
async def aggregate(db: Any, lib: Any) -> Any:
    c = await people(db)
    group = [{"$group": {"_id": "$age", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}]
    cursor = await c.aggregate(group, batchSize=2, allowDiskUse=True, maxTimeMS=5000)
    matched = await c.aggregate(
        [{"$match": {"$expr": {"$eq": ["$age", "$$x"]}}}], let={"x": 20}, hint="_id_", comment="x"
    )
    folded = await c.aggregate([{"$match": {"name": "ADA"}}, {"$count": "n"}], collation=NO_CASE)
    return [await cursor.to_list(), await matched.to_list(), await folded.to_list()]


@CASES.add
async def aggregate_that_writes(db: Any, lib: Any) -> Any:
    c = await people(db)
    out = await c.aggregate([{"$match": {"age": 20}}, {"$out": "young"}])
    first = [await out.to_list(), await content(db.young)]
    merge = await c.aggregate([{"$merge": {"into": "young", "whenMatched": "keepExisting"}}])
    return [first, await merge.to_list(), await content(db.young)]


@CASES.add
async def aggregate_on_the_database(db: Any, lib: Any) -> Any:
    cursor = await db.client.admin.aggregate([{"$documents": [{"a": 1}, {"a": 2}]}, {"$match": {"a": 2}}])
    return await cursor.to_list()


@CASES.add
async def aggregate_error(db: Any, lib: Any) -> Any:
    await (await db.c.aggregate([{"$noSuchStage": {}}])).to_list()


# --- concerns and codecs ---


@CASES.add
async def unacknowledged(db: Any, lib: Any) -> Any:
    c = db.c.with_options(write_concern=lib.WriteConcern(w=0))
    results = [
        await c.insert_one({"_id": 1}),
        await c.insert_many([{"_id": 2}, {"_id": 3}]),
        await c.update_one({"_id": 1}, {"$set": {"a": 1}}),
        await c.replace_one({"_id": 2}, {"b": 1}),
        await c.delete_one({"_id": 3}),
        await c.delete_many({"_id": 3}),
    ]
    await db.command("ping")  # on the same connection, so after them
    return results


@CASES.add
async def a_write_concern_that_cannot_be_satisfied(db: Any, lib: Any) -> Any:
    c = db.c.with_options(write_concern=lib.WriteConcern(w=50, wtimeout=100))
    await c.insert_one({"_id": 1})


@CASES.add
async def read_and_write_concerns(db: Any, lib: Any) -> Any:
    c = db.get_collection(
        "c",
        write_concern=lib.WriteConcern("majority", j=True),
        read_concern=lib.read_concern.ReadConcern("majority")
        if lib.__name__ == "pymongo"
        else lib.ReadConcern("majority"),
        read_preference=lib.ReadPreference.PRIMARY_PREFERRED,
    )
    return [await c.insert_one({"_id": 1}), await content(c), await c.distinct("_id"), await c.count_documents({})]


EVERY_TYPE: dict[str, Any] = {
    "_id": 1,
    "double": 1.5,
    "string": "é\0z",
    "document": {"b": 1, "a": 2},
    "array": [1, [2, {"x": None}]],
    "binary": b"\x00\xff",
    "subtype": Binary(b"abc", 128),
    "uuid": uuid.UUID(int=5),
    "true": True,
    "date": datetime.datetime(2020, 2, 3, 4, 5, 6, 789000),
    "null": None,
    "regex": Regex("^a", "im"),
    "reference": DBRef("other", 5),
    "code": Code("return 1"),
    "scoped": Code("return x", {"x": 1}),
    "int32": 2**31 - 1,
    "int64": Int64(5),
    "large": 2**62,
    "timestamp": Timestamp(5, 6),
    "decimal": Decimal128("1.10"),
    "min": MinKey(),
    "max": MaxKey(),
}


@CASES.add
async def every_bson_type(db: Any, lib: Any) -> Any:
    options: CodecOptions[Any] = CodecOptions(uuid_representation=4)
    c = db.get_collection("c", codec_options=options)
    await c.insert_one(dict(EVERY_TYPE))
    await c.update_one({"_id": 1}, {"$set": {"more": EVERY_TYPE["uuid"]}})
    return [await c.find_one(), await c.find_one_and_delete({"uuid": EVERY_TYPE["uuid"]})]


class Doubled(TypeDecoder):
    bson_type = Int64

    def transform_bson(self, value: Any) -> Any:
        return value * 2


@CASES.add
async def codec_options(db: Any, lib: Any) -> Any:
    moment = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    await db.c.insert_one({"_id": 1, "at": moment, "n": Int64(5), "in": {"n": Int64(6)}})
    found = []
    choices: list[CodecOptions[Any]] = [
        CodecOptions(tz_aware=True),
        CodecOptions(document_class=OrderedDict),
        CodecOptions(document_class=SON),
        CodecOptions(document_class=RawBSONDocument),
        CodecOptions(type_registry=TypeRegistry([Doubled()])),
    ]
    for options in choices:
        c = db.c.with_options(codec_options=options)
        document = await c.find_one()
        aggregated = await (await c.aggregate([{"$project": {"n": 1}}])).to_list()
        modified = await c.find_one_and_update({"_id": 1}, {"$set": {"x": 1}})
        values = await c.distinct("n")
        kinds = [type(each).__name__ for each in (document, document["in"], aggregated[0], modified)]
        found.append([kinds, dict(document), [dict(each) for each in aggregated], values])
    return found


@pytest.mark.parametrize("name", CASES)
async def test_as_pymongo(name: str, deployment: LocalServer, database_name: str, oracle: Oracle) -> None:
    await same_outcome(CASES[name], deployment, database_name, oracle)


# --- what PyMongo is no oracle for ---


async def test_many_operations_at_once_get_their_own_replies(deployment: LocalServer, database_name: str) -> None:
    async with make_client(deployment, maxPoolSize=5) as client:
        collection = client[database_name].c
        await collection.insert_many([{"_id": number, "text": "x" * number} for number in range(200)])
        seen: dict[int, Any] = {}

        async def read(number: int) -> None:
            seen[number] = await collection.find_one({"_id": number})

        async with anyio.create_task_group() as tasks:
            for number in range(200):
                tasks.start_soon(read, number)
        assert seen == {number: {"_id": number, "text": "x" * number} for number in range(200)}
        assert max(server.connections_created for server in client.stats().servers.values()) <= 5


async def check_health(client: Client, database_name: str, before: int) -> None:
    """No connection lost, none leaked, and every operation gets its own reply."""
    collection = client[database_name].healthy
    await collection.insert_one({"_id": "healthy"})
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(collection.find_one)
    assert await collection.find_one() == {"_id": "healthy"}
    for server in client.stats().servers.values():
        assert (server.in_use, server.waiting, server.operations, server.generation) == (0, 0, 0, 0)
        assert server.connections_created <= before + 5


async def test_a_document_that_cannot_be_decoded_is_an_error_of_its_reader_alone(
    deployment: LocalServer, database_name: str
) -> None:
    async with make_client(deployment) as client:
        collection = client[database_name].c
        # A string that is not UTF-8; the server does not look.
        raw = RawBSONDocument(b"\x17\0\0\0\x10_id\0\1\0\0\0\x02s\0\2\0\0\0\xff\0\0")
        await collection.insert_one(raw)
        await collection.insert_one({"_id": 2})
        for read in (lambda: collection.find_one({"_id": 1}), lambda: collection.find().to_list()):
            with pytest.raises(InvalidBSON, match="utf-8"):
                await read()
        assert await collection.find_one({"_id": 2}) == {"_id": 2}
        await check_health(client, database_name, 3)
    async with make_client(deployment, unicode_decode_error_handler="replace") as client:
        assert await client[database_name].c.find_one({"_id": 1}) == {"_id": 1, "s": "\ufffd"}


async def test_bad_and_good_calls_at_once(deployment: LocalServer, database_name: str) -> None:
    async with make_client(deployment, maxPoolSize=3) as client:
        collection = client[database_name].c
        acknowledged: list[int] = []

        async def good(number: int) -> None:
            await collection.insert_one({"_id": number})
            acknowledged.append(number)

        async def bad(number: int) -> None:
            wrong = ({"a": object()}, {"a": "x" * 17 * 2**20}, {"_id": "twice"})[number % 3]
            with pytest.raises((InvalidDocument, PyMongoError)):
                await collection.insert_one(wrong)

        await collection.insert_one({"_id": "twice"})
        async with anyio.create_task_group() as tasks:
            for number in range(60):
                tasks.start_soon(good, number)
                if number % 4 == 0:
                    tasks.start_soon(bad, number)
        assert sorted(acknowledged) == list(range(60))
        assert sorted(await collection.distinct("_id", {"_id": {"$ne": "twice"}})) == list(range(60))
        await check_health(client, database_name, 3)
