"""Sessions: implicit ones that are reused, causal consistency, and writes that are applied once."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from bson import Timestamp

from motorlite import ReadConcern, SessionOptions, WriteConcern
from motorlite.errors import AutoReconnect, ConfigurationError, InvalidOperation
from motorlite.read_preferences import Secondary
from motorlite.testing import failpoints
from tests.live.clients import numbered
from tests.support.clients import make_client
from tests.support.events import Recorder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from motorlite.testing import LocalServer
    from tests.live.conftest import Fail

pytestmark = pytest.mark.anyio


# --- implicit sessions ---


async def test_one_after_the_other_they_share_one_session(deployment: LocalServer, database_name: str) -> None:
    record = Recorder()
    async with make_client(deployment, event_listeners=[record]) as client:
        collection = client[database_name].c
        await collection.insert_many(numbered(10))
        for _ in range(5):
            await collection.find_one()
            await collection.find(batch_size=4).to_list()
            await collection.update_one({}, {"$set": {"a": 1}})
            await client[database_name].command("ping")
        assert len(record.names) > 20
        assert len(record.session_ids) == 1
        assert client.stats().sessions == 1


async def test_at_once_they_need_as_many_as_there_are_connections(deployment: LocalServer, database_name: str) -> None:
    record = Recorder()
    async with make_client(deployment, maxPoolSize=3, event_listeners=[record]) as client:
        collection = client[database_name].c
        async with anyio.create_task_group() as tasks:
            for _ in range(60):
                tasks.start_soon(collection.find_one)
        assert len(record.names) == 60
        assert 1 <= len(record.session_ids) <= 3


async def test_an_open_cursor_keeps_its_session_until_its_end(deployment: LocalServer, database_name: str) -> None:
    record = Recorder()
    async with make_client(deployment, event_listeners=[record]) as client:
        collection = client[database_name].c
        await collection.insert_many(numbered(10))
        record.clear()
        cursor = await collection.find(batch_size=2)
        await collection.find_one()
        first, second = (event.command["lsid"] for event in record.started_events)
        assert first != second
        await cursor.to_list()
        assert {str(command["lsid"]) for command in record.commands("getMore")} == {str(first)}
        assert client.stats().sessions == 2
        exhausted = await collection.find()
        assert exhausted.cursor_id == 0
        assert client.stats().sessions == 2


async def test_unacknowledged_writes_have_none(deployment: LocalServer, database_name: str) -> None:
    record = Recorder()
    async with make_client(deployment, event_listeners=[record]) as client:
        silent = client[database_name].c.with_options(write_concern=WriteConcern(w=0))
        await silent.insert_one({})
        await silent.update_many({}, {"$set": {"a": 1}})
        assert all("lsid" not in event.command for event in record.started_events)
        async with client.start_session() as session:
            with pytest.raises(ConfigurationError, match="unacknowledged"):
                await silent.insert_one({}, session=session)


async def test_close_ends_all_sessions_on_the_server(replica_set: LocalServer, database_name: str) -> None:
    record = Recorder()
    async with make_client(replica_set, event_listeners=[record]) as client:
        collection = client[database_name].c
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(collection.insert_one, {})
        used = record.session_ids
        assert record.names == ["insert"] * 4
    (ended,) = record.commands("endSessions")
    assert {lsid["id"] for lsid in ended["endSessions"]} == used
    assert record.history[-1] == "succeeded endSessions"


# --- explicit sessions ---


async def test_an_explicit_session_is_that_of_all_its_operations(deployment: LocalServer, database_name: str) -> None:
    record = Recorder()
    async with make_client(deployment, event_listeners=[record]) as client:
        collection = client[database_name].c
        async with client.start_session() as session:
            await collection.insert_many(numbered(10), session=session)
            await collection.find_one(session=session)
            await collection.find(batch_size=3, session=session).to_list()
            await collection.aggregate([], session=session).to_list()
            await collection.update_one({}, {"$set": {"a": 1}}, session=session)
            await client[database_name].command("ping", session=session)
            await collection.create_index("a", session=session)
            await collection.drop(session=session)
            assert record.session_ids == {session.session_id["id"]}
            assert session.cluster_time is not None or not deployment.replica_set
        assert session.has_ended
        with pytest.raises(InvalidOperation, match="ended"):
            await collection.find_one(session=session)
        with pytest.raises(InvalidOperation, match="ended"):
            _ = session.session_id
        await session.end_session()
        # Its server session is used again.
        record.clear()
        await collection.find_one()
        assert client.stats().sessions == 1


async def test_a_session_of_another_client_is_refused(deployment: LocalServer, database_name: str) -> None:
    async with make_client(deployment) as one, make_client(deployment) as other, one.start_session() as session:
        with pytest.raises(InvalidOperation, match="Client that started it"):
            await other[database_name].c.find_one(session=session)
        wrong: Any = "session"
        with pytest.raises(TypeError, match="session"):
            await one[database_name].c.find_one(session=wrong)


# --- causal consistency ---


async def test_reads_come_after_the_session_s_earlier_operations(replica_set: LocalServer, database_name: str) -> None:
    record = Recorder()
    async with make_client(replica_set, event_listeners=[record]) as client:
        collection = client[database_name].c
        async with client.start_session() as session:
            assert session.operation_time is None
            await collection.insert_one({"_id": 1}, session=session)
            written = session.operation_time
            assert isinstance(written, Timestamp)
            await collection.find_one(session=session)
            await collection.with_options(read_concern=ReadConcern("majority")).find_one(session=session)
            first, second = record.commands("find")
            assert first["readConcern"] == {"afterClusterTime": written}
            assert second["readConcern"]["level"] == "majority"
            assert second["readConcern"]["afterClusterTime"] >= written
            assert "afterClusterTime" not in record.commands("insert")[0].get("readConcern", {})
        async with client.start_session(causal_consistency=False) as session:
            assert session.options.causal_consistency is SessionOptions(False).causal_consistency
            record.clear()
            await collection.insert_one({}, session=session)
            await collection.find_one(session=session)
            assert "readConcern" not in record.commands("find")[0]


async def test_a_secondary_shows_what_the_session_wrote(replica_set3: LocalServer, database_name: str) -> None:
    async with make_client(replica_set3, w=1) as client:
        collection = client[database_name].c
        from_secondary = collection.with_options(read_preference=Secondary())
        async with client.start_session() as session:
            for number in range(20):
                await collection.insert_one({"_id": number}, session=session)
                assert await from_secondary.find_one({"_id": number}, session=session) == {"_id": number}


async def test_one_session_learns_from_another(replica_set: LocalServer, database_name: str) -> None:
    record = Recorder()
    async with (
        make_client(replica_set, event_listeners=[record]) as client,
        client.start_session() as first,
        client.start_session() as second,
    ):
        await client[database_name].c.insert_one({}, session=first)
        assert first.cluster_time is not None
        assert first.operation_time is not None
        second.advance_cluster_time(first.cluster_time)
        second.advance_operation_time(first.operation_time)
        await client[database_name].c.find_one(session=second)
        found = record.commands("find")[0]
        assert found["readConcern"] == {"afterClusterTime": first.operation_time}
        assert found["$clusterTime"]["clusterTime"] >= first.cluster_time["clusterTime"]
        wrong: Any = {"clusterTime": 5}
        with pytest.raises(ValueError, match="clusterTime"):
            second.advance_cluster_time(wrong)


async def test_the_cluster_time_is_gossiped_by_all_operations(replica_set: LocalServer, database_name: str) -> None:
    record = Recorder()
    async with make_client(replica_set, event_listeners=[record]) as client:
        for _ in range(3):
            await client[database_name].c.insert_one({})
        times = [command["$clusterTime"]["clusterTime"] for command in record.commands("insert")[1:]]
        assert times == sorted(times)
        assert times[0] < times[1]


# --- retryable writes ---

WRITES: dict[str, tuple[str, Callable[[Any], Awaitable[Any]]]] = {
    "insert_one": ("insert", lambda c: c.insert_one({"_id": 9})),
    "insert_many": ("insert", lambda c: c.insert_many([{"_id": 8}, {"_id": 9}])),
    "update_one": ("update", lambda c: c.update_one({"_id": 1}, {"$inc": {"n": 1}})),
    "replace_one": ("update", lambda c: c.replace_one({"_id": 1}, {"n": 1})),
    "delete_one": ("delete", lambda c: c.delete_one({})),
    "find_one_and_update": ("findAndModify", lambda c: c.find_one_and_update({"_id": 1}, {"$inc": {"n": 1}})),
    "find_one_and_delete": ("findAndModify", lambda c: c.find_one_and_delete({})),
}


@pytest.mark.parametrize("write", WRITES)
async def test_a_write_whose_reply_was_lost_is_applied_once(
    replica_set: LocalServer, database_name: str, fail: Fail, write: str
) -> None:
    command, call = WRITES[write]
    record = Recorder()
    async with make_client(replica_set, event_listeners=[record]) as client:
        collection = client[database_name].c
        await collection.insert_many([{"_id": 1, "n": 0}, {"_id": 2, "n": 0}])
        expected_names = client[database_name].expected
        await expected_names.insert_many([{"_id": 1, "n": 0}, {"_id": 2, "n": 0}])
        expected = await call(expected_names)
        # The server executes it, and its answer says that it cannot tell whether that will last.
        error = {"code": 262, "errmsg": "lost", "errorLabels": ["RetryableWriteError"]}
        document = failpoints.fail_command(
            [command], write_concern_error=error, error_labels=["RetryableWriteError"], times=1
        )
        fail(replica_set, document)
        record.clear()
        actual = await call(collection)
        sent = record.commands(command)
        assert len(sent) == 2
        assert sent[0]["txnNumber"] == sent[1]["txnNumber"]
        assert sent[0]["lsid"] == sent[1]["lsid"]
        assert [event.reason for event in record.retries] == ["temporary failure"]
        everything = await collection.find().sort("_id").to_list()
        assert everything == await expected_names.find().sort("_id").to_list()
        if write.startswith("find_one"):
            assert actual == expected


async def test_a_closed_connection_is_one_ordinary_retry(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    record = Recorder()
    async with make_client(replica_set, event_listeners=[record]) as client:
        collection = client[database_name].c
        await collection.insert_one({"_id": 1, "n": 0})
        namespace = f"{database_name}.c"
        fail(replica_set, failpoints.fail_command(["update"], close_connection=True, times=1, namespace=namespace))
        record.clear()
        result = await collection.update_one({"_id": 1}, {"$inc": {"n": 1}})
        assert result.modified_count == 1
        assert [event.reason for event in record.retries] == ["connection lost in flight"]
        first, second = record.commands("update")
        assert (first["txnNumber"], first["lsid"]) == (second["txnNumber"], second["lsid"])
        replica_set.command(failpoints.fail_command(["update"], close_connection=True, times=2, namespace=namespace))
        with pytest.raises(AutoReconnect) as caught:
            await collection.update_one({"_id": 1}, {"$inc": {"n": 1}})
        assert (caught.value.attempts, caught.value.retry_refusal) == (2, "attempts")
        assert "RetryableWriteError" in caught.value.error_labels
        # A session that was used on a connection that failed is not used again.
        lsid = record.commands("update")[-1]["lsid"]
        await collection.find_one()
        assert record.commands("find")[-1]["lsid"] != lsid


@pytest.mark.parametrize("options", [{"retryWrites": False}, {}])
async def test_what_is_not_retryable_is_not_retried_after_a_lost_connection(
    replica_set: LocalServer, database_name: str, fail: Fail, options: dict[str, Any]
) -> None:
    record = Recorder()
    async with make_client(replica_set, event_listeners=[record], **options) as client:
        collection = client[database_name].c
        await collection.find_one()
        namespace = f"{database_name}.c"
        fail(replica_set, failpoints.fail_command(["update"], close_connection=True, times=1, namespace=namespace))
        update = collection.update_one if options else collection.update_many
        with pytest.raises(AutoReconnect) as caught:
            await update({}, {"$set": {"a": 1}})
        assert caught.value.attempts == 1
        assert "txnNumber" not in record.commands("update")[0]


async def test_each_write_of_a_session_has_the_next_number(replica_set: LocalServer, database_name: str) -> None:
    record = Recorder()
    async with make_client(replica_set, event_listeners=[record]) as client:
        for number in range(4):
            await client[database_name].c.insert_one({"_id": number})
            await client[database_name].c.find_one()
        assert [command["txnNumber"] for command in record.commands("insert")] == [1, 2, 3, 4]
        assert all("txnNumber" not in command for command in record.commands("find"))


@pytest.mark.parametrize("is_bound", [True, False])
async def test_writes_at_the_same_time_in_one_session(
    replica_set: LocalServer, database_name: str, is_bound: bool
) -> None:
    async with make_client(replica_set) as client, client.start_session() as session:
        collection = client[database_name].c

        async def upsert(number: int) -> None:
            chosen = None if is_bound else session
            await collection.update_one({"_id": number}, {"$inc": {"n": 1}}, upsert=True, session=chosen)

        async with session.bind(), anyio.create_task_group() as tasks:
            for number in range(300):
                tasks.start_soon(upsert, number)
        assert await collection.count_documents({"n": 1}) == 300


async def test_a_standalone_server_has_no_retryable_writes(
    standalone: LocalServer, database_name: str, fail: Fail
) -> None:
    record = Recorder()
    async with make_client(standalone, event_listeners=[record]) as client:
        collection = client[database_name].c
        await collection.insert_one({"_id": 1})
        assert "txnNumber" not in record.commands("insert")[0]
        assert "lsid" in record.commands("insert")[0]
        fail(standalone, failpoints.fail_command(["insert"], close_connection=True, times=1))
        with suppress(AutoReconnect):
            await collection.insert_one({"_id": 2})
        assert [event.refusal for event in record.retries] == ["not retryable"]


async def test_a_read_is_retried_once_after_a_lost_connection(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    record = Recorder()
    async with make_client(replica_set, event_listeners=[record]) as client:
        collection = client[database_name].c
        await collection.insert_one({"_id": 1})
        fail(replica_set, failpoints.fail_command(["find"], close_connection=True, times=1))
        assert await collection.find_one() == {"_id": 1}
        assert [event.reason for event in record.retries] == ["connection lost in flight"]
        await collection.insert_many(numbered(10)[2:])
        cursor = await collection.find(batch_size=2)
        replica_set.command(failpoints.fail_command(["getMore"], close_connection=True, times=1))
        with pytest.raises(AutoReconnect):
            await cursor.to_list()
