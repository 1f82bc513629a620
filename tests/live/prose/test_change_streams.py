"""The prose tests of the change streams specification that a real server shows."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from motorlite import AsyncChangeStream, AsyncCollection, ReadPreference
from motorlite.errors import AutoReconnect, OperationFailure
from motorlite.monitoring import CommandSucceededEvent
from motorlite.testing import failpoints
from tests.support.clients import make_client
from tests.support.events import Recorder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from motorlite.testing import LocalServer
    from tests.live.conftest import Fail

pytestmark = pytest.mark.anyio

Document = dict[str, Any]
LABEL = "ResumableChangeStreamError"


class Watched:
    """A collection, and what its client sent."""

    def __init__(self, coll: AsyncCollection[Document], record: Recorder) -> None:
        self.coll = coll
        self.record = record

    async def insert(self, *ids: int) -> None:
        await self.coll.insert_many([{"_id": one} for one in ids])

    def stages(self) -> list[Mapping[str, Any]]:
        """The options of the $changeStream stage, of each aggregate command."""
        return [command["pipeline"][0]["$changeStream"] for command in self.record.commands("aggregate")]

    def batch_token(self) -> Any:
        """The postBatchResumeToken of the newest reply."""
        events = [event for event in self.record.events if isinstance(event, CommandSucceededEvent)]
        replies = [event.reply for event in events if event.command_name in ("aggregate", "getMore")]
        return replies[-1]["cursor"]["postBatchResumeToken"]


@asynccontextmanager
async def watched(server: LocalServer, name: str, **options: Any) -> AsyncIterator[Watched]:
    record = Recorder()
    async with make_client(server, event_listeners=[record], w="majority", **options) as client:
        coll = await client[name].create_collection("test")
        record.clear()
        yield Watched(coll, record)


async def empty(stream: AsyncChangeStream[Any]) -> None:
    """Read until a batch is empty."""
    while await stream.try_next() is not None:
        pass


async def test_1_continuously_tracks_the_last_seen_resume_token(replica_set: LocalServer, database_name: str) -> None:
    async with watched(replica_set, database_name) as it, await it.coll.watch(batch_size=3) as stream:
        await it.insert(1, 2, 3)
        for number in (1, 2):
            change = await stream.next()
            assert change["documentKey"] == {"_id": number}
            assert stream.resume_token == change["_id"]
        await stream.next()
        assert stream.resume_token == it.batch_token()


async def test_2_an_error_if_the_resume_token_is_missing(replica_set: LocalServer, database_name: str) -> None:
    async with watched(replica_set, database_name) as it, await it.coll.watch([{"$project": {"_id": 0}}]) as stream:
        await it.insert(1)
        with pytest.raises(OperationFailure) as caught:
            await stream.next()
        assert caught.value.code == 280
        assert not stream.alive


@pytest.mark.parametrize("error", [{"error_code": 6, "error_labels": [LABEL]}, {"close_connection": True}])
async def test_3_resumes_once_with_the_initial_pipeline_and_options(
    replica_set: LocalServer, database_name: str, fail: Fail, error: Document
) -> None:
    pipeline = [{"$match": {"operationType": "insert"}}]
    async with (
        watched(replica_set, database_name, retryReads=False) as it,
        await it.coll.watch(pipeline, "updateLookup", batch_size=2, comment="mine") as stream,
    ):
        await it.insert(1)
        await stream.next()
        token = stream.resume_token
        fail(replica_set, failpoints.fail_command(["getMore"], times=1, **error))
        await it.insert(2)
        assert (await stream.next())["documentKey"] == {"_id": 2}
        first, second = it.record.commands("aggregate")
        assert second["pipeline"] == [
            {"$changeStream": {"fullDocument": "updateLookup", "resumeAfter": token}},
            *pipeline,
        ]
        for field in ("aggregate", "cursor", "comment", "lsid"):
            assert first[field] == second[field]
        # The attempt itself is not repeated.
        fail(replica_set, failpoints.fail_command(["getMore", "aggregate"], close_connection=True))
        with pytest.raises(AutoReconnect):
            await stream.next()
        assert len(it.record.commands("aggregate")) == 3


@pytest.mark.parametrize("error", [{"error_code": 6, "error_labels": [LABEL]}, {"close_connection": True}])
async def test_4_no_resume_after_an_error_of_aggregate(
    replica_set: LocalServer, database_name: str, fail: Fail, error: Document
) -> None:
    async with watched(replica_set, database_name, retryReads=False) as it:
        fail(replica_set, failpoints.fail_command(["aggregate"], times=1, **error))
        with pytest.raises((OperationFailure, AutoReconnect)):
            await it.coll.watch()
        assert it.stages() == [{}]


async def test_6_selects_a_server_with_the_initial_read_preference(
    replica_set3: LocalServer, database_name: str, fail: Fail
) -> None:
    async with watched(replica_set3, database_name) as it:
        await it.insert(1)
        coll = it.coll.with_options(read_preference=ReadPreference.SECONDARY)
        async with await coll.watch() as stream:
            first = stream.address
            assert first is not None
            await it.insert(2)
            while (await stream.next())["documentKey"] != {"_id": 2}:
                pass  # a secondary may be behind
            before = len(it.stages())  # more than one, if the server closed the connection meanwhile
            fail(replica_set3, failpoints.fail_command(["getMore"], error_code=6, error_labels=[LABEL], times=1), first)
            await it.insert(3)
            await stream.next()
            assert len(it.stages()) == before + 1
            assert stream.address in await it.coll.database.client.secondaries


async def test_7_a_cursor_with_an_empty_first_batch_stays_open(replica_set: LocalServer, database_name: str) -> None:
    async with watched(replica_set, database_name) as it, await it.coll.watch() as stream:
        assert stream.cursor_id
        assert stream.alive
        await it.insert(1)
        assert (await stream.next())["documentKey"] == {"_id": 1}
        assert len(it.stages()) == 1


async def test_11_the_token_of_a_batch_that_is_empty_or_read(replica_set: LocalServer, database_name: str) -> None:
    async with watched(replica_set, database_name) as it, await it.coll.watch(max_await_time_ms=50) as stream:
        assert stream.resume_token == it.batch_token()
        await empty(stream)
        assert stream.resume_token == it.batch_token()
        await it.insert(1, 2)
        await stream.next()
        while len(stream._documents):
            await stream.next()
        assert stream.resume_token == it.batch_token()


async def test_13_the_token_in_the_middle_of_a_batch(replica_set: LocalServer, database_name: str) -> None:
    async with watched(replica_set, database_name) as it, await it.coll.watch() as stream:
        start = stream.resume_token
        await it.insert(1, 2, 3)
        async with await it.coll.watch(resume_after=start) as other:
            first, second = await other.next(), await other.next()
            assert other.resume_token == second["_id"] != first["_id"]


@pytest.mark.parametrize("option", ["start_after", "resume_after", None])
async def test_14_the_token_before_the_first_change(
    replica_set: LocalServer, database_name: str, option: str | None
) -> None:
    async with watched(replica_set, database_name) as it:
        async with await it.coll.watch() as stream:
            await it.insert(1, 2)
            token = (await stream.next())["_id"]
            time = (await stream.next())["clusterTime"]
        options: Document = {"start_at_operation_time": time} if option is None else {option: token}
        async with await it.coll.watch(**options) as stream:
            assert len(stream._documents) > 0
            assert stream.resume_token == (None if option is None else token)


async def test_17_start_after_without_a_change_stays_start_after(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    async with watched(replica_set, database_name) as it:
        async with await it.coll.watch() as stream:
            await it.insert(1)
            await stream.next()
            token = stream.resume_token
        async with await it.coll.watch(start_after=token) as stream:
            fail(replica_set, failpoints.fail_command(["getMore"], error_code=6, error_labels=[LABEL], times=1))
            await it.insert(2)
            await stream.next()
            assert "startAfter" in it.stages()[-1]
            assert "resumeAfter" not in it.stages()[-1]


async def test_18_start_after_with_a_change_becomes_resume_after(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    async with watched(replica_set, database_name) as it:
        async with await it.coll.watch() as stream:
            await it.insert(1)
            await stream.next()
            token = stream.resume_token
        async with await it.coll.watch(start_after=token) as stream:
            await it.insert(2)
            await stream.next()
            fail(replica_set, failpoints.fail_command(["getMore"], error_code=6, error_labels=[LABEL], times=1))
            await it.insert(3)
            await stream.next()
            assert "resumeAfter" in it.stages()[-1]
            assert "startAfter" not in it.stages()[-1]
