"""Change streams of real servers: what they report, and that nothing is lost while primaries die."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from bson.son import SON

from motorlite import ReadPreference
from motorlite.errors import ConnectionFailure, DuplicateKeyError, OperationFailure, PyMongoError
from motorlite.testing import failpoints
from tests.live.load import assert_nothing_left
from tests.support.clients import Client, make_client
from tests.support.events import Recorder
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite import AsyncChangeStream
    from motorlite.testing import LocalServer
    from tests.live.conftest import Fail

pytestmark = pytest.mark.anyio

PATIENT: dict[str, Any] = {"w": "majority", "connectTimeoutMS": 400, "heartbeatFrequencyMS": 500}
KILLS = 5


async def in_thread(function: Callable[..., Any], *args: Any) -> Any:
    return await anyio.to_thread.run_sync(function, *args)


def ids(changes: list[Any]) -> list[Any]:
    return [change["documentKey"]["_id"] for change in changes]


async def take(stream: AsyncChangeStream[Any], count: int) -> list[Any]:
    return [await stream.next() for _ in range(count)]


async def test_the_three_levels(replica_set: LocalServer, database_name: str) -> None:
    async with make_client(replica_set) as client:
        database = client[database_name]
        mine = [{"$match": {"ns.db": database_name}}]
        async with (
            await database.one.watch() as of_one,
            await database.watch() as of_all,
            await client.watch(mine) as everywhere,
        ):
            await database.other.insert_one({"_id": 1})
            await database.one.insert_one({"_id": 2})
            assert ids(await take(of_one, 1)) == [2]
            assert ids(await take(of_all, 2)) == ids(await take(everywhere, 2)) == [1, 2]


async def test_another_stream_continues(replica_set: LocalServer, database_name: str) -> None:
    async with make_client(replica_set) as client:
        coll = client[database_name].things
        async with await coll.watch(batch_size=2) as stream:
            await coll.insert_many([{"_id": number} for number in range(6)])
            assert ids(await take(stream, 3)) == [0, 1, 2]
            token = stream.resume_token
        for other in (coll.watch(resume_after=token), coll.watch(start_after=token)):
            async with other as stream:
                assert ids(await take(stream, 3)) == [3, 4, 5]
                await stream.try_next()
                assert stream.resume_token != token


async def test_an_invalidated_stream_ends(replica_set: LocalServer, database_name: str) -> None:
    async with make_client(replica_set) as client:
        coll = client[database_name].things
        async with await coll.watch() as stream:
            await coll.insert_one({"_id": 1})
            await coll.drop()
            found = [change["operationType"] async for change in stream]
            assert (found, stream.alive) == (["insert", "drop", "invalidate"], False)
            token = stream.resume_token
        with pytest.raises(OperationFailure):
            await coll.watch(resume_after=token)
        async with await coll.watch(start_after=token) as stream:
            await coll.insert_one({"_id": 2})
            assert ids(await take(stream, 1)) == [2]


async def test_documents_before_and_after(replica_set: LocalServer, database_name: str) -> None:
    async with make_client(replica_set) as client:
        coll = await client[database_name].create_collection("t", changeStreamPreAndPostImages={"enabled": True})
        await coll.insert_one({"_id": 1, "a": 1})
        async with await coll.watch(full_document="required", full_document_before_change="required") as stream:
            await coll.update_one({}, {"$set": {"a": 2}})
            change = await stream.next()
            assert (change["fullDocumentBeforeChange"], change["fullDocument"]) == (
                {"_id": 1, "a": 1},
                {"_id": 1, "a": 2},
            )


async def test_expanded_events(replica_set: LocalServer, database_name: str) -> None:
    async with make_client(replica_set) as client:
        coll = client[database_name].things
        async with await coll.watch(show_expanded_events=True) as stream:
            await coll.create_index("a")
            assert [change["operationType"] for change in await take(stream, 2)] == ["create", "createIndexes"]


@pytest.mark.parametrize("document_class", [dict, SON, RawBSONDocument])
async def test_documents_of_other_classes(
    document_class: Any, replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    async with make_client(replica_set) as client:
        options: CodecOptions[Any] = CodecOptions(document_class=document_class)
        coll = client[database_name].things.with_options(options)
        async with await coll.watch(batch_size=1) as stream:
            await coll.insert_many([{"_id": number} for number in range(3)])
            fail(replica_set, failpoints.fail_command(["getMore"], close_connection=True, times=2))
            found = await take(stream, 3)
            assert ids(found) == [0, 1, 2]
            assert all(type(change) is document_class for change in found)


async def test_a_raw_pipeline_is_read_to_the_first_empty_batch(replica_set: LocalServer, database_name: str) -> None:
    async with make_client(replica_set) as client:
        coll = client[database_name].things
        async with await coll.aggregate([{"$changeStream": {}}], maxAwaitTimeMS=50) as cursor:
            assert await cursor.to_list() == []
            await coll.insert_many([{"_id": 1}, {"_id": 2}])
            assert ids(await cursor.to_list(1)) == [1]
            assert ids(await cursor.to_list()) == [2]
            assert cursor.alive


async def test_a_limit_on_the_first_command_does_not_end_the_stream(
    replica_set: LocalServer, database_name: str
) -> None:
    """The server counts none of the time that getMore takes against the maxTimeMS of the aggregate command."""
    async with make_client(replica_set, defaultMaxTimeMS=200) as client:
        coll = client[database_name].things
        for limit in (None, 300):
            async with await coll.watch(max_await_time_ms=50, timeoutMS=limit) as stream:
                for _ in range(10):
                    assert await stream.try_next() is None
                assert stream.alive


async def test_steps_that_time_out_lose_nothing(replica_set: LocalServer, database_name: str, fail: Fail) -> None:
    async with make_client(replica_set) as client:
        coll = client[database_name].things
        async with await coll.watch(timeoutMS=400, max_await_time_ms=300) as stream:
            await coll.insert_many([{"_id": 1}, {"_id": 2}])
            assert ids(await take(stream, 1)) == [1]
            assert ids(await take(stream, 1)) == [2]
            fail(replica_set, failpoints.fail_command(["getMore"], block_ms=800, times=1))
            with pytest.raises(PyMongoError) as caught:
                await stream.next()
            assert caught.value.timeout
            await coll.insert_one({"_id": 3})
            assert ids(await take(stream, 1)) == [3]


@pytest.mark.parametrize("way", ["dropped", "closed", "cancelled"])
async def test_no_cursor_is_left(replica_set: LocalServer, database_name: str, way: str) -> None:
    async with make_client(replica_set) as client:
        coll = client[database_name].things
        await coll.insert_one({})
        stream = await coll.watch()
        with anyio.move_on_after(0.05):
            await stream.next()
        if way == "closed":
            await stream.close()
        if way == "cancelled":
            with anyio.move_on_after(0):
                await stream.close()
        del stream

        def open_cursors() -> list[Any]:
            pipeline = [{"$currentOp": {"idleCursors": True, "allUsers": True}}, {"$match": {"cursor": {"$exists": 1}}}]
            reply = replica_set.command({"aggregate": 1, "pipeline": pipeline, "cursor": {}})
            return [one for one in reply["cursor"]["firstBatch"] if one.get("ns") == coll.full_name]

        await until(lambda: not open_cursors())


async def test_reading_from_a_secondary(replica_set3: LocalServer, database_name: str) -> None:
    async with make_client(replica_set3, w=3) as client:
        coll = client[database_name].things
        await coll.insert_one({"_id": 0})
        secondary = coll.with_options(read_preference=ReadPreference.SECONDARY)
        async with await secondary.watch() as stream:
            await coll.insert_one({"_id": 1})
            assert ids(await take(stream, 1)) == [1]
            assert stream.address in await client.secondaries


class Writers:
    """Tasks that insert with ascending numbers, and what was acknowledged."""

    def __init__(self, client: Client, name: str) -> None:
        self.coll = client[name].inserts
        self.acknowledged: list[str] = []
        self.attempted: set[str] = set()
        self.is_over = False

    async def run(self, task: int) -> None:
        number = 0
        while not self.is_over:
            number += 1
            one = f"{task}-{number:06}"
            self.attempted.add(one)
            try:
                await self.coll.insert_one({"_id": one})
                self.acknowledged.append(one)
            except ConnectionFailure:
                await anyio.sleep(0.05)
            await anyio.sleep(0.002)

    async def more(self, count: int = 30) -> None:
        wanted = len(self.acknowledged) + count
        await until(lambda: len(self.acknowledged) >= wanted, 60)


async def read(client: Client, name: str, seen: list[str], started: anyio.Event) -> None:
    """Read until the document "last"; what fails is read again from the stream's own position."""
    async with client[name].inserts.watch(max_await_time_ms=200) as stream:
        while True:
            try:
                await stream
                started.set()
                async for change in stream:
                    seen.append(change["documentKey"]["_id"])
                    if seen[-1] == "last":
                        return
            except ConnectionFailure:
                assert stream.alive, "it resumes at the next step"


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_a_reader_sees_every_acknowledged_insert_while_primaries_are_killed(
    replica_set3: LocalServer, database_name: str
) -> None:
    """Each once, those of one writer in order; what was not acknowledged may be there or not, at most once."""
    seen: list[str] = []
    record = Recorder()
    async with make_client(replica_set3, **PATIENT, event_listeners=[record]) as reader:
        async with make_client(replica_set3, **PATIENT) as client:
            await client[database_name].inserts.insert_one({"_id": "first"})
            writers, started = Writers(client, database_name), anyio.Event()
            async with anyio.create_task_group() as group:
                group.start_soon(read, reader, database_name, seen, started)
                await started.wait()
                async with anyio.create_task_group() as writing:
                    for task in range(4):
                        writing.start_soon(writers.run, task)
                    for _ in range(KILLS):
                        await kill_primary(replica_set3, writers)
                    writers.is_over = True
                await until_inserted(client, database_name)
        assert seen.count("last") == 1
        seen.remove("last")
        assert len(seen) == len(set(seen))
        assert set(writers.acknowledged) <= set(seen) <= writers.attempted
        for task in range(4):
            mine = [one for one in seen if one.startswith(f"{task}-")]
            assert mine == sorted(mine)
        opened = [event for event in record.started_events if event.command_name == "aggregate"]
        assert len(opened) > KILLS
        await assert_nothing_left(reader)


async def kill_primary(server: LocalServer, writers: Writers) -> None:
    await writers.more()
    primary = await in_thread(server.wait_for_primary)
    await in_thread(server.kill, primary)
    await writers.more()
    await in_thread(server.restart, primary)
    await writers.more()


async def until_inserted(client: Client, name: str) -> None:
    while True:
        try:
            await client[name].inserts.insert_one({"_id": "last"})
        except ConnectionFailure:
            await anyio.sleep(0.1)
        except DuplicateKeyError:
            return  # the attempt before had succeeded
        else:
            return
