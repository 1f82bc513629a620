"""aconnect: discovery begins, with a time limit a server is waited for, and no command is sent."""

from __future__ import annotations

from typing import Any

import pytest
from anyio import CancelScope, current_time, sleep

import motorlite
from motorlite.errors import ServerSelectionTimeoutError
from motorlite.testing.scripted import ScriptedDeployment, failure
from tests.support.clients import scripted_client
from tests.support.core import hello_delay
from tests.support.events import Recorder

pytestmark = pytest.mark.anyio


async def test_no_command_is_sent() -> None:
    deployment = ScriptedDeployment(["a:1", "b:1"], replica_set="rs")
    for server in ("a:1", "b:1"):
        # As a failpoint or a user without rights would answer.
        deployment[server].on("ping", failure(462, "SystemOverloadedError", "RetryableError"))
    recorder = Recorder()
    async with scripted_client(deployment, event_listeners=[recorder]) as client:
        await client.aconnect(timeoutMS=0)
        assert client.nodes
        stats = client.stats()
        assert sum(server.operations + server.connections_created for server in stats.servers.values()) == 0
        assert (dict(stats.retries), dict(stats.refusals)) == ({}, {})
        assert recorder.names == []
        assert [deployment[server].received for server in ("a:1", "b:1")] == [[], []]
        await client.d.c.insert_one({"_id": 1})
        assert recorder.names == ["insert"]


async def test_it_returns_at_once() -> None:
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    deployment["a:1"].is_down = True
    async with scripted_client(deployment, timeoutMS=5000) as client:
        started = current_time()
        await client.aconnect()
        with motorlite.timeout(1):
            await client.aconnect()
        assert current_time() == started
        deployment["a:1"].is_down = False
        await sleep(11)
        assert client.nodes == {("a", 1)}, "discovery has begun"


async def test_it_is_a_checkpoint() -> None:
    async with scripted_client(ScriptedDeployment(["a:1"])) as client:
        with CancelScope() as scope:
            scope.cancel()
            await client.aconnect()
        assert scope.cancelled_caught


async def test_it_waits_for_a_server() -> None:
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    deployment["a:1"].is_down = True
    async with scripted_client(deployment, serverSelectionTimeoutMS=3000) as client:
        started = current_time()
        with pytest.raises(ServerSelectionTimeoutError):
            await client.aconnect(timeoutMS=0)
        assert current_time() - started == pytest.approx(3)
        started = current_time()
        with pytest.raises(ServerSelectionTimeoutError):
            await client.aconnect(timeoutMS=700)
        with motorlite.timeout(0.3), pytest.raises(ServerSelectionTimeoutError):
            await client.aconnect(timeoutMS=700)
        assert current_time() - started == pytest.approx(1)
        deployment["a:1"].is_down = False
        await client.aconnect(timeoutMS=0)
        assert client.nodes == {("a", 1)}


async def test_a_secondary_is_enough() -> None:
    deployment = ScriptedDeployment(["a:1", "b:1"], replica_set="rs")
    deployment["a:1"].is_down = True
    async with scripted_client(deployment, serverSelectionTimeoutMS=1000) as client:
        await client.aconnect(timeoutMS=0)
        assert await client.secondaries == {("b", 1)}


# --- what clients know of their deployment ---


@pytest.mark.parametrize(("name", "expected"), [("primary", ("a", 1)), ("address", ("a", 1)), ("is_primary", True)])
async def test_the_primary_may_be_the_last_member_to_answer(name: str, expected: Any) -> None:
    deployment = ScriptedDeployment(["a:1", "b:1", "c:1"], replica_set="rs")
    hello_delay(deployment, "a:1", 2)
    async with scripted_client(deployment) as client:
        assert await getattr(client, name) == expected


async def test_without_a_primary() -> None:
    deployment = ScriptedDeployment(["a:1", "b:1"], replica_set="rs")
    deployment.step_down(None)
    async with scripted_client(deployment, serverSelectionTimeoutMS=500) as client:
        begun = current_time()
        assert await client.primary is None
        assert current_time() - begun == 0.5
        assert await client.secondaries == {("a", 1), ("b", 1)}
        assert not await client.is_primary
        assert await client.address is None
        assert current_time() - begun == 0.5, "what is known is not waited for"


@pytest.mark.parametrize("name", ["primary", "secondaries", "is_mongos"])
async def test_without_any_server(name: str) -> None:
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    deployment["a:1"].is_down = True
    async with scripted_client(deployment, serverSelectionTimeoutMS=500) as client:
        with pytest.raises(ServerSelectionTimeoutError):
            await getattr(client, name)
