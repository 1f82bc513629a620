"""Index management: as PyMongo does it, on the same server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from bson.son import SON

from motorlite.errors import OperationFailure
from tests.live.oracle import Cases, same_outcome
from tests.support.clients import make_client

if TYPE_CHECKING:
    from motorlite.testing import LocalServer
    from tests.live.oracle import Oracle

pytestmark = pytest.mark.anyio

CASES = Cases()


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


async def test_what_is_wrong_is_refused_and_named(deployment: LocalServer, database_name: str) -> None:
    async with make_client(deployment) as client:
        collection = client[database_name].c
        with pytest.raises(ValueError, match="drop_indexes"):
            await collection.drop_index("*")
        nothing: list[Any] = []
        with pytest.raises((TypeError, ValueError), match="keys"):
            await collection.create_index(nothing)
        wrong: Any = ["a"]
        with pytest.raises(TypeError, match="IndexModel"):
            await collection.create_indexes(wrong)
        with pytest.raises(OperationFailure, match="nonsense"):
            await collection.create_index("a", nonsense=True)


async def test_an_index_is_used(deployment: LocalServer, database_name: str) -> None:
    async with make_client(deployment) as client:
        collection = client[database_name].c
        await collection.insert_many([{"a": number} for number in range(20)])
        name = await collection.create_index("a")
        plan = await collection.find({"a": 5}).explain()
        assert plan["queryPlanner"]["winningPlan"]["inputStage"]["indexName"] == name
