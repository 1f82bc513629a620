"""Exhaust cursors: one getMore, then a stream of batches on a connection of their own."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite import CursorType
from motorlite.errors import AutoReconnect, InvalidOperation, NetworkTimeout, OperationFailure, PyMongoError
from motorlite.monitoring import CommandStartedEvent, CommandSucceededEvent
from motorlite.testing.cancellation import cancel_at
from motorlite.testing.scripted import Close, Hang, Reply, ScriptedDeployment, failure, overloaded
from tests.support.cancellation import settle
from tests.support.clients import scripted_client
from tests.support.events import Recorder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from motorlite import AsyncCursor
    from motorlite.stats import ServerStats
    from motorlite.testing.scripted import Answer, ScriptedServer
    from tests.support.clients import Client

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

FIRST = {"cursor": {"id": 7, "ns": "db.coll", "firstBatch": [{"_id": 0}]}}
LAST = {"cursor": {"id": 0, "ns": "db.coll", "nextBatch": [{"_id": 9}]}}


def more(*identifiers: int) -> dict[str, Any]:
    return {"cursor": {"id": 7, "ns": "db.coll", "nextBatch": [{"_id": each} for each in identifiers]}}


class Scene:
    def __init__(self, client: Client, server: ScriptedServer, recorder: Recorder) -> None:
        self.client = client
        self.server = server
        self.recorder = recorder

    def find(self, **options: Any) -> AsyncCursor[dict[str, Any]]:
        return self.client.db.coll.find(cursor_type=CursorType.EXHAUST, **options)

    @property
    def stats(self) -> ServerStats:
        (stats,) = self.client.stats().servers.values()
        return stats

    def names(self) -> list[str]:
        return [item.name for item in self.server.received]

    def connections(self) -> list[int]:
        """The connections of the received commands, the first one being 0."""
        numbers = [item.connection for item in self.server.received]
        return [number - numbers[0] for number in numbers]


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    server = deployment["a:1"]
    server.on("find", FIRST)
    server.on("getMore", more(1, 2), more(3), more(), LAST)
    recorder = Recorder()
    async with scripted_client(deployment, event_listeners=[recorder]) as client:
        yield Scene(client, server, recorder)


async def ids(cursor: Any) -> list[int]:
    return [document["_id"] async for document in cursor]


@pytest.mark.parametrize(
    ("batches", "options", "found", "get_mores"),
    [
        ([more(1, 2), more(3), more(), LAST], {}, [0, 1, 2, 3, 9], 1),
        ([more(1, 2), more(3), more(), LAST], {"prefetch": 1}, [0, 1, 2, 3, 9], 1),
        # Servers may answer each getMore with one reply.
        ([Reply(more(1)), Reply(LAST)], {}, [0, 1, 9], 2),
        ([overloaded(), more(1), LAST], {}, [0, 1, 9], 2),
        ([], {}, [0], 0),
    ],
    ids=["stream", "prefetch", "no stream", "overload", "a single batch"],
)
async def test_batches_arrive_without_requests(
    scene: Scene, batches: list[Any], options: dict[str, Any], found: list[int], get_mores: int
) -> None:
    if not batches:
        scene.server.on("find", {"cursor": {**FIRST["cursor"], "id": 0}})
    scene.server.on("getMore", *batches)
    assert await ids(scene.find(batch_size=2, comment="c", **options)) == found
    assert scene.names() == ["find"] + ["getMore"] * get_mores
    assert all(command["batchSize"] == 2 for command in scene.server.commands("getMore"))
    assert (scene.stats.in_use, scene.stats.idle) == (0, 1)
    # Afterwards the connection is used again.
    scene.server.on("getMore", LAST)
    await scene.client.db.command("ping")
    await ids(scene.client.db.coll.find())
    assert set(scene.connections()) == {0}


async def test_others_get_connections_of_their_own(scene: Scene) -> None:
    cursor = scene.find()
    assert (await cursor.next())["_id"] == 0
    assert (await cursor.next())["_id"] == 1
    await scene.client.db.command("ping")
    assert scene.names() == ["find", "getMore", "ping"]
    assert scene.connections() == [0, 0, 1]
    assert await ids(cursor) == [2, 3, 9]


async def test_each_batch_has_its_events(scene: Scene) -> None:
    await ids(scene.find())
    commands = (CommandStartedEvent, CommandSucceededEvent)
    found = [(type(event).__name__, event.command_name) for event in scene.recorder.of(*commands)]
    assert found == [
        (kind.__name__, name) for name in ("find", "getMore", "getMore", "getMore", "getMore") for kind in commands
    ]


async def test_none_in_a_transaction(scene: Scene) -> None:
    """Its commands follow one another on connections of the transaction's choice."""
    async with scene.client.start_session() as session, await session.start_transaction():
        with pytest.raises(InvalidOperation, match="an exhaust cursor cannot be opened in a transaction"):
            await ids(scene.find(session=session))
    assert scene.names() == []


# --- the end ---


async def test_closed_before_the_stream_begins(scene: Scene) -> None:
    cursor = scene.find()
    await cursor.next()
    await cursor.close()
    assert scene.names() == ["find", "killCursors"]
    assert scene.connections() == [0, 0]
    assert (scene.stats.in_use, scene.stats.idle) == (0, 1)


@pytest.mark.parametrize("how", ["close", "drop"])
async def test_a_stream_ends_with_its_connection(scene: Scene, how: str) -> None:
    cursor = scene.find()
    await cursor.next()
    await cursor.next()
    if how == "close":
        await cursor.close()
    del cursor
    await anyio.sleep(1)
    # The server drops the cursor with the connection.
    assert scene.names() == ["find", "getMore"]
    assert (scene.stats.in_use, scene.stats.idle) == (0, 0)
    assert len(scene.server.open_connections) == 1, "only that of the monitor"
    await scene.client.db.command("ping")


@pytest.mark.parametrize(("answer", "kind"), [(failure(2), OperationFailure), (Hang(), NetworkTimeout)])
async def test_an_error_in_the_stream(scene: Scene, answer: Answer, kind: type[PyMongoError]) -> None:
    scene.server.on("getMore", more(1), answer)
    cursor = scene.find(timeoutMS=500)
    with pytest.raises(kind) as caught:
        await ids(cursor)
    assert caught.value.timeout is (kind is NetworkTimeout)
    # The connection goes back at once, as the program may not close the cursor.
    await anyio.sleep(1)
    assert (scene.stats.in_use, scene.stats.pending) == (0, 0)
    await cursor.close()
    assert scene.names() == ["find", "getMore", "killCursors"]
    assert scene.connections() == [0, 0, 1 if kind is NetworkTimeout else 0]


@pytest.mark.parametrize("how", ["close", "drop", "read"])
async def test_a_connection_that_is_lost_before_the_stream_begins(scene: Scene, how: str) -> None:
    await scene.client.db.command("ping")
    cursor = scene.find()
    await cursor.next()
    scene.server.drop_connections()
    if how == "close":
        await cursor.close()
    elif how == "read":
        with pytest.raises(AutoReconnect):
            await cursor.next()
    del cursor
    gc.collect()
    await anyio.sleep(1)
    assert scene.names() == ["ping", "find", "killCursors"], "any connection reaches the cursor"
    assert scene.stats.in_use == 0


@pytest.mark.parametrize("answers", [[more(1), Close()], [Close()]], ids=["in the stream", "before it"])
async def test_a_lost_connection(scene: Scene, answers: list[Answer]) -> None:
    scene.server.on("getMore", *answers)
    cursor = scene.find()
    with pytest.raises(AutoReconnect):
        await ids(cursor)
    assert not cursor.alive, "a program that goes on while it is alive would never end"
    assert scene.stats.in_use == 0
    with pytest.raises(InvalidOperation, match="the cursor cannot continue"):
        await cursor.next()
    await anyio.sleep(1)
    assert scene.names() == ["find", "getMore", "killCursors"]


@pytest.mark.parametrize("answers", [[overloaded()] * 6, [Close()]], ids=["overload", "lost connection"])
@pytest.mark.parametrize("how", ["close", "drop"])
async def test_a_kill_that_fails_is_repeated(scene: Scene, answers: list[Answer], how: str) -> None:
    """Any connection reaches the cursor, which the server kept for ten minutes."""
    scene.server.on("killCursors", *answers, {})
    cursor = scene.find()
    await cursor.next()
    if how == "close":
        await cursor.close()
    del cursor
    gc.collect()
    await anyio.sleep(20)
    assert scene.names() == ["find", *["killCursors"] * (len(answers) + 1)]
    assert scene.stats.in_use == 0


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("point", [1, 2, 3])
async def test_cancelled_while_it_waits(scene: Scene, point: int, late: bool) -> None:
    scene.server.on("find", Reply(FIRST, 0.01))
    scene.server.on("getMore", Reply(more(1), 0.01), Reply(LAST, 0.01))
    await scene.client.aconnect(timeoutMS=0)
    cursor = scene.find()
    await cancel_at(lambda: ids(cursor), point, late=late)
    await cursor.close()
    await settle(lambda: anyio.sleep(2))
    assert (scene.stats.in_use, scene.stats.pending) == (0, 0)


# --- arguments ---


async def test_no_limit(scene: Scene) -> None:
    makers: list[Callable[[], object]] = [
        lambda: scene.find(limit=5),
        lambda: scene.find().limit(5),
        lambda: scene.find(limit=-5),
    ]
    for make in makers:
        with pytest.raises(InvalidOperation, match="a limit cannot be combined with CursorType"):
            make()
    cursor = scene.find().limit(0)
    with pytest.raises(InvalidOperation):
        cursor.limit(5)
    assert await ids(cursor) == [0, 1, 2, 3, 9]
    assert "limit" not in scene.server.received[0].document, "a refused limit does not stay"


async def test_the_flag_of_the_old_protocol(scene: Scene) -> None:
    cursor = await scene.client.db.coll.find().add_option(64)
    await ids(cursor.clone())
    assert scene.names() == ["find", "getMore"]
    scene.server.on("getMore", LAST)
    await ids(cursor.remove_option(64))
    assert scene.connections() == [0] * 4


@pytest.mark.parametrize(("wire_version", "works"), [(21, False), (22, True)])
async def test_a_mongos(wire_version: int, works: bool) -> None:
    deployment = ScriptedDeployment(["a:1"], mongos=True, wire_version=wire_version)
    deployment["a:1"].on("find", FIRST)
    deployment["a:1"].on("getMore", LAST)
    async with scripted_client(deployment) as client:
        cursor = client.db.coll.find(cursor_type=CursorType.EXHAUST)
        if works:
            assert await ids(cursor) == [0, 9]
        else:
            with pytest.raises(InvalidOperation, match=r"a mongos older than 7\.1 has no exhaust cursors"):
                await cursor.next()
