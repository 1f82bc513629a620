"""Replies that are decoded in slices: whatever reads them gets the same, and leaving in between loses nothing.

A reply of a megabyte takes four slices.
"""

from __future__ import annotations

import gc
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import bson
import pytest
from bson.codec_options import CodecOptions, TypeDecoder, TypeRegistry
from bson.errors import InvalidBSON

from motorlite import CursorType
from motorlite._connection.decoding import Decoder
from motorlite.errors import InvalidOperation
from motorlite.monitoring import CommandFailedEvent, CommandStartedEvent, CommandSucceededEvent
from motorlite.testing.cancellation import cancel_at
from motorlite.testing.scripted import ScriptedDeployment
from tests.support.cancellation import settle
from tests.support.change_log import ChangeLog, token
from tests.support.clients import scripted_client
from tests.support.events import Recorder
from tests.support.kept_errors import garbage, without_collector

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from motorlite.testing.scripted import ScriptedServer
    from tests.support.clients import Client

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

COUNT = 100
SLICES = 4
"""Documents in a batch, and slices that it takes."""


def documents(start: int = 0) -> list[dict[str, Any]]:
    return [{"_id": start + number, "text": "x" * 10_300} for number in range(COUNT)]


def batch(field: str, start: int, cursor_id: int) -> dict[str, Any]:
    return {"cursor": {"id": cursor_id, "ns": "db.coll", field: documents(start)}}


FIRST, SECOND, LAST = batch("firstBatch", 0, 7), batch("nextBatch", 100, 7), batch("nextBatch", 200, 0)
ALL = [*documents(0), *documents(100), *documents(200)]


class Scene:
    def __init__(self, client: Client, server: ScriptedServer, recorder: Recorder) -> None:
        self.client = client
        self.coll: Any = client.db.coll
        self.server = server
        self.recorder = recorder

    def names(self) -> list[str]:
        return [item.name for item in self.server.received]

    def in_use(self) -> int:
        return sum(stats.in_use + stats.pending for stats in self.client.stats().servers.values())

    def idle(self) -> int:
        return sum(stats.idle for stats in self.client.stats().servers.values())


@asynccontextmanager
async def scenery(**options: Any) -> AsyncIterator[Scene]:
    services = options.pop("services", 0)
    deployment = ScriptedDeployment(["a:1"], replica_set=None if services else "rs", services=services)
    server = deployment.services[0] if services else deployment["a:1"]
    for name in ("find", "aggregate", "listIndexes", "listCollections", "listDatabases"):
        server.on(name, FIRST)
    server.on("getMore", *[SECOND, LAST] * 50)
    recorder = Recorder()
    async with scripted_client(deployment, event_listeners=[recorder], **options) as client:
        await client.aconnect(timeoutMS=0)
        yield Scene(client, server, recorder)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with scenery() as found:
        yield found


async def iterated(cursor: Any) -> list[Any]:
    return [document async for document in cursor]


async def raw(cursor: Any) -> list[Any]:
    return [document for each in await cursor.to_list() for document in bson.decode_all(each)]


READERS: dict[str, Callable[[Any], Any]] = {
    "find, to_list": lambda coll: coll.find().to_list(),
    "find, async for": lambda coll: iterated(coll.find()),
    "aggregate, to_list": lambda coll: coll.aggregate([]).to_list(),
    "aggregate, async for": lambda coll: iterated(coll.aggregate([])),
    "prefetch": lambda coll: coll.find(prefetch=1).to_list(),
    "exhaust": lambda coll: coll.find(cursor_type=CursorType.EXHAUST).to_list(),
    "list_indexes": lambda coll: coll.list_indexes().to_list(),
    "list_collections": lambda coll: coll.database.list_collections().to_list(),
    "cursor_command": lambda coll: coll.database.cursor_command("find", "coll").to_list(),
    "raw batches": lambda coll: raw(coll.find_raw_batches()),
}


@pytest.mark.parametrize("reader", READERS)
async def test_all_documents_arrive(scene: Scene, reader: str) -> None:
    found = await READERS[reader](scene.coll)
    assert [dict(document) for document in found] == ALL
    replies = [event.reply["cursor"] for event in scene.recorder.of(CommandSucceededEvent)]
    expected = [FIRST["cursor"], SECOND["cursor"], LAST["cursor"]]
    if reader == "raw batches":
        expected = [
            {
                name: list(map(bson.encode, value)) if isinstance(value, list) else value
                for name, value in cursor.items()
            }
            for cursor in expected
        ]
    assert replies == expected, "the whole replies"
    assert scene.in_use() == 0
    assert gc.isenabled()


# --- leaving in between ---


async def at_every_point(once: Callable[[int], Awaitable[bool]]) -> None:
    """Cancel at one point after the other, until the work ends before it is reached."""
    point = 1
    while await once(point):
        point += 1
    assert point > SLICES


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("services", [0, 1], ids=["replica set", "load balanced"])
async def test_cancelled_while_the_cursor_opens(services: int, late: bool) -> None:
    async with scenery(services=services) as scene:

        async def once(point: int) -> bool:
            await settle(lambda: anyio.sleep(3))
            scene.server.received.clear()
            cursor = scene.coll.find()
            reached = await cancel_at(lambda: cursor.to_list(COUNT), point, late=late)
            assert gc.isenabled()
            await settle(lambda: anyio.sleep(3))
            # Behind a load balancer, an open cursor has its connection.
            assert scene.in_use() == (0 if reached or not services else 1)
            if reached and scene.names():  # else there was no connection yet
                assert scene.names() == (["find"] if services else ["find", "killCursors"])
                assert all(command["cursors"] == [7] for command in scene.server.commands("killCursors"))
                assert scene.idle() == (0 if services else 1)
            await cursor.close()
            # It was not opened, so another one is.
            assert await scene.coll.find().to_list(1) == documents()[:1]
            return reached

        await at_every_point(once)


@pytest.mark.parametrize("late", [False, True])
async def test_cancelled_while_a_batch_arrives(scene: Scene, late: bool) -> None:
    async def once(point: int) -> bool:
        scene.server.on("getMore", *[SECOND, LAST] * 50)
        cursor = scene.coll.find()
        await cursor.to_list(COUNT)
        scene.server.received.clear()
        reached = await cancel_at(cursor.to_list, point, late=late)
        assert gc.isenabled()
        if reached:
            # As after any other getMore that was cancelled: documents may be missing, and it says so.
            with pytest.raises(InvalidOperation, match="a getMore failed or was cancelled"):
                await cursor.next()
            await cursor.close()
            await settle(lambda: anyio.sleep(3))
            assert scene.names()[-1] == "killCursors"
        assert (scene.in_use(), scene.idle()) == (0, 1)
        return reached

    await at_every_point(once)


async def test_cancelled_while_an_exhaust_cursor_reads(scene: Scene) -> None:
    async def once(point: int) -> bool:
        scene.server.on("getMore", *[SECOND, LAST])
        cursor = scene.coll.find(cursor_type=CursorType.EXHAUST)
        await cursor.to_list(COUNT)
        reached = await cancel_at(cursor.to_list, point, late=False)
        # The server goes on sending, so the connection is closed, or it has sent everything.
        await cursor.close()
        await settle(lambda: anyio.sleep(3))
        assert scene.in_use() == 0
        await scene.client.db.command("ping")
        return reached

    await at_every_point(once)


async def test_cancelled_in_a_transaction(scene: Scene) -> None:
    async def once(point: int) -> bool:
        async with scene.client.start_session() as session:
            await session.start_transaction()
            reached = await cancel_at(lambda: scene.coll.find(session=session).to_list(COUNT), point, late=False)
            await session.abort_transaction()
        await settle(lambda: anyio.sleep(3))
        assert scene.in_use() == 0
        return reached

    scene.server.on("abortTransaction", {"ok": 1})
    await at_every_point(once)


async def test_a_cancelled_command_has_failed(scene: Scene) -> None:
    await scene.coll.find_one()
    await cancel_at(lambda: scene.coll.find().to_list(), 3, late=False)
    started, ended = scene.recorder.of(CommandStartedEvent, CommandFailedEvent)[-2:]
    assert isinstance(started, CommandStartedEvent)
    assert isinstance(ended, CommandFailedEvent)
    assert (started.command_name, started.request_id) == ("find", ended.request_id)


@pytest.mark.parametrize("late", [False, True])
async def test_a_change_stream_loses_no_change(late: bool) -> None:
    log = ChangeLog(60, batch=20)
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    log.serve(deployment["a:1"])

    def large(answer: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def answers(command: Any) -> Any:
            reply = answer(command)
            for change in (getattr(reply, "document", reply)["cursor"] or {}).get("nextBatch", ()):
                change["text"] = "x" * 50_000
            return reply

        return answers

    deployment["a:1"].on("getMore", large(log.get_more))
    async with scripted_client(deployment) as client:
        await client.aconnect(timeoutMS=0)

        async def once(point: int) -> bool:
            async with client.db.coll.watch(resume_after=token(0)) as stream:
                reached = await cancel_at(lambda: stream.to_list(50), point, late=late)
                rest = await stream.to_list(60)
                found = [each["fullDocument"]["_id"] for each in rest]
                assert found == list(range(1 if reached else 51, 61))
            return reached

        await at_every_point(once)


async def test_a_deadline_that_passes_between_slices_ends_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It limits waiting for the server, whose reply is there."""
    decode = Decoder.decode

    async def slowly(self: Decoder, *args: Any) -> Any:
        return await decode(Decoder(lambda _: anyio.sleep(1), pauses_collector=True), *args)

    monkeypatch.setattr(Decoder, "decode", slowly)
    assert await scene.coll.find(timeoutMS=500).to_list(COUNT) == documents(0)


# --- what cannot be decoded ---


async def test_a_value_that_python_cannot_represent(scene: Scene) -> None:
    rejected = documents(100)
    rejected[COUNT - 1]["text"] = b"\xff"
    reply = {"cursor": {"id": 7, "ns": "db.coll", "nextBatch": rejected}}

    class Reject(TypeDecoder):
        bson_type = bytes

        def transform_bson(self, value: bytes) -> str:
            return value.decode()

    scene.server.on("getMore", reply)
    options = CodecOptions[Any](type_registry=TypeRegistry([Reject()]))
    cursor = scene.coll.with_options(codec_options=options).find()
    assert len(await cursor.to_list(COUNT)) == COUNT
    # With the batch, not with the document.
    with pytest.raises(InvalidBSON):
        await cursor.next()
    with pytest.raises(InvalidOperation):
        await cursor.next()
    await cursor.close()
    await settle(lambda: anyio.sleep(3))
    assert scene.names() == ["find", "getMore", "killCursors"]
    assert (scene.in_use(), scene.idle()) == (0, 1)


async def test_no_error_keeps_a_reply_alive(scene: Scene) -> None:
    await scene.coll.find_one()
    with without_collector():
        await cancel_at(lambda: scene.coll.find().to_list(), 3, late=False)
        await settle()
    assert not garbage()
