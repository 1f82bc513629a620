"""The prose tests of the transactions specifications that a real server or the facade of a cluster shows."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from motorlite import WriteConcern
from tests.support.clients import make_client

if TYPE_CHECKING:
    from motorlite import AsyncClientSession
    from motorlite.testing import LocalServer
    from tests.support.mongos.cluster import Cluster

pytestmark = pytest.mark.anyio


class Callback(Exception):  # what an application raises
    """An error of an application."""


@pytest.mark.parametrize("is_next_one", [True, False], ids=["1", "2"])
async def test_1_and_2_what_unpins_the_session(cluster: Cluster, is_next_one: bool) -> None:
    """Mongos pinning, prose tests 1 and 2: a new transaction, and an operation outside of transactions."""
    async with make_client(cluster.uri, localThresholdMS=1000) as client:
        coll = client.test.test
        await coll.insert_one({})
        async with client.start_session() as session:
            async with session.start_transaction():
                await coll.insert_one({}, session=session)
            addresses = set()
            for _ in range(50):
                async with session.start_transaction() if is_next_one else nullcontext():
                    cursor = coll.find({}, session=session, limit=1)
                    assert await cursor.next()
                    addresses.add(cursor.address)
            assert len(addresses) == 2


async def test_1_0_write_concern_is_not_inherited_from_the_collection(replica_set: LocalServer) -> None:
    """Options inside a transaction, prose test 1.0."""
    async with make_client(replica_set) as client:
        db = client.motorlite_test_transactions
        await db.drop_collection("coll")
        await db.create_collection("coll")
        async with client.start_session() as session, session.start_transaction():
            coll = db.get_collection("coll", write_concern=WriteConcern(0))
            await coll.insert_one({"n": 1}, session=session)
        assert await db.coll.count_documents({"n": 1}) == 1


async def test_1_a_callback_raises_a_custom_error(replica_set: LocalServer) -> None:
    """Convenient API, prose test 1."""
    calls = 0

    async def callback(session: AsyncClientSession[Any]) -> None:
        nonlocal calls
        calls += 1
        raise Callback

    async with make_client(replica_set) as client, client.start_session() as session:
        with pytest.raises(Callback):
            await session.with_transaction(callback)
        assert calls == 1


async def test_2_a_callback_returns_a_value(replica_set: LocalServer) -> None:
    """Convenient API, prose test 2."""

    async def callback(session: AsyncClientSession[Any]) -> str:
        return "value"

    async with make_client(replica_set) as client, client.start_session() as session:
        assert await session.with_transaction(callback) == "value"
