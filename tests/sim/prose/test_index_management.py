"""The test plan of the index management specification, for deployments that are not at hand."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from bson import ObjectId, Timestamp

from motorlite import AsyncCollection, ReadConcern, SearchIndexModel, WriteConcern
from motorlite.errors import OperationFailure
from motorlite.testing.scripted import ScriptedDeployment
from tests.support.atlas import WORK, Atlas
from tests.support.clients import scripted_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

pytestmark = pytest.mark.anyio

INDEXES: list[dict[str, Any]] = [
    {"v": 2, "key": {"_id": 1}, "name": "_id_"},
    {"v": 2, "key": {"a": 1}, "name": "a_1"},
    {"v": 2, "key": {"a": 1, "b": -1}, "name": "a_1_b_-1"},
    {"v": 2, "key": {"c": 1}, "name": "unique", "unique": True},
]


async def test_enumerating_indexes_of_a_sharded_cluster() -> None:
    """Test plan, "Tests": a router, which tells the indexes in two batches."""
    deployment = ScriptedDeployment(["a:1"], mongos=True)
    server = deployment["a:1"]
    server.on("listIndexes", {"cursor": {"id": 7, "ns": "db.c", "firstBatch": INDEXES[:2]}})
    server.on("getMore", {"cursor": {"id": 0, "ns": "db.c", "nextBatch": INDEXES[2:]}})
    async with scripted_client(deployment) as client:
        assert await client.db.c.list_indexes().to_list() == INDEXES
        information = await client.db.c.index_information()
    assert information == {
        "_id_": {"v": 2, "key": [("_id", 1)]},
        "a_1": {"v": 2, "key": [("a", 1)]},
        "a_1_b_-1": {"v": 2, "key": [("a", 1), ("b", -1)]},
        "unique": {"v": 2, "key": [("c", 1)], "unique": True},
    }
    assert [command["listIndexes"] for command in server.commands("listIndexes")] == ["c", "c"]


# --- search index management helpers ---

Collection = AsyncCollection[dict[str, Any]]
# What the specification waits between two looks, in seconds: virtual ones.
PERIOD = 5.0
STATIC = {"mappings": {"dynamic": False}}
DYNAMIC = {"mappings": {"dynamic": True}}
VECTOR = {
    "fields": [{"type": "vector", "path": "plot_embedding", "numDimensions": 1536, "similarity": "euclidean"}],
}


@asynccontextmanager
async def atlas_collection(*, is_created: bool = True) -> AsyncIterator[tuple[Atlas, Collection]]:
    """A collection with a random name on a server with Atlas Search."""
    atlas = Atlas()
    async with scripted_client(atlas.deployment) as client:
        collection = client.db[str(ObjectId())]
        if is_created:
            await client.db.create_collection(collection.name, check_exists=False)
        yield atlas, collection


def is_queryable(index: dict[str, Any]) -> bool:
    return index["queryable"] is True


def is_ready(index: dict[str, Any]) -> bool:
    return is_queryable(index) and index["status"] == "READY"


async def wait_for(
    collection: Collection,
    name: str,
    condition: Callable[[dict[str, Any]], bool] = is_queryable,
    *,
    by_name: bool = False,
) -> dict[str, Any]:
    """List the indexes every 5 seconds until one satisfies a condition."""
    with anyio.fail_after(300):
        while True:
            async for index in collection.list_search_indexes(name if by_name else None):
                if index["name"] == name and condition(index):
                    return index
            await anyio.sleep(PERIOD)


async def test_search_1_create_and_list() -> None:
    """Case 1: the name of a new index is returned; it is listed, and queryable some time later."""
    async with atlas_collection() as (atlas, coll0):
        started = anyio.current_time()
        assert await coll0.create_search_index(SearchIndexModel(STATIC, "test-search-index")) == "test-search-index"
        index = await wait_for(coll0, "test-search-index")
        assert index["latestDefinition"]["mappings"]["dynamic"] is False
        # It was not so at the first look.
        assert anyio.current_time() - started >= WORK
        assert len(atlas.server.commands("aggregate")) == 4


async def test_search_2_create_several() -> None:
    """Case 2: the names of all new indexes are returned, for one command."""
    names = ["test-search-index-1", "test-search-index-2"]
    async with atlas_collection() as (atlas, coll0):
        assert await coll0.create_search_indexes([SearchIndexModel(STATIC, name) for name in names]) == names
        for name in names:
            index = await wait_for(coll0, name)
            assert index["latestDefinition"]["mappings"]["dynamic"] is False
        assert len(atlas.server.commands("createSearchIndexes")) == 1


async def test_search_3_drop() -> None:
    """Case 3: an index that was dropped is not listed any more, some time later."""
    async with atlas_collection() as (_, coll0):
        assert await coll0.create_search_index(SearchIndexModel(STATIC, "test-search-index")) == "test-search-index"
        await wait_for(coll0, "test-search-index")
        await coll0.drop_search_index("test-search-index")
        assert len(await coll0.list_search_indexes().to_list()) == 1
        with anyio.fail_after(300):
            while await coll0.list_search_indexes().to_list():  # noqa: ASYNC110  # no event to wait for
                await anyio.sleep(PERIOD)


async def test_search_4_update() -> None:
    """Case 4: an index has its new definition, and is ready with it some time later."""
    async with atlas_collection() as (atlas, coll0):
        assert await coll0.create_search_index(SearchIndexModel(STATIC, "test-search-index")) == "test-search-index"
        await wait_for(coll0, "test-search-index")
        updated = anyio.current_time()
        await coll0.update_search_index("test-search-index", DYNAMIC)
        index = await wait_for(coll0, "test-search-index", is_ready)
        assert index["latestDefinition"]["mappings"]["dynamic"] is True
        assert anyio.current_time() - updated >= WORK
        (command,) = atlas.server.commands("updateSearchIndex")
        assert (command["name"], command["definition"]) == ("test-search-index", DYNAMIC)


async def test_search_5_drop_suppresses_namespace_not_found() -> None:
    """Case 5: dropping an index of a collection that does not exist is no error; of one that exists it is."""
    async with atlas_collection(is_created=False) as (atlas, coll0):
        await coll0.drop_search_index("test-search-index")
        assert len(atlas.server.commands("dropSearchIndex")) == 1
        await coll0.database.create_collection(coll0.name, check_exists=False)
        with pytest.raises(OperationFailure, match="Index not found"):
            await coll0.drop_search_index("test-search-index")


async def test_search_6_concerns_are_not_sent() -> None:
    """Case 6: a collection's concerns do not matter."""
    async with atlas_collection() as (_, plain):
        coll0 = plain.with_options(write_concern=WriteConcern(w=1), read_concern=ReadConcern("majority"))
        model = SearchIndexModel(STATIC, "test-search-index-case6")
        assert await coll0.create_search_index(model) == "test-search-index-case6"
        index = await wait_for(coll0, "test-search-index-case6")
        assert index["latestDefinition"]["mappings"]["dynamic"] is False


async def test_search_6_nor_is_the_time_of_a_session() -> None:
    """In addition to case 6: a causally consistent session adds no readConcern; the server would refuse it."""
    async with atlas_collection() as (atlas, coll0):
        atlas.server.on("insert", {"n": 1, "operationTime": Timestamp(4, 1)})
        async with coll0.database.client.start_session(causal_consistency=True) as session:
            await coll0.insert_one({}, session=session)
            assert await coll0.create_search_index({"definition": STATIC}, session) == "default"
            await coll0.update_search_index("default", DYNAMIC, session)
            assert len(await coll0.list_search_indexes(session=session).to_list()) == 1
            await coll0.drop_search_index("default", session)
            # The session does so elsewhere.
            await coll0.find_one(session=session)
        (find,) = atlas.server.commands("find")
        assert find["readConcern"] == {"afterClusterTime": Timestamp(4, 1)}
        assert all(command["lsid"] == find["lsid"] for command in atlas.server.commands("dropSearchIndex"))


@pytest.mark.parametrize(
    ("name", "fields", "expected"),
    [
        ("test-search-index-case7-implicit", {"definition": STATIC}, "search"),
        ("test-search-index-case7-explicit", {"definition": STATIC, "type": "search"}, "search"),
        ("test-search-index-case7-vector", {"definition": VECTOR, "type": "vectorSearch"}, "vectorSearch"),
    ],
)
async def test_search_7_types(name: str, fields: dict[str, Any], expected: str) -> None:
    """Case 7: an index has the type that was asked for, or is a search index."""
    async with atlas_collection() as (_, coll0):
        assert await coll0.create_search_index(SearchIndexModel(name=name, **fields)) == name
        index = await wait_for(coll0, name, by_name=True)
        assert index["type"] == expected


async def test_search_8_a_vector_index_needs_its_type() -> None:
    """Case 8: without the type the server takes it for a search index, and refuses its definition."""
    async with atlas_collection() as (_, coll0):
        with pytest.raises(OperationFailure, match="Attribute mappings missing"):
            await coll0.create_search_index(SearchIndexModel(VECTOR, "test-search-index-case8-error"))
