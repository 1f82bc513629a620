"""Commands that users write, and what is known of the deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest
from bson import Int64
from bson.codec_options import CodecOptions
from bson.son import SON

from motorlite import ServerApi
from motorlite.errors import OperationFailure
from motorlite.monitoring import (
    ConnectionReadyEvent,
    PoolEvent,
    ServerEvent,
    ServerHeartbeatSucceededEvent,
    ServerListener,
    TopologyEvent,
)
from motorlite.read_preferences import Secondary
from motorlite.testing import failpoints
from tests.live.clients import numbered
from tests.live.oracle import Cases, same_outcome
from tests.support.clients import make_client
from tests.support.events import Recorder
from tests.support.waiting import until

if TYPE_CHECKING:
    from motorlite.testing import LocalServer
    from tests.live.conftest import Fail
    from tests.live.oracle import Oracle

pytestmark = pytest.mark.anyio

CASES = Cases()


@CASES.add
async def command(db: Any, lib: Any) -> Any:
    await db.c.insert_many(numbered(3))
    return [
        await db.command("ping"),
        await db.command("count", "c"),
        await db.command("count", "c", query={"_id": {"$gt": 0}}),
        await db.command({"count": "c", "limit": 1}),
        await db.command(SON([("distinct", "c"), ("key", "_id")]), comment="x"),
        await db.command("ping", read_preference=lib.ReadPreference.PRIMARY_PREFERRED),
    ]


@CASES.add
async def an_unknown_command(db: Any, lib: Any) -> Any:
    await db.command("noSuchCommand")


@CASES.add
async def errors_that_are_allowed(db: Any, lib: Any) -> Any:
    first = await db.command("noSuchCommand", check=False)
    second = await db.command("noSuchCommand", allowable_errors=[59])
    return [first["code"], second["code"]]


@CASES.add
async def codec_options(db: Any, lib: Any) -> Any:
    await db.c.insert_one({"_id": 1, "n": Int64(5)})
    reply = await db.command("find", "c", codec_options=CodecOptions(document_class=SON))
    return [type(reply).__name__, type(reply["cursor"]["firstBatch"][0]).__name__]


@CASES.add
async def cursor_command(db: Any, lib: Any) -> Any:
    await db.c.insert_many(numbered(10))
    cursor = await db.cursor_command({"find": "c", "batchSize": 3, "sort": {"_id": 1}})
    second = await db.cursor_command("aggregate", "c", pipeline=[{"$match": {"_id": 2}}], cursor={})
    return [await cursor.to_list(), await second.to_list()]


@CASES.add
async def cursor_command_without_a_cursor(db: Any, lib: Any) -> Any:
    await db.cursor_command("ping")


@CASES.add
async def server_info(db: Any, lib: Any) -> Any:
    info = await db.client.server_info()
    return [info["version"], info["maxBsonObjectSize"]]


@pytest.mark.parametrize("name", CASES)
async def test_as_pymongo(name: str, deployment: LocalServer, database_name: str, oracle: Oracle) -> None:
    await same_outcome(CASES[name], deployment, database_name, oracle)


async def test_the_user_s_command_is_not_changed(deployment: LocalServer, database_name: str) -> None:
    async with make_client(deployment) as client:
        command = {"ping": 1}
        await client[database_name].command(command)
        assert command == {"ping": 1}


async def test_an_error_may_be_allowed_by_its_message(deployment: LocalServer, database_name: str) -> None:
    async with make_client(deployment) as client:
        reply = await client[database_name].command("drop", "missing", allowable_errors=["ns not found"])
        assert reply["code"] == 26


async def test_a_command_is_not_retried_after_an_ordinary_error(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    async with make_client(replica_set) as client:
        fail(replica_set, failpoints.fail_command(["ping"], error_code=262, times=1))
        with pytest.raises(OperationFailure) as caught:
            await client[database_name].command("ping")
        assert (caught.value.attempts, caught.value.retry_refusal) == (1, "not retryable")


async def test_a_read_preference_reaches_a_secondary(replica_set3: LocalServer, database_name: str) -> None:
    record = Recorder()
    async with make_client(replica_set3, event_listeners=[record]) as client:
        hello = await client.admin.command("hello", read_preference=Secondary())
        assert hello["secondary"]
        assert record.commands("hello")[0]["$readPreference"] == {"mode": "secondary"}
        assert (await client.admin.command("hello"))["isWritablePrimary"]


async def test_the_stable_api_is_declared(deployment: LocalServer, database_name: str) -> None:
    record = Recorder()
    api = ServerApi("1", strict=True, deprecation_errors=True)
    async with make_client(deployment, server_api=api, event_listeners=[record]) as client:
        await client[database_name].c.insert_many(numbered(5))
        await client[database_name].c.find(batch_size=2).to_list()
        assert {command["apiVersion"] for command in (event.command for event in record.started_events)} == {"1"}
        assert all(event.command["apiStrict"] for event in record.started_events)
        with pytest.raises(OperationFailure, match="API Version 1"):
            await client[database_name].command("validate", "c")


async def test_what_is_known_of_the_deployment(replica_set3: LocalServer) -> None:
    async with make_client(replica_set3) as client:
        assert not client.nodes
        primary = await client.primary
        assert primary == replica_set3.wait_for_primary()
        assert await client.address == primary
        await until(lambda: len(client.nodes) == 3)
        assert client.nodes == set(replica_set3.addresses)
        with anyio.fail_after(30):  # a member that another one lists may not have replied yet
            while await client.secondaries != set(replica_set3.addresses) - {primary}:  # noqa: ASYNC110  # no event to wait for
                await anyio.sleep(0.01)
        assert await client.arbiters == set()
        assert await client.is_primary
        assert not await client.is_mongos
        stats = client.stats().servers
        assert {server.server_type for server in stats.values()} == {"RSPrimary", "RSSecondary"}
        assert all(0 < (server.round_trip_time or 0) < 1 for server in stats.values())


async def test_pool_and_topology_events_of_a_client_s_life(deployment: LocalServer, database_name: str) -> None:
    recorder = Recorder()
    async with make_client(deployment, event_listeners=[recorder]) as client:
        await client[database_name].c.find_one()
    names = [type(event).__name__ for event in recorder.of(PoolEvent)]
    assert names[0] == "PoolCreatedEvent"
    order = [
        "PoolReadyEvent",
        "ConnectionCheckOutStartedEvent",
        "ConnectionCreatedEvent",
        "ConnectionReadyEvent",
        "ConnectionCheckedOutEvent",
        "ConnectionCheckedInEvent",
        "ConnectionClosedEvent",
        "PoolClosedEvent",
    ]
    assert [names.index(name) for name in order] == sorted(names.index(name) for name in order)
    (ready,) = recorder.of(ConnectionReadyEvent)
    assert 0 < ready.duration < 5
    topology = [event for event in recorder.of(TopologyEvent) if not isinstance(event, ServerEvent)]
    kinds = [type(event).__name__ for event in topology]
    assert (kinds[0], kinds[-1]) == ("TopologyOpenedEvent", "TopologyClosedEvent")
    assert len({event.topology_id for event in topology}) == 1
    heartbeats = recorder.of(ServerHeartbeatSucceededEvent)
    assert heartbeats[0].reply["ok"] == 1


async def test_a_listener_that_raises_disturbs_nothing(
    deployment: LocalServer, database_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(ServerListener):
        def description_changed(self, event: Any) -> None:
            raise RuntimeError("the listener's own")

    record = Recorder()

    def broken(_event: object) -> None:
        raise RuntimeError("the listener's own")

    record.on_failure = broken
    async with make_client(deployment, event_listeners=[Broken(), record]) as client:
        with pytest.raises(OperationFailure):
            await client[database_name].command("noSuchCommand")
        assert await client[database_name].c.find_one() is None
    assert "the listener's own" in caplog.text
