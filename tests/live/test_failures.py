"""Faults of processes, of replica sets and of the network, under load: what goes on, what fails, what is left."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite._base.error_documents import RETRYABLE_WRITE
from motorlite.errors import AutoReconnect, NotPrimaryError, PoolClearedError, PyMongoError
from motorlite.read_preferences import Secondary
from motorlite.testing import FaultProxy, LocalServer
from tests.live.clients import numbered
from tests.live.load import assert_nothing_left, background, in_thread, sockets_to, under_load
from tests.support.clients import make_client
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from contextlib import AbstractContextManager

    from motorlite._base.values import Address
    from tests.support.clients import Client

    Losing = Callable[[LocalServer], AbstractContextManager[Callable[[], Address]]]

pytestmark = pytest.mark.anyio

TASKS = 12
# A silent server is found out within two seconds. With 400 ms, a machine that stood still for that long lost all of
# them.
WATCHFUL: dict[str, Any] = {"w": "majority", "connectTimeoutMS": 1000, "heartbeatFrequencyMS": 500}
# On the server: the first document at once, the next one never.
STUCK = {"$where": "this._id === 0 || sleep(30000) || true"}


@pytest.fixture(scope="module")
def proxied() -> Iterator[LocalServer]:
    """A replica set whose members are behind proxies."""
    with LocalServer.start("replicaset", nodes=3, proxied=True) as server:
        yield server


@pytest.fixture(autouse=True)
def healthy(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test leaves no fault behind, also when it fails."""
    yield
    if "proxied" in request.fixturenames:
        for proxy in request.getfixturevalue("proxied").proxies.values():
            proxy.heal()
            proxy.harms = "all"


def refuse_and_reset(proxy: FaultProxy) -> None:
    proxy.refuse()
    proxy.reset()


@contextmanager
def killed_primary(server: LocalServer) -> Iterator[Callable[[], Address]]:
    """What kills the primary and returns its address; it is started again afterwards."""
    primary = server.wait_for_primary()

    def kill() -> Address:
        server.kill(primary)
        return primary

    try:
        yield kill
    finally:
        server.restart(primary)


@contextmanager
def frozen_primary(server: LocalServer) -> Iterator[Callable[[], Address]]:
    """What freezes the primary and returns its address; it goes on afterwards.

    A member that follows a frozen one takes twenty seconds to find that out, in which no majority forms. So the other
    members are told by resets.
    """
    primary = server.wait_for_primary()
    proxy = server.proxies[primary]

    def freeze() -> Address:
        server.freeze(primary)
        proxy.harms = "members"
        refuse_and_reset(proxy)
        return primary

    try:
        yield freeze
    finally:
        server.thaw(primary)
        proxy.heal()


async def all_known(client: Client) -> None:
    """Connect, and wait until all three members are seen."""
    await client.aconnect(timeoutMS=0)
    await until(lambda: sum(one.server_type != "Unknown" for one in client.stats().servers.values()) == 3)


class Victims:
    """Operations in flight that must not be retried: an update of many, and a getMore."""

    def __init__(self, client: Client, name: str) -> None:
        self.collection = client[name].victims
        self.errors: dict[str, PyMongoError] = {}

    async def start(self, group: Any) -> None:
        await self.collection.insert_many(numbered(3))
        cursor = await self.collection.find(STUCK, batch_size=1)
        await cursor.next()
        group.start_soon(self._fail, "getMore", cursor.next)
        group.start_soon(self._fail, "update", self.collection.update_many, STUCK, {"$inc": {"n": 1}})
        await until(lambda: self._in_flight() >= 2)

    def _in_flight(self) -> int:
        return sum(one.in_use for one in self.collection.database.client.stats().servers.values())

    async def _fail(self, name: str, function: Callable[..., Awaitable[Any]], *args: Any) -> None:
        with pytest.raises(PyMongoError) as caught:
            await function(*args)
        self.errors[name] = caught.value

    def assert_failed(self, *names: str, kind: type[PyMongoError]) -> None:
        assert sorted(self.errors) == sorted(names)
        for name, error in self.errors.items():
            assert isinstance(error, kind), (name, error)
            assert not error.has_error_label(RETRYABLE_WRITE), name
            assert (error.attempts, error.retry_refusal) == (1, "not retryable"), name


# --- processes ---


async def test_a_primary_that_steps_down(replica_set3: LocalServer, database_name: str) -> None:
    async with make_client(replica_set3, **WATCHFUL) as client:
        await all_known(client)
        before = await client.primary
        documents = client[database_name].documents
        await documents.insert_many(numbered(10))
        cursor = await documents.find(batch_size=2)
        await cursor.to_list(2)
        victims = Victims(client, database_name)
        async with anyio.create_task_group() as group:
            await victims.start(group)
            async with under_load(client, database_name) as load:
                await in_thread(replica_set3.command, {"replSetStepDown": 5, "secondaryCatchUpPeriodSecs": 5})
                await load.goes_on(TASKS)
            assert load.errors == []
            # Reads are not interrupted by a step-down; this one is not needed any more.
            assert "update" in victims.errors
            group.cancel_scope.cancel()
        victims.assert_failed("update", kind=NotPrimaryError)
        assert getattr(victims.errors["update"], "code", None) == 11602
        assert await client.primary != before
        # An open cursor stays where it was opened.
        assert cursor.address == before
        assert len(await cursor.to_list()) == 8
        await assert_nothing_left(client)


@pytest.mark.parametrize(("losing", "kind"), [(killed_primary, AutoReconnect), (frozen_primary, PoolClearedError)])
async def test_a_primary_that_is_lost(
    proxied: LocalServer, database_name: str, losing: Losing, kind: type[PyMongoError]
) -> None:
    async with make_client(proxied, **WATCHFUL) as client:
        await all_known(client)
        victims = Victims(client, database_name)
        with losing(proxied) as lose:
            async with anyio.create_task_group() as group:
                await victims.start(group)
                async with under_load(client, database_name) as load:
                    lost = await in_thread(lose)
                    await load.goes_on(TASKS)
            assert load.errors == []
            victims.assert_failed("update", "getMore", kind=kind)
            assert await client.primary != lost
        await assert_nothing_left(client)


async def test_a_member_that_leaves_and_comes_back(replica_set3: LocalServer, database_name: str) -> None:
    def reconfigure(change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
        configuration = replica_set3.command({"replSetGetConfig": 1})["config"]
        configuration["members"] = change(configuration["members"])
        configuration["version"] += 1
        replica_set3.command({"replSetReconfig": configuration})

    async with make_client(replica_set3, localThresholdMS=60_000, **WATCHFUL) as client:
        await all_known(client)
        primary = await in_thread(replica_set3.wait_for_primary)
        leaving = next(address for address in replica_set3.addresses if address != primary)
        removed: list[dict[str, Any]] = []
        # Both secondaries get connections.
        for _ in range(20):
            await client[database_name].c.with_options(read_preference=Secondary()).find_one()
        assert client.stats().servers[leaving].idle

        def without(members: list[dict[str, Any]]) -> list[dict[str, Any]]:
            removed.extend(one for one in members if one["host"].endswith(f":{leaving[1]}"))
            return [one for one in members if one not in removed]

        async with under_load(client, database_name) as load:
            try:
                await in_thread(reconfigure, without)
                await until(lambda: client.nodes == set(replica_set3.addresses) - {leaving})
                await load.goes_on(TASKS)
                await until(lambda: background() == {"host": 1, "Monitor._run": 2, "Monitor._measure": 2})
                await until(lambda: sockets_to({leaving[1]}) == 0)
                assert set(client.stats().servers) == client.nodes
            finally:
                await in_thread(reconfigure, lambda members: [*members, *removed])
            await until(lambda: client.nodes == set(replica_set3.addresses))
        assert load.errors == []
        await assert_nothing_left(client)


# --- the network ---


PASSING: dict[str, Callable[[FaultProxy], None]] = {
    "reset": FaultProxy.reset,
    "end in order": FaultProxy.hang_up,
    "delay": lambda proxy: proxy.delay(0.01),
    "narrow": lambda proxy: proxy.limit(100_000),
    "drip": lambda proxy: proxy.drip(0.0005),
    "silence": FaultProxy.hold,
}
LASTING: dict[str, Callable[[FaultProxy], None]] = {
    "refusal": refuse_and_reset,
    "silence": FaultProxy.hold,
    "black hole": FaultProxy.black_hole,
    "half open": FaultProxy.half_open,
}


async def test_short_faults_between_clients_and_the_primary(proxied: LocalServer, database_name: str) -> None:
    async with make_client(proxied, **WATCHFUL) as client:
        await all_known(client)
        primary = await in_thread(proxied.wait_for_primary)
        proxy = proxied.proxies[primary]
        proxy.harms = "clients"
        for name, begin in PASSING.items():
            async with under_load(client, f"{database_name}_{name.replace(' ', '_')}") as load:
                begin(proxy)
                await anyio.sleep(0.1)
                proxy.heal()
            assert load.errors == [], name
        assert await client.primary == primary
        await assert_nothing_left(client)


@pytest.mark.parametrize("fault", LASTING)
async def test_clients_lose_a_primary_that_its_members_keep(
    proxied: LocalServer, database_name: str, fault: str
) -> None:
    async with make_client(proxied, **WATCHFUL) as client:
        await all_known(client)
        primary = await in_thread(proxied.wait_for_primary)
        proxy = proxied.proxies[primary]
        proxy.harms = "clients"
        async with under_load(client, database_name) as load:
            LASTING[fault](proxy)
            await until(lambda: client.stats().servers[primary].server_type == "Unknown")
            proxy.heal()
        assert load.errors == []
        assert await client.primary == primary
        await assert_nothing_left(client)


async def test_everybody_loses_the_primary(proxied: LocalServer, database_name: str) -> None:
    async with make_client(proxied, **WATCHFUL) as client:
        await all_known(client)
        primary = await in_thread(proxied.wait_for_primary)
        async with under_load(client, database_name) as load:
            proxied.proxies[primary].black_hole()
            await load.goes_on(TASKS)
            assert await client.primary != primary
            proxied.proxies[primary].heal()
        assert load.errors == []
        await assert_nothing_left(client)
