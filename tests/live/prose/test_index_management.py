"""The test plan of the index management specification: enumerating indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from motorlite import DESCENDING, WriteConcern
from motorlite._base.values import format_address
from tests.support.clients import make_client

if TYPE_CHECKING:
    from motorlite import AsyncCollection, AsyncMongoClient
    from motorlite.testing import LocalServer

pytestmark = pytest.mark.anyio

KEYS: dict[str, list[tuple[str, int]]] = {
    "_id_": [("_id", 1)],
    "a_1": [("a", 1)],
    "a_1_b_-1": [("a", 1), ("b", DESCENDING)],
    "unique": [("c", 1)],
}


async def prepare(client: AsyncMongoClient[dict[str, Any]], database_name: str, members: int) -> None:
    """A single column index, a compound one and a unique one, and a document in all of them."""
    database = client.get_database(database_name, write_concern=WriteConcern(w=members))
    collection = await database.create_collection("c")
    await collection.create_index("a")
    await collection.create_index(["a", ("b", DESCENDING)])
    await collection.create_index("c", unique=True, name="unique")
    await collection.insert_one({"a": 1, "b": 2, "c": 3})


async def check(collection: AsyncCollection[dict[str, Any]]) -> None:
    """The tests of the plan, for the list of names and for the list of records."""
    records = await collection.list_indexes().to_list()
    names = [record["name"] for record in records]
    assert sorted(names) == sorted(KEYS)
    assert len(names) == len(set(names))
    for record in records:
        assert list(record["key"].items()) == KEYS[record["name"]]
        assert record.get("unique", False) is (record["name"] == "unique")
        assert record.get("ns", collection.full_name) == collection.full_name
    information = await collection.index_information()
    assert sorted(information) == sorted(KEYS)
    assert {name: found["key"] for name, found in information.items()} == KEYS
    assert [name for name, found in information.items() if found.get("unique")] == ["unique"]


@pytest.mark.parametrize("topology", ["standalone", "replica_set"])
async def test_enumerating_indexes(request: pytest.FixtureRequest, database_name: str, topology: str) -> None:
    """Test plan, "Tests": a standalone server and the primary of a replica set."""
    server: LocalServer = request.getfixturevalue(topology)
    async with make_client(server) as client:
        await prepare(client, database_name, 1)
        await check(client[database_name].c)


async def test_enumerating_indexes_of_a_secondary(replica_set3: LocalServer, database_name: str) -> None:
    """Test plan, "Tests": each member of a replica set, so its secondaries too."""
    members = replica_set3.addresses
    async with make_client(replica_set3) as client:
        await prepare(client, database_name, len(members))
        secondaries = await client.secondaries
    assert len(secondaries) == len(members) - 1
    for address in secondaries:
        async with make_client(f"mongodb://{format_address(address)}/?directConnection=true") as client:
            await check(client[database_name].c)
            (server,) = client.topology_description.known_servers
            assert server.server_type_name == "RSSecondary"
