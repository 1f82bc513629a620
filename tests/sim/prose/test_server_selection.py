"""The test plan of the server selection specification, in virtual time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import anyio
import pytest

from motorlite._net import host
from motorlite._options.options import client_options
from motorlite._topology.monitor import RoundTripTimes
from motorlite.errors import ConfigurationError
from motorlite.monitoring import CommandStartedEvent
from motorlite.read_preferences import Nearest, Primary, PrimaryPreferred, Secondary, SecondaryPreferred
from motorlite.testing.scripted import Close, Reply, ScriptedDeployment
from tests.support.clients import scripted_client
from tests.support.core import driver
from tests.support.events import Recorder

pytestmark = pytest.mark.anyio

FOUND = {"cursor": {"id": 0, "ns": "db.coll", "firstBatch": []}}


def test_plan_1_a_primary_with_tags_is_refused() -> None:
    """Test plan, "ReadPreference Document Validation"."""
    with pytest.raises(ConfigurationError):
        client_options("mongodb://a/", readPreference="primary", readPreferenceTags=[{"dc": "east"}])


def test_plan_2_round_trip_times() -> None:
    """Test plan, "Calculating Round Trip Time"."""
    times = RoundTripTimes()
    times.add(0.1)
    assert times.average == 0.1
    times.add(0.2)
    assert times.average == pytest.approx(0.12)
    with pytest.raises(ValueError, match="negative"):
        times.add(-0.1)
    assert times.average == pytest.approx(0.12)


async def test_plan_2_round_trip_times_begin_anew_when_a_server_was_lost() -> None:
    """Test plan, "Calculating Round Trip Time", the last paragraph of the scenarios."""
    deployment = ScriptedDeployment(["a:1"])
    server = deployment["a:1"]
    server.hello_delay = 0.2
    async with driver(deployment, connect=False) as client:
        await anyio.sleep(1)
        assert client.description("a").round_trip_time == pytest.approx(0.2)
        server.on("hello", Close())
        server.is_down = True
        await anyio.sleep(11)
        assert client.types() == {"a": "Unknown"}
        assert client.description("a").round_trip_time is None
        server.hello_delay, server.is_down = 0.3, False
        server.on("hello")
        await anyio.sleep(11)
        assert client.description("a").round_trip_time == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("preference", "document"),
    [
        (Primary(), None),
        (PrimaryPreferred(), {"mode": "primaryPreferred"}),
        (Secondary(), {"mode": "secondary"}),
        (SecondaryPreferred(), {"mode": "secondaryPreferred"}),
        (SecondaryPreferred(tag_sets=[{"dc": "east"}]), {"mode": "secondaryPreferred", "tags": [{"dc": "east"}]}),
        (Nearest(), {"mode": "nearest"}),
    ],
    ids=str,
)
async def test_plan_3_the_read_preference_that_a_mongos_gets(preference: Any, document: Any) -> None:
    """Test plan, "Passing ReadPreference to Mongos"; OP_MSG knows no SecondaryOk."""
    deployment = ScriptedDeployment(["a:1"], mongos=True)
    async with scripted_client(deployment) as motor:
        await motor.db.get_collection("coll", read_preference=preference).find_one()
    (command,) = deployment["a:1"].commands("find")
    assert command.get("$readPreference") == document


async def test_plan_4_the_less_busy_server_is_chosen() -> None:
    """Test plan, "operationCount-based Selection Within Latency Window"."""
    deployment = ScriptedDeployment(["a:1", "b:1"], mongos=True)
    recorder = Recorder(CommandStartedEvent)
    options = {"appname": "loadBalancingTest", "localThresholdMS": 30_000, "minPoolSize": 10, "maxPoolSize": 10}
    world = {"below": host.below}
    async with scripted_client(deployment, world=world, event_listeners=[recorder], **options) as motor:

        async def finds(count: int) -> None:
            for _ in range(count):
                await motor.db.coll.find_one()

        def places() -> Counter[str]:
            return Counter(event.connection_id[0] for event in recorder.events if event.command_name == "find")

        deployment["a:1"].on("find", Reply(FOUND, delay=0.5))
        deployment["b:1"].on("find", Reply(FOUND, delay=0.001))
        await motor.admin.command("ping")
        # The pools are saturated then.
        await anyio.sleep(30)
        assert [stats.idle for stats in motor.stats().servers.values()] == [10, 10]
        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(finds, 10)
        busy = places()
        assert busy["a"] < 25
        assert busy.total() == 100
        recorder.clear()
        deployment["a:1"].on("find", Reply(FOUND, delay=0.001))
        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(finds, 100)
        assert places().total() == 1000
        assert 400 <= places()["a"] <= 600


async def test_plan_5_the_applications_own_selector() -> None:
    """Test plan, "Application-Provided Server Selector": it is asked by each selection, and may change its mind."""
    deployment = ScriptedDeployment(["h:1", "h:2", "h:3"], replica_set="rs")
    wanted = 3

    def selector(servers: list[Any]) -> list[Any]:
        asked.append([server.address for server in servers])
        return [server for server in servers if server.address[1] == wanted]

    asked: list[Any] = []
    options = {"readPreference": "nearest", "server_selector": selector}
    async with scripted_client(deployment, **options) as motor:
        for _ in range(10):
            await motor.db.coll.find_one()
        assert [len(server.commands("find")) for server in deployment.servers.values()] == [0, 0, 10]
        before = len(asked)
        wanted = 1
        await motor.db.coll.find_one()
        assert len(deployment["h:1"].commands("find")) == 1
        assert len(asked) == before + 1
        assert all(asked), "it is asked when there are servers only"
