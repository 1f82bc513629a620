"""The client in fixtures: of pytest-asyncio in both loop scopes, of anyio on both backends; and on uvloop.

Opened in a fixture, used in tests, closed in the fixture's end: with a task group that the client entered in the
fixture's task this would not work. Warnings are errors here, as everywhere.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import anyio
import pytest
import pytest_asyncio
import uvloop

from motorlite import AsyncMongoClient
from motorlite.testing import LocalServer
from tests.live.clients import numbered

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Client = AsyncMongoClient[dict[str, Any]]


async def use(client: Client, name: str) -> None:
    """Reads, writes, a cursor and a task group."""
    collection = client[name].c
    await collection.drop()
    await collection.insert_many(numbered(10))
    found = [document["_id"] async for document in collection.find(batch_size=3)]
    assert found == list(range(10))
    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(collection.find_one, {"_id": number})
    await client[name].command("ping")


# --- pytest-asyncio ---


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def session_client(deployment: LocalServer) -> AsyncIterator[Client]:
    """One client for all tests: they need the session's loop."""
    async with AsyncMongoClient[dict[str, Any]](deployment.uri) as client:
        yield client


@pytest_asyncio.fixture
async def function_client(deployment: LocalServer) -> AsyncIterator[Client]:
    """A client for each test."""
    async with AsyncMongoClient[dict[str, Any]](deployment.uri) as client:
        yield client


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("turn", range(3))
async def test_a_session_s_client(session_client: Client, database_name: str, turn: int) -> None:
    await use(session_client, database_name)
    (server,) = (server for server in session_client.stats().servers.values() if server.connections_created)
    assert server.in_use == 0


@pytest.mark.asyncio
@pytest.mark.parametrize("turn", range(2))
async def test_a_function_s_client(function_client: Client, database_name: str, turn: int) -> None:
    await use(function_client, database_name)


# --- anyio's plugin ---


@pytest.fixture
async def anyio_client(anyio_backend: object, deployment: LocalServer) -> AsyncIterator[Client]:
    async with AsyncMongoClient[dict[str, Any]](deployment.uri) as client:
        yield client


@pytest.mark.anyio
async def test_a_client_of_an_anyio_fixture(anyio_client: Client, database_name: str) -> None:
    await use(anyio_client, database_name)


@pytest.mark.anyio
async def test_a_test_that_fails_in_a_task_group_closes_the_client(deployment: LocalServer, database_name: str) -> None:
    async def fail_in_use() -> None:
        async with AsyncMongoClient[dict[str, Any]](deployment.uri) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(client[database_name].c.find_one)
            await client[database_name].c.insert_one({})
            raise RuntimeError("the test's own")

    with pytest.RaisesGroup(pytest.RaisesExc(RuntimeError, match="the test's own"), flatten_subgroups=True):
        await fail_in_use()


# --- uvloop ---


def test_uvloop(deployment: LocalServer, database_name: str) -> None:
    async def main() -> str:
        async with AsyncMongoClient[dict[str, Any]](deployment.uri) as client:
            await use(client, database_name)
            large = {"_id": "large", "text": "x" * 5_000_000}
            await client[database_name].c.insert_one(large)
            assert await client[database_name].c.find_one({"_id": "large"}) == large
        return type(asyncio.get_running_loop()).__module__

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(main()) == "uvloop"


def test_uvloop_with_tls() -> None:
    async def main(uri: str) -> None:
        async with AsyncMongoClient[dict[str, Any]](uri) as client:
            await use(client, "motorlite_test_uvloop")

    with (
        LocalServer.start(tls=True) as server,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(main(server.uri))
