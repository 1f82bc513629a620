"""The prose tests of the client-side operations timeout specification, with its own times, in virtual time."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite.errors import NetworkTimeout, PyMongoError, ServerSelectionTimeoutError
from motorlite.monitoring import ConnectionClosedEvent, ConnectionCreatedEvent, ConnectionReadyEvent
from motorlite.testing.scripted import Reply, ScriptedDeployment
from tests.support.change_log import ChangeLog
from tests.support.clients import Client, scripted_client
from tests.support.events import Recorder
from tests.support.scram_server import ScramServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

FIRST = {"cursor": {"id": 7, "ns": "db.coll", "firstBatch": [{"x": 1}]}}
NOTHING = {"cursor": {"id": 7, "ns": "db.coll", "nextBatch": []}}


@pytest.mark.parametrize("is_cryptd", [True, False])
async def test_2_mongocryptd_gets_no_max_time_ms(is_cryptd: bool) -> None:
    deployment, record = ScriptedDeployment(["a:1"]), Recorder()
    deployment["a:1"].hello["iscryptd"] = is_cryptd
    async with scripted_client(deployment, event_listeners=[record], timeoutMS=1000) as client:
        await client.admin.command("ping")
        # A cancel scope is a limit too, without timeoutMS.
        with anyio.fail_after(1):
            await client.admin.command("ping", timeoutMS=0)
    assert ["maxTimeMS" in command for command in record.commands("ping")] == [not is_cryptd] * 2


@asynccontextmanager
async def authenticating(
    monkeypatch: pytest.MonkeyPatch, delay: float, *, slow_hello: bool = False, **options: Any
) -> AsyncIterator[tuple[Client, Recorder]]:
    """A client with credentials, whose server takes `delay` for saslContinue."""
    deployment = ScriptedDeployment(["a:1"])
    server, scram = deployment["a:1"], ScramServer("SCRAM-SHA-256", b"pencil")
    server.on("saslStart", scram.answer)
    server.on("saslContinue", lambda command: Reply(scram.answer(command), delay))
    if slow_hello:
        server.hello_delay = delay
    record = Recorder()
    credentials = {"username": "user", "password": "pencil", "authMechanism": "SCRAM-SHA-256"}
    async with scripted_client(deployment, event_listeners=[record], **credentials, **options) as client:
        client._core.enter()

        async def at_once(function: Any, until: float) -> Any:
            return function()

        # In virtual time, nothing may wait for a thread.
        assert client._core._runtime is not None
        monkeypatch.setattr(client._core._runtime, "run_in_thread", at_once, raising=False)
        yield client, record


@pytest.mark.parametrize(("delay", "kind"), [(0.015, ConnectionClosedEvent), (0.005, ConnectionReadyEvent)])
async def test_4_1_background_connections_have_timeout_ms_for_each_command_of_authentication(
    monkeypatch: pytest.MonkeyPatch, delay: float, kind: type
) -> None:
    async with authenticating(monkeypatch, delay, minPoolSize=1, timeoutMS=10) as (_, record):
        await anyio.sleep(0.5)
        assert record.of(ConnectionCreatedEvent)
        assert record.of(kind)
        assert len(record.of(ConnectionReadyEvent)) == (0 if kind is ConnectionClosedEvent else 1)


async def test_4_2_it_is_refreshed_for_each_handshake_command(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"minPoolSize": 1, "timeoutMS": 20}
    async with authenticating(monkeypatch, 0.015, slow_hello=True, **options) as (_, record):
        await anyio.sleep(0.5)
        assert record.of(ConnectionCreatedEvent)
        assert len(record.of(ConnectionReadyEvent)) == 1


async def test_5_1_a_step_of_a_tailable_cursor_sends_getmore_until_its_time_is_up() -> None:
    """`next` of a find cursor does not block; that of a command's cursor does."""
    deployment = ScriptedDeployment(["a:1"])
    server = deployment["a:1"]
    server.on("find", FIRST)
    server.on("getMore", Reply(NOTHING, 0.015))
    async with scripted_client(deployment, timeoutMS=20) as client:
        await client.admin.command("ping", timeoutMS=0)
        async with await client.db.cursor_command({"find": "coll", "tailable": True}) as cursor:
            assert cursor.cursor_id
            assert await cursor.next() == {"x": 1}
            with pytest.raises(PyMongoError) as caught:
                await cursor.next()
            assert caught.value.timeout
        assert [len(server.commands(name)) for name in ("find", "getMore")] == [1, 2]


async def test_5_2_a_step_of_a_change_stream_sends_getmore_until_its_time_is_up() -> None:
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    server, log = deployment["a:1"], ChangeLog(wait=0.015)
    log.serve(server)
    async with scripted_client(deployment, timeoutMS=20) as client:
        await client.admin.command("ping", timeoutMS=0)
        async with await client.db.coll.watch() as stream:
            assert stream.cursor_id
            with pytest.raises(NetworkTimeout) as caught:
                await stream.next()
            assert caught.value.timeout
        assert [len(server.commands(name)) for name in ("aggregate", "getMore")] == [1, 2]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"serverSelectionTimeoutMS": 10}, id="8.1"),
        pytest.param({"serverSelectionTimeoutMS": 20, "timeoutMS": 10}, id="8.2"),
        pytest.param({"serverSelectionTimeoutMS": 10, "timeoutMS": 20}, id="8.3"),
        pytest.param({"serverSelectionTimeoutMS": 10, "timeoutMS": 0}, id="8.4"),
    ],
)
async def test_8_1_to_8_4_the_smaller_limit_selects(options: dict[str, Any]) -> None:
    deployment = ScriptedDeployment(["invalid:1"])
    deployment["invalid:1"].is_down = True
    async with scripted_client(deployment, **options) as client:
        before = anyio.current_time()
        with pytest.raises(ServerSelectionTimeoutError) as caught:
            await client.admin.command({"ping": 1})
        assert anyio.current_time() - before == pytest.approx(0.01, abs=0.001)
        assert caught.value.timeout


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"serverSelectionTimeoutMS": 20, "timeoutMS": 10}, id="8.5"),
        pytest.param({"serverSelectionTimeoutMS": 10, "timeoutMS": 20}, id="8.6"),
    ],
)
async def test_8_5_and_8_6_the_smaller_limit_connects(monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]) -> None:
    async with authenticating(monkeypatch, 0.015, **options) as (client, _):
        await client.aconnect(timeoutMS=0)
        before = anyio.current_time()
        with pytest.raises(PyMongoError) as caught:
            await client.db.coll.insert_one({"x": 1})
        assert anyio.current_time() - before == pytest.approx(0.01, abs=0.001)
        assert caught.value.timeout
