"""Operations that their callers left are killed on their server if nothing else ends them there, in virtual time."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite._client.abandoned_operations import MOST, PAUSE
from motorlite.errors import PyMongoError
from motorlite.server_api import ServerApi
from motorlite.testing.scripted import Close, Hang, Reply, ScriptedDeployment, failure
from tests.support.clients import scripted_client
from tests.support.core import FOUND, replica_set

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine

    from motorlite.testing.scripted import Answer
    from tests.support.clients import Client

pytestmark = pytest.mark.anyio


class Operations:
    """What is in progress on a scripted server: operations that hang until they are killed."""

    def __init__(self, deployment: ScriptedDeployment, address: str = "a:1", *names: str) -> None:
        self.server = deployment[address]
        # By number, which is a text if a shard has the operation.
        self.comments: dict[Any, Any] = {}
        self.shard: str | None = None
        self.killed: list[Any] = []
        self.looks: list[list[Any]] = []
        # Answers to the next looks.
        self.instead: list[Answer] = []
        for name in names or ("find",):
            self.server.on(name, self._hang)
        self.server.on("aggregate", self._current)
        self.server.on("killOp", self._kill)

    def _hang(self, command: dict[str, Any]) -> Answer:
        number = len(self.comments) + 1
        self.comments[number if self.shard is None else f"{self.shard}:{number}"] = command.get("comment")
        return Hang()

    def _current(self, command: dict[str, Any]) -> Answer:
        assert command["$db"] == "admin"
        first, match = command["pipeline"][0], command["pipeline"][1]["$match"]
        assert first == {"$currentOp": {"allUsers": False}}
        wanted = match["command.comment"]["$in"]
        self.looks.append(wanted)
        if self.instead:
            return self.instead.pop(0)
        found = [{"opid": number, "comment": text} for number, text in self.comments.items() if text in wanted]
        return {"cursor": {"id": 0, "ns": "admin.$cmd.aggregate", "firstBatch": found}}

    def _kill(self, command: dict[str, Any]) -> Answer:
        self.killed.append(command["op"])
        return {"ok": 1}


@asynccontextmanager
async def killing(
    *names: str, deployment: ScriptedDeployment | None = None, **options: Any
) -> AsyncIterator[tuple[Client, Operations]]:
    """A client that kills what it left, and what is in progress on its server."""
    deployment = deployment or replica_set()
    operations = Operations(deployment, "a:1", *names)
    async with scripted_client(deployment, **{"killAbandoned": True, **options}) as client:
        yield client, operations


NONE: dict[str, Any] = {"cursor": {"id": 0, "ns": "admin.$cmd.aggregate", "firstBatch": []}}


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.WARNING and record.module == "abandoned_operations"
    ]


async def is_cancelled(call: Callable[[], Coroutine[Any, Any, Any]], tasks: int = 1) -> None:
    """Leave a call; a deadline would become a limit of the server."""
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            for _ in range(tasks):
                group.start_soon(call)
            await anyio.sleep(0.5)
            scope.cancel()


async def cancelled(client: Client, **options: Any) -> None:
    await is_cancelled(lambda: client.db.coll.find_one(**options))


async def times_out(call: Awaitable[Any]) -> None:
    with pytest.raises(PyMongoError) as raised:
        await call
    assert raised.value.timeout


async def timed_out(client: Client, **options: Any) -> None:
    await times_out(client.db.coll.find_one(**options))


WAYS = pytest.mark.parametrize(
    ("leave", "options"), [(cancelled, {}), (timed_out, {"socketTimeoutMS": 500, "retryReads": False})]
)


@WAYS
async def test_it_is_found_by_its_comment_and_killed(leave: Callable[..., Any], options: dict[str, Any]) -> None:
    async with killing(**options) as (client, operations):
        await leave(client)
        await leave(client)
        await anyio.sleep(5)
        assert operations.killed == [1, 2]
        # The comments are unique, and each is looked for until it is found.
        comments = list(operations.comments.values())
        assert len(set(comments)) == 2
        assert operations.looks == [[comment] for comment in comments]
        kill = operations.server.commands("killOp")[0]
        assert (kill["$db"], kill["maxTimeMS"]) == ("admin", pytest.approx(5000, abs=1))


@WAYS
async def test_it_is_off_by_default(leave: Callable[..., Any], options: dict[str, Any]) -> None:
    # The client would warn of the option.
    limited = options and {**options, "defaultMaxTimeMS": 60_000}
    deployment = replica_set()
    operations = Operations(deployment)
    async with scripted_client(deployment, **limited) as client:
        await leave(client, **({"max_time_ms": 0} if limited else {}))
        await anyio.sleep(5)
    assert operations.comments == {1: None}
    assert not operations.looks


@pytest.mark.parametrize(
    ("options", "call"),
    [
        ({"defaultMaxTimeMS": 60_000}, {}),
        ({}, {"max_time_ms": 60_000}),
        ({"timeoutMS": 60_000}, {}),
        # Another operation may have the same one.
        ({}, {"comment": "mine"}),
        ({}, {"comment": {"motorlite": 1}}),
    ],
)
async def test_what_is_left_alone(options: dict[str, Any], call: dict[str, Any]) -> None:
    async with killing(**options) as (client, operations):
        await cancelled(client, **call)
        await anyio.sleep(5)
        assert not operations.looks
        comment = operations.comments[1]
        assert comment == call["comment"] if "comment" in call else comment.startswith("motorlite ")


async def test_one_that_ended_is_looked_for_twice() -> None:
    """A busy server may not have begun with it at the first look."""
    async with killing() as (client, operations):
        operations.instead = [NONE]
        await cancelled(client)
        await anyio.sleep(PAUSE / 2)
        assert (len(operations.looks), operations.killed) == (1, [])
        await anyio.sleep(5)
        assert (len(operations.looks), operations.killed) == (2, [1])
        operations.instead = [NONE, NONE]
        await cancelled(client)
        await anyio.sleep(5)
        assert (len(operations.looks), operations.killed) == (4, [1])


async def test_many_of_one_server_are_killed_together() -> None:
    async with killing() as (client, operations):
        await client.db.command("ping")
        await is_cancelled(client.db.coll.find_one, tasks=20)
        await anyio.sleep(5)
        assert sorted(operations.killed) == list(range(1, 21))
        assert len(operations.looks) <= 3


async def test_on_the_same_server() -> None:
    deployment = replica_set(servers=2)
    primary, secondary = Operations(deployment, "a:1"), Operations(deployment, "b:1")
    async with scripted_client(deployment, killAbandoned=True, readPreference="secondary") as client:
        await cancelled(client)
        await anyio.sleep(5)
        assert (primary.looks, secondary.killed) == ([], [1])
        assert deployment["b:1"].commands("killOp")[0]["$readPreference"] == {"mode": "primaryPreferred"}


async def test_each_attempt_has_a_comment_of_its_own() -> None:
    async with killing(socketTimeoutMS=500) as (client, operations):
        await timed_out(client)
        await anyio.sleep(5)
        assert sorted(operations.killed) == [1, 2]
        assert len(set(operations.comments.values())) == 2


@pytest.mark.parametrize("is_ignored", [False, True])
async def test_a_mongos_that_ignores_the_limit_of_writes(is_ignored: bool) -> None:
    """There a write is killed like one without a limit."""
    deployment = ScriptedDeployment(["a:1"], mongos=True, wire_version=9) if is_ignored else replica_set()
    limit = {"defaultMaxTimeMS": 60_000} if is_ignored else {}
    options = {"socketTimeoutMS": 500, "retryWrites": False, **limit}
    async with killing("update", deployment=deployment, **options) as (client, operations):
        await times_out(client.db.coll.update_many({}, {"$set": {"x": 1}}))
        await anyio.sleep(5)
        assert operations.killed == [1]


async def test_a_shard_s_operation_has_a_text_as_its_number() -> None:
    async with killing(deployment=ScriptedDeployment(["a:1"], mongos=True)) as (client, operations):
        operations.shard = "shard01"
        await cancelled(client)
        await anyio.sleep(5)
        assert operations.killed == ["shard01:1"]


@pytest.mark.parametrize(
    "answer",
    [failure(13, message="not authorized"), Close(), {"cursor": 5}, {"cursor": {"firstBatch": [7]}}],
    ids=["not authorized", "network error", "malformed cursor", "malformed document"],
)
async def test_a_failure_is_logged_once(answer: Answer, caplog: pytest.LogCaptureFixture) -> None:
    async with killing() as (client, operations):
        for _ in range(3):
            operations.instead = [answer] * 20
            await cancelled(client)
            await anyio.sleep(20)
        (message,) = warned(caplog)
        assert message.startswith(
            "an abandoned operation on a:1 could not be killed (further failures are not logged): "
        )
        # It tries again for the next one.
        operations.instead = []
        await cancelled(client)
        await anyio.sleep(20)
        assert operations.killed == [4]


async def test_a_server_that_does_not_answer_at_all(caplog: pytest.LogCaptureFixture) -> None:
    async with killing() as (client, operations):
        operations.instead = [Hang()] * 20
        await cancelled(client)
        await anyio.sleep(30)
        assert len(operations.looks) == 1
        assert len(warned(caplog)) == 1


async def test_the_number_that_waits_is_bounded() -> None:
    async with killing() as (client, operations):
        operations.instead = [Reply(NONE, 3)]
        await cancelled(client)
        waiting = client._core._background.abandoned_operations
        assert waiting is not None
        for number in range(2 * MOST):
            waiting.kill(("a", 1), f"more {number}")
        await anyio.sleep(10)
        assert max(map(len, operations.looks)) <= MOST + 1
        assert not waiting._waiting


@pytest.mark.parametrize(("strict", "expected"), [(True, False), (False, False), (None, None)])
async def test_a_stable_api_declared_strictly_is_no_obstacle(strict: bool | None, expected: bool | None) -> None:
    async with killing(server_api=ServerApi("1", strict=strict)) as (client, operations):
        await cancelled(client)
        await anyio.sleep(5)
    assert operations.killed == [1]
    assert operations.server.commands("find")[0].get("apiStrict") is strict
    for name in ("aggregate", "killOp"):
        (command,) = operations.server.commands(name)
        assert (command["apiVersion"], command.get("apiStrict")) == ("1", expected)


@pytest.mark.parametrize(
    ("instead", "killed", "seconds"),
    [
        # A program that ends cancels its tasks, and then closes its client.
        ([], [1], 0.0),
        # A second look is not waited for.
        ([NONE], [], 0.0),
        ([Hang()], [], 1.0),
    ],
    ids=["found", "not found", "no answer"],
)
async def test_the_close_ends_it(
    instead: list[Answer], killed: list[int], seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    async with killing() as (client, operations):
        operations.instead = list(instead)
        await cancelled(client)
        await anyio.sleep(seconds / 10)
        started = anyio.current_time()
        await client.close()
        assert operations.killed == killed
        assert anyio.current_time() - started == pytest.approx(seconds, abs=0.1)
        await anyio.sleep(10)
        assert (len(operations.looks), warned(caplog)) == (1, [])


async def test_a_cursor_s_batches_have_comments_too() -> None:
    async with killing("getMore") as (client, operations):
        server = operations.server
        server.on("find", {"cursor": {"id": 9, "ns": "db.coll", "firstBatch": [{}]}})
        cursor = client.db.coll.find()
        await cursor.next()
        await is_cancelled(cursor.next)
        await anyio.sleep(5)
        assert operations.killed == [1]
        assert server.commands("find")[0]["comment"] != operations.comments[1]
        await cursor.close()
        assert "comment" not in server.commands("killCursors")[0]


async def test_one_that_succeeded_is_not_killed() -> None:
    async with killing() as (client, operations):
        operations.server.on("find", FOUND)
        assert await client.db.coll.find_one() == {"_id": 1}
        await anyio.sleep(5)
        assert not operations.looks
