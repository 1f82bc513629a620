"""Transactions, cancelled at each of their await points: nothing leaks, no pin is kept, the server forgets them.

With the cyclic garbage collector off. Each scenario says how many await points it has; the test fails when there are
fewer than were known, since it would then test less than it claims to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest
import sniffio

from motorlite.testing.cancellation import cancel_at, count_await_points
from motorlite.testing.scripted import Reply, ScriptedDeployment
from tests.support.cancellation import counted
from tests.support.clients import scripted_client
from tests.support.core import OVERLOADED
from tests.support.kept_errors import garbage, without_collector
from tests.support.transactions import REJECTED, in_use, replica_set

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from motorlite import AsyncClientSession
    from tests.support.clients import Client

    Document = Mapping[str, Any]
    Session = AsyncClientSession[Any]
    Scenario = Callable[[Client], Coroutine[Any, Any, None]]

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def of_three_kinds() -> dict[str, ScriptedDeployment]:
    return {
        "replica set": replica_set(),
        "sharded": ScriptedDeployment(["a:1", "b:1"], mongos=True),
        "load-balanced": ScriptedDeployment(["lb:1"], services=2),
    }


# --- what is cancelled ---


async def _insert(client: Client, session: Session) -> None:
    await client.db.coll.insert_one({}, session=session)


async def block(client: Client) -> None:
    async with client.start_session() as session, session.start_transaction():
        await _insert(client, session)
        cursor = client.db.coll.find(session=session)
        assert len(await cursor.to_list()) == 2
        await _insert(client, session)


async def failing_block(client: Client) -> None:
    try:
        await _fail(client)
    except ZeroDivisionError:
        return


async def _fail(client: Client) -> None:
    async with client.start_session() as session, session.start_transaction():
        await _insert(client, session)
        raise ZeroDivisionError


async def ended_session(client: Client) -> None:
    async with client.start_session() as session:
        session.start_transaction()
        await _insert(client, session)


async def dropped_session(client: Client) -> None:
    session = client.start_session()
    session.start_transaction()
    await _insert(client, session)
    await _insert(client, session)


async def committed_twice(client: Client) -> None:
    async with client.start_session() as session:
        session.start_transaction()
        await _insert(client, session)
        await session.commit_transaction()
        await session.commit_transaction()


async def with_transaction(client: Client) -> None:
    async with client.start_session() as session:
        await session.with_transaction(lambda session: _insert(client, session))


SCENARIOS: dict[Scenario, int] = {
    block: 4,
    failing_block: 2,
    ended_session: 2,
    dropped_session: 2,
    committed_twice: 3,
    with_transaction: 7,
}


# --- the servers ---


class Ledger:
    """The transactions that the servers have open, by session and number."""

    def __init__(self, deployment: ScriptedDeployment, scenario: Scenario) -> None:
        self.open: set[tuple[bytes, int]] = set()
        # How often the servers reject a first command, and lose a transaction before its commit.
        self._rejections = self._losses = int(scenario is with_transaction)
        for server in deployment.services or deployment.servers.values():
            server.on("insert", self._insert)
            server.on("find", {"cursor": {"id": 7, "ns": "db.coll", "firstBatch": [{"_id": 1}]}})
            server.on("getMore", Reply({"cursor": {"id": 0, "ns": "db.coll", "nextBatch": [{"_id": 2}]}}, 0.01))
            server.on("commitTransaction", self._commit)
            server.on("abortTransaction", self._end)

    def _insert(self, command: Document) -> Reply:
        if self._rejections:
            self._rejections -= 1
            return Reply(OVERLOADED, 0.01)
        if command.get("startTransaction"):
            self.open.add(_key(command))
        return Reply({"n": 1}, 0.01)

    def _commit(self, command: Document) -> Reply:
        self.open.discard(_key(command))
        if self._losses:
            self._losses -= 1
            return Reply(REJECTED, 0.01)
        return Reply({}, 0.01)

    def _end(self, command: Document) -> Reply:
        self.open.discard(_key(command))
        return Reply({}, 0.01)


def _key(command: Document) -> tuple[bytes, int]:
    return bytes(command["lsid"]["id"]), command["txnNumber"]


async def connect(client: Client) -> None:
    """Open as many connections as are needed, so that no operation waits for one."""
    await client.admin.command("ping")
    await anyio.sleep(1)
    async with anyio.create_task_group() as tasks:
        for _ in range(6):
            tasks.start_soon(client.admin.command, "ping")


async def points_of(scenario: Scenario, kind: str) -> int:
    deployment = of_three_kinds()[kind]
    Ledger(deployment, scenario)
    async with scripted_client(deployment) as client:
        await connect(client)
        points = await count_await_points(lambda: scenario(client))
        await anyio.sleep(1)
    return points


@pytest.mark.parametrize("kind", of_three_kinds())
@pytest.mark.parametrize("late", [False, True], ids=["at once", "late"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_cancelled_at_each_point(scenario: Scenario, kind: str, late: bool) -> None:
    if late and sniffio.current_async_library() != "asyncio":
        pytest.skip("trio has no such moment")
    points = await points_of(scenario, kind)
    counted[f"{scenario.__name__}, {kind}"] = points
    assert points >= SCENARIOS[scenario]
    for point in range(1, points + 1):
        deployment = of_three_kinds()[kind]
        ledger = Ledger(deployment, scenario)
        async with scripted_client(deployment) as client:
            await connect(client)
            with without_collector():
                assert await cancel_at(lambda: scenario(client), point, late=late)
                await anyio.sleep(5)
                assert in_use(client) == 0
                assert not ledger.open, f"cancelled at point {point}"
                sessions = [bytes(session.lsid["id"]) for session in client._core.sessions._free]
                assert len(sessions) == len(set(sessions)), "a session was given back twice"
                await with_transaction(client)
                assert garbage() == []
