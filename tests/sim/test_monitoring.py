"""The server monitoring specification in virtual time: when checks are made, on which connection, what they cause."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite import monitoring as events
from motorlite._base.deadline import NO_DEADLINE
from motorlite._operations.contract import Call
from motorlite._topology.monitor import MAX_BURST
from motorlite._topology.selection import WRITABLE
from motorlite._topology.server_description import ServerDescription
from motorlite.errors import (
    AutoReconnect,
    NetworkTimeout,
    PoolClearedError,
    ProtocolError,
    ServerSelectionTimeoutError,
)
from motorlite.server_api import ServerApi
from motorlite.testing.scripted import Close, Hang, Raw, Reply, ScriptedDeployment, failure
from tests.support.clients import make_client
from tests.support.core import FOUND, A, driver, find, insert, replica_set
from tests.support.pools import settle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from motorlite._base.values import Address
    from motorlite._net.runtime import Connector, Framer, FrameStream, Runtime
    from motorlite.testing.scripted import ScriptedServer
    from tests.support.core import Driver

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def monitored(*, streaming: bool = False, **options: Any) -> AsyncIterator[tuple[Driver, ScriptedServer]]:
    """A client with one server, which was not checked yet, and that server; nothing but its monitor uses it."""
    deployment = ScriptedDeployment(["a:1"], streaming=streaming)
    async with driver(deployment, connect=False, **options) as client:
        yield client, deployment["a:1"]


def times(server: ScriptedServer, begun: float) -> list[float]:
    """When hello commands arrived, counted from `begun`."""
    return [round(hello.at - begun, 6) for hello in server.hellos]


def by_connection(server: ScriptedServer) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for hello in server.hellos:
        found.setdefault(hello.connection, []).append(hello.document)
    return found


# --- polling ---


async def test_the_first_check_is_made_at_once_and_then_every_ten_seconds() -> None:
    async with monitored() as (client, server):
        begun = client.now
        await anyio.sleep(35)
        assert times(server, begun) == [0, 10, 20, 30]
        assert server.connections_made == 1, "one connection for all of them, and none beside it"
        assert client.log.words("heartbeat") == ["heartbeat started a", "heartbeat succeeded a"] * 4


async def test_the_interval_is_counted_from_the_end_of_the_check() -> None:
    async with monitored(heartbeatFrequencyMS=3000) as (client, server):
        server.hello_delay = 1.0
        begun = client.now
        await anyio.sleep(13.5)
        assert times(server, begun) == [0, 4, 8, 12]
        (first, *_) = client.log.of(events.ServerHeartbeatSucceededEvent)
        assert first.duration == 1.0
        assert first.reply["maxWireVersion"] == 17
        assert not first.awaited


async def test_hello_replaces_the_legacy_command_where_the_server_knows_it() -> None:
    for fields, names in (({}, ["isMaster", "hello"]), ({"helloOk": False}, ["isMaster", "isMaster"])):
        deployment = ScriptedDeployment(["a:1"])
        deployment["a:1"].hello = dict(fields)
        async with driver(deployment, connect=False):
            await anyio.sleep(11)
        assert [hello.name for hello in deployment["a:1"].hellos] == names
        assert all(hello.document["helloOk"] is True for hello in deployment["a:1"].hellos)


async def test_a_declared_api_version_is_in_every_check() -> None:
    deployment = ScriptedDeployment(["a:1"], streaming=True)
    async with driver(deployment, server_api=ServerApi("1"), connect=False):
        await anyio.sleep(25)
    assert {hello.name for hello in deployment["a:1"].hellos} == {"hello"}
    assert all(hello.document["apiVersion"] == "1" for hello in deployment["a:1"].hellos)


async def test_servers_are_checked_independently() -> None:
    deployment = ScriptedDeployment(["a:1", "b:1", "c:1"], replica_set="rs")
    deployment["a:1"].is_unreachable = True
    deployment["b:1"].hello_delay = 5.0
    async with driver(deployment, connect=False) as client:
        await anyio.sleep(1)
        assert client.types() == {"a": "Unknown", "b": "Unknown", "c": "RSSecondary"}
        await anyio.sleep(5)
        assert client.types() == {"a": "Unknown", "b": "RSSecondary", "c": "RSSecondary"}


# --- checks that are asked for ---


async def test_a_selection_that_waits_asks_for_checks_but_not_in_a_loop() -> None:
    deployment = ScriptedDeployment(["a:1"])
    attempts: list[float] = []

    def refuse() -> AutoReconnect:
        attempts.append(round(client.now - begun, 6))
        return AutoReconnect("refused")

    deployment["a:1"].connect_error = refuse
    async with driver(deployment, connect=False) as client:
        begun = client.now
        await anyio.sleep(3)
        assert attempts == [0], "nobody needs the server"
        attempts.clear()
        with pytest.raises(ServerSelectionTimeoutError):
            await client.select(WRITABLE, limit=2.25)
        # At once, since the last check is long ago, then not more often than twice a second.
        assert attempts == [3, 3.5, 4, 4.5, 5]
        attempts.clear()
        await anyio.sleep(9)
        assert attempts == [5.5], "the last one that was asked for"


async def test_many_selections_ask_for_one_check() -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].is_down = True
    async with driver(deployment, connect=False) as client, anyio.create_task_group() as group:
        await anyio.sleep(1)
        found: list[str] = []

        async def select() -> None:
            found.append(await client.select(WRITABLE))

        deployment["a:1"].is_down = False
        for _ in range(50):
            group.start_soon(select)
        begun = client.now
        await settle()
        assert found == ["a"] * 50
        assert client.now == begun
        assert len(deployment["a:1"].hellos) == 1


async def test_a_request_during_a_check_is_ignored() -> None:
    async with monitored() as (client, server):
        server.hello_delay = 2.0
        begun = client.now
        assert await client.select(WRITABLE) == "a"
        assert client.now == begun + 2
        await anyio.sleep(9)
        assert times(server, begun) == [0], "the check that ran was an answer to it"


# --- failures ---


async def test_a_known_server_that_is_lost_is_checked_again_at_once() -> None:
    async with monitored() as (client, server):
        begun = client.now
        await anyio.sleep(5)
        server.drop_connections()
        await anyio.sleep(6)
        assert times(server, begun) == [0, 10], "the second on a new connection"
        assert server.connections_made == 2
        assert client.types() == {"a": "Standalone"}
        assert client.log.words("heartbeat|server ch") == [
            "heartbeat started a",
            "heartbeat succeeded a",
            "server changed a Unknown to Standalone",
            "heartbeat started a",
            "heartbeat failed a",
            "server changed a Standalone to Unknown",
            "heartbeat started a",
            "heartbeat succeeded a",
            "server changed a Unknown to Standalone",
        ]
        assert client.pool_log.words() == ["pool created", "pool ready", "pool cleared", "pool ready"]


async def test_it_is_retried_once_only() -> None:
    deployment = ScriptedDeployment(["a:1"])
    attempts: list[float] = []
    async with driver(deployment, connect=False) as client:
        begun = client.now
        await anyio.sleep(5)

        def refuse() -> AutoReconnect:
            attempts.append(client.now - begun)
            return AutoReconnect("refused")

        deployment["a:1"].connect_error = refuse
        deployment["a:1"].drop_connections()
        await anyio.sleep(26)
    assert attempts == [10, 20, 30]


async def test_a_server_that_breaks_off_again_and_again_is_not_checked_in_a_loop() -> None:
    # It completes every handshake, so it is "known" each time; something in between may do that.
    async with monitored(streaming=True) as (client, server):
        server.on("hello", Close())
        begun = client.now
        await anyio.sleep(2.25)
        handshakes = [round(hello.at - begun, 6) for hello in server.hellos if hello.name == "isMaster"]
        assert handshakes == [0, 0, 0.5, 0.5, 1, 1, 1.5, 1.5, 2, 2]
        server.on("hello")
        await anyio.sleep(1)
        assert client.types() == {"a": "Standalone"}


@pytest.mark.parametrize(
    "answer",
    [failure(1, message="no"), Reply({"hosts": 3}), Raw(b"\x00\x01\x02\x03 what is this?")],
    ids=["ok: 0", "nonsense", "garbage"],
)
async def test_an_answer_that_is_none_is_not_retried_at_once(answer: Any) -> None:
    async with monitored() as (client, server):
        await client.run()
        await anyio.sleep(5)
        server = server
        server.on("hello", answer)
        server.hellos.clear()
        client.pool_log.words()
        await anyio.sleep(6)
        assert client.types() == {"a": "Unknown"}
        assert client.pool_log.words() == ["pool cleared", "closed 1 stale"]
        assert len(server.hellos) == 1
        assert not server.open_connections, "the monitor's connection is closed as well"
        await anyio.sleep(10)
        assert client.types() == {"a": "Standalone"}, "a new connection begins with the handshake"
        assert [hello.name for hello in server.hellos] == ["hello", "isMaster"]


async def test_a_check_that_times_out_interrupts_operations() -> None:
    deployment = ScriptedDeployment(["a:1"])
    found = {"cursor": {"id": 0, "ns": "db.coll", "firstBatch": [{"_id": 1}]}}
    deployment["a:1"].on("find", Hang(), found)
    async with driver(deployment, connectTimeoutMS=3000, connect=False) as client:
        begun = client.now
        await client.run()
        deployment["a:1"].on("hello", Hang())
        assert (await client.run(find())).reply.documents == [{"_id": 1}]
        assert client.now == begun + 10 + 3, "the check was repeated at once, on a new connection"
        (retry,) = client.recorder.retries
        assert isinstance(retry.error, PoolClearedError)
        assert str(retry.error).startswith("Connection to a:1 interrupted due to server monitor timeout (server a:1")
        _, gone, _ = client.log.of(events.ServerDescriptionChangedEvent)
        assert gone.new_description.server_type_name == "Unknown"
        assert isinstance(gone.new_description.error, NetworkTimeout)
        assert sorted(client.pool_log.words("cleared|closed")) == ["closed 1 stale", "pool cleared interrupting"]


async def test_no_connect_timeout() -> None:
    async with monitored(streaming=True, connectTimeoutMS=0, serverSelectionTimeoutMS=7_200_000) as (client, server):
        server.hello_delay = 3600.0
        begun = client.now
        await client.select(WRITABLE, limit=7200.0)
        assert client.now == begun + 3600
        server.on("hello", Hang())
        server.announce()
        await anyio.sleep(36_000)
        assert client.types() == {"a": "Standalone"}


# --- streaming ---


async def test_streaming() -> None:
    async with monitored(streaming=True, heartbeatFrequencyMS=8000) as (client, server):
        await anyio.sleep(33)
        monitor, pinger = by_connection(server).values()
        handshake, awaiting = monitor
        assert handshake["isMaster"] == 1
        assert "topologyVersion" not in handshake
        assert awaiting == {
            "hello": 1,
            "helloOk": True,
            "topologyVersion": {"processId": server.process_id, "counter": 0},
            "maxAwaitTimeMS": 8000,
            "$db": "admin",
        }
        assert client.log.words("heartbeat") == [
            "heartbeat started a",
            "heartbeat succeeded a",
            *["heartbeat started a awaited", "heartbeat succeeded a awaited"] * 4,
            "heartbeat started a awaited",
        ]
        # Round-trip times are measured on a connection of their own, and told to nobody.
        assert all("topologyVersion" not in hello and "maxAwaitTimeMS" not in hello for hello in pinger)
        assert len(pinger) == 5, "the first at once: deadlines need two samples"


async def test_news_arrive_at_once() -> None:
    deployment = ScriptedDeployment(["a:1", "b:1"], replica_set="rs", streaming=True)
    async with driver(deployment, connect=False) as client:
        await anyio.sleep(3.25)
        begun = client.now
        client.log.words()
        deployment.step_down("b:1")
        deployment["b:1"].announce()
        await settle()
        assert client.now == begun
        assert client.types()["b"] == "RSPrimary"
        deployment["a:1"].announce()
        await settle()
        assert client.types() == {"a": "RSSecondary", "b": "RSPrimary"}
        hellos = [hello.document for hello in deployment["b:1"].hellos]
        assert len(hellos) == 3, "the server sends by itself (one was for the round-trip time)"
        # And goes on doing so.
        deployment.step_down("a:1")
        deployment["b:1"].announce()
        deployment["a:1"].announce()
        await settle()
        assert client.types() == {"a": "RSPrimary", "b": "RSSecondary"}
        assert len(deployment["b:1"].hellos) == 3


async def test_a_server_that_awaits_but_does_not_go_on() -> None:
    deployment = ScriptedDeployment(["a:1"], streaming=True)
    server = deployment["a:1"]
    server.exhausts = False
    async with driver(deployment, connect=False):
        await anyio.sleep(3)
        server.announce()
        await anyio.sleep(10.5)
        awaited = [hello.document for hello in server.hellos if "maxAwaitTimeMS" in hello.document]
        # Asked again each time, with the version of the last reply, and without a pause.
        assert [document["topologyVersion"]["counter"] for document in awaited] == [0, 1, 1]


@pytest.mark.parametrize("exhausts", [True, False], ids=["goes on", "is asked"])
async def test_a_server_with_news_all_the_time(exhausts: bool) -> None:
    """The news of an election are read at once, and not those of a flood, each of which may name other members."""
    async with monitored(streaming=True) as (client, server):
        server.exhausts = exhausts
        await anyio.sleep(5)
        for _ in range(4):
            server.announce()
            await settle()
        assert len(client.log.of(events.ServerHeartbeatSucceededEvent)) == 5
        assert client.description("a").topology_version == {"processId": server.process_id, "counter": 4}
        begun = client.now
        while client.now < begun + 60:
            server.announce()
            await anyio.sleep(0.01)
        assert 120 <= len(client.log.of(events.ServerHeartbeatSucceededEvent)) - 5 <= 121 + MAX_BURST


async def test_a_server_that_was_started_anew_answers_at_once() -> None:
    async with monitored(streaming=True) as (client, server):
        await anyio.sleep(3)
        begun = client.now
        server.process_id = type(server.process_id)()
        server.drop_connections()
        await settle()
        assert client.now == begun
        assert client.types() == {"a": "Standalone"}
        assert client.description("a").topology_version == {"processId": server.process_id, "counter": 0}


async def test_streaming_timeout() -> None:
    async with monitored(streaming=True, connectTimeoutMS=2000, heartbeatFrequencyMS=6000) as (client, server):
        await anyio.sleep(1)
        await client.run()
        # From now on nothing is answered.
        server._awaited.clear()
        server.is_unreachable = True
        begun = client.now
        await anyio.sleep(6.5)
        assert client.types() == {"a": "Standalone"}, "connectTimeoutMS and heartbeatFrequencyMS together"
        await anyio.sleep(1)
        assert client.types() == {"a": "Unknown"}
        error = client.description("a").error
        assert isinstance(error, NetworkTimeout)
        assert client.log.of(events.ServerHeartbeatFailedEvent)[0].awaited
        assert client.pool_log.words("cleared") == ["pool cleared interrupting"]
        assert client.now == begun + 7.5


async def test_an_error_ends_the_stream() -> None:
    async with monitored(streaming=True) as (client, server):
        await anyio.sleep(1)
        server.hello = {"ok": 0, "code": 91, "errmsg": "shutting down"}
        server.announce()
        await settle()
        assert client.types() == {"a": "Unknown"}
        assert len(server.open_connections) == 1, "that which measures round-trip times, until it wakes"
        server.hello = {}
        connections = server.connections_made
        await anyio.sleep(5)
        assert server.connections_made == connections, "a command error is not retried at once"
        await anyio.sleep(6)
        assert client.types() == {"a": "Standalone"}


@pytest.mark.parametrize(
    ("mode", "is_function", "streams"),
    [("poll", False, False), ("poll", True, False), ("auto", True, False), ("stream", True, True)],
)
async def test_polling_when_streaming_is_not_wanted(
    monkeypatch: pytest.MonkeyPatch, mode: str, is_function: bool, streams: bool
) -> None:
    if is_function:
        monkeypatch.setenv("AWS_EXECUTION_ENV", "AWS_Lambda_python3.11")
    deployment = ScriptedDeployment(["a:1"], streaming=True)
    async with driver(deployment, serverMonitoringMode=mode, connect=False):
        await anyio.sleep(25)
    hellos = deployment["a:1"].hellos
    assert any("maxAwaitTimeMS" in hello.document for hello in hellos) is streams
    if not streams:
        assert len(by_connection(deployment["a:1"])) == 1, "no connection for round-trip times"
        assert len(hellos) == 3


# --- round-trip times while streaming ---


async def test_round_trip_times_while_streaming() -> None:
    async with monitored(streaming=True) as (client, server):
        server.hello_delay = 0.5
        await anyio.sleep(5)
        assert client.description("a").round_trip_time == 0.5
        server.announce()
        await settle()
        assert client.description("a").round_trip_time == 0.5, "awaited replies do not count"
        server.hello_delay = 0.25
        await anyio.sleep(30)
        expected = 0.5
        for _ in range(2):
            expected = 0.2 * 0.25 + 0.8 * expected
        assert client.description("a").round_trip_time == pytest.approx(expected, rel=0.05)
        assert client.description("a").min_round_trip_time == pytest.approx(0.25)


async def test_a_ping_that_fails_is_not_the_servers_fault() -> None:
    async with monitored(streaming=True) as (client, server):
        await anyio.sleep(12)
        assert server.connections_made == 2
        (pinger,) = [stream for stream in server.open_connections if not server.is_awaited(stream)]
        server.drop_connections(pinger)
        await anyio.sleep(10)
        assert client.types() == {"a": "Standalone"}
        assert client.log.words("failed") == []
        assert server.connections_made == 2, "noticed by the ping"
        await anyio.sleep(10)
        assert server.connections_made == 3, "the next one is on a new connection"


async def test_no_pings_to_a_server_that_is_gone() -> None:
    deployment = ScriptedDeployment(["a:1"], streaming=True)
    server = deployment["a:1"]
    async with driver(deployment, connect=False) as client:
        await anyio.sleep(12)
        server.is_down = True
        server.drop_connections()
        server.connections_made = 0
        await anyio.sleep(20)
        assert client.types() == {"a": "Unknown"}
        server.is_down = False
        deployment.streaming = False
        server.hellos.clear()
        await anyio.sleep(35)
        assert client.types() == {"a": "Standalone"}
        assert len(by_connection(server)) == 1, "it streams no more, so nothing is measured beside the checks"


def far_away(deployment: ScriptedDeployment, seconds: float) -> Any:
    """What `World.connector` expects: connecting takes so long, for example because of TLS."""

    def connector(runtime: Runtime, tls: Any, proxy: Any = None) -> Connector:
        inner = deployment.connector(runtime, tls, proxy)

        async def connect(address: Address, framer: Framer, until: float) -> FrameStream:
            await runtime.sleep(seconds)
            return await inner(address, framer, until)

        return connect

    return connector


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_round_trip_time_is_that_of_a_hello_whatever_connecting_takes(streaming: bool) -> None:
    deployment = replica_set(streaming=streaming)
    server = deployment["a:1"]
    server.hello_delay = 0.1
    async with driver(deployment, world={"connector": far_away(deployment, 0.3)}) as client:
        await anyio.sleep(5)
        server.announce()
        await anyio.sleep(30)
        stats = client.core.stats().servers[A]
        assert stats.round_trip_time == pytest.approx(0.1)
        assert stats.min_round_trip_time == pytest.approx(0.1)
        # An operation with a time limit is not refused for the sake of connections that it does not need.
        server.on("find", Reply(FOUND, 0.1))
        assert (await client.run(find(), timeout=0.35)).reply.documents == [{"_id": 1}]


# --- checks that are cancelled ---


async def test_a_lost_connection_of_an_operation_ends_the_running_check() -> None:
    async with monitored(streaming=True) as (client, server):
        server.on("insert", Close(), {"n": 1})
        await client.run()
        await anyio.sleep(3)
        begun = client.now
        client.log.words()
        client.pool_log.words()
        with pytest.raises(AutoReconnect):
            await client.run(insert())
        await settle()
        assert client.types() == {"a": "Unknown"}
        assert len(server.open_connections) == 1, "the monitor's connection cannot be trusted either"
        assert client.log.words() == [
            "server changed a Standalone to Unknown",
            "topology changed Single to Single",
            "heartbeat failed a awaited",
        ]
        assert client.pool_log.words("pool") == ["pool cleared"]
        # The next operation that needs the server makes the monitor look again; it waits half a second after a check.
        await client.run(insert())
        assert client.now == begun + 0.5


async def test_a_lost_connection_while_the_monitor_sleeps() -> None:
    async with monitored() as (client, server):
        server.on("find", Close(), {"cursor": {"id": 0, "ns": "db.coll", "firstBatch": []}})
        await client.run()
        await anyio.sleep(3)
        begun = client.now
        client.log.words()
        await client.run(find())
        assert client.now == begun, "the check is made at once, and on a new connection"
        assert client.log.words("heartbeat") == ["heartbeat started a", "heartbeat succeeded a"]
        assert [len(hellos) for hellos in by_connection(server).values()] == [1, 1, 1, 1]


async def test_a_lost_connection_while_the_monitor_connects() -> None:
    deployment = ScriptedDeployment(["a:1"])
    server = deployment["a:1"]
    server.on("find", Reply({"cursor": {"id": 0, "ns": "db.coll", "firstBatch": []}}, 1.0))
    async with driver(deployment, connect=False) as client, anyio.create_task_group() as group:
        await client.run()
        monitor = client.server("a").monitor
        assert monitor is not None
        outcome: list[BaseException] = []

        async def operate() -> None:
            try:
                await client.run(find())
            except AutoReconnect as error:
                outcome.append(error)

        await anyio.sleep(9.5)
        # The monitor finds its connection closed at 10 s and opens another, which takes a while.
        idle: Any = client.server("a").pool.state.idle[0].stream
        server.drop_connections(*server.open_connections - {idle})
        server.hello_delay = 2.0
        group.start_soon(operate)
        await anyio.sleep(0.75)
        assert monitor._connection is None
        assert client.types() == {"a": "Unknown"}
        monitor.cancel_check()
        await anyio.sleep(3)
        assert client.types() == {"a": "Standalone"}, "nothing to cancel: it will see for itself"


async def test_a_reply_that_came_with_the_cancellation_is_not_believed() -> None:
    async with monitored(streaming=True) as (client, server):
        await client.run()
        await anyio.sleep(1)
        client.log.words()
        (read,) = client.server("a").pool.state.idle
        server.announce()  # it has arrived, and the monitor did not run yet
        error = AutoReconnect("lost")
        client.server("a").failed(error, read.generation)
        await settle()
        assert client.types() == {"a": "Unknown"}
        assert client.log.words("heartbeat") == ["heartbeat failed a awaited"]
        begun = client.now
        await client.run()
        assert client.now == begun + 0.5


async def test_a_check_that_is_asked_for_before_the_cancelled_one_has_ended() -> None:
    async with monitored(streaming=True) as (client, server):
        server.on("find", Close(), FOUND)
        await client.run()
        await anyio.sleep(3)
        begun = client.now
        # The retry waits for a server before the monitor has run.
        await client.run(find())
        assert client.now == begun + 0.5


async def test_after_a_cancelled_check_the_monitor_sleeps_if_nobody_asks() -> None:
    async with monitored(streaming=True) as (client, server):
        server.on("insert", Close())
        await client.run()
        with pytest.raises(AutoReconnect):
            await client.run(insert())
        server.hellos.clear()
        begun = client.now
        await anyio.sleep(11)
        assert times(server, begun)[0] == 10


# --- the end ---


async def test_close_does_not_wait_for_a_check() -> None:
    for prepare in ("streams", "hangs", "connects", "sleeps"):
        deployment = ScriptedDeployment(["a:1"], streaming=prepare == "streams")
        server = deployment["a:1"]
        if prepare == "hangs":
            server.on("isMaster", Hang())
        server.is_unreachable = prepare == "connects"
        async with driver(deployment, connect=False) as client:
            await anyio.sleep(12)
            begun = client.now
            await client.core.close()
            assert client.now == begun
            assert not server.open_connections
            await anyio.sleep(30)
            assert client.log.words("heartbeat failed") == []


async def test_a_check_that_makes_its_own_server_leave() -> None:
    # The monitor is stopped by what it found out.
    deployment = ScriptedDeployment(["a:1", "b:1"], replica_set="rs")
    deployment["b:1"].hello = {"setName": "another"}
    async with driver(deployment, connect=False) as client:
        await anyio.sleep(15)
        assert client.types() == {"a": "RSPrimary"}
        assert not deployment["b:1"].open_connections


@pytest.mark.parametrize("is_refused", [False, True])
async def test_a_check_that_ends_when_its_server_leaves_has_no_consequences(is_refused: bool) -> None:
    # On trio, the outcome may be on its way to the monitor when that is stopped. The order of the two is random.
    for _ in range(12):
        deployment = ScriptedDeployment(["a:1", "b:1"], replica_set="rs", streaming=True)
        deployment.remove("b:1")
        deployment["a:1"].hello_delay = deployment["b:1"].hello_delay = 0.1
        if is_refused:
            deployment["b:1"].on("isMaster", Reply(failure(13), 0.1))
        async with driver(deployment, connect=False, uri="mongodb://b:1,a:1/?replicaSet=rs") as client:
            await anyio.sleep(1)
            happened = client.log.words()
            later = happened[happened.index("server closed b") + 1 :]
            assert not [word for word in later if " b" in word]
            assert not deployment["b:1"].open_connections


async def test_a_reply_that_nobody_thought_of_does_not_end_the_monitoring(monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("a bug")

    async with monitored() as (client, _):
        with monkeypatch.context() as patch:
            patch.setattr(ServerDescription, "from_hello", bug)
            await anyio.sleep(5)
        assert client.types() == {"a": "Unknown"}
        assert isinstance(client.description("a").error, ProtocolError)
        await anyio.sleep(10)
        assert client.types() == {"a": "Standalone"}


async def test_nobody_listens() -> None:
    deployment = ScriptedDeployment(["a:1"])
    core = make_client(deployment)._core
    core.enter()
    await anyio.sleep(1)
    deployment["a:1"].drop_connections()
    deployment["a:1"].is_down = True
    await anyio.sleep(10)
    assert not core.topology.description.has_known_servers
    deployment["a:1"].is_down = False
    await core.executor.execute(find(), Call(None, NO_DEADLINE))
    await core.close()
    await deployment.close()
    assert not deployment["a:1"].open_connections


@pytest.mark.parametrize("method", ["started", "succeeded"])
async def test_a_listener_that_reads_a_cancelled_future_does_not_end_the_checks(method: str) -> None:
    def read_a_result(self: events.ServerHeartbeatListener, event: object) -> None:
        raise asyncio.CancelledError

    listener = type("Listener", (events.ServerHeartbeatListener,), {method: read_a_result})()
    deployment = ScriptedDeployment(["a:1"])
    begun = anyio.current_time()
    async with make_client(deployment, event_listeners=[listener]) as client:
        await client.admin.command("ping")
        await anyio.sleep(25)
    # The second one is that of the connection for the ping.
    assert times(deployment["a:1"], begun) == [0, 0, 10, 20]
