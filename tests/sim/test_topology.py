"""Discovery through the whole machinery: servers that come, go and change their minds; events in order; the end."""

from __future__ import annotations

import asyncio
import gc
import warnings
from typing import TYPE_CHECKING, Any

import anyio
import pytest
import trio
from bson.objectid import ObjectId

from motorlite import monitoring as events
from motorlite._topology.monitor import MAX_BURST
from motorlite._topology.selection import WRITABLE
from motorlite._topology.topology import Topology
from motorlite.errors import (
    AutoReconnect,
    InvalidOperation,
    NameResolutionError,
    NotPrimaryError,
    ProxyError,
    ProxyTimeout,
    PyMongoError,
)
from motorlite.read_preferences import ReadPreference
from motorlite.testing.scripted import Hang, Reply, ScriptedDeployment, failure
from tests.support import virtual_time
from tests.support.clients import make_client
from tests.support.core import Driver, driver, find, insert, run_command
from tests.support.pools import settle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

pytestmark = pytest.mark.anyio


def replica_set(*hosts: str, streaming: bool = True) -> ScriptedDeployment:
    """The first host is the primary."""
    return ScriptedDeployment([f"{host}:1" for host in hosts or "abc"], replica_set="rs", streaming=streaming)


def discovered(client: Any) -> Topology:
    """The topology itself, not what stands for it until SRV records are known."""
    assert isinstance(client.core.topology, Topology)
    return client.core.topology


async def announce(deployment: ScriptedDeployment, hosts: str) -> None:
    """Let these servers tell their news, one after the other."""
    for host in hosts:
        deployment[f"{host}:1"].announce()
        await settle()


# --- discovery ---


async def test_events_of_the_discovery_of_a_replica_set() -> None:
    deployment = replica_set("a", "b")
    deployment["b:1"].hello_delay = 1.0
    async with driver(deployment, uri="mongodb://a:1/?replicaSet=rs", connect=False) as client:
        await anyio.sleep(2)
        assert client.types() == {"a": "RSPrimary", "b": "RSSecondary"}
        assert client.log.words("server|topology") == [
            "topology opened",
            "topology changed Unknown to ReplicaSetNoPrimary",
            "server opening a",
            "server changed a Unknown to RSPrimary",
            "server opening b",
            "topology changed ReplicaSetNoPrimary to ReplicaSetWithPrimary",
            "server changed b Unknown to RSSecondary",
            "topology changed ReplicaSetWithPrimary to ReplicaSetWithPrimary",
        ]
        await client.core.close()
        assert client.log.words("server|topology") == [
            "server closed a",
            "server closed b",
            "topology changed ReplicaSetWithPrimary to Unknown",
            "topology closed",
        ]


async def test_events_of_one_client_have_one_topology_id() -> None:
    deployment = replica_set("a")
    ids: list[Any] = []
    for _ in range(2):
        async with driver(deployment, connect=False) as client:
            await anyio.sleep(1)
            found = {event.topology_id for event in client.log.of(events.TopologyEvent)}
        assert len(found) == 1
        ids += found
    assert ids[0] != ids[1]


async def test_checks_that_find_nothing_new_are_not_told() -> None:
    deployment = replica_set(streaming=False)
    async with driver(deployment, connect=False) as client:
        await anyio.sleep(1)
        description = client.core.topology.description
        client.log.words()
        await anyio.sleep(25)
        assert client.log.words("server|topology") == []
        assert client.core.topology.description is not description, "round-trip times are kept up to date, though"


async def test_a_load_balancer_that_does_not_answer_one_client() -> None:
    # The pool is ready before the event loop got to run the client's background work.
    deployment = ScriptedDeployment(["a:1"], mongos=True)
    deployment["a:1"].hello = {"serviceId": ObjectId()}
    async with driver(deployment, uri="mongodb://a:1/?loadBalanced=true", connect=False) as client:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await client.run()
        assert scope.cancelled_caught
        await client.run()
        assert not client.server("a").pool.state.in_use


# --- changes ---


async def test_a_server_joins_and_one_leaves() -> None:
    deployment = replica_set("a", "b")
    async with driver(deployment, connect=False) as client:
        await client.run(find(selector=ReadPreference.SECONDARY))
        await anyio.sleep(1)
        client.log.words()
        client.pool_log.words()
        deployment.add("c:1")
        deployment.remove("b:1")
        await announce(deployment, "a")
        assert client.types() == {"a": "RSPrimary", "c": "RSSecondary"}
        assert client.log.words("server|topology") == [
            "server changed a RSPrimary to RSPrimary",
            "server opening c",
            "server closed b",
            "topology changed ReplicaSetWithPrimary to ReplicaSetWithPrimary",
            "server changed c Unknown to RSSecondary",
            "topology changed ReplicaSetWithPrimary to ReplicaSetWithPrimary",
        ]
        assert client.pool_log.words() == ["pool created", "closed 1 poolClosed", "pool closed", "pool ready"]
        assert not deployment["b:1"].open_connections, "its monitor has gone as well"
        await anyio.sleep(30)
        assert not deployment["b:1"].open_connections
        assert await client.select(ReadPreference.SECONDARY) == "c"


async def test_operations_on_a_server_that_leaves() -> None:
    deployment = replica_set("a", "b")
    deployment["b:1"].on("find", Reply({"cursor": {"id": 0, "ns": "d.c", "firstBatch": [{"_id": 1}]}}, 5.0))
    async with driver(deployment, maxPoolSize=1, connect=False) as client, anyio.create_task_group() as group:
        await anyio.sleep(1)
        outcome: list[Any] = []

        async def read() -> None:
            outcome.append((await client.run(find(selector=ReadPreference.SECONDARY_PREFERRED))).reply.documents)

        group.start_soon(read)
        await settle()
        group.start_soon(read)
        await settle()
        begun = client.now
        deployment.remove("b:1")
        await announce(deployment, "a")
        assert client.now == begun
        assert outcome == [[]], "who waited for a connection goes to another member, at once"
        await anyio.sleep(6)
        assert outcome[1] == [{"_id": 1}], "what was under way may end"
        assert not deployment["b:1"].open_connections


def elect(deployment: ScriptedDeployment, host: str, election: int) -> None:
    """Let a server claim to be the primary of this election."""
    deployment[f"{host}:1"].hello = {
        "isWritablePrimary": True,
        "ismaster": True,
        "secondary": False,
        "electionId": ObjectId(f"{election:024x}"),
    }


async def test_two_primaries() -> None:
    deployment = replica_set("a", "b")
    elect(deployment, "a", 1)
    async with driver(deployment, connect=False) as client:
        await client.run(insert())
        await anyio.sleep(1)
        client.log.words()
        client.pool_log.words()
        elect(deployment, "b", 2)
        await announce(deployment, "b")
        # The newer election deposes the older one, in whichever order they arrive.
        assert client.types() == {"a": "Unknown", "b": "RSPrimary"}
        error = client.description("a").error
        assert isinstance(error, NotPrimaryError)
        assert "discovery of newer primary" in str(error)
        assert client.log.words("server|topology") == [
            "server changed b RSSecondary to RSPrimary",
            "server changed a RSPrimary to Unknown",
            "topology changed ReplicaSetWithPrimary to ReplicaSetWithPrimary",
        ]
        await announce(deployment, "a")
        assert client.types() == {"a": "Unknown", "b": "RSPrimary"}
        assert "stale" in str(client.description("a").error)
        assert client.pool_log.words("cleared") == []
        assert await client.select(WRITABLE) == "b"
        deployment["a:1"].hello = {}
        deployment.step_down("b:1")
        await announce(deployment, "a")
        assert client.types() == {"a": "RSSecondary", "b": "RSPrimary"}


async def test_a_deposed_primary_that_is_polled_is_checked_soon() -> None:
    deployment = replica_set("a", "b", streaming=False)
    elect(deployment, "a", 1)
    deployment["b:1"].hello_delay = 2.0
    async with driver(deployment, connect=False) as client:
        elect(deployment, "b", 2)
        await anyio.sleep(1)
        assert client.types()["a"] == "RSPrimary"
        deployment["a:1"].hello = {}
        deployment.step_down("b:1")
        await anyio.sleep(1)
        await settle()
        assert client.types() == {"a": "RSSecondary", "b": "RSPrimary"}
        assert "server changed a RSPrimary to Unknown" in client.log.words()


@pytest.mark.parametrize("streaming", [False, True])
async def test_names_that_lead_to_each_others_members_cause_no_storm_of_connections(streaming: bool) -> None:
    # As with two forwarded ports that were mistaken for each other: each member makes itself leave and the other join.
    deployment = replica_set("a", "b", streaming=streaming)
    deployment.step_down(None)
    for host, other in ("ab", "ba"):
        deployment[f"{host}:1"].hello = {"me": f"{other}:1"}
        deployment[f"{host}:1"].hello_delay = 0.01
    async with driver(deployment, connect=False) as client:
        await anyio.sleep(60)
        made = sum(server.connections_made for server in deployment.servers.values())
        assert made <= 60 / 0.5 + 2 * MAX_BURST, "about one in each minimum heartbeat interval"
        deployment.step_down("a:1")
        begun = client.now
        assert await client.select(WRITABLE) == "a"
        assert client.now - begun < 1.1


# --- errors of operations and of connecting ---


async def test_not_primary() -> None:
    deployment = replica_set("a", "b")
    server = deployment["a:1"]
    async with driver(deployment, retryWrites=False, connect=False) as client:
        await client.run(insert())
        await anyio.sleep(1)
        client.log.words()
        client.pool_log.words()
        # The server's version in the reply is as old as what is known: the news were overtaken.
        stale = {"processId": server.process_id, "counter": server.counter}
        server.on("insert", failure(10107, topologyVersion=stale))
        with pytest.raises(NotPrimaryError):
            await client.run(insert())
        assert client.types()["a"] == "RSPrimary"
        server.on("insert", failure(10107, topologyVersion={**stale, "counter": 1}))
        with pytest.raises(NotPrimaryError):
            await client.run(insert())
        assert client.types()["a"] == "Unknown"
        assert client.log.words() == [
            "server changed a RSPrimary to Unknown",
            "topology changed ReplicaSetWithPrimary to ReplicaSetNoPrimary",
        ]
        assert client.pool_log.words("pool") == [], "since 4.2 the connections stay good"


async def test_a_check_that_was_overtaken_is_old_news() -> None:
    deployment = replica_set("a", "b")
    server = deployment["a:1"]
    server.counter = 5
    async with driver(deployment, connect=False) as client:
        await anyio.sleep(1)
        client.log.words()
        server.counter = 3
        deployment.step_down(None)
        await announce(deployment, "a")
        assert client.types()["a"] == "RSPrimary"
        assert client.log.words("server|topology") == []
        server.counter = 5
        await announce(deployment, "a")
        assert client.types()["a"] == "RSSecondary"


async def test_an_error_of_a_server_that_has_left_is_nobodys_business() -> None:
    deployment = replica_set("a", "b")
    async with driver(deployment, connect=False) as client:
        await anyio.sleep(1)
        topology, server = discovered(client), client.server("b")
        deployment.remove("b:1")
        await announce(deployment, "a")
        client.log.words()
        server.failed(AutoReconnect("lost"), 0)
        assert topology._on_check_failed(("b", 1), AutoReconnect("lost")) is False
        assert client.log.words() == []
        # Not even when another one came to the same address.
        deployment.add("b:1")
        await announce(deployment, "a")
        assert client.types() == {"a": "RSPrimary", "b": "RSSecondary"}
        server.failed(AutoReconnect("lost"), 0)
        assert client.types() == {"a": "RSPrimary", "b": "RSSecondary"}


@pytest.mark.parametrize("kind", [NameResolutionError, ProxyError, ProxyTimeout])
async def test_a_failure_that_is_no_overload(kind: type[PyMongoError]) -> None:
    """A name that does not resolve any more, a proxy that is gone."""
    deployment = replica_set("a")
    async with driver(deployment, serverSelectionTimeoutMS=3000, connect=False) as client:
        await anyio.sleep(1)
        begun = client.now
        deployment["a:1"].connect_error = lambda: kind("a:1: no way to it")
        with pytest.raises(kind):
            await client.run(run_command())
        assert client.types() == {"a": "Unknown"}
        assert client.pool_log.words("cleared|closed") == ["pool cleared", "closed 1 error"]
        assert client.now == begun


# --- the end ---


async def test_close_twice_and_news_after_it() -> None:
    deployment = replica_set("a", "b")
    async with driver(deployment, connect=False) as client:
        await client.run(insert())
        topology, server = discovered(client), client.server("a")
        await client.core.close()
        await client.core.close()
        client.log.words()
        topology.close()
        topology._apply(server.description)
        server.failed(AutoReconnect("late"), 0)
        assert client.log.words() == []
        assert not topology.servers


async def test_no_task_is_left_after_close(anyio_backend_name: str) -> None:
    def tasks() -> int:
        if anyio_backend_name == "trio":
            return trio.lowlevel.current_statistics().tasks_living
        return len(asyncio.all_tasks())

    deployment = replica_set()
    deployment["b:1"].is_unreachable = True
    deployment["c:1"].on("isMaster", Hang())
    before = tasks()
    async with driver(deployment, minPoolSize=2, maxIdleTimeMS=5000, connect=False) as client:
        await client.run(insert())
        await anyio.sleep(15)
        assert tasks() > before
        await client.core.close()
        await deployment.close()
        await settle()
        assert tasks() == before


# --- an event loop that ends first ---


def forgotten(deployment: ScriptedDeployment, main: Callable[[Driver], Awaitable[None]]) -> None:
    """What is left to see when the loop of a client ends and nobody has closed it."""
    for backend in virtual_time.BACKENDS:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")

            async def run() -> None:
                client = Driver(deployment, minPoolSize=1, maxPoolSize=2)
                client.core.enter()
                await main(client)

            if backend == "asyncio":
                with asyncio.Runner(loop_factory=virtual_time.VirtualTimeLoop) as runner:
                    runner.run(run())
            else:
                trio.run(run, clock=virtual_time.trio_clock())
            gc.collect()
        (warning,) = caught
        assert warning.category is ResourceWarning
        assert not any(server.open_connections for server in deployment.servers.values())


def test_a_loop_that_ends_without_close(caplog: pytest.LogCaptureFixture) -> None:
    async def main(client: Driver) -> None:
        await client.run(insert())
        await client.run(find(selector=ReadPreference.SECONDARY_PREFERRED))
        await anyio.sleep(12)

    async def nothing(client: Driver) -> None:
        return None

    forgotten(replica_set(), main)
    forgotten(replica_set(), nothing)
    assert caplog.text == ""


@pytest.mark.parametrize("delay", [0.0, 0.5, 3.0], ids=["at once", "while connecting", "while waiting"])
def test_a_loop_that_ends_while_operations_run(caplog: pytest.LogCaptureFixture, delay: float) -> None:
    deployment = replica_set("a")
    deployment["a:1"].hello_delay = 0.3
    deployment["a:1"].on("find", Hang())

    async def main(client: Driver) -> None:
        if trio.lowlevel.in_trio_run():
            async with trio.open_nursery() as nursery:
                for _ in range(5):
                    nursery.start_soon(client.run, find())
                await trio.sleep(delay)
                nursery.cancel_scope.cancel()
        else:
            background = [asyncio.get_running_loop().create_task(client.run(find())) for _ in range(5)]
            await asyncio.sleep(delay)
            assert not any(task.done() for task in background)

    forgotten(deployment, main)
    assert caplog.text == ""


async def test_a_client_that_was_never_used() -> None:
    deployment = replica_set("a")
    core = make_client(deployment)._core
    assert core._runtime is None
    assert core.topology_description.topology_type_name == "ReplicaSetNoPrimary"
    await core.close()
    with pytest.raises(InvalidOperation, match="closed"):
        core.enter()
    assert deployment["a:1"].connections_made == 0
