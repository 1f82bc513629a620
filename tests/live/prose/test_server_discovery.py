"""The prose tests and the test plan of the server discovery specification that a real server can show."""

from __future__ import annotations

from contextlib import suppress
from itertools import groupby
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite import AsyncMongoClient
from motorlite._base.values import format_address
from motorlite.errors import NotPrimaryError, ServerSelectionTimeoutError
from motorlite.monitoring import (
    PoolClearedEvent,
    PoolReadyEvent,
    ServerDescriptionChangedEvent,
    ServerHeartbeatEvent,
    ServerHeartbeatFailedEvent,
    ServerHeartbeatStartedEvent,
    ServerHeartbeatSucceededEvent,
)
from motorlite.testing import failpoints
from tests.support.clients import make_client
from tests.support.events import Recorder
from tests.support.waiting import until

if TYPE_CHECKING:
    from motorlite.testing import LocalServer
    from tests.live.conftest import Fail

pytestmark = pytest.mark.anyio

HELLO = ("hello", "isMaster", "ismaster")


WORDS = {
    ServerHeartbeatSucceededEvent: "heartbeat succeeded",
    ServerHeartbeatFailedEvent: "heartbeat failed",
    PoolReadyEvent: "pool ready",
    PoolClearedEvent: "pool cleared",
}


def happenings(recorder: Recorder) -> list[str]:
    """What happened to the server and its pool, without what happened twice in a row."""
    return [WORDS[kind] for kind, _ in groupby(map(type, recorder.of(*WORDS)))]


@pytest.mark.parametrize("kind", ["standalone", "replica_set"])
async def test_streaming_1_replies_come_every_heartbeat(request: pytest.FixtureRequest, kind: str) -> None:
    """Streaming protocol tests, 1."""
    log = Recorder()
    server: LocalServer = request.getfixturevalue(kind)
    async with make_client(server, heartbeatFrequencyMS=500, event_listeners=[log]) as client:
        await client.admin.command("ping")
        log.clear()
        begun = anyio.current_time()
        await until(lambda: len(log.of(ServerHeartbeatSucceededEvent)) >= 4, 20)
        # By default it would be half a minute; and it is not as often as can be.
        assert anyio.current_time() - begun >= 1.4
        assert all(event.awaited for event in log.of(ServerHeartbeatSucceededEvent))


async def test_rtt_1_it_is_updated_continuously(replica_set: LocalServer, fail: Fail) -> None:
    """RTT tests, 1."""
    log = Recorder()
    options: dict[str, Any] = {"heartbeatFrequencyMS": 500, "appname": "streamingRttTest"}
    async with make_client(replica_set, event_listeners=[log], **options) as client:
        await client.db.coll.find_one()
        await anyio.sleep(2)
        changed = log.of(ServerDescriptionChangedEvent)
        assert changed
        assert all(event.new_description.round_trip_time > 0 for event in changed)
        fail(replica_set, failpoints.fail_command(HELLO, block_ms=500, times=1000, app_name="streamingRttTest"))
        (address,) = replica_set.addresses
        await until(lambda: (client.stats().servers[address].round_trip_time or 0.0) > 0.25, 30)


async def test_heartbeat_1_it_starts_before_the_socket_is_made() -> None:
    """Heartbeat tests, 1."""
    recorder = Recorder(ServerHeartbeatEvent)

    async def serve(stream: anyio.abc.SocketStream) -> None:
        recorder.events.append("client connected")
        # The last connection may be closed by the client before it says hello.
        async with stream:
            with suppress(anyio.EndOfStream):
                await stream.receive()
                recorder.events.append("client hello received")

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        address = listener.extra(anyio.abc.SocketAttribute.local_address)
        uri = f"mongodb://{address[0]}:{address[1]}/?serverSelectionTimeoutMS=500"
        async with make_client(uri, event_listeners=[recorder]) as client:
            with pytest.raises(ServerSelectionTimeoutError):
                await client.admin.command("ping")
        group.cancel_scope.cancel()
    assert [each if isinstance(each, str) else type(each) for each in recorder.events[:4]] == [
        ServerHeartbeatStartedEvent,
        "client connected",
        "client hello received",
        ServerHeartbeatFailedEvent,
    ]


async def secondary_uri(server: LocalServer, query: str) -> str:
    async with make_client(server) as client:
        await client.admin.command("ping")
        await until(lambda: len(client.topology_description.known_servers) == 3)
        address = next(iter(await client.secondaries))
    return f"mongodb://{format_address(address)}/{query}"


async def test_plan_7_topology_discovery(replica_set3: LocalServer, database_name: str) -> None:
    """Test plan, "Topology discovery": the primary is found, and the write succeeds."""
    async with make_client(await secondary_uri(replica_set3, "?directConnection=false")) as client:
        assert (await client[database_name].coll.insert_one({})).acknowledged


async def test_plan_8_direct_connection(replica_set3: LocalServer, database_name: str) -> None:
    """Test plan, "Direct connection": the secondary refuses the write."""
    async with make_client(await secondary_uri(replica_set3, "?directConnection=true")) as client:
        with pytest.raises(NotPrimaryError):
            await client[database_name].coll.insert_one({})


async def test_plan_9_existing_behavior(replica_set3: LocalServer, database_name: str) -> None:
    """Test plan, "Existing behavior": without the option the topology is discovered."""
    async with make_client(await secondary_uri(replica_set3, "")) as client:
        assert (await client[database_name].coll.insert_one({})).acknowledged


async def test_plan_10_monitors_sleep_between_failed_checks(standalone: LocalServer, fail: Fail) -> None:
    """Test plan, "Monitors sleep at least minHeartbeatFrequencyMS between checks"."""
    name = "SDAMMinHeartbeatFrequencyTest"
    fail(standalone, failpoints.fail_command(HELLO, error_code=1234, times=5, app_name=name))
    # Not through make_client, which makes the minimum shorter.
    options: dict[str, Any] = {"directConnection": True, "appname": name, "serverSelectionTimeoutMS": 5000}
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(standalone.uri, **options)
    async with client:
        begun = anyio.current_time()
        await client.admin.command("ping")
        # The plan says 3.5 at most, for a machine that has nothing else to do.
        assert 2.0 <= anyio.current_time() - begun <= 5.0


async def test_plan_11_monitors_make_pools_ready_and_clear_them(standalone: LocalServer, fail: Fail) -> None:
    """Test plan, "Connection Pool Management"."""
    recorder = Recorder()
    options: dict[str, Any] = {"directConnection": True, "appname": "SDAMPoolManagementTest"}
    options |= {"heartbeatFrequencyMS": 500, "event_listeners": [recorder]}
    async with make_client(standalone, **options) as client:
        await client.admin.command("ping")
        assert happenings(recorder)[:2] == ["heartbeat succeeded", "pool ready"]
        recorder.clear()
        fail(standalone, failpoints.fail_command(HELLO, error_code=1234, times=2, app_name="SDAMPoolManagementTest"))
        await until(lambda: recorder.of(PoolReadyEvent))
        found = happenings(recorder)
        words = found[: found.index("pool ready") + 1]
        assert words[-4:] == ["heartbeat failed", "pool cleared", "heartbeat succeeded", "pool ready"] or (
            # Two failures in a row; the second one finds the pool cleared.
            words[-5:] == ["heartbeat failed", "pool cleared", "heartbeat failed", "heartbeat succeeded", "pool ready"]
        )
