"""Server sessions, cluster time and causal consistency on the one path of every command (driver sessions)."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from bson.timestamp import Timestamp

from motorlite._operations.cursors import GetMore
from motorlite._sessions.session import Session
from motorlite.errors import ConfigurationError, InvalidOperation, PyMongoError
from motorlite.read_concern import ReadConcern
from motorlite.read_preferences import ReadPreference
from motorlite.testing.scripted import Close, Hang, Reply, failure
from motorlite.write_concern import WriteConcern
from tests.support.clients import scripted_client
from tests.support.core import (
    BAD_VALUE,
    DONE,
    FOUND,
    HOST_UNREACHABLE,
    OVERLOADED,
    WRITTEN,
    B,
    driver,
    find,
    get_more,
    insert,
    later,
    one_server,
    replica_set,
    run_command,
    update_many,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from motorlite.testing.scripted import ScriptedServer
    from tests.support.core import Driver

pytestmark = pytest.mark.anyio

OPENED = {"cursor": {"id": 7, "ns": "db.coll", "firstBatch": [{"_id": 1}]}}


def ids(server: ScriptedServer) -> list[bytes | None]:
    """The session id of each command that arrived."""
    sessions = [command.get("lsid") for command in server.commands()]
    return [None if session is None else bytes(session["id"]) for session in sessions]


def cluster_time(seconds: int) -> dict[str, Any]:
    return {"$clusterTime": {"clusterTime": Timestamp(seconds, 1), "signature": {"keyId": seconds}}}


def times(server: ScriptedServer) -> list[int | None]:
    """The cluster time of each command that arrived."""
    found = [command.get("$clusterTime") for command in server.commands()]
    return [None if time is None else time["clusterTime"].time for time in found]


async def ignore_errors(client: Driver, operation: Any, **arguments: Any) -> None:
    try:
        await client.run(operation, **arguments)
    except PyMongoError:
        return


# --- implicit sessions ---


async def test_one_session_is_enough_for_one_after_the_other() -> None:
    async with one_server() as (client, a):
        for operation in (find(), insert(), run_command(), update_many(), get_more()):
            await client.run(operation)
        (only,) = set(ids(a))
        assert only is not None
        assert len(only) == 16
        assert len(client.core.sessions) == 1
        assert client.core.stats().sessions == 1


@pytest.mark.parametrize(("options", "sessions"), [({}, 10), ({"maxPoolSize": 2}, 2)])
async def test_operations_at_the_same_time_have_different_sessions(options: dict[str, Any], sessions: int) -> None:
    # Those that wait for a connection hold none, so there are never more sessions than connections.
    async with one_server({"find": later(FOUND, 1)}, **options) as (client, a):
        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(client.run, find())
        assert len(ids(a)) == 10
        assert len(set(ids(a))) == len(client.core.sessions) == sessions


async def test_retries_keep_the_session() -> None:
    async with one_server({"find": [OVERLOADED, Close(), FOUND]}) as (client, a):
        await client.run(find())
        assert len(ids(a)) == 3
        assert len(set(ids(a))) == 1


async def test_a_session_is_not_used_by_others_during_a_backoff() -> None:
    async with one_server({"find": [OVERLOADED, FOUND]}) as (client, a):
        async with anyio.create_task_group() as group:
            group.start_soon(client.run, find())
            await anyio.sleep(0.05)
            await client.run(run_command())
        first, other, second = ids(a)
        assert first == second != other


@pytest.mark.parametrize(
    ("answer", "seconds"), [(Close(), inf), (Hang(), inf), (Hang(), 0.1)], ids=["closed", "timed out", "cancelled"]
)
async def test_a_session_is_discarded_with_its_reply(answer: Any, seconds: float) -> None:
    # The server may still be busy with it.
    async with one_server({"ping": answer}, socketTimeoutMS=500) as (client, a):
        with anyio.move_on_after(seconds):
            await ignore_errors(client, run_command())
        assert len(client.core.sessions) == 0
        await client.run(find())
        assert len(set(ids(a))) == 2


@pytest.mark.parametrize("answer", [BAD_VALUE, OVERLOADED, failure(91)])
async def test_a_session_is_kept_after_an_error_of_the_server(answer: dict[str, Any]) -> None:
    async with one_server({"ping": answer}) as (client, _):
        await ignore_errors(client, run_command())
        assert len(client.core.sessions) == 1


async def test_a_cancelled_backoff_gives_the_session_back() -> None:
    async with one_server({"find": OVERLOADED}) as (client, _):
        with anyio.move_on_after(60) as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(client.run, find())
                await anyio.sleep(0.05)
                scope.cancel()
        assert len(client.core.sessions) == 1


async def test_a_session_that_the_server_is_about_to_forget_is_not_used() -> None:
    async with one_server() as (client, a):
        # It lives for 30 minutes after every use, and the last one is left out.
        for minutes in (20.0, 20.0, 28.9, 29.0):
            await client.run(find())
            await anyio.sleep(minutes * 60)
        await client.run(find())
        *others, last = ids(a)
        assert len(set(others)) == 1
        assert last not in others


async def test_other_servers_of_the_deployment_share_the_sessions() -> None:
    deployment = replica_set(servers=2)
    async with driver(deployment) as client:
        await client.run(find(selector=ReadPreference.SECONDARY, read_preference=ReadPreference.SECONDARY))
        await client.run(find())
        assert ids(deployment["a:1"]) == ids(deployment["b:1"])


# --- explicit sessions ---


@pytest.mark.parametrize("is_lost", [False, True])
async def test_an_explicit_session_is_kept_by_its_owner(is_lost: bool) -> None:
    """After a network error, others do not get it afterwards."""
    async with one_server({"ping": Close() if is_lost else DONE}) as (client, a):
        session = Session(is_implicit=False)
        await ignore_errors(client, run_command(), session=session)
        await client.run(insert(), session=session)
        await client.run(find())
        mine, again, other = ids(a)
        assert mine == again != other
        assert session.server_session is not None
        assert session.server_session.is_dirty is is_lost
        before = len(client.core.sessions)
        # A second time there is nothing to give back.
        for _ in range(2):
            client.core.executor.release(session)
            assert session.server_session is None
            assert len(client.core.sessions) == before + (not is_lost)


@pytest.mark.virtual_time
@pytest.mark.parametrize("call", ["find_one", "insert_one", "first of a transaction", "command", "find"])
async def test_a_session_that_ends_before_its_first_operation_has_a_connection(call: str) -> None:
    """Otherwise the operation takes a server session that nothing returns."""
    deployment = replica_set()
    deployment["a:1"].on("ping", Reply({}, 1.0))
    async with scripted_client(deployment, maxPoolSize=1) as client:
        coll, session = client.db.coll, client.start_session()
        calls: dict[str, Callable[[], Awaitable[Any]]] = {
            "find_one": lambda: coll.find_one({}, session=session),
            "insert_one": lambda: coll.insert_one({}, session=session),
            "command": lambda: client.db.command("count", "coll", session=session),
            "find": lambda: coll.find({}, session=session).to_list(),
        }
        if call == "first of a transaction":
            session.start_transaction()

        async def work() -> None:
            with pytest.raises(InvalidOperation, match=r"Cannot use ended session"):
                await calls.get(call, calls["find_one"])()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.admin.command, "ping")
            await anyio.sleep(0.1)
            tasks.start_soon(work)
            await anyio.sleep(0.1)
            await session.end_session()
        assert len(client._core.sessions) == 1, "that of the ping"
        assert session._state.server_session is None
        assert not client._core.executor.open_transactions
        assert [one.name for one in deployment["a:1"].received] == ["ping"]


async def test_an_unacknowledged_write_does_not_go_with_an_explicit_session() -> None:
    async with one_server() as (client, a):
        with pytest.raises(ConfigurationError, match="Explicit sessions are incompatible with unack"):
            await client.run(insert(write_concern=WriteConcern(w=0)), session=Session(is_implicit=False))
        assert not a.commands("insert")
        # One that was only handed on, as from batch to batch of a bulk write, is left out.
        await client.run(insert(write_concern=WriteConcern(w=0)), session=Session(is_implicit=True))
        (command,) = a.commands("insert")
        assert "lsid" not in command
        assert len(client.server().pool.state.idle) == 1


# --- cursors ---


async def test_a_cursor_keeps_its_implicit_session() -> None:
    async with one_server({"find": OPENED}) as (client, a):
        reply = await client.run(find())
        assert reply.address == ("a", 1)
        assert reply.session.is_implicit
        # Nobody else gets it meanwhile.
        await client.run(run_command())
        await client.run(GetMore("db", "coll", 7, address=reply.address), session=reply.session)
        first, other, second = ids(a)
        assert first == second != other
        before = len(client.core.sessions)
        client.core.executor.release(reply.session)
        assert len(client.core.sessions) == before + 1


@pytest.mark.parametrize("which", ["without more documents", "of an explicit session", "of a server without sessions"])
async def test_a_cursor_without_a_session_of_its_own(which: str) -> None:
    deployment = replica_set()
    if which == "of a server without sessions":
        deployment["a:1"].hello["logicalSessionTimeoutMinutes"] = None
    if which != "without more documents":
        deployment["a:1"].on("find", OPENED)
    session = Session(is_implicit=False) if which == "of an explicit session" else None
    async with driver(deployment) as client:
        reply = await client.run(find(), session=session)
        assert reply.session is None
        # The session of the connecting command, which the first one used as well.
        assert len(client.core.sessions) == (which == "without more documents")


async def test_a_cursor_lives_where_its_retry_succeeded() -> None:
    deployment = replica_set(servers=2)
    deployment["a:1"].on("find", OVERLOADED)
    deployment["b:1"].on("find", OPENED)
    preference = ReadPreference.PRIMARY_PREFERRED
    async with driver(deployment) as client:
        reply = await client.run(find(selector=preference, read_preference=preference))
        assert reply.address == B


# --- the end ---


async def test_sessions_are_ended_when_the_client_is_closed() -> None:
    async with one_server({"find": later(FOUND, 1)}) as (client, a):
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(client.run, find())
        used = set(ids(a))
    (command,) = a.commands("endSessions")
    assert {bytes(session["id"]) for session in command["endSessions"]} == used
    assert command["$db"] == "admin"
    assert "lsid" not in command


async def test_nothing_is_ended_when_nothing_was_used() -> None:
    deployment = replica_set()
    async with driver(deployment, connect=False):
        pass
    assert not deployment["a:1"].commands("endSessions")


async def test_the_farewell_waits_one_second_at_most() -> None:
    async with one_server({"endSessions": Hang()}) as (client, _):
        await client.run(find())
        before = anyio.current_time()
    assert anyio.current_time() == pytest.approx(before + 1)


# --- cluster time ---


async def test_the_newest_cluster_time_is_gossiped() -> None:
    async with one_server() as (client, a):
        a.on("find", {**FOUND, **cluster_time(5)}, {**FOUND, **cluster_time(3)}, FOUND)
        a.on("ping", {**BAD_VALUE, **cluster_time(9)}, {"ok": 1})
        for _ in range(3):
            await client.run(find())
        # An error brings it as well.
        await ignore_errors(client, run_command())
        await client.run(run_command())
        assert times(a) == [None, 5, 5, 5, 9]
        assert a.commands()[-1]["$clusterTime"] == cluster_time(9)["$clusterTime"]


@pytest.mark.parametrize("answer", [OVERLOADED, HOST_UNREACHABLE], ids=["overload", "ordinary"])
@pytest.mark.parametrize(("name", "make", "success"), [("find", find, FOUND), ("insert", insert, WRITTEN)])
async def test_a_retry_carries_what_the_error_brought(
    name: str, make: Any, success: dict[str, Any], answer: dict[str, Any]
) -> None:
    # The message is made anew for every attempt (retryable reads specification, "Implementation constraints").
    async with one_server({name: [{**answer, **cluster_time(5)}, success]}) as (client, a):
        await client.run(make())
        assert times(a) == [None, 5]
        requests = [event.request_id for event in client.recorder.command_events if event.command_name == name]
        assert len(set(requests)) == 2


async def test_a_retry_carries_what_others_learned_meanwhile() -> None:
    async with one_server({"find": [OVERLOADED, FOUND], "ping": {"ok": 1, **cluster_time(7)}}) as (client, a):
        async with anyio.create_task_group() as group:
            group.start_soon(client.run, find())
            await anyio.sleep(0.05)
            await client.run(run_command())
        assert times(a) == [None, None, 7]
        assert [next(iter(command)) for command in a.commands()] == ["find", "ping", "find"]


@pytest.mark.parametrize("answer", [OVERLOADED, HOST_UNREACHABLE], ids=["overload", "ordinary"])
async def test_a_retry_reads_after_what_the_error_brought(answer: dict[str, Any]) -> None:
    news = {**answer, **cluster_time(5), "operationTime": Timestamp(5, 1)}
    async with one_server({"find": [news, FOUND]}) as (client, a):
        await client.run(find(), session=Session(is_implicit=False, is_causally_consistent=True))
        concerns = [command.get("readConcern") for command in a.commands()]
        assert concerns == [None, {"afterClusterTime": Timestamp(5, 1)}]


async def test_a_session_may_know_a_newer_cluster_time() -> None:
    async with one_server({"find": [{**FOUND, **cluster_time(5)}, FOUND]}) as (client, a):
        await client.run(find())
        session = Session(is_implicit=False)
        session.cluster_time = cluster_time(8)["$clusterTime"]
        await client.run(find(), session=session)
        session.cluster_time = cluster_time(2)["$clusterTime"]
        await client.run(find(), session=session)
        assert times(a) == [None, 8, 5]


async def test_a_session_learns_from_replies_and_errors() -> None:
    async with one_server() as (client, a):
        a.on("ping", {**cluster_time(4), "operationTime": Timestamp(4, 1)})
        a.on("find", {**BAD_VALUE, **cluster_time(6), "operationTime": Timestamp(6, 1)})
        session = Session(is_implicit=False)
        for operation, seconds in ((run_command(), 4), (find(), 6)):
            await ignore_errors(client, operation, session=session)
            assert session.operation_time == Timestamp(seconds, 1)
            assert session.cluster_time == cluster_time(seconds)["$clusterTime"]


# --- causal consistency ---


async def test_a_causally_consistent_session_reads_its_writes() -> None:
    async with one_server({"insert": {**WRITTEN, "operationTime": Timestamp(4, 1)}}) as (client, a):
        session = Session(is_implicit=False, is_causally_consistent=True)
        await client.run(find(), session=session)
        await client.run(insert(), session=session)
        await client.run(find(), session=session)
        await client.run(find(read_concern=ReadConcern("majority")), session=session)
        await client.run(insert(), session=session)
        await client.run(get_more(), session=session)
        concerns = [command.get("readConcern") for command in a.commands()]
        after = {"afterClusterTime": Timestamp(4, 1)}
        assert concerns == [None, None, after, {"level": "majority", **after}, after, None]


# --- what else every command carries ---


async def test_each_attempt_has_a_document_of_its_own() -> None:
    # What the first attempt was decorated with must not be left in the second.
    async with one_server({"ping": [Reply({**OVERLOADED, **cluster_time(5)}), Reply({"ok": 1})]}) as (client, a):
        operation = run_command()
        await client.run(operation)
        await client.run(operation)
        first, second, third = a.commands()
        assert list(first) == ["ping", "lsid", "$db"]
        assert list(second) == list(third) == ["ping", "lsid", "$clusterTime", "$db"]
