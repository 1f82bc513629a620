"""The test plan of the server selection specification, as far as real servers are needed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from anyio import create_task_group

from motorlite.monitoring import CommandStartedEvent
from motorlite.testing import failpoints
from tests.support.clients import make_client
from tests.support.events import Recorder
from tests.support.waiting import until

if TYPE_CHECKING:
    from motorlite.testing import LocalServer
    from tests.support.mongos.cluster import Cluster

pytestmark = pytest.mark.anyio


def highest_port(servers: list[Any]) -> list[Any]:
    return [max(servers, key=lambda server: server.address[1])]


@pytest.mark.slow
async def test_plan_4_the_less_busy_server_is_chosen(cluster: Cluster, database_name: str) -> None:
    """Test plan, "operationCount-based Selection Within Latency Window".

    That servers equally busy get the same share is shown in tests/sim: both mongos of the facade share one thread.
    """
    record = Recorder(CommandStartedEvent)
    name = "loadBalancingTest"
    options: dict[str, Any] = {"appname": name, "localThresholdMS": 30_000, "minPoolSize": 10, "maxPoolSize": 10}
    async with make_client(cluster.uri, event_listeners=[record], **options) as client:

        async def finds(count: int) -> None:
            for _ in range(count):
                await client[database_name].coll.find_one()

        def places() -> Counter[Any]:
            return Counter(event.connection_id for event in record.events if event.command_name == "find")

        await client.aconnect()
        await until(lambda: [stats.idle for stats in client.stats().servers.values()] == [10, 10])
        cluster.command(0, failpoints.fail_command(["find"], block_ms=100, app_name=name, times=10_000))
        async with create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(finds, 10)
        assert places().total() == 100
        assert places()[cluster.addresses[0]] < 25


async def test_plan_5_the_applications_own_selector(replica_set3: LocalServer, database_name: str) -> None:
    """Test plan, "Application-Provided Server Selector"."""
    record = Recorder()
    options: dict[str, Any] = {"readPreference": "nearest", "server_selector": highest_port}
    async with make_client(replica_set3, event_listeners=[record], **options) as client:
        await client.admin.command("ping")
        await until(lambda: len(client.topology_description.known_servers) == 3)
        record.clear()
        for _ in range(10):
            await client[database_name].coll.find_one()
    assert record.names[:10] == ["find"] * 10
    highest = max(replica_set3.addresses, key=lambda address: address[1] or 0)
    assert {event.connection_id for event in record.started_events[:10]} == {highest}
