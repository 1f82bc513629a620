"""Nothing is kept about servers that left the deployment: a cluster whose routers are replaced must not fill memory."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite._base.values import format_address
from motorlite.errors import PyMongoError
from motorlite.exporters._measurements import Measurements, measured
from motorlite.exporters._readings import readings
from motorlite.overload import CircuitBreaker, ConcurrencyLimit, WaitQueue
from motorlite.retry import RetryBudget
from motorlite.testing.scripted import Close, Hang, ScriptedDeployment
from tests.support.clients import scripted_client
from tests.support.core import OVERLOADED

if TYPE_CHECKING:
    from motorlite._topology.topology import Topology
    from tests.support.clients import Client

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

LIVE = 4
ROUNDS = 12


class Cluster:
    """A sharded cluster whose routers are all replaced again and again."""

    def __init__(self) -> None:
        self.hosts = [f"h{number}:1" for number in range(LIVE * ROUNDS)]
        self.deployment = ScriptedDeployment(self.hosts, mongos=True)
        self.budget = RetryBudget(per_server=10)
        self.measurements = Measurements()

    def group(self, number: int) -> list[str]:
        return self.hosts[LIVE * number : LIVE * (number + 1)]

    @property
    def options(self) -> dict[str, Any]:
        return {
            "uri": f"mongodb://{','.join(self.group(0))}",
            "circuit_breaker": CircuitBreaker(min_operations=2, open_for=3600),
            "concurrency_limit": ConcurrencyLimit(),
            "wait_queue": WaitQueue("queue"),
            "retry_budget": self.budget,
            "event_listeners": [self.measurements],
            "maxAdaptiveRetries": 2,
        }

    async def work(self, client: Client, number: int) -> None:
        """Fail in all ways on the servers of a group; some operations are in flight when this ends."""
        for host in self.group(number):
            server = self.deployment[host]
            server.on("ping", OVERLOADED)
            server.on("hang", Hang())
            server.on("drop", Close())

        async def run(name: str) -> None:
            with pytest.raises(PyMongoError):
                await client.admin.command(name)

        async with anyio.create_task_group() as group:
            for _ in range(2 * LIVE):
                for name in ("ping", "drop"):
                    group.start_soon(run, name)


def kept(cluster: Cluster, client: Client) -> dict[str, int]:
    """How many servers each part of the client knows."""
    core = client._core
    topology: Topology = core.topology
    assert core._limits is not None
    gates = core._limits.gates
    stats = client.stats()
    known = {
        "h" + label.partition(":")[0][1:]
        for reading in (*measured(cluster.measurements, has_queue=False), *readings(stats))
        for label in reading.labels
        if re.match(r"h\d", label)
    }
    return {
        "gates": len(gates._current),
        "broken": len(gates.broken),
        "budget": len(cluster.budget._servers),
        "statistics": len(stats.servers),
        "metrics": len(known),
        "left": len(topology._left),
    }


async def replace(cluster: Cluster, client: Client, number: int) -> None:
    topology: Topology = client._core.topology
    topology.use_hosts([(host.partition(":")[0], 1) for host in cluster.group(number)])
    await anyio.sleep(1)


async def test_nothing_is_kept_about_servers_that_left() -> None:
    cluster = Cluster()
    async with scripted_client(cluster.deployment, **cluster.options) as client:
        for number in range(1, ROUNDS):
            await cluster.work(client, number - 1)
            await replace(cluster, client, number)
        found = kept(cluster, client)
        assert found["statistics"] == found["gates"] == LIVE
        assert found["metrics"] <= LIVE
        assert (found["broken"], found["budget"], found["left"]) == (0, 0, 0)


async def test_nor_about_those_that_operations_were_using() -> None:
    """They end, and fail, after their servers have left."""
    cluster = Cluster()
    async with scripted_client(cluster.deployment, **cluster.options) as client:
        for number in range(1, ROUNDS):
            for host in cluster.group(number - 1):
                cluster.deployment[host].on("hang", Hang())

            async def hang() -> None:
                with pytest.raises(PyMongoError):
                    await client.admin.command("hang")

            async with anyio.create_task_group() as group:
                for _ in range(2 * LIVE):
                    group.start_soon(hang)
                await anyio.sleep(0.5)
                await replace(cluster, client, number)
                for host in cluster.group(number - 1):
                    cluster.deployment[host].drop_connections()
                    cluster.deployment[host].is_down = True
            # An answer of another server makes a new description.
            await anyio.sleep(20)
        found = kept(cluster, client)
        assert found["statistics"] == found["gates"] == LIVE
        assert found["metrics"] <= LIVE
        assert (found["broken"], found["budget"]) == (0, 0)
        assert found["left"] <= LIVE


async def test_a_server_that_returns_starts_afresh() -> None:
    cluster = Cluster()
    async with scripted_client(cluster.deployment, **cluster.options) as client:
        await cluster.work(client, 0)
        broken = [address for address, each in client.stats().servers.items() if each.breaker.state == "open"]  # type: ignore[union-attr]
        assert broken
        for address in broken:
            # Retries have been paid for some of them only, by chance.
            cluster.budget.take(address)
            tokens = cluster.budget.tokens_for(address)
            assert tokens is not None
            assert tokens < 10
        await replace(cluster, client, 1)
        await replace(cluster, client, 0)
        for address in broken:
            stats = client.stats().servers[address]
            assert stats.breaker is not None
            assert stats.breaker.state == "closed", format_address(address)
            assert stats.retry_tokens == 10
