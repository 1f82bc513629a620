"""Nothing that a server says of itself before it is authenticated to may weaken what the client does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest
from bson import ObjectId

from motorlite.errors import ConfigurationError, OperationFailure, PyMongoError, ServerSelectionTimeoutError
from motorlite.testing.scripted import Reply, ScriptedDeployment, failure
from tests.support.auth_servers import Callback, authenticating_driver, oidc_options
from tests.support.core import driver, find, insert, run_command
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.anyio

SCRAM: dict[str, Any] = {"username": "user", "password": "pencil"}
AUTHENTICATING = {"saslStart", "saslContinue", "authenticate"}
REFUSED = failure(18, message="Authentication failed.")


@pytest.fixture
def deployment() -> ScriptedDeployment:
    return ScriptedDeployment(["a:1"], replica_set="rs")


MECHANISMS: dict[str, dict[str, Any]] = {
    "negotiated": SCRAM,
    "SCRAM-SHA-256": {**SCRAM, "authMechanism": "SCRAM-SHA-256"},
    "PLAIN": {**SCRAM, "authMechanism": "PLAIN", "tls": True},
    "X509": {"authMechanism": "MONGODB-X509"},
}
ANSWERED = {"conversationId": 1, "done": True, "payload": b"v=", "ok": 1}
# Each of them on top of the hello of a primary.
LIES: list[dict[str, Any]] = [
    {"arbiterOnly": True},
    {"arbiterOnly": True, "setName": None},
    {"arbiterOnly": True, "setName": ""},
    {"arbiterOnly": True, "msg": "isdbgrid", "setName": None},
    {"arbiterOnly": True, "isWritablePrimary": False, "ismaster": True},
    {"arbiterOnly": True, "isWritablePrimary": False, "ismaster": False, "secondary": True},
    {"arbiterOnly": True, "isWritablePrimary": False, "ismaster": False},
    {"arbiterOnly": 1},
    {"saslSupportedMechs": []},
    {"saslSupportedMechs": ["PLAIN"]},
    {"saslSupportedMechs": "PLAIN"},
    {"saslSupportedMechs": [None, {}, []]},
    {"speculativeAuthenticate": ANSWERED},
    {"speculativeAuthenticate": {}},
    {"speculativeAuthenticate": {"done": True}},
    {"speculativeAuthenticate": 1},
    {"compression": ["zlib", "snappy", "zstd"]},
    {"compression": [None, {}, b"zlib"]},
    {"compression": "zlib"},
    {"serviceId": ObjectId("65a000000000000000000001")},
    {"serviceId": 1},
    {"maxWireVersion": 0},
    {"maxWireVersion": -1},
    {"maxWireVersion": 2**62},
    {"minWireVersion": 2**62},
    {"maxWireVersion": "17"},
    {"maxBsonObjectSize": 0},
    {"maxBsonObjectSize": 2**62},
    {"maxMessageSizeBytes": -1},
    {"maxMessageSizeBytes": 1},
    {"maxMessageSizeBytes": 2**62},
    {"maxWriteBatchSize": 0},
    {"maxWriteBatchSize": 1e300},
    {"logicalSessionTimeoutMinutes": -5},
    {"logicalSessionTimeoutMinutes": 2**62},
    {"connectionId": {}},
    {"topologyVersion": None},
    {"topologyVersion": {}},
    {"setName": "other"},
    {"setName": 1},
    {"me": "elsewhere:1"},
    {"me": "\0:1"},
    {"hosts": []},
    {"hosts": ["a:1", "b:1"]},
    {"hosts": {}},
    {"ok": 2},
    {"ok": "yes"},
    {"ok": 0, "code": {"a": 1}},
    {"helloOk": "yes"},
    {"tags": 7},
    {"isreplicaset": True},
]


@pytest.mark.parametrize("mechanism", ["negotiated", "SCRAM-SHA-256", "PLAIN"])
@pytest.mark.parametrize("lie", LIES, ids=str)
async def test_no_lie_lets_a_command_out_before_authentication(
    deployment: ScriptedDeployment, lie: dict[str, Any], mechanism: str
) -> None:
    server = deployment["a:1"]
    server.on("saslStart", REFUSED)
    options = {**MECHANISMS[mechanism], "serverSelectionTimeoutMS": 2000, "connectTimeoutMS": 1000, "minPoolSize": 2}
    async with authenticating_driver(deployment, **options) as client:

        def hello(command: dict[str, Any]) -> Reply:
            # Where they can be told apart, the monitor hears that it is a sound primary.
            is_lie = "speculativeAuthenticate" in command or mechanism == "PLAIN"
            return Reply({**deployment._hello_reply(server), **(lie if is_lie else {})})

        server.on("isMaster", hello)
        for operation in (insert(), find(), run_command()):
            with pytest.raises(PyMongoError):
                await client.run(operation, timeout=3)
        await anyio.sleep(10)
        assert {item.name for item in server.received} <= AUTHENTICATING
        # A password is shown to nobody unless the application said so.
        if mechanism != "PLAIN":
            assert all(item.document["mechanism"].startswith("SCRAM-SHA-") for item in server.received)
        assert all(item.compressor is None for item in server.received)


@pytest.mark.parametrize("lie", LIES, ids=str)
async def test_no_lie_ends_discovery(deployment: ScriptedDeployment, lie: dict[str, Any]) -> None:
    """Whatever a later check says: the monitor goes on, at its pace, and believes the next sound reply."""
    server = deployment["a:1"]
    async with driver(deployment, connect=False) as client:
        await client.run()
        server.hello = lie
        hellos = len(server.hellos)
        await anyio.sleep(60)
        server.hello = {}
        if "a" not in client.types():
            return  # it said that it belongs elsewhere, and is taken at its word
        assert 5 <= len(server.hellos) - hellos <= 20
        await anyio.sleep(11)
        assert client.types() == {"a": "RSPrimary"}
        await client.run()


# --- arbiters ---


async def test_an_arbiter_gets_no_operation(deployment: ScriptedDeployment) -> None:
    """Directly connected to, with credentials: hello is all that it is sent."""
    server = deployment["a:1"]
    server.hello = {"isWritablePrimary": False, "ismaster": False, "arbiterOnly": True}
    options = {**SCRAM, "directConnection": True, "replicaSet": None, "minPoolSize": 2}
    async with authenticating_driver(deployment, **options) as client:
        for operation in (insert(), find(), run_command()):
            with pytest.raises(PyMongoError, match="a:1 is an arbiter and cannot authenticate anyone"):
                await client.run(operation)
        for _ in range(300):
            await anyio.sleep(0.1)
            assert client.server().description.server_type_name == "RSArbiter"
        pool = client.server().pool.state
        assert not pool.idle
        assert not pool.in_use
    assert server.received == []


async def test_an_arbiter_without_credentials_is_a_server_like_others(deployment: ScriptedDeployment) -> None:
    server = deployment["a:1"]
    server.hello = {"isWritablePrimary": False, "ismaster": False, "arbiterOnly": True}
    async with authenticating_driver(deployment, directConnection=True, replicaSet=None) as client:
        await client.run(run_command())
    assert server.received[0].name == "ping"


async def test_a_secondary_that_became_an_arbiter(deployment: ScriptedDeployment) -> None:
    """The monitor has not heard of it yet: the operation fails, and discovery looks again."""
    server = deployment["a:1"]
    async with authenticating_driver(deployment, **SCRAM, heartbeatFrequencyMS=600_000) as client:
        await until(lambda: client.server().description.server_type_name == "RSPrimary")
        server.hello = {"isWritablePrimary": False, "ismaster": False, "arbiterOnly": True}
        with pytest.raises(ConfigurationError, match="is an arbiter"):
            await client.run(insert())
        with pytest.raises(ServerSelectionTimeoutError):
            await client.run(insert(), timeout=5)
        assert client.server().description.server_type_name == "RSArbiter"
    assert server.received == []


# --- hosts ---


async def test_a_flood_of_hosts_is_refused(deployment: ScriptedDeployment) -> None:
    deployment["a:1"].hello = {"hosts": [f"h{number}:1" for number in range(2000)]}
    async with driver(deployment, connect=False) as client:
        begin = client.now
        with pytest.raises(ServerSelectionTimeoutError) as caught:
            await client.select(insert().selector, limit=5.0)
        assert client.now == begin + 5
        assert "the deployment would have 2000 members; at most 100 are followed" in str(caught.value)
        assert client.types() == {"a": "Unknown"}
        deployment["a:1"].hello = {}
        await client.run()


@pytest.mark.parametrize("host", ["127.0.0.3\0.mongodb.net:1", "[fe80::1%x.mongodb.net]:1", "evil/.mongodb.net:1"])
async def test_a_host_that_only_looks_allowed_does_not_get_the_token(host: str) -> None:
    deployment = ScriptedDeployment(["cluster.mongodb.net:1"], replica_set="rs")
    server = deployment["cluster.mongodb.net:1"]
    server.hello = {"hosts": ["cluster.mongodb.net:1", host]}
    server.on("saslStart", REFUSED)
    callback = Callback("token")
    options = oidc_options(callback, human=True, ALLOWED_HOSTS=["*.mongodb.net"])
    asked: list[Any] = []

    def connector(*args: Any) -> Callable[..., Any]:
        connect = deployment.connector(*args)

        async def note(address: Any, *rest: Any) -> Any:
            asked.append(address)
            return await connect(address, *rest)

        return note

    async with authenticating_driver(deployment, world={"connector": connector}, **options) as client:
        with pytest.raises((ServerSelectionTimeoutError, OperationFailure, ConfigurationError)):
            await client.run(insert(), timeout=5)
    assert callback.contexts == []
    assert {address for address in asked if address != ("cluster.mongodb.net", 1)} <= {("fe80::1%x.mongodb.net", 1)}
