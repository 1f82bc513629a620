"""Collections, their indexes and databases: made, listed, renamed, dropped; as PyMongo does it, on the same server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from bson.dbref import DBRef
from bson.son import SON

from tests.live.oracle import Cases, same_outcome

if TYPE_CHECKING:
    from motorlite.testing import LocalServer
    from tests.live.oracle import Oracle

pytestmark = pytest.mark.anyio

CASES = Cases()


async def collections(db: Any) -> Any:
    found = await (await db.list_collections()).to_list()
    kept = [(each["name"], each["type"], each["options"]) for each in found]
    return sorted(kept, key=lambda each: str(each[0]))


@CASES.add
async def create_collection(db: Any, lib: Any) -> Any:
    made = await db.create_collection("plain")
    await db.create_collection("capped", capped=True, size=4096, max=5)
    await db.create_collection("checked", validator={"a": {"$gt": 1}}, validationLevel="moderate")
    await db.create_collection("folded", collation={"locale": "en", "strength": 2})
    await db.create_collection("view", viewOn="plain", pipeline=[{"$match": {"a": 1}}])
    await db.create_collection("times", timeseries={"timeField": "t"}, expireAfterSeconds=100)
    await db.create_collection("clustered", clusteredIndex={"key": {"_id": 1}, "unique": True})
    return [made.name, await collections(db)]


@CASES.add
async def create_twice(db: Any, lib: Any) -> Any:
    await db.create_collection("c")
    await db.create_collection("c")


@CASES.add
async def create_twice_unchecked(db: Any, lib: Any) -> Any:
    await db.create_collection("c")
    await db.create_collection("c", check_exists=False, capped=True, size=4096)


@CASES.add
async def lists(db: Any, lib: Any) -> Any:
    for name in ("a", "b", "ab"):
        await db.create_collection(name)
    await db.create_collection("v", viewOn="a", pipeline=[])
    filtered = await db.list_collections(filter={"type": "view"})
    return [
        sorted(await db.list_collection_names()),
        await db.list_collection_names(filter={"name": "a"}),
        sorted(await db.list_collection_names(filter={"name": {"$regex": "^a"}}, comment="x")),
        await db.list_collection_names(filter={"type": "view"}),
        [each["name"] for each in await filtered.to_list()],
        sorted(await db.list_collection_names(authorizedCollections=True)),
    ]


@CASES.add
async def databases(db: Any, lib: Any) -> Any:
    await db.c.insert_one({"_id": 1})
    client, name = db.client, db.name
    cursor = await client.list_databases(filter={"name": name})
    listed = [sorted(each) for each in await cursor.to_list()]
    names = [name in await client.list_database_names()]
    await client.drop_database(name)
    names.append(name in await client.list_database_names())
    return [listed, names, await client.drop_database(db)]


@CASES.add
async def options(db: Any, lib: Any) -> Any:
    await db.create_collection("c", capped=True, size=4096)
    return [await db.c.options(), await db.missing.options()]


@CASES.add
async def rename(db: Any, lib: Any) -> Any:
    await db.c.insert_one({"_id": 1})
    await db.d.insert_one({"_id": 2})
    found = [await db.c.rename("e"), await db.list_collection_names(filter={"name": {"$in": ["c", "e"]}})]
    found += [await db.e.rename("d", dropTarget=True), await db.d.find().to_list()]
    await db.d.rename("d")
    return found


@CASES.add
async def rename_onto_another(db: Any, lib: Any) -> Any:
    await db.c.insert_one({"_id": 1})
    await db.d.insert_one({"_id": 2})
    await db.c.rename("d")


@CASES.add
async def drop(db: Any, lib: Any) -> Any:
    await db.c.insert_one({})
    await db.d.insert_one({})
    found = [await db.c.drop(), await db.c.drop()]
    reply = await db.drop_collection("d")
    found += [reply["ok"], reply["nIndexesWas"], await db.list_collection_names()]
    return found


@CASES.add
async def validate_collection(db: Any, lib: Any) -> Any:
    await db.c.insert_many([{"_id": 1}, {"_id": 2}])
    report = await db.validate_collection("c", full=True)
    return [report["valid"], report["nrecords"], (await db.validate_collection(db.c))["errors"]]


@CASES.add
async def dereference(db: Any, lib: Any) -> Any:
    await db.c.insert_one({"_id": 1, "a": 2})
    return [
        await db.dereference(DBRef("c", 1)),
        await db.dereference(DBRef("c", 9)),
        await db.dereference(DBRef("c", 1, db.name)),
    ]


# --- indexes ---


async def indexes(collection: Any) -> Any:
    found = await collection.index_information()
    return {name: found[name] for name in sorted(found)}


@CASES.add
async def create_index(db: Any, lib: Any) -> Any:
    c = db.c
    return [
        await c.create_index("a"),
        await c.create_index("a"),  # once more
        await c.create_index([("a", lib.ASCENDING), ("b", lib.DESCENDING)]),
        await c.create_index(["x", ("y", -1)]),
        await c.create_index({"z": 1}, name="mine", unique=True, sparse=True),
        await c.create_index([("ttl", 1)], expireAfterSeconds=60, comment="told", maxTimeMS=5000),
        await c.create_index("p", partialFilterExpression={"p": {"$gt": 5}}),
        await c.create_index("n", collation={"locale": "en", "strength": 2}),
        await c.create_index([("text", lib.TEXT)], default_language="english"),
        await c.create_index([("h", lib.HASHED)]),
        await c.create_index([("g", lib.GEOSPHERE)]),
        await c.create_index([("g2", lib.GEO2D)], min=-10, max=10),
        await c.create_index("$**", wildcardProjection={"a": 1}, name="wild"),
        await c.create_index("hid", hidden=True),
        await indexes(c),
    ]


@CASES.add
async def create_indexes(db: Any, lib: Any) -> Any:
    models = [
        lib.IndexModel("a"),
        lib.IndexModel([("a", 1), ("b", -1)], name="ab", unique=True),
        lib.IndexModel(SON([("c", 1)]), sparse=True),
    ]
    names = await db.c.create_indexes(models, comment="x")
    return [names, [model.document for model in models], await indexes(db.c)]


@CASES.add
async def an_index_with_other_options(db: Any, lib: Any) -> Any:
    await db.c.create_index("a")
    await db.c.create_index("a", unique=True)


@CASES.add
async def a_unique_index_over_duplicates(db: Any, lib: Any) -> Any:
    await db.c.insert_many([{"a": 1}, {"a": 1}])
    await db.c.create_index("a", unique=True)


@CASES.add
async def list_indexes(db: Any, lib: Any) -> Any:
    await db.c.create_index([("a", 1), ("b", -1)])
    cursor = await db.c.list_indexes()
    missing = await db.missing.list_indexes()
    return [await cursor.to_list(), await missing.to_list(), await db.missing.index_information()]


@CASES.add
async def drop_index(db: Any, lib: Any) -> Any:
    c = db.c
    for keys in ("a", "b", [("c", 1), ("d", -1)], "e"):
        await c.create_index(keys)
    dropped = [
        await c.drop_index("a_1"),
        await c.drop_index([("b", 1)]),
        await c.drop_index([("c", 1), ("d", -1)], comment="gone"),
    ]
    left = await indexes(c)
    dropped.append(await c.drop_indexes())
    return [dropped, left, await indexes(c), await db.missing.drop_indexes()]


@CASES.add
async def drop_an_index_that_is_not_there(db: Any, lib: Any) -> Any:
    await db.c.insert_one({})
    await db.c.drop_index("none_1")


@CASES.add
async def more_indexes_than_a_batch(db: Any, lib: Any) -> Any:
    await db.c.create_indexes([lib.IndexModel(f"field{number}") for number in range(60)])
    return [index["name"] for index in await (await db.c.list_indexes()).to_list()]


@pytest.mark.parametrize("name", CASES)
async def test_as_pymongo(name: str, deployment: LocalServer, database_name: str, oracle: Oracle) -> None:
    await same_outcome(CASES[name], deployment, database_name, oracle)
