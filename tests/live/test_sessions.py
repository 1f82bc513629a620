"""Sessions: causal consistency, and writes that are applied once. tests/sim has what their commands carry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite.read_preferences import Secondary
from motorlite.testing import failpoints
from tests.support.clients import make_client
from tests.support.events import Recorder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from motorlite.testing import LocalServer
    from tests.live.conftest import Fail

pytestmark = pytest.mark.anyio


async def test_a_secondary_shows_what_the_session_wrote(replica_set3: LocalServer, database_name: str) -> None:
    async with make_client(replica_set3, w=1) as client:
        collection = client[database_name].c
        from_secondary = collection.with_options(read_preference=Secondary())
        async with client.start_session() as session:
            for number in range(20):
                await collection.insert_one({"_id": number}, session=session)
                assert await from_secondary.find_one({"_id": number}, session=session) == {"_id": number}


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
