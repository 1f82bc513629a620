"""The prose tests of the driver sessions specification that a real server shows."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from bson.timestamp import Timestamp

from motorlite import UpdateOne, WriteConcern
from motorlite._base.values import format_address
from motorlite.errors import ConfigurationError, InvalidOperation
from motorlite.monitoring import (
    ServerHeartbeatSucceededEvent,
)
from motorlite.read_preferences import Nearest, Primary, PrimaryPreferred, Secondary, SecondaryPreferred
from tests.live.clients import numbered
from tests.live.prose import session_methods
from tests.support.clients import make_client
from tests.support.events import Recorder
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from motorlite._sessions.session import ServerSession
    from motorlite.testing import LocalServer

pytestmark = pytest.mark.anyio

REPOSITORY = Path(__file__).resolve().parents[3]
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
async def test_4_explicit_and_implicit_session_arguments(
    deployment: LocalServer, database_name: str, method: str
) -> None:
    """Prose test 4: a command carries the session that its method was given, or else an implicit one."""
    record = Recorder()
    async with make_client(deployment, event_listeners=[record]) as client:
        collection = await session_methods.prepare(client, database_name, method)
        record.clear()
        async with client.start_session() as session:
            await session_methods.CALLS[method](collection, session)
            sent = [event.command.get("lsid") for event in record.started_events]
            assert sent
            assert all(lsid == session.session_id for lsid in sent)
            await session_methods.prepare(client, database_name, method)
            record.clear()
            await session_methods.CALLS[method](collection, None)
            sent = [event.command.get("lsid") for event in record.started_events]
            assert sent
            assert None not in sent
            assert session.session_id not in sent


@EACH_METHOD
async def test_5_session_argument_is_for_the_right_client(
    deployment: LocalServer, database_name: str, method: str
) -> None:
    """Prose test 5: a session of another client is refused, before anything is sent."""
    record = Recorder()
    async with (
        make_client(deployment, event_listeners=[record]) as client1,
        make_client(deployment) as client2,
        client2.start_session() as session,
    ):
        with pytest.raises(InvalidOperation, match="only use session with the AsyncMongoClient that started it"):
            await session_methods.CALLS[method](client1[database_name].c, session)
        assert record.names == []


@EACH_METHOD
@pytest.mark.parametrize("is_disposed", [False, True], ids=["end_session", "async with"])
async def test_6_no_further_operations_after_end_session(
    deployment: LocalServer, database_name: str, method: str, is_disposed: bool
) -> None:
    """Prose test 6: a session that has ended is refused, however it ended."""
    record = Recorder()
    async with make_client(deployment, event_listeners=[record]) as client:
        collection = client[database_name].c
        session = client.start_session()
        await client.admin.command("ping", session=session)
        if is_disposed:
            async with session:
                pass
        else:
            await session.end_session()
        record.clear()
        with pytest.raises(InvalidOperation, match="Cannot use ended session"):
            await session_methods.CALLS[method](collection, session)
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


@EACH_METHOD
async def test_10_no_session_is_checked_out_at_the_end(
    deployment: LocalServer, database_name: str, method: str, checked_out_sessions: list[ServerSession]
) -> None:
    """Prose test 10: operations return what they took; the fixture makes sure of it in every prose test."""
    async with make_client(deployment) as client:
        collection = await session_methods.prepare(client, database_name, method)
        async with client.start_session() as session:
            await session_methods.CALLS[method](collection, session)
            (used,) = checked_out_sessions
            assert used.lsid == session.session_id
        assert not checked_out_sessions
        await session_methods.prepare(client, database_name, method)
        await session_methods.CALLS[method](collection, None)
        assert not checked_out_sessions
        cursor = await client.admin.aggregate([{"$listLocalSessions": {}}], batchSize=0)
        assert len(checked_out_sessions) == 1
        await cursor.close()


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


# --- forks: a client of the parent is refused in the child, so what has to differ is the child's own client ---

PROGRAM = """
import os, sys, threading
import asyncio, trio
from motorlite import AsyncMongoClient
from motorlite.errors import InvalidOperation
from motorlite.monitoring import CommandListener

class Sent(CommandListener):
    def started(self, event):
        if os.getpid() != parent:
            print("sent in the child:", event.command_name)

async def child(client):
    try:
        client.start_session().session_id
    except InvalidOperation as error:
        print("refused", "fork" in str(error))
    # Must not end sessions and connections that the parent goes on using.
    await client.close()
    thread = threading.Thread(target=run, args=[own_client])
    thread.start()
    thread.join()
    sys.stdout.flush()
    os._exit(0)

async def own_client():
    async with AsyncMongoClient(sys.argv[1]) as client:
        await client.admin.command("ping")
        for _ in range(3):
            async with client.start_session() as session:
                await client.admin.command("ping", session=session)
                print("differs", session.session_id != lsid)

async def main():
    global lsid, parent
    parent = os.getpid()
    async with AsyncMongoClient(sys.argv[1], maxPoolSize=1, event_listeners=[Sent()]) as client:
        session = client.start_session()
        await client.admin.command("ping", session=session)
        lsid = session.session_id
        {before}
        process = os.fork()
        if not process:
            {in_child}
            await child(client)
        print("child", os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
        {after}
        async with client.start_session() as again:
            print("same", again.session_id == lsid)
            await client.admin.command("ping", session=again)
"""
RUN = {
    "asyncio": "def run(function):\n    asyncio.run(function())\nrun(main)\n",
    "trio": "def run(function):\n    trio.run(function)\nrun(main)\n",
}
END = "await session.end_session()"
BACKENDS = pytest.mark.parametrize("backend", RUN)


def lines_of_fork(server: LocalServer, backend: str, **steps: str) -> list[str]:
    """Run the program in a process of its own, with all warnings on, and return what it and its child print."""
    source = textwrap.dedent(PROGRAM).format(**steps) + RUN[backend]
    line = [sys.executable, "-W", "error", "-c", source, server.uri]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    finished = subprocess.run(line, capture_output=True, text=True, timeout=55, cwd=REPOSITORY, env=environment)
    assert (finished.stderr, finished.returncode) == ("", 0)
    return finished.stdout.splitlines()


FORKED = ["refused True", "differs True", "differs True", "differs True", "child 0", "same True"]


@BACKENDS
def test_12_a_pooled_session_is_not_used_after_a_fork(deployment: LocalServer, backend: str) -> None:
    """Prose test 12: what is in the pool stays the parent's."""
    assert lines_of_fork(deployment, backend, before=END, in_child="pass", after="pass") == FORKED


@BACKENDS
def test_13_a_session_from_before_a_fork_is_not_used_after_it(deployment: LocalServer, backend: str) -> None:
    """Prose test 13: what was checked out stays the parent's, although the child returns it."""
    assert lines_of_fork(deployment, backend, before="pass", in_child=END, after=END) == FORKED


# ---


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


async def test_20_cluster_time_is_not_gossiped_on_monitoring_commands(
    replica_set: LocalServer, database_name: str
) -> None:
    """Prose test 20: what a monitor hears does not advance the cluster time; tests/sim looks at what it sends."""
    record = Recorder()
    uri = f"mongodb://{format_address(replica_set.addresses[0])}/?directConnection=true&heartbeatFrequencyMS=500"
    async with (
        make_client(uri, event_listeners=[record]) as c1,
        make_client(replica_set) as c2,
    ):
        cluster_time = (await c1.admin.command({"ping": 1}))["$clusterTime"]
        await c2[database_name].test.insert_one({"advance": "$clusterTime"})
        # The check that runs may have been answered before the insert, so the pair after the next one.
        seen = len(record.of(ServerHeartbeatSucceededEvent))
        await until(lambda: len(record.of(ServerHeartbeatSucceededEvent)) >= seen + 2)
        reply = await c1.admin.command({"ping": 1})
        assert record.commands("ping")[1]["$clusterTime"] == cluster_time
        assert reply["$clusterTime"]["clusterTime"] > cluster_time["clusterTime"]


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
