"""Change streams of real servers: what they report, and that nothing is lost while primaries die."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite.errors import ConnectionFailure, DuplicateKeyError, OperationFailure
from tests.live.clients import open_cursors
from tests.live.load import assert_nothing_left, kill_primary
from tests.support.clients import Client, make_client
from tests.support.events import Recorder
from tests.support.waiting import until

if TYPE_CHECKING:
    from motorlite import AsyncChangeStream
    from motorlite.testing import LocalServer

pytestmark = pytest.mark.anyio

PATIENT: dict[str, Any] = {"w": "majority", "connectTimeoutMS": 400, "heartbeatFrequencyMS": 500}
KILLS = 2


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
        await until(lambda: open_cursors(replica_set, coll.full_name) == 0)


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
                        await kill_primary(replica_set3, writers.more)
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
