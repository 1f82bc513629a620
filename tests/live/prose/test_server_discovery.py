"""The prose tests and the test plan of the server discovery specification that a real server can show."""

from __future__ import annotations

import socket
import threading
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


async def test_rtt_1_it_is_updated_continuously(replica_set: LocalServer, fail: Fail) -> None:
    """RTT tests, 1."""
    log = Recorder()
    options: dict[str, Any] = {"heartbeatFrequencyMS": 500, "appname": "streamingRttTest"}
    async with make_client(replica_set, event_listeners=[log], **options) as client:
        await client.db.coll.find_one()
        await until(lambda: len(log.of(ServerHeartbeatSucceededEvent)) >= 3)
        changed = log.of(ServerDescriptionChangedEvent)
        assert changed
        assert all(event.new_description.round_trip_time > 0 for event in changed)
        fail(replica_set, failpoints.fail_command(HELLO, block_ms=500, times=1000, app_name="streamingRttTest"))
        (address,) = replica_set.addresses
        await until(lambda: (client.stats().servers[address].round_trip_time or 0.0) > 0.25, 30)


async def test_heartbeat_1_it_starts_before_the_socket_is_made() -> None:
    """Heartbeat tests, 1."""
    recorder = Recorder(ServerHeartbeatEvent)

    def serve() -> None:
        # In a thread: a task that is cancelled before its first step would not close the connection that it was given.
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    recorder.events.append("client connected")
                    if connection.recv(1000):
                        recorder.events.append("client hello received")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        uri = f"mongodb://{format_address(listener.getsockname())}/?serverSelectionTimeoutMS=500"
        async with make_client(uri, event_listeners=[recorder]) as client:
            with pytest.raises(ServerSelectionTimeoutError):
                await client.admin.command("ping")
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()
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


@pytest.mark.parametrize("query", ["?directConnection=false", ""], ids=["7", "9"])
async def test_plan_7_and_9_topology_discovery(replica_set3: LocalServer, database_name: str, query: str) -> None:
    """Test plan, "Topology discovery" and "Existing behavior": the primary is found, and the write succeeds."""
    async with make_client(await secondary_uri(replica_set3, query)) as client:
        assert (await client[database_name].coll.insert_one({})).acknowledged


async def test_plan_8_direct_connection(replica_set3: LocalServer, database_name: str) -> None:
    """Test plan, "Direct connection": the secondary refuses the write."""
    async with make_client(await secondary_uri(replica_set3, "?directConnection=true")) as client:
        with pytest.raises(NotPrimaryError):
            await client[database_name].coll.insert_one({})


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
