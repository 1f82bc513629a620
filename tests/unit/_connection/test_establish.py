"""Opening a connection: what is sent, how far it came when it failed, and which labels the error carries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import pytest
from bson import ObjectId

from motorlite._base.error_documents import RETRYABLE, SYSTEM_OVERLOADED
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
    from motorlite.testing.scripted import Answer, ScriptedServer

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


async def refusal(deployment: ScriptedDeployment, setup: Setup | None = None, **arguments: Any) -> EstablishmentError:
    with pytest.raises(EstablishmentError) as caught:
        await establish(deployment, setup, **arguments)
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


# --- errors ---


def on_hello(answer: Answer) -> Callable[[ScriptedServer], None]:
    return lambda server: server.on("isMaster", answer)


def on_connecting(kind: type[PyMongoError]) -> Callable[[ScriptedServer], None]:
    return lambda server: setattr(server, "connect_error", lambda: kind("no"))


NO_LABELS: frozenset[str] = frozenset()
TOO_OLD = "Server at a:1 reports wire version 7 (MongoDB 4.0), but this version of motorlite requires at least 8"
UP_TO_HELLO: dict[str, tuple[Callable[[ScriptedServer], object], type[PyMongoError], str, frozenset[str]]] = {
    "refused": (lambda server: setattr(server, "is_down", True), AutoReconnect, "connection refused", OVERLOAD),
    "unreachable": (
        lambda server: setattr(server, "is_unreachable", True),
        NetworkTimeout,
        "no connection in time",
        OVERLOAD,
    ),
    "closed": (on_hello(Close()), AutoReconnect, "the server closed the connection", OVERLOAD),
    "no answer": (on_hello(Hang()), NetworkTimeout, "no reply in time", OVERLOAD),
    "closed in the middle": (on_hello(Raw(b"\xff\0\0\0", True)), AutoReconnect, "the server closed", OVERLOAD),
    # Names, certificates and proxies say nothing about the server.
    **{
        kind.__name__: (on_connecting(kind), kind, "no", NO_LABELS)
        for kind in (NameResolutionError, CertificateError, ProxyError, ProxyTimeout)
    },
    # An answer is no overload, unless the server says so itself.
    "refused by the server": (on_hello(failure(18, message="not you")), OperationFailure, "not you", NO_LABELS),
    "shutting down": (on_hello(failure(91, message="shutting down")), NotPrimaryError, "shutting down", NO_LABELS),
    "overloaded": (
        on_hello(failure(462, SYSTEM_OVERLOADED)),
        OperationFailure,
        "",
        frozenset({SYSTEM_OVERLOADED}),
    ),
    "nonsense": (on_hello(Reply({"maxWireVersion": "many"})), ProtocolError, "maxWireVersion", NO_LABELS),
    "garbage": (
        on_hello(Raw(b"garbage, and long enough for a header")),
        ProtocolError,
        "a message announces",
        NO_LABELS,
    ),
    "too old": (on_hello(Reply({"maxWireVersion": 7})), ConfigurationError, TOO_OLD, NO_LABELS),
}


@pytest.mark.parametrize(("prepare", "kind", "text", "labels"), UP_TO_HELLO.values(), ids=list(UP_TO_HELLO))
async def test_errors_up_to_the_end_of_hello(
    deployment: ScriptedDeployment,
    prepare: Callable[[ScriptedServer], object],
    kind: type[PyMongoError],
    text: str,
    labels: frozenset[str],
) -> None:
    prepare(deployment["a:1"])
    failed = await refusal(deployment, authenticating())
    assert type(failed.error) is kind
    assert text in str(failed.error)
    assert failed.error.error_labels == labels
    assert not failed.during_authentication
    assert failed.max_wire_version == 0
    if labels == OVERLOAD:
        assert not failed.error.reached_server, "no command was put on the connection"


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


async def test_a_monitor_lets_the_topology_refuse_an_old_server(deployment: ScriptedDeployment) -> None:
    deployment["a:1"].hello = {"maxWireVersion": 7}
    connection = await establish(deployment, authenticate=False)
    assert connection.handshake.reply["maxWireVersion"] == 7


@pytest.mark.parametrize("step", ["isMaster", "saslStart"])
async def test_a_cancellation_closes_the_socket(deployment: ScriptedDeployment, step: str) -> None:
    deployment["a:1"].on(step, Hang())
    with anyio.move_on_after(1) as scope:
        await establish(deployment, authenticating())
    assert scope.cancelled_caught
    assert not deployment["a:1"].open_connections


async def test_a_bug_closes_the_socket(deployment: ScriptedDeployment, scram: ScramServer) -> None:
    def bug(*_: Any) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await establish(deployment, Setup(HandshakeSettings(bug)))
    with pytest.raises(ZeroDivisionError):
        await establish(deployment, authenticating(), in_thread=bug)
    assert deployment["a:1"].connections_made == 2
    assert not deployment["a:1"].open_connections


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


# --- authentication ---


@pytest.fixture
def scram(deployment: ScriptedDeployment) -> ScramServer:
    found = ScramServer("SCRAM-SHA-256", b"pencil")
    deployment["a:1"].on("saslStart", found.answer)
    deployment["a:1"].on("saslContinue", found.answer)
    return found


async def test_authentication(deployment: ScriptedDeployment, scram: ScramServer) -> None:
    server = deployment["a:1"]
    await establish(deployment, authenticating(server_api=ServerApi("1", strict=True)))
    assert scram.is_authenticated
    (hello,) = server.hellos
    assert hello.document["speculativeAuthenticate"]["saslStart"] == 1
    assert "saslSupportedMechs" not in hello.document
    for command in server.commands():
        assert command["$db"] == "admin"
        assert command["apiVersion"] == "1"
        assert command["apiStrict"] is True


async def test_the_mechanism_is_negotiated(deployment: ScriptedDeployment, scram: ScramServer) -> None:
    deployment["a:1"].hello = {"saslSupportedMechs": ["SCRAM-SHA-1", "SCRAM-SHA-256"]}
    await establish(deployment, authenticating(None))
    assert deployment["a:1"].hellos[0].document["saslSupportedMechs"] == "admin.user"
    assert scram.is_authenticated


async def test_authenticated_within_the_handshake(deployment: ScriptedDeployment, scram: ScramServer) -> None:
    def hello(command: dict[str, Any]) -> Reply:
        reply = scram.answer(command["speculativeAuthenticate"])
        return Reply({"maxWireVersion": 17, "speculativeAuthenticate": reply})

    deployment["a:1"].on("isMaster", hello)
    await establish(deployment, authenticating())
    assert deployment["a:1"].commands("saslStart") == []
    assert scram.is_authenticated


async def test_monitors_do_not_authenticate(deployment: ScriptedDeployment) -> None:
    await establish(deployment, authenticating(), authenticate=False)
    assert deployment["a:1"].received == []
    hello = deployment["a:1"].hellos[0].document
    assert "speculativeAuthenticate" not in hello
    assert "saslSupportedMechs" not in hello


async def test_arbiters_authenticate_nobody_and_monitors_do_not_mind(deployment: ScriptedDeployment) -> None:
    deployment["a:1"].hello = {"setName": "rs", "isWritablePrimary": False, "ismaster": False, "arbiterOnly": True}
    failed = await refusal(deployment, authenticating())
    assert isinstance(failed.error, ConfigurationError)
    assert failed.during_authentication
    assert deployment["a:1"].received == []
    await establish(deployment, authenticating(), authenticate=False)


async def test_credentials_that_cannot_be_used(deployment: ScriptedDeployment) -> None:
    failed = await refusal(deployment, authenticating("MONGODB-CR"))
    assert isinstance(failed.error, ConfigurationError)
    assert not failed.error.error_labels
    assert deployment["a:1"].connections_made == 0, "found out before anything is sent"


# --- how long replies may be ---


def hello_of(size: int) -> Reply:
    return Reply({"maxWireVersion": 17, "isWritablePrimary": True, "tags": {"t": "x" * size}})


@pytest.mark.parametrize("authenticate", [True, False], ids=["operations", "monitor"])
async def test_no_hello_is_so_long(deployment: ScriptedDeployment, authenticate: bool) -> None:
    deployment["a:1"].on("isMaster", hello_of(MAX_HELLO_SIZE + 20_000))
    failed = await refusal(deployment, authenticate=authenticate)
    assert isinstance(failed.error, ProtocolError)
    assert "a message announces 10" in str(failed.error)


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
