"""Opening a connection: what is sent, how far it came when it failed, and which labels the error carries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import pytest
from bson import ObjectId

from motorlite._base.error_codes import RETRYABLE, SYSTEM_OVERLOADED
from motorlite._connection.authenticate import Authenticator
from motorlite._connection.establish import Establisher, EstablishmentError, HandshakeSettings
from motorlite._connection.handshake import MAX_HELLO_SIZE
from motorlite._net.current import current_runtime
from motorlite._options.credentials import Credentials
from motorlite._wire.compression import Zlib
from motorlite.errors import (
    AutoReconnect,
    CertificateError,
    ConfigurationError,
    NameResolutionError,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
    ProtocolError,
    ProxyError,
    ProxyTimeout,
    PyMongoError,
)
from motorlite.server_api import ServerApi
from motorlite.testing.scripted import Close, Hang, Raw, Reply, ScriptedDeployment, failure
from tests.support.pools import settle
from tests.support.scram_server import ScramServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._connection.connection import Connection
    from motorlite.testing.scripted import Answer

pytestmark = pytest.mark.anyio

T = TypeVar("T")
ADDRESS = ("a", 1)
OVERLOAD = frozenset({SYSTEM_OVERLOADED, RETRYABLE})


@pytest.fixture
def deployment() -> ScriptedDeployment:
    return ScriptedDeployment(["a:1"])


@dataclass(frozen=True)
class Setup:
    """What a client is configured with; no mechanism is authenticated with while `credentials` are None."""

    settings: HandshakeSettings = field(default_factory=lambda: HandshakeSettings(dict))
    credentials: Credentials | None = None


def authenticating(mechanism: str | None = "SCRAM-SHA-256", **fields: Any) -> Setup:
    return Setup(HandshakeSettings(dict, **fields), Credentials("user", "pencil", "admin", mechanism))


async def establish(
    deployment: ScriptedDeployment,
    setup: Setup | None = None,
    *,
    authenticate: bool = True,
    in_thread: Any = None,
) -> Connection:
    runtime: Any = current_runtime()

    async def at_once(function: Callable[[], T], until: float) -> T:
        return function()

    # In virtual time, nothing may wait for a thread.
    runtime.run_in_thread = in_thread or at_once
    connect = deployment.connector(runtime, None)
    setup = setup or Setup()
    authenticator = None
    if setup.credentials is not None:
        authenticator = Authenticator(
            setup.credentials,
            lambda: b"n" * 32,
            runtime=runtime,
            host=deployment._host,  # type: ignore[arg-type]  # `connector` has made it
            http=connect,
            server_api=setup.settings.server_api,
            connect_timeout=0.0,
            max_iterations=1_000_000,
            date=lambda: "20260101T000000Z",
        )
    establisher = Establisher(runtime, connect, setup.settings, authenticator)
    try:
        return await establisher.open(ADDRESS, 3, 5, runtime.now() + 10, authenticate=authenticate)
    finally:
        await deployment.close()


async def refusal(deployment: ScriptedDeployment, setup: Setup | None = None) -> EstablishmentError:
    with pytest.raises(EstablishmentError) as caught:
        await establish(deployment, setup)
    await settle()
    assert not deployment["a:1"].open_connections, "closed at once"
    assert caught.value.error.address == ADDRESS
    assert caught.value.__cause__ is caught.value.error
    return caught.value


async def test_what_a_connection_is(deployment: ScriptedDeployment) -> None:
    connection = await establish(deployment)
    assert (connection.address, connection.id, connection.generation) == (ADDRESS, 3, 5)
    assert connection.facts.max_wire_version == 17
    assert connection.handshake.hello_ok
    (hello,) = deployment["a:1"].hellos
    assert hello.document == {
        "isMaster": 1,
        "helloOk": True,
        "backpressure": True,
        "client": {},
        "compression": [],
        "$db": "admin",
    }
    assert deployment["a:1"].received == []


async def test_what_a_client_tells_of_itself(deployment: ScriptedDeployment) -> None:
    deployment["a:1"].hello = {"serviceId": ObjectId(), "msg": "isdbgrid"}
    calls: list[int] = []

    def metadata() -> dict[str, Any]:
        calls.append(1)
        return {"driver": {"name": f"number {len(calls)}"}}

    settings = HandshakeSettings(
        metadata, load_balanced=True, compressors=[Zlib()], backpressure="2", server_api=ServerApi("1")
    )
    for _ in range(2):
        connection = await establish(deployment, Setup(settings))
        assert connection.facts.is_load_balanced
    first, second = (hello.document for hello in deployment["a:1"].hellos)
    assert first == {
        "hello": 1,
        "helloOk": True,
        "backpressure": "2",
        "client": {"driver": {"name": "number 1"}},
        "compression": ["zlib"],
        "loadBalanced": True,
        "apiVersion": "1",
        "$db": "admin",
    }
    assert second["client"] == {"driver": {"name": "number 2"}}, "applications may add to it meanwhile"


# --- errors up to the end of hello ---


@pytest.mark.parametrize(
    ("prepare", "kind", "text"),
    [
        (lambda server: setattr(server, "is_down", True), AutoReconnect, "connection refused"),
        (lambda server: setattr(server, "is_unreachable", True), NetworkTimeout, "no connection in time"),
        (lambda server: server.on("isMaster", Close()), AutoReconnect, "the server closed the connection"),
        (lambda server: server.on("isMaster", Hang()), NetworkTimeout, "no reply in time"),
        (lambda server: server.on("isMaster", Raw(b"\xff\0\0\0", True)), AutoReconnect, "the server closed"),
    ],
    ids=["refused", "unreachable", "closed", "no answer", "closed in the middle"],
)
async def test_network_errors_are_overload(
    deployment: ScriptedDeployment, prepare: Callable[[Any], None], kind: type[PyMongoError], text: str
) -> None:
    prepare(deployment["a:1"])
    failed = await refusal(deployment, authenticating())
    assert type(failed.error) is kind
    assert text in str(failed.error)
    assert failed.error.error_labels == OVERLOAD
    assert not failed.during_authentication
    assert failed.max_wire_version == 0
    assert not failed.error.reached_server, "no command was put on the connection"


@pytest.mark.parametrize("kind", [NameResolutionError, CertificateError, ProxyError, ProxyTimeout])
async def test_names_certificates_and_proxies_are_not(deployment: ScriptedDeployment, kind: type[PyMongoError]) -> None:
    deployment["a:1"].connect_error = lambda: kind("no")
    failed = await refusal(deployment)
    assert type(failed.error) is kind
    assert not failed.error.error_labels
    assert not failed.during_authentication


@pytest.mark.parametrize(
    ("answer", "kind", "labels"),
    [
        (failure(18, message="not you"), OperationFailure, frozenset[str]()),
        (failure(91, message="shutting down"), NotPrimaryError, frozenset[str]()),
        # Only what the server says itself.
        (failure(462, SYSTEM_OVERLOADED), OperationFailure, frozenset({SYSTEM_OVERLOADED})),
        (Reply({"maxWireVersion": "many"}), ProtocolError, frozenset[str]()),
        (Raw(b"garbage, and long enough for a header"), ProtocolError, frozenset[str]()),
    ],
    ids=["refused", "shutting down", "overloaded", "nonsense", "garbage"],
)
async def test_an_answer_is_no_overload_by_itself(
    deployment: ScriptedDeployment, answer: Answer, kind: type[PyMongoError], labels: frozenset[str]
) -> None:
    deployment["a:1"].on("isMaster", answer)
    failed = await refusal(deployment)
    assert type(failed.error) is kind
    assert failed.error.error_labels == labels
    assert not failed.during_authentication


async def test_a_server_that_is_too_old(deployment: ScriptedDeployment) -> None:
    deployment["a:1"].hello = {"maxWireVersion": 7}
    failed = await refusal(deployment)
    assert isinstance(failed.error, ConfigurationError)
    assert str(failed.error).startswith(
        "Server at a:1 reports wire version 7 (MongoDB 4.0), but this version of motorlite requires at least 8 "
        "(MongoDB 4.2)."
    )
    assert not failed.error.error_labels


async def test_a_monitor_lets_the_topology_refuse_it(deployment: ScriptedDeployment) -> None:
    deployment["a:1"].hello = {"maxWireVersion": 7}
    connection = await establish(deployment, authenticate=False)
    assert connection.handshake.reply["maxWireVersion"] == 7


async def test_a_cancellation_closes_the_socket(deployment: ScriptedDeployment) -> None:
    deployment["a:1"].on("isMaster", Hang())
    with anyio.move_on_after(1) as scope:
        await establish(deployment)
    assert scope.cancelled_caught
    assert not deployment["a:1"].open_connections


async def test_a_bug_closes_the_socket(deployment: ScriptedDeployment) -> None:
    def bug(*_: Any) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await establish(deployment, Setup(HandshakeSettings(bug)))
    scram = ScramServer("SCRAM-SHA-256", b"pencil")
    deployment["a:1"].on("saslStart", scram.answer)
    with pytest.raises(ZeroDivisionError):
        await establish(deployment, authenticating(), in_thread=bug)
    assert deployment["a:1"].connections_made == 2
    assert not deployment["a:1"].open_connections


# --- authentication ---


async def test_authentication(deployment: ScriptedDeployment) -> None:
    server, scram = deployment["a:1"], ScramServer("SCRAM-SHA-256", b"pencil")
    server.on("saslStart", scram.answer)
    server.on("saslContinue", scram.answer)
    await establish(deployment, authenticating(server_api=ServerApi("1", strict=True)))
    assert scram.is_authenticated
    (hello,) = server.hellos
    assert hello.document["speculativeAuthenticate"]["saslStart"] == 1
    assert "saslSupportedMechs" not in hello.document
    for command in server.commands():
        assert command["$db"] == "admin"
        assert command["apiVersion"] == "1"
        assert command["apiStrict"] is True


async def test_the_mechanism_is_negotiated(deployment: ScriptedDeployment) -> None:
    server, scram = deployment["a:1"], ScramServer("SCRAM-SHA-256", b"pencil")
    server.hello = {"saslSupportedMechs": ["SCRAM-SHA-1", "SCRAM-SHA-256"]}
    server.on("saslStart", scram.answer)
    server.on("saslContinue", scram.answer)
    await establish(deployment, authenticating(None))
    assert server.hellos[0].document["saslSupportedMechs"] == "admin.user"
    assert scram.is_authenticated


async def test_authenticated_within_the_handshake(deployment: ScriptedDeployment) -> None:
    server, scram = deployment["a:1"], ScramServer("SCRAM-SHA-256", b"pencil")

    def hello(command: dict[str, Any]) -> Reply:
        reply = scram.answer(command["speculativeAuthenticate"])
        return Reply({"maxWireVersion": 17, "speculativeAuthenticate": reply})

    server.on("isMaster", hello)
    server.on("saslContinue", scram.answer)
    await establish(deployment, authenticating())
    assert server.commands("saslStart") == []
    assert scram.is_authenticated


async def test_monitors_do_not_authenticate(deployment: ScriptedDeployment) -> None:
    await establish(deployment, authenticating(), authenticate=False)
    assert deployment["a:1"].received == []
    hello = deployment["a:1"].hellos[0].document
    assert "speculativeAuthenticate" not in hello
    assert "saslSupportedMechs" not in hello


async def test_arbiters_have_no_users(deployment: ScriptedDeployment) -> None:
    deployment["a:1"].hello = {"setName": "rs", "isWritablePrimary": False, "ismaster": False, "arbiterOnly": True}
    failed = await refusal(deployment, authenticating())
    assert isinstance(failed.error, ConfigurationError)
    assert "a:1 is an arbiter and cannot authenticate anyone" in str(failed.error)
    assert failed.during_authentication
    assert deployment["a:1"].received == []
    assert not deployment["a:1"].open_connections
    # Without credentials, and for monitors, it is a server like others.
    await establish(deployment)
    await establish(deployment, authenticating(), authenticate=False)


@pytest.mark.parametrize("fields", [{}, {"setName": "rs"}], ids=["standalone", "primary"])
async def test_a_writable_server_that_calls_itself_an_arbiter_is_authenticated_to(
    deployment: ScriptedDeployment, fields: dict[str, Any]
) -> None:
    deployment["a:1"].hello = {**fields, "arbiterOnly": True}
    deployment["a:1"].on("saslStart", failure(18, message="Authentication failed."))
    failed = await refusal(deployment, authenticating())
    assert isinstance(failed.error, OperationFailure)
    assert failed.error.code == 18


def hello_of(size: int) -> Reply:
    return Reply({"maxWireVersion": 17, "isWritablePrimary": True, "tags": {"t": "x" * size}})


@pytest.mark.parametrize("authenticate", [True, False], ids=["operations", "monitor"])
async def test_no_hello_is_so_long(deployment: ScriptedDeployment, authenticate: bool) -> None:
    deployment["a:1"].on("isMaster", hello_of(MAX_HELLO_SIZE + 20_000))
    with pytest.raises(EstablishmentError) as caught:
        await establish(deployment, authenticate=authenticate)
    assert isinstance(caught.value.error, ProtocolError)
    assert "a message announces 10" in str(caught.value.error)
    assert not deployment["a:1"].open_connections


async def test_replies_are_longer_once_the_connection_is_authenticated(deployment: ScriptedDeployment) -> None:
    deployment["a:1"].on("isMaster", hello_of(MAX_HELLO_SIZE - 1000))
    monitor = await establish(deployment, authenticate=False)
    assert monitor.framer.max_message_size == MAX_HELLO_SIZE
    monitor.close()
    limits = []

    def refuse(_: dict[str, Any]) -> Answer:
        (stream,) = deployment["a:1"].open_connections
        framer: Any = stream._framer
        limits.append(framer.max_message_size)
        return failure(18)

    deployment["a:1"].on("saslStart", refuse)
    await refusal(deployment, authenticating())
    assert limits == [MAX_HELLO_SIZE], "the server has not proved who it is"
    connection = await establish(deployment)
    assert connection.framer.max_message_size == 48_000_000


async def test_the_refusal_of_a_handshake_does_not_repeat_the_token(deployment: ScriptedDeployment) -> None:
    setup = Setup(HandshakeSettings(dict), Credentials("user", "a-password-to-be-kept", "admin", "SCRAM-SHA-256"))
    refused = {"ok": 0, "code": 18, "errmsg": "bad: a-password-to-be-kept", "codeName": "x"}
    deployment["a:1"].on("isMaster", Reply(refused))
    failed = await refusal(deployment, setup)
    assert "a-password" not in str(failed.error)
    assert isinstance(failed.error, OperationFailure)
    assert failed.error.code == 18


@pytest.mark.parametrize("is_plain", [True, False])
@pytest.mark.parametrize("answer", [Close(), Hang()], ids=["closed", "no answer"])
async def test_a_server_that_closes_may_require_tls(
    deployment: ScriptedDeployment, answer: Answer, is_plain: bool
) -> None:
    deployment["a:1"].on("isMaster", answer)
    failed = await refusal(deployment, Setup(HandshakeSettings(dict, is_plain=is_plain)))
    assert ("requires TLS (tls=true)" in str(failed.error)) == (is_plain and isinstance(answer, Close))


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        (failure(18, message="Authentication failed."), OperationFailure, "Authentication failed"),
        (failure(91, message="shutting down"), NotPrimaryError, "shutting down"),
        (Close(), AutoReconnect, "the server closed the connection"),
        (Hang(), NetworkTimeout, "no reply in time"),
        (Reply({"payload": "text"}), ProtocolError, "payload"),
        (Raw(b"garbage, and long enough for a header"), ProtocolError, "a message announces"),
    ],
    ids=["wrong password", "shutting down", "closed", "no answer", "nonsense", "garbage"],
)
async def test_errors_of_authentication_are_not_overload(
    deployment: ScriptedDeployment, answer: Answer, kind: type[PyMongoError], text: str
) -> None:
    deployment["a:1"].on("saslStart", answer)
    failed = await refusal(deployment, authenticating())
    assert type(failed.error) is kind
    assert text in str(failed.error)
    assert not failed.error.error_labels
    who = "user 'user', mechanism SCRAM-SHA-256, authSource 'admin'"
    assert (who in str(failed.error)) == (kind is OperationFailure)
    assert "pencil" not in str(failed.error)
    assert failed.during_authentication
    assert failed.max_wire_version == 17
    if kind in (AutoReconnect, NetworkTimeout):
        assert not failed.error.reached_server, "no command was put on the connection"


async def test_a_wrong_password(deployment: ScriptedDeployment) -> None:
    scram = ScramServer("SCRAM-SHA-256", b"another")
    deployment["a:1"].on("saslStart", scram.answer)
    deployment["a:1"].on("saslContinue", scram.answer)
    failed = await refusal(deployment, authenticating())
    assert isinstance(failed.error, OperationFailure)
    assert failed.error.code == 18


async def test_credentials_that_cannot_be_used(deployment: ScriptedDeployment) -> None:
    failed = await refusal(deployment, authenticating("GSSAPI"))
    assert isinstance(failed.error, ConfigurationError)
    assert not failed.error.error_labels
    assert deployment["a:1"].connections_made == 0, "found out before anything is sent"


async def test_cancelled_while_authenticating(deployment: ScriptedDeployment) -> None:
    deployment["a:1"].on("saslStart", Hang())
    with anyio.move_on_after(1) as scope:
        await establish(deployment, authenticating())
    assert scope.cancelled_caught
    assert not deployment["a:1"].open_connections
