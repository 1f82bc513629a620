"""Transactions on a real replica set: what is visible when, conflicts, cancellation, cursors."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite import ReadConcern
from motorlite.errors import DuplicateKeyError, OperationFailure
from motorlite.testing import FaultProxy, failpoints
from tests.live.clients import open_cursors
from tests.support.clients import make_client
from tests.support.transactions import in_a_transaction
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from motorlite import AsyncClientSession, AsyncCollection
    from motorlite.testing import LocalServer
    from tests.live.conftest import Fail

pytestmark = pytest.mark.anyio

NAME = "motorlite_test_transactions"


@asynccontextmanager
async def collection(server: LocalServer, **options: Any) -> AsyncIterator[AsyncCollection[dict[str, Any]]]:
    """An empty collection, on a server without the transactions that other tests have left open."""
    server.command({"killAllSessions": []})
    async with make_client(server, **options) as client:
        await client[NAME].drop_collection("coll")
        await client[NAME].create_collection("coll")
        yield client[NAME].coll


def open_transactions(server: LocalServer) -> int:
    """The number of transactions that are open on the server."""
    return int(server.command({"serverStatus": 1})["transactions"]["currentOpen"])


async def test_what_others_see(replica_set: LocalServer) -> None:
    async with collection(replica_set) as coll, coll.database.client.start_session() as session:
        async with session.start_transaction(ReadConcern("snapshot")):
            await coll.insert_many([{"_id": number} for number in range(5)], session=session)
            assert await coll.count_documents({}, session=session) == 5
            assert await coll.count_documents({}) == 0
            assert len(await coll.find(session=session, batch_size=2).to_list()) == 5
        assert await coll.count_documents({}) == 5
        with pytest.raises(ZeroDivisionError):
            await _delete_and_fail(coll, session)
        assert await coll.count_documents({}) == 5


async def _delete_and_fail(coll: AsyncCollection[dict[str, Any]], session: AsyncClientSession[Any]) -> None:
    async with session.start_transaction():
        await coll.delete_many({}, session=session)
        assert await coll.find_one(session=session) is None
        raise ZeroDivisionError


async def test_transactions_that_conflict_are_repeated(replica_set: LocalServer) -> None:
    async with collection(replica_set) as coll:
        await coll.insert_one({"_id": 1, "n": 0})

        async def increment(session: AsyncClientSession[Any]) -> None:
            found = await coll.find_one({"_id": 1}, session=session)
            assert found is not None
            await coll.update_one({"_id": 1}, {"$set": {"n": found["n"] + 1}}, session=session)

        async def ten_times() -> None:
            async with coll.database.client.start_session() as session:
                for _ in range(10):
                    await session.with_transaction(increment)

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(ten_times)
        assert await coll.find_one() == {"_id": 1, "n": 50}


async def test_an_error_aborts(replica_set: LocalServer) -> None:
    async with collection(replica_set) as coll, coll.database.client.start_session() as session:
        await coll.insert_one({"_id": 1})
        session.start_transaction()
        await coll.insert_one({"_id": 2}, session=session)
        with pytest.raises(DuplicateKeyError):
            await coll.insert_one({"_id": 1}, session=session)
        with pytest.raises(OperationFailure) as raised:
            await session.commit_transaction()
        assert raised.value.code == 251
        assert await coll.count_documents({}) == 1


async def test_a_cancelled_transaction_is_aborted_on_the_server(replica_set: LocalServer, fail: Fail) -> None:
    async with collection(replica_set, appName="cancelled") as coll:
        client = coll.database.client
        for document in ({}, {"$sleep": 1}):
            fail(
                replica_set,
                failpoints.fail_command(["update"], block_ms=300, app_name="cancelled" if document else "nobody"),
            )
            with anyio.move_on_after(0.2):
                async with client.start_session() as session, session.start_transaction():
                    await coll.insert_one({"_id": 1}, session=session)
                    await coll.update_one({"_id": 1}, {"$set": {"x": 1}}, session=session)
                    await anyio.sleep(100)
            await until(lambda: open_transactions(replica_set) == 0, 10)
            # No lock is left.
            await coll.insert_one({"_id": 1})
            await coll.delete_one({"_id": 1})


@pytest.mark.parametrize("place", ["with_transaction", "block"])
async def test_a_transaction_whose_commit_was_rejected_keeps_no_locks(
    replica_set: LocalServer, fail: Fail, place: str
) -> None:
    async with collection(replica_set, appName="rejected", maxAdaptiveRetries=1) as coll:
        await coll.insert_one({"_id": 1, "count": 0})
        fail(replica_set, failpoints.overload(commands=["commitTransaction"], times=2, app_name="rejected"))

        async def work(session: AsyncClientSession[Any]) -> None:
            await coll.update_one({"_id": 1}, {"$inc": {"count": 1}}, session=session)

        async with coll.database.client.start_session() as session:
            with pytest.raises(OperationFailure) as raised:
                await in_a_transaction(session, place, work)
        assert raised.value.code == 462
        await coll.update_one({"_id": 1}, {"$inc": {"count": 10}}, timeoutMS=10_000)
        assert await coll.find_one() == {"_id": 1, "count": 10}


@pytest.mark.parametrize("labels", [(), ("NoWritesPerformed",)], ids=["", "no writes performed"])
async def test_a_committed_transaction_whose_reply_was_lost_is_not_executed_again(
    replica_set: LocalServer, fail: Fail, labels: tuple[str, ...]
) -> None:
    """The server executes the commit, its reply is lost, and the server refuses the next eight commits."""
    calls, counting = 0, {"count": "coll", "query": {"order": 1}}
    async with collection(replica_set) as coll:
        with FaultProxy(replica_set.addresses[0]) as proxy:
            uri = f"mongodb://{proxy.address[0]}:{proxy.address[1]}/?directConnection=true"
            async with make_client(uri, appName="lost") as client:
                behind = client[NAME].coll

                async def order(session: AsyncClientSession[Any]) -> None:
                    nonlocal calls
                    calls += 1
                    await behind.insert_one({"order": 1}, session=session)
                    proxy.black_hole("client")

                async def lose_the_reply() -> None:
                    await until(lambda: replica_set.command(counting, NAME)["n"] == 1, 10)
                    refusal = (*failpoints.OVERLOAD_LABELS, *labels)
                    fail(
                        replica_set,
                        failpoints.overload(
                            commands=["commitTransaction"], times=8, error_labels=refusal, app_name="lost"
                        ),
                    )
                    proxy.heal()

                async with anyio.create_task_group() as tasks, client.start_session() as session:
                    tasks.start_soon(lose_the_reply)
                    await session.with_transaction(order)
        assert calls == await coll.count_documents({}) == 1


@pytest.mark.parametrize("options", [{}, {"compressors": "zlib"}], ids=["plain", "compressed"])
async def test_a_commit_is_repeated_alone(replica_set: LocalServer, options: dict[str, Any]) -> None:
    """Its reply is lost, those to the retry and to the next commit as well: the callback has run once all the same."""
    calls = 0
    async with collection(replica_set) as coll:
        with FaultProxy(replica_set.addresses[0]) as proxy:
            uri = f"mongodb://{proxy.address[0]}:{proxy.address[1]}/?directConnection=true"
            async with make_client(uri, **options) as client, client.start_session() as session:

                async def order(session: AsyncClientSession[Any]) -> None:
                    nonlocal calls
                    calls += 1
                    await client[NAME].coll.insert_one({"order": calls}, session=session)

                proxy.lose_replies("commitTransaction", times=3)
                await session.with_transaction(order)
            assert proxy.counts.lost_replies == 3
        assert calls == await coll.count_documents({}) == 1


@pytest.mark.parametrize("prefetch", [0, 1])
async def test_closing_the_client_ends_what_is_open_on_the_server(replica_set: LocalServer, prefetch: int) -> None:
    async with collection(replica_set) as coll:
        await coll.insert_many([{"_id": number} for number in range(1000)])
        client = make_client(replica_set)
        cursors = [client[NAME].coll.find(batch_size=2, prefetch=prefetch) for _ in range(20)]
        sessions = [client.start_session() for _ in range(3)]
        async with anyio.create_task_group() as tasks:
            for cursor in cursors:
                tasks.start_soon(cursor.next)
            for number, session in enumerate(sessions):
                session.start_transaction()
                tasks.start_soon(_insert, client[NAME].coll, number, session)
        # It may miss a cursor, too, whose prefetching getMore begins just then.
        await until(lambda: open_cursors(replica_set, coll.full_name) == 20)
        assert open_transactions(replica_set) == 3
        await client.close()
        assert open_cursors(replica_set, coll.full_name) == 0
        assert open_transactions(replica_set) == 0


async def _insert(coll: AsyncCollection[dict[str, Any]], number: int, session: AsyncClientSession[Any]) -> None:
    await coll.insert_one({"_id": -1 - number}, session=session)


async def test_a_snapshot_is_of_one_moment(replica_set: LocalServer) -> None:
    async with collection(replica_set) as coll:
        client = coll.database.client
        await coll.insert_many([{"_id": number} for number in range(5)])
        async with client.start_session(snapshot=True) as session:
            cursor = coll.find(session=session, batch_size=2)
            assert (await cursor.next())["_id"] == 0
            await coll.delete_many({})
            assert len(await cursor.to_list()) == 4
            assert await coll.count_documents({}, session=session) == 5
            at = session.snapshot_time
            with pytest.raises(OperationFailure):
                await coll.insert_one({}, session=session)
        async with client.start_session(snapshot=True, snapshot_time=at) as session:
            assert await coll.distinct("_id", session=session) == [0, 1, 2, 3, 4]
