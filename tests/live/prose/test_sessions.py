"""The prose tests of the driver sessions specification that a real server shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest
from bson.timestamp import Timestamp

from motorlite import UpdateOne, WriteConcern
from motorlite.errors import ConfigurationError, InvalidOperation
from motorlite.read_preferences import Nearest, Primary, PrimaryPreferred, Secondary, SecondaryPreferred
from tests.live.clients import numbered
from tests.live.prose import session_methods
from tests.support.clients import make_client
from tests.support.events import Recorder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from motorlite._sessions.session import ServerSession
    from motorlite.testing import LocalServer

pytestmark = pytest.mark.anyio

EACH_METHOD = pytest.mark.parametrize("method", session_methods.CALLS)


def test_calls_for_all_methods_that_take_a_session() -> None:
    """Prose tests 4, 5 and 6: "Repeat the above for all methods that take a session parameter"."""
    assert sorted(session_methods.CALLS) == session_methods.found()


async def test_2_pool_is_lifo(deployment: LocalServer) -> None:
    """Prose test 2: the session that was ended last is the first to be used again."""
    async with make_client(deployment) as client:
        await client.admin.command("ping")
        (known,) = client._core.sessions.drain()
        a, b = client.start_session(), client.start_session()
        a_id, b_id = a.session_id, b.session_id
        assert a_id != b_id
        await a.end_session()
        await b.end_session()
        async with client.start_session() as first, client.start_session() as second:
            assert first.session_id == b_id
            assert second.session_id == a_id
        assert known not in (a_id, b_id)


GOSSIPING: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "ping": lambda c: c.database.command("ping"),
    "aggregate": lambda c: c.aggregate([]).to_list(),
    "find": lambda c: c.find().to_list(),
    "insert": lambda c: c.insert_one({}),
}


@pytest.mark.parametrize("command", GOSSIPING)
async def test_3_cluster_time_in_commands(replica_set: LocalServer, database_name: str, command: str) -> None:
    """Prose test 3: a command carries the $clusterTime of the reply before it."""
    record = Recorder()
    async with make_client(replica_set, event_listeners=[record]) as client:
        collection = client[database_name].c
        # The first reply tells the cluster time: monitors must not learn it (test 20).
        await collection.insert_one({})
        record.clear()
        await GOSSIPING[command](collection)
        assert "$clusterTime" in record.commands(command)[0]
        told: Any = record.ended_events[-1]
        await GOSSIPING[command](collection)
        assert len(record.names) == 2
        assert record.commands(command)[1]["$clusterTime"] == told.reply["$clusterTime"]


@EACH_METHOD
async def test_4_and_10_explicit_and_implicit_sessions(
    deployment: LocalServer, database_name: str, method: str, checked_out_sessions: list[ServerSession]
) -> None:
    """Prose tests 4 and 10: a command carries the session that its method was given, or else one that is returned.

    The fixture makes sure of the latter in every prose test.
    """
    record = Recorder()
    async with make_client(deployment, event_listeners=[record]) as client:
        collection = await session_methods.prepare(client, database_name, method)
        record.clear()
        async with client.start_session() as session:
            await session_methods.CALLS[method](collection, session)
            sent = [event.command.get("lsid") for event in record.started_events]
            assert sent
            assert all(lsid == session.session_id for lsid in sent)
            (used,) = checked_out_sessions
            assert used.lsid == session.session_id
            await session_methods.prepare(client, database_name, method)
            record.clear()
            await session_methods.CALLS[method](collection, None)
            sent = [event.command.get("lsid") for event in record.started_events]
            assert sent
            assert None not in sent
            assert session.session_id not in sent
        assert not checked_out_sessions


async def test_10_an_open_cursor_has_its_session_checked_out(
    deployment: LocalServer, checked_out_sessions: list[ServerSession]
) -> None:
    """Prose test 10: what the fixture watches does change."""
    async with make_client(deployment) as client:
        cursor = await client.admin.aggregate([{"$listLocalSessions": {}}], batchSize=0)
        assert len(checked_out_sessions) == 1
        await cursor.close()


@EACH_METHOD
async def test_5_and_6_sessions_that_are_refused(deployment: LocalServer, database_name: str, method: str) -> None:
    """Prose tests 5 and 6: a session of another client, or one that ended in either way; nothing is sent."""
    record = Recorder()
    async with make_client(deployment, event_listeners=[record]) as client, make_client(deployment) as other:
        collection = client[database_name].c
        call = session_methods.CALLS[method]
        ended, disposed = client.start_session(), client.start_session()
        async with disposed:
            await client.admin.command("ping", session=disposed)
        await client.admin.command("ping", session=ended)
        await ended.end_session()
        record.clear()
        async with other.start_session() as session:
            with pytest.raises(InvalidOperation, match="only use session with the AsyncMongoClient that started it"):
                await call(collection, session)
        for session in (ended, disposed):
            with pytest.raises(InvalidOperation, match="Cannot use ended session"):
                await call(collection, session)
        assert record.names == []


async def test_8_exhausted_initial_query_returns_the_implicit_session(
    deployment: LocalServer, database_name: str, checked_out_sessions: list[ServerSession]
) -> None:
    """Prose test 8: a cursor whose first batch is all holds no session while it is iterated."""
    record = Recorder()
    async with make_client(deployment, event_listeners=[record]) as client:
        collection = client[database_name].c
        await collection.insert_many([{}, {}])
        cursor = collection.find()
        await cursor.next()
        assert not checked_out_sessions
        await collection.find_one()
        first, second = record.commands("find")
        assert first["lsid"] == second["lsid"]
        await cursor.next()


async def test_9_exhaustion_after_a_get_more_returns_the_implicit_session(
    deployment: LocalServer, database_name: str, checked_out_sessions: list[ServerSession]
) -> None:
    """Prose test 9: the session is free after the last getMore, not after the last document."""
    record = Recorder()
    async with make_client(deployment, event_listeners=[record]) as client:
        collection = client[database_name].c
        await collection.insert_many(numbered(5))
        cursor = collection.find(batch_size=3)
        for _ in range(3):
            await cursor.next()
        assert len(checked_out_sessions) == 1
        await cursor.next()
        assert record.names == ["insert", "find", "getMore"]
        assert not checked_out_sessions
        await collection.find_one()
        assert record.commands("find")[1]["lsid"] == record.commands("getMore")[0]["lsid"]
        assert await cursor.next() == {"_id": 4}


PREFERENCES = [Primary(), PrimaryPreferred(), Secondary(), SecondaryPreferred(), Nearest()]


@pytest.mark.parametrize("preference", PREFERENCES, ids=[each.mongos_mode for each in PREFERENCES])
@pytest.mark.parametrize("topology", ["standalone", "replica_set3"])
async def test_11_find_and_get_more_send_the_same_session_id(
    request: pytest.FixtureRequest, database_name: str, topology: str, preference: Any
) -> None:
    """Prose test 11, for a standalone server and a replica set; tests/sim has the sharded cluster."""
    server: LocalServer = request.getfixturevalue(topology)
    record = Recorder()
    async with make_client(server, event_listeners=[record]) as client:
        collection = client[database_name].c
        concern = WriteConcern(w=len(server.addresses))
        await collection.with_options(write_concern=concern).insert_many(numbered(3))
        record.clear()
        cursor = collection.with_options(read_preference=preference).find(batch_size=2)
        assert len(await cursor.to_list()) == 3
        assert record.names == ["find", "getMore"]
        first, second = (event.command["lsid"] for event in record.started_events)
        assert any(first["id"])
        assert first == second


OPERATIONS: list[Callable[[Any], Coroutine[Any, Any, Any]]] = [
    lambda c: c.insert_one({}),
    lambda c: c.delete_one({}),
    lambda c: c.update_one({}, {"$set": {"a": 1}}),
    lambda c: c.bulk_write([UpdateOne({}, {"$set": {"a": 1}})]),
    lambda c: c.find_one_and_delete({}),
    lambda c: c.find_one_and_update({}, {"$set": {"a": 1}}),
    lambda c: c.find_one_and_replace({}, {"a": 1}),
    lambda c: c.find().to_list(),
]


async def test_14_implicit_sessions_are_allocated_after_check_out(deployment: LocalServer, database_name: str) -> None:
    """Prose test 14: operations that wait for the one connection hold no session."""
    numbers = []
    for _ in range(5):
        record = Recorder()
        async with make_client(deployment, maxPoolSize=1, retryWrites=True, event_listeners=[record]) as client:
            collection = client[database_name].c
            async with anyio.create_task_group() as tasks:
                for operation in OPERATIONS:
                    tasks.start_soon(operation, collection)
            assert len(record.started_events) == len(OPERATIONS)
            assert all("lsid" in event.command for event in record.started_events)
            numbers.append(len(record.session_ids))
    assert 1 in numbers
    assert all(1 <= number < len(OPERATIONS) for number in numbers)


# --- snapshot sessions ---


async def test_1_snapshot_and_causal_consistency_exclude_each_other(replica_set: LocalServer) -> None:
    """Prose test 1."""
    async with make_client(replica_set) as client:
        with pytest.raises(ConfigurationError, match="snapshot reads do not support causal_consistency=True"):
            client.start_session(causal_consistency=True, snapshot=True)


async def test_21_snapshot_time_needs_snapshot(replica_set: LocalServer) -> None:
    """Prose test 21."""
    async with make_client(replica_set) as client:
        with pytest.raises(ConfigurationError, match="snapshot_time needs snapshot=True"):
            client.start_session(snapshot=False, snapshot_time=Timestamp(1, 1))


async def test_22_only_a_snapshot_session_has_a_snapshot_time(replica_set: LocalServer) -> None:
    """Prose test 22."""
    async with make_client(replica_set) as client, client.start_session(snapshot=False) as session:
        with pytest.raises(InvalidOperation, match="only a session with snapshot=True"):
            _ = session.snapshot_time
        assert session._state.snapshot_time is None


async def test_23_the_snapshot_time_cannot_be_set(replica_set: LocalServer) -> None:
    """Prose test 23."""
    async with make_client(replica_set) as client, client.start_session(snapshot=True) as session:
        with pytest.raises(AttributeError):
            session.snapshot_time = Timestamp(1, 1)  # type: ignore[misc]  # what is tested
        assert session.snapshot_time is None
