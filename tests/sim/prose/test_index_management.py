"""The test plan of the index management specification, for a deployment that is not at hand."""

from __future__ import annotations

from typing import Any

import pytest

from motorlite.testing.scripted import ScriptedDeployment
from tests.support.scripted_client import scripted_client

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
