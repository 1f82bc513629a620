"""The test plan of the server discovery specification: what errors of operations do to a server, in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite import AsyncMongoClient
from motorlite.errors import AutoReconnect, PyMongoError, WriteConcernError
from motorlite.monitoring import ServerDescriptionChangedEvent
from motorlite.read_preferences import ReadPreference
from motorlite.testing.scripted import Close, Reply, ScriptedDeployment, failure
from tests.support.core import driver, find, insert

if TYPE_CHECKING:
    from motorlite._operations.contract import Operation
    from motorlite.testing.scripted import Answer
    from tests.support.core import Driver

pytestmark = pytest.mark.anyio

NOT_PRIMARY, RECOVERING = 10107, 11602
PRIMARY_LOST = "topology changed ReplicaSetWithPrimary to ReplicaSetNoPrimary"
SECONDARY = find(selector=ReadPreference.SECONDARY, read_preference=ReadPreference.SECONDARY)


def replica_set(**arguments: Any) -> ScriptedDeployment:
    return ScriptedDeployment(["a:1", "b:1"], replica_set="rs", **arguments)


async def settle(client: Driver) -> None:
    """All servers are known, and no check is due for seconds."""
    await anyio.sleep(2)
    assert client.types() == {"a": "RSPrimary", "b": "RSSecondary"}
    for server in client.deployment.servers.values():
        server.hellos.clear()
    client.log.clear()


def changes(client: Driver) -> list[str]:
    """The first news of a server and of the topology that were published."""
    return client.log.words("changed")[:2]


async def hits(client: Driver, address: str, operation: Operation[Any], answer: Answer) -> str:
    """Have a server answer `operation` so that it raises an error; its host's type changes to Unknown.

    Returns what became of the topology.
    """
    await settle(client)
    server = client.deployment[address]
    server.on(operation.name, answer)
    with pytest.raises((AutoReconnect, WriteConcernError)):
        await client.run(operation)
    role = "RSPrimary" if address == "a:1" else "RSSecondary"
    server_change, topology_change = changes(client)
    assert server_change == f"server changed {address[0]} {role} to Unknown"
    return topology_change


async def is_checked_at_once(client: Driver, host: str) -> bool:
    await anyio.sleep(0.01)
    return client.types()[host] != "Unknown"


def test_plan_1_a_client_can_be_made_when_all_servers_are_unavailable() -> None:
    """Test plan, "All servers unavailable"."""
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient("mongodb://127.0.0.1:1,127.0.0.1:2/?replicaSet=rs")
    assert client.topology_description.topology_type_name == "ReplicaSetNoPrimary"


async def test_plan_2_a_network_error_while_writing_to_the_primary() -> None:
    """Test plan, "Network error writing to primary"."""
    async with driver(replica_set(), retryWrites=False, connect=False) as client:
        assert await hits(client, "a:1", insert(), Close()) == PRIMARY_LOST
        await anyio.sleep(5)
        hellos = client.deployment["a:1"].hellos
        assert len(hellos) == 1, "that of the operation's connection: no check was made"


async def test_plan_3_not_primary_when_reading_from_the_primary() -> None:
    """Test plan, '"Not writable primary" error when reading without SecondaryOk bit'.

    That the server is not checked at once is for clients with one thread: others request an immediate check.
    """
    async with driver(replica_set(), retryReads=False, connect=False) as client:
        assert await hits(client, "a:1", find(), failure(NOT_PRIMARY)) == PRIMARY_LOST
        assert await is_checked_at_once(client, "a")


async def test_plan_4_recovering_when_reading_from_a_secondary() -> None:
    """Test plan, '"Node is recovering" error reading with SecondaryOk bit'."""
    async with driver(replica_set(), retryReads=False, connect=False) as client:
        change = await hits(client, "b:1", SECONDARY, failure(RECOVERING))
        assert change == "topology changed ReplicaSetWithPrimary to ReplicaSetWithPrimary"
        assert await is_checked_at_once(client, "b")


async def test_plan_5_recovering_in_a_write_concern_error() -> None:
    """Test plan, '"Node is recovering" error from a write concern error'."""
    error = {"code": 91, "errmsg": "Replication is being shut down"}
    async with driver(replica_set(), retryWrites=False, connect=False) as client:
        assert await hits(client, "a:1", insert(), {"n": 1, "writeConcernError": error}) == PRIMARY_LOST
        assert await is_checked_at_once(client, "a")


@pytest.mark.parametrize(
    ("operation", "host", "message"),
    [
        (insert(), "a", "not master"),
        (insert(), "a", "not master or secondary; cannot currently read from this replSet member"),
        (SECONDARY, "b", "node is recovering"),
        (find(), "a", "not master"),
    ],
)
@pytest.mark.parametrize("order", [("ok", "errmsg"), ("errmsg", "ok")])
async def test_plan_6_errors_are_recognised_by_their_message(
    operation: Operation[Any], host: str, message: str, order: tuple[str, str]
) -> None:
    """Test plan, "Parsing": without a code the message counts, and the order of the fields does not."""
    async with driver(replica_set(), retryReads=False, retryWrites=False, connect=False) as client:
        await settle(client)
        fields = {"ok": 0, "errmsg": message}
        client.deployment[f"{host}:1"].on(operation.name, Reply({name: fields[name] for name in order}))
        with pytest.raises(PyMongoError):
            await client.run(operation)
        event, *_ = client.log.of(ServerDescriptionChangedEvent)
        assert event.new_description.server_type_name == "Unknown"
        assert message in str(event.new_description.error)


@pytest.mark.parametrize("with_tls", [False, True], ids=["without TLS", "with TLS"])
async def test_plan_12_a_storm_of_refused_connections_clears_no_pool(with_tls: bool) -> None:
    """Test plan, "Connection Pool Backpressure": the server is scripted, which has a limit of its own.

    Without TLS it closes connections during hello, with TLS during the TLS handshake.
    """
    deployment = ScriptedDeployment(["a:1"])
    server = deployment["a:1"]
    async with driver(deployment, maxConnecting=100, connect=False) as client:
        await anyio.sleep(1)
        server.on("find", Reply({"cursor": {"id": 0, "ns": "db.coll", "firstBatch": []}}, delay=2.0))
        greeted = 0

        def limited(_document: Any) -> Any:
            nonlocal greeted
            greeted += 1
            return server._hello_reply() if greeted <= 20 else Close()

        def refused() -> AutoReconnect:
            return AutoReconnect("the peer has closed the connection during the TLS handshake")

        async def ask() -> None:
            try:
                await client.run(find())
            except PyMongoError:
                return  # "ignore errors raised by the command"

        if not with_tls:
            server.on("isMaster", limited)
        async with anyio.create_task_group() as group:
            for number in range(100):
                if with_tls and number == 20:
                    await anyio.sleep(0.01)
                    server.connect_error = refused
                group.start_soon(ask)
        failed = client.pool_log.words("check-out failed|pool cleared")
        assert len(failed) >= 10
        assert set(failed) == {"check-out failed connectionError"}


async def test_streaming_1_replies_come_every_heartbeat() -> None:
    """Streaming protocol tests, 1, on each kind of deployment."""
    for deployment in (
        ScriptedDeployment(["a:1"], streaming=True),
        replica_set(streaming=True),
        ScriptedDeployment(["a:1", "b:1"], mongos=True, streaming=True),
    ):
        async with driver(deployment, heartbeatFrequencyMS=500, connect=False) as client:
            await anyio.sleep(10)
            succeeded = client.log.words("heartbeat succeeded a")
            assert 19 <= len(succeeded) <= 21
