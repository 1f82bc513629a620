"""Server sessions, cluster time and causal consistency on the one path of every command (driver sessions)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest
from bson.timestamp import Timestamp

from motorlite._operations.cursors import GetMore
from motorlite._operations.find import Find
from motorlite._sessions.session import Session
from motorlite.errors import ConfigurationError, InvalidOperation, PyMongoError
from motorlite.read_concern import ReadConcern
from motorlite.read_preferences import ReadPreference
from motorlite.server_api import ServerApi
from motorlite.testing.scripted import Close, Hang, Reply, ScriptedDeployment, failure
from motorlite.write_concern import WriteConcern
from tests.support.clients import scripted_client
from tests.support.core import (
    BAD_VALUE,
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
    replica_set,
    run_command,
    update_many,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support.core import Driver

pytestmark = pytest.mark.anyio

OPENED = {"cursor": {"id": 7, "ns": "db.coll", "firstBatch": [{"_id": 1}]}}


def ids(deployment: ScriptedDeployment, address: str = "a:1") -> list[bytes | None]:
    """The session id of each command that arrived."""
    sessions = [command.get("lsid") for command in deployment[address].commands()]
    return [None if session is None else bytes(session["id"]) for session in sessions]


def cluster_time(seconds: int) -> dict[str, Any]:
    return {"$clusterTime": {"clusterTime": Timestamp(seconds, 1), "signature": {"keyId": seconds}}}


def times(deployment: ScriptedDeployment) -> list[int | None]:
    """The cluster time of each command that arrived."""
    found = [command.get("$clusterTime") for command in deployment["a:1"].commands()]
    return [None if time is None else time["clusterTime"].time for time in found]


async def ignore_errors(client: Driver, operation: Any, **arguments: Any) -> None:
    try:
        await client.run(operation, **arguments)
    except PyMongoError:
        return


# --- implicit sessions ---


async def test_one_session_is_enough_for_one_after_the_other() -> None:
    deployment = replica_set()
    async with driver(deployment) as client:
        for operation in (find(), insert(), run_command(), update_many(), get_more()):
            await client.run(operation)
        (only,) = set(ids(deployment))
        assert only is not None
        assert len(only) == 16
        assert len(client.core.sessions) == 1
        assert client.core.stats().sessions == 1


async def test_operations_at_the_same_time_have_different_sessions() -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", later(FOUND, 1))
    async with driver(deployment) as client:
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(client.run, find())
        assert len(set(ids(deployment))) == 5
        assert len(client.core.sessions) == 5


async def test_a_session_is_taken_after_the_check_out() -> None:
    # Operations that wait for a connection hold none, so there are never more sessions than connections.
    deployment = replica_set()
    deployment["a:1"].on("find", later(FOUND, 1))
    async with driver(deployment, maxPoolSize=2) as client:
        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(client.run, find())
        assert len(ids(deployment)) == 10
        assert len(set(ids(deployment))) == 2


async def test_the_last_one_given_back_is_taken_first() -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", later(FOUND, 1), later(FOUND, 2), FOUND)
    async with driver(deployment) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.run, find())
            group.start_soon(client.run, find())
        _, last = ids(deployment)
        await client.run(find())
        assert ids(deployment)[2] == last


async def test_retries_keep_the_session() -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", OVERLOADED, Close(), FOUND)
    async with driver(deployment) as client:
        await client.run(find())
        assert len(ids(deployment)) == 3
        assert len(set(ids(deployment))) == 1


async def test_a_session_is_not_used_by_others_during_a_backoff() -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", OVERLOADED, FOUND)
    async with driver(deployment) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.run, find())
            await anyio.sleep(0.05)
            await client.run(run_command())
        first, other, second = ids(deployment)
        assert first == second != other


@pytest.mark.parametrize("answer", [Close(), Hang()], ids=["closed", "timed out"])
async def test_a_session_is_discarded_after_a_network_error(answer: Any) -> None:
    # The server may still be busy with it.
    deployment = replica_set()
    deployment["a:1"].on("ping", answer)
    async with driver(deployment, socketTimeoutMS=500) as client:
        await ignore_errors(client, run_command())
        assert len(client.core.sessions) == 0
        await client.run(find())
        assert len(set(ids(deployment))) == 2


async def test_a_session_is_discarded_after_a_cancellation() -> None:
    deployment = replica_set()
    deployment["a:1"].on("ping", Hang())
    async with driver(deployment) as client:
        with anyio.move_on_after(1):
            await client.run(run_command())
        assert len(client.core.sessions) == 0


@pytest.mark.parametrize("answer", [BAD_VALUE, OVERLOADED, failure(91)])
async def test_a_session_is_kept_after_an_error_of_the_server(answer: dict[str, Any]) -> None:
    deployment = replica_set()
    deployment["a:1"].on("ping", answer)
    async with driver(deployment) as client:
        await ignore_errors(client, run_command())
        assert len(client.core.sessions) == 1


async def test_a_cancelled_backoff_gives_the_session_back() -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", OVERLOADED)
    async with driver(deployment) as client:
        with anyio.move_on_after(60) as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(client.run, find())
                await anyio.sleep(0.05)
                scope.cancel()
        assert len(client.core.sessions) == 1


async def test_a_session_that_the_server_is_about_to_forget_is_not_used() -> None:
    deployment = replica_set()
    async with driver(deployment) as client:
        await client.run(find())
        await anyio.sleep(28.5 * 60)
        await client.run(find())
        # 30 minutes, less the last one.
        await anyio.sleep(29 * 60)
        await client.run(find())
        first, second, third = ids(deployment)
        assert first == second != third


async def test_a_session_lives_on_with_every_use() -> None:
    deployment = replica_set()
    async with driver(deployment) as client:
        for _ in range(3):
            await client.run(find())
            await anyio.sleep(20 * 60)
        first, second, third = ids(deployment)
        assert first == second == third


async def test_a_server_without_sessions() -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].hello["logicalSessionTimeoutMinutes"] = None
    async with driver(deployment) as client:
        await client.run(find())
        await client.run(insert())
        assert ids(deployment) == [None, None]
        assert len(client.core.sessions) == 0
        with pytest.raises(ConfigurationError, match="Sessions are not supported by this"):
            await client.run(find(), session=Session(is_implicit=False))


async def test_other_servers_of_the_deployment_share_the_sessions() -> None:
    deployment = replica_set(servers=2)
    async with driver(deployment) as client:
        await client.run(find(selector=ReadPreference.SECONDARY, read_preference=ReadPreference.SECONDARY))
        await client.run(find())
        assert ids(deployment) == ids(deployment, "b:1")


# --- explicit sessions ---


async def test_an_explicit_session_is_kept_by_its_owner() -> None:
    deployment = replica_set()
    async with driver(deployment) as client:
        session = Session(is_implicit=False)
        await client.run(find(), session=session)
        await client.run(insert(), session=session)
        await client.run(find())
        mine, again, other = ids(deployment)
        assert mine == again != other
        assert session.server_session is not None
        before = len(client.core.sessions)
        client.core.executor.release(session)
        assert session.server_session is None
        assert len(client.core.sessions) == before + 1
        # A second time there is nothing to give back.
        client.core.executor.release(session)
        assert len(client.core.sessions) == before + 1


async def test_transaction_numbers_of_an_explicit_session() -> None:
    deployment = replica_set()
    deployment["a:1"].on("insert", HOST_UNREACHABLE, WRITTEN)
    async with driver(deployment) as client:
        session = Session(is_implicit=False)
        await client.run(insert(), session=session)
        await client.run(insert(), session=session)
        assert [command["txnNumber"] for command in deployment["a:1"].commands("insert")] == [1, 1, 2]


async def test_an_explicit_session_is_dirty_after_a_network_error() -> None:
    deployment = replica_set()
    deployment["a:1"].on("ping", Close())
    async with driver(deployment) as client:
        session = Session(is_implicit=False)
        await ignore_errors(client, run_command(), session=session)
        assert session.server_session is not None
        assert session.server_session.is_dirty
        # It goes on with it, but does not give it to others afterwards.
        await client.run(find(), session=session)
        assert len(set(ids(deployment))) == 1
        before = len(client.core.sessions)
        client.core.executor.release(session)
        assert len(client.core.sessions) == before


@pytest.mark.virtual_time
@pytest.mark.parametrize("call", ["find_one", "insert_one", "first of a transaction", "command", "find"])
async def test_a_session_that_ends_before_its_first_operation_has_a_connection(call: str) -> None:
    """Otherwise the operation takes a server session that nothing returns."""
    deployment = replica_set(servers=1)
    deployment["a:1"].on("ping", Reply({}, 1.0))
    async with scripted_client(deployment, maxPoolSize=1) as client:
        coll, session = client.db.coll, client.start_session()
        calls: dict[str, Callable[[], Awaitable[Any]]] = {
            "find_one": lambda: coll.find_one({}, session=session),
            "insert_one": lambda: coll.insert_one({}, session=session),
            "first of a transaction": lambda: coll.find_one({}, session=session),
            "command": lambda: client.db.command("count", "coll", session=session),
            "find": lambda: coll.find({}, session=session).to_list(),
        }
        if call == "first of a transaction":
            session.start_transaction()

        async def work() -> None:
            with pytest.raises(InvalidOperation, match=r"Cannot use ended session"):
                await calls[call]()

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
    deployment = replica_set()
    async with driver(deployment) as client:
        with pytest.raises(ConfigurationError, match="Explicit sessions are incompatible with unack"):
            await client.run(insert(write_concern=WriteConcern(w=0)), session=Session(is_implicit=False))
        assert not deployment["a:1"].commands("insert")
        # One that was only handed on, as from batch to batch of a bulk write, is left out.
        await client.run(insert(write_concern=WriteConcern(w=0)), session=Session(is_implicit=True))
        (command,) = deployment["a:1"].commands("insert")
        assert "lsid" not in command
        assert len(client.server().pool.state.idle) == 1


# --- cursors ---


async def test_a_cursor_keeps_its_implicit_session() -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", OPENED)
    async with driver(deployment) as client:
        reply = await client.run(find())
        assert reply.address == ("a", 1)
        assert reply.session.is_implicit
        # Nobody else gets it meanwhile.
        await client.run(run_command())
        await client.run(GetMore("db", "coll", 7, address=reply.address), session=reply.session)
        first, other, second = ids(deployment)
        assert first == second != other
        before = len(client.core.sessions)
        client.core.executor.release(reply.session)
        assert len(client.core.sessions) == before + 1


async def test_a_cursor_without_more_documents_gives_it_back() -> None:
    async with driver(replica_set()) as client:
        reply = await client.run(find())
        assert reply.session is None
        assert len(client.core.sessions) == 1


async def test_a_cursor_of_an_explicit_session_has_no_own() -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", OPENED)
    async with driver(deployment) as client:
        reply = await client.run(find(), session=Session(is_implicit=False))
        assert reply.session is None


async def test_a_cursor_of_a_server_without_sessions() -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].hello["logicalSessionTimeoutMinutes"] = None
    deployment["a:1"].on("find", OPENED)
    async with driver(deployment) as client:
        reply = await client.run(find())
        assert reply.session is None
        assert reply.reply.cursor_id == 7


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
    deployment = replica_set()
    deployment["a:1"].on("find", later(FOUND, 1))
    async with driver(deployment) as client:
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(client.run, find())
        used = set(ids(deployment))
    (command,) = deployment["a:1"].commands("endSessions")
    assert {bytes(session["id"]) for session in command["endSessions"]} == used
    assert command["$db"] == "admin"
    assert "lsid" not in command


async def test_nothing_is_ended_when_nothing_was_used() -> None:
    deployment = replica_set()
    async with driver(deployment, connect=False):
        pass
    assert not deployment["a:1"].commands("endSessions")


async def test_the_farewell_waits_one_second_at_most() -> None:
    deployment = replica_set()
    deployment["a:1"].on("endSessions", Hang())
    async with driver(deployment) as client:
        await client.run(find())
        before = anyio.current_time()
    assert anyio.current_time() == pytest.approx(before + 1)


async def test_the_farewell_fails_quietly() -> None:
    deployment = replica_set()
    deployment["a:1"].on("endSessions", BAD_VALUE)
    async with driver(deployment) as client:
        await client.run(find())
    assert len(deployment["a:1"].commands("endSessions")) == 1


# --- cluster time ---


async def test_the_newest_cluster_time_is_gossiped() -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", {**FOUND, **cluster_time(5)}, {**FOUND, **cluster_time(3)}, FOUND)
    deployment["a:1"].on("ping", {**BAD_VALUE, **cluster_time(9)}, {"ok": 1})
    async with driver(deployment) as client:
        for _ in range(3):
            await client.run(find())
        # An error brings it as well.
        await ignore_errors(client, run_command())
        await client.run(run_command())
        assert times(deployment) == [None, 5, 5, 5, 9]
        assert deployment["a:1"].commands()[-1]["$clusterTime"] == cluster_time(9)["$clusterTime"]


@pytest.mark.parametrize("answer", [OVERLOADED, HOST_UNREACHABLE], ids=["overload", "ordinary"])
@pytest.mark.parametrize(("name", "make", "success"), [("find", find, FOUND), ("insert", insert, WRITTEN)])
async def test_a_retry_carries_what_the_error_brought(
    name: str, make: Any, success: dict[str, Any], answer: dict[str, Any]
) -> None:
    # The message is made anew for every attempt (retryable reads specification, "Implementation constraints").
    deployment = replica_set()
    deployment["a:1"].on(name, {**answer, **cluster_time(5)}, success)
    async with driver(deployment) as client:
        await client.run(make())
        assert times(deployment) == [None, 5]
        requests = [event.request_id for event in client.recorder.command_events if event.command_name == name]
        assert len(set(requests)) == 2


async def test_a_retry_carries_what_others_learned_meanwhile() -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", OVERLOADED, FOUND)
    deployment["a:1"].on("ping", {"ok": 1, **cluster_time(7)})
    async with driver(deployment) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.run, find())
            await anyio.sleep(0.05)
            await client.run(run_command())
        assert times(deployment) == [None, None, 7]
        assert [next(iter(command)) for command in deployment["a:1"].commands()] == ["find", "ping", "find"]


@pytest.mark.parametrize("answer", [OVERLOADED, HOST_UNREACHABLE], ids=["overload", "ordinary"])
async def test_a_retry_reads_after_what_the_error_brought(answer: dict[str, Any]) -> None:
    deployment = replica_set()
    operation_time = {"operationTime": Timestamp(5, 1)}
    deployment["a:1"].on("find", {**answer, **cluster_time(5), **operation_time}, FOUND)
    async with driver(deployment) as client:
        await client.run(find(), session=Session(is_implicit=False, is_causally_consistent=True))
        concerns = [command.get("readConcern") for command in deployment["a:1"].commands()]
        assert concerns == [None, {"afterClusterTime": Timestamp(5, 1)}]


async def test_a_session_may_know_a_newer_cluster_time() -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", {**FOUND, **cluster_time(5)}, FOUND)
    async with driver(deployment) as client:
        await client.run(find())
        session = Session(is_implicit=False)
        session.cluster_time = cluster_time(8)["$clusterTime"]
        await client.run(find(), session=session)
        session.cluster_time = cluster_time(2)["$clusterTime"]
        await client.run(find(), session=session)
        assert times(deployment) == [None, 8, 5]


async def test_a_session_learns_from_replies_and_errors() -> None:
    deployment = replica_set()
    deployment["a:1"].on("ping", {**cluster_time(4), "operationTime": Timestamp(4, 1)})
    deployment["a:1"].on("find", {**BAD_VALUE, **cluster_time(6), "operationTime": Timestamp(6, 1)})
    async with driver(deployment) as client:
        session = Session(is_implicit=False)
        await client.run(run_command(), session=session)
        assert session.operation_time == Timestamp(4, 1)
        assert session.cluster_time == cluster_time(4)["$clusterTime"]
        await ignore_errors(client, find(), session=session)
        assert session.operation_time == Timestamp(6, 1)
        assert session.cluster_time == cluster_time(6)["$clusterTime"]


# --- causal consistency ---


async def test_a_causally_consistent_session_reads_its_writes() -> None:
    deployment = replica_set()
    deployment["a:1"].on("insert", {**WRITTEN, "operationTime": Timestamp(4, 1)})
    async with driver(deployment) as client:
        session = Session(is_implicit=False, is_causally_consistent=True)
        await client.run(find(), session=session)
        await client.run(insert(), session=session)
        await client.run(find(), session=session)
        await client.run(find(read_concern=ReadConcern("majority")), session=session)
        await client.run(insert(), session=session)
        await client.run(get_more(), session=session)
        concerns = [command.get("readConcern") for command in deployment["a:1"].commands()]
        after = {"afterClusterTime": Timestamp(4, 1)}
        assert concerns == [None, None, after, {"level": "majority", **after}, after, None]


async def test_the_users_read_concern_is_not_changed() -> None:
    deployment = replica_set()
    concern = ReadConcern("majority")
    async with driver(deployment) as client:
        session = Session(is_implicit=False, is_causally_consistent=True)
        session.operation_time = Timestamp(4, 1)
        operation = Find("db", "coll", {}, read_concern=concern)
        await client.run(operation, session=session)
        assert concern.document == {"level": "majority"}
        await client.run(operation)
        assert deployment["a:1"].commands("find")[-1]["readConcern"] == {"level": "majority"}


# --- what else every command carries ---


async def test_the_declared_api_version_is_in_every_command() -> None:
    deployment = replica_set()
    async with driver(deployment, server_api=ServerApi("1", strict=True)) as client:
        for operation in (find(), insert(), run_command(), get_more()):
            await client.run(operation)
        for command in deployment["a:1"].commands():
            assert command["apiVersion"] == "1"
            assert command["apiStrict"] is True
            assert "apiDeprecationErrors" not in command


@pytest.mark.parametrize(
    ("topology", "mode", "expected"),
    [
        ("standalone", "SECONDARY", None),
        ("replica set", "PRIMARY", None),
        ("replica set", "SECONDARY_PREFERRED", {"mode": "secondaryPreferred"}),
        ("direct", "PRIMARY", {"mode": "primaryPreferred"}),
        ("direct", "SECONDARY", {"mode": "secondary"}),
        ("sharded", "PRIMARY", None),
        ("sharded", "SECONDARY", {"mode": "secondary"}),
    ],
)
async def test_the_read_preference(topology: str, mode: str, expected: dict[str, str] | None) -> None:
    deployment = ScriptedDeployment(
        ["a:1"],
        replica_set="rs" if topology in ("replica set", "direct") else None,
        mongos=topology == "sharded",
    )
    preference = getattr(ReadPreference, mode)
    async with driver(deployment, directConnection=topology == "direct") as client:
        await client.run(find(selector=preference, read_preference=preference))
        assert deployment["a:1"].commands()[0].get("$readPreference") == expected


async def test_a_write_has_no_read_preference() -> None:
    deployment = replica_set()
    async with driver(deployment, directConnection=True) as client:
        await client.run(insert())
        assert "$readPreference" not in deployment["a:1"].commands()[0]


async def test_each_attempt_has_a_document_of_its_own() -> None:
    # What the first attempt was decorated with must not be left in the second.
    deployment = replica_set()
    deployment["a:1"].on("ping", Reply({**OVERLOADED, **cluster_time(5)}), Reply({"ok": 1}))
    async with driver(deployment) as client:
        operation = run_command()
        await client.run(operation)
        await client.run(operation)
        first, second, third = deployment["a:1"].commands()
        assert list(first) == ["ping", "lsid", "$db"]
        assert list(second) == list(third) == ["ping", "lsid", "$clusterTime", "$db"]
