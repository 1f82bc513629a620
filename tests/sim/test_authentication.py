"""Authentication as a client does it, on a scripted server: reauthentication, deadlines, and what nobody may see."""

from __future__ import annotations

import hashlib
import logging
import traceback
from math import inf
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import anyio
import bson
import pytest

from motorlite._connection.auth import aws, oidc
from motorlite._net.runtime import WaitTimeout
from motorlite._operations.commands import RunCommand
from motorlite.auth_oidc import OIDCCallbackResult
from motorlite.errors import (
    AutoReconnect,
    ConfigurationError,
    ExecutionTimeout,
    NetworkTimeout,
    OperationFailure,
    PyMongoError,
    WaitQueueTimeoutError,
)
from motorlite.monitoring import CommandEvent, PoolClearedEvent, RetryEvent
from motorlite.retry import FailFast
from motorlite.testing.scripted import Close, Hang, Reply, ScriptedDeployment, failure
from tests.support.auth_servers import (
    DONE,
    REAUTHENTICATE,
    REFUSED,
    Callback,
    OIDCServer,
    authenticating_driver,
    oidc_options,
    threadless,
)
from tests.support.clients import Client, scripted_client
from tests.support.core import EVERY_KIND, FOUND, fails, find, gaps, hello_delay, insert
from tests.support.events import Recorder
from tests.support.scram_server import ScramServer

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from motorlite._operations.contract import Operation
    from motorlite.testing.scripted import Answer

pytestmark = pytest.mark.anyio

SECRET = "hunter2-unmistakable"


@pytest.fixture
def deployment() -> ScriptedDeployment:
    return ScriptedDeployment(["a:1"], replica_set="rs")


class Scram:
    """A server that knows one user with one password."""

    def __init__(self, deployment: ScriptedDeployment, mechanism: str = "SCRAM-SHA-256", password: bytes = b"pencil"):
        self.mechanism, self.password, self.username = mechanism, password, b"user"
        self.iterations = 4096
        self.current = ScramServer(mechanism, password)
        self.conversations = 0
        deployment["a:1"].on("saslStart", self._start)
        deployment["a:1"].on("saslContinue", lambda command: self.current.answer(command))

    def _start(self, command: dict[str, Any]) -> dict[str, Any]:
        self.conversations += 1
        self.current = ScramServer(self.mechanism, self.password, username=self.username, iterations=self.iterations)
        return self.current.answer(command)


SCRAM: dict[str, Any] = {"username": "user", "password": "pencil", "authMechanism": "SCRAM-SHA-256"}


# --- reauthentication ---


async def test_fail_fast_is_no_reason_not_to_reauthenticate(deployment: ScriptedDeployment) -> None:
    scram = Scram(deployment)
    deployment["a:1"].on("find", FOUND)
    options: dict[str, Any] = {**SCRAM, "world": {"runtime": threadless}}
    async with scripted_client(deployment, retry_strategy=FailFast(), **options) as client:
        await client.db.coll.find_one()
        before = scram.conversations
        deployment["a:1"].on("find", REAUTHENTICATE, FOUND)
        deployment["a:1"].received.clear()
        assert await client.db.coll.find_one() == {"_id": 1}
        assert scram.conversations == before + 1
        assert len(deployment["a:1"].commands("find")) == 2


@EVERY_KIND
async def test_every_operation_reauthenticates(
    deployment: ScriptedDeployment, name: str, make: Callable[[], Operation[Any]], success: dict[str, Any]
) -> None:
    scram = Scram(deployment)
    deployment["a:1"].on(name, REAUTHENTICATE, success)
    async with authenticating_driver(deployment, **SCRAM) as client:
        await client.run(find())
        before, hellos = scram.conversations, len(deployment["a:1"].hellos)
        deployment["a:1"].received.clear()
        client.recorder.clear()
        deployment["a:1"].on(name, REAUTHENTICATE, success)
        await client.run(make())
        assert scram.conversations == before + 1
        assert len(deployment["a:1"].hellos) == hellos, "no hello"
        assert [item.name for item in deployment["a:1"].received] == [name, "saslStart", "saslContinue", name]
        assert {item.connection for item in deployment["a:1"].received} == {2}
        assert client.recorder.history == [f"started {name}", f"failed {name}", f"started {name}", f"succeeded {name}"]
        (event,) = client.recorder.retries
        assert (event.reason, event.rule, event.delay) == ("reauthentication required", "always", 0.001)
        assert client.core.executor.reports.retries == {event.reason: 2 if name == "find" else 1}
        assert client.recorder.cleared == []


@pytest.mark.parametrize(
    ("options", "command", "reply"),
    [
        ({"authMechanism": "MONGODB-X509"}, "authenticate", {"ok": 1}),
        ({"authMechanism": "PLAIN", "username": "u", "password": "p", "tls": True}, "saslStart", DONE),
    ],
    ids=["X509", "PLAIN"],
)
async def test_other_mechanisms(
    deployment: ScriptedDeployment, options: dict[str, Any], command: str, reply: dict[str, Any]
) -> None:
    deployment["a:1"].on(command, reply)
    deployment["a:1"].on("find", REAUTHENTICATE, FOUND)
    async with authenticating_driver(deployment, **options) as client:
        await client.run(find())
    assert [item.name for item in deployment["a:1"].received][:4] == [command, "find", command, "find"]


async def test_the_negotiated_mechanism_is_kept(deployment: ScriptedDeployment) -> None:
    scram = Scram(deployment, "SCRAM-SHA-1", b"1c33006ec1ffd90f9cadcbcc0e118200")
    deployment["a:1"].hello = {"saslSupportedMechs": ["SCRAM-SHA-1"]}
    deployment["a:1"].on("find", REAUTHENTICATE, FOUND)
    async with authenticating_driver(deployment, username="user", password="pencil") as client:
        await client.run(find())
    assert scram.conversations == 2


@pytest.mark.parametrize(
    ("answer", "options", "code", "conversations", "sent"),
    [
        (REAUTHENTICATE, {**SCRAM, "retryReads": True}, 391, 2, 2),
        (failure(18), SCRAM, 18, 1, 1),
        (REAUTHENTICATE, {}, 391, 0, 1),
    ],
    ids=["a second time", "another error", "no credentials"],
)
async def test_refusals_that_are_raised(
    deployment: ScriptedDeployment, answer: Any, options: dict[str, Any], code: int, conversations: int, sent: int
) -> None:
    scram = Scram(deployment)
    deployment["a:1"].on("find", answer)
    async with authenticating_driver(deployment, **options) as client:
        error = await fails(client, find())
    assert isinstance(error, OperationFailure)
    assert error.code == code
    assert scram.conversations == conversations
    assert len(deployment["a:1"].commands("find")) == sent


async def test_the_backoff_grows_from_connection_to_connection(deployment: ScriptedDeployment) -> None:
    """A second refusal on the same connection is raised; but each of a pool may be the first of its own."""
    Scram(deployment)
    deployment["a:1"].on("find", REAUTHENTICATE)
    async with authenticating_driver(deployment, **SCRAM) as client:
        await client.run(RunCommand("admin", {"ping": 1}))
        pool, taken = client.server().pool, []

        async def take_what_is_idle() -> None:
            while True:
                await anyio.sleep(0.0005)
                while (connection := pool.check_out_now()) is not None:
                    taken.append(connection)

        async with anyio.create_task_group() as group:
            group.start_soon(take_what_is_idle)
            with pytest.raises(OperationFailure) as caught:
                await client.run(find())
            group.cancel_scope.cancel()
        assert (caught.value.code, caught.value.attempts, caught.value.retry_refusal) == (391, 7, "attempts")
        assert gaps(deployment["a:1"].times("find")) == [0.001, 0.01, 0.05, 0.1, 0.5, 1.0]
        for connection in taken:
            pool.check_in(connection)


async def test_a_retryable_write_keeps_its_number(deployment: ScriptedDeployment) -> None:
    Scram(deployment)
    deployment["a:1"].on("insert", REAUTHENTICATE, {"n": 1})
    async with authenticating_driver(deployment, **SCRAM, retryWrites=True) as client:
        await client.run(insert())
    first, second = deployment["a:1"].commands("insert")
    assert (first["lsid"], first["txnNumber"]) == (second["lsid"], second["txnNumber"])


async def test_a_retry_after_reauthentication(deployment: ScriptedDeployment) -> None:
    """What the second attempt fails with is judged as ever."""
    Scram(deployment)
    deployment["a:1"].on("find", REAUTHENTICATE, failure(6), FOUND)
    async with authenticating_driver(deployment, **SCRAM, retryReads=True) as client:
        await client.run(find())
        assert client.core.executor.reports.retries == {"reauthentication required": 1, "temporary failure": 1}
        assert client.tokens == 1000
    assert len(deployment["a:1"].commands("find")) == 3


@pytest.mark.parametrize(
    ("answer", "kind", "phase", "cleared"),
    [
        (failure(18), OperationFailure, None, 0),
        (Close(), AutoReconnect, None, 1),
        (Hang(), NetworkTimeout, "reply", 0),
    ],
    ids=["refused", "the network", "the deadline"],
)
async def test_a_connection_that_fails_to_reauthenticate_is_closed(
    deployment: ScriptedDeployment, answer: Answer, kind: type[PyMongoError], phase: str | None, cleared: int
) -> None:
    """The server executed nothing the second time, so a cursor whose getMore ends this way can continue."""
    scram = Scram(deployment)
    async with authenticating_driver(deployment, **SCRAM) as client:
        await client.run(find())
        deployment["a:1"].on("find", REAUTHENTICATE, FOUND)
        deployment["a:1"].on("saslStart", answer)
        begin = client.now
        error = await fails(client, find(), timeout=3)
        assert client.now - begin == pytest.approx(3 if kind is NetworkTimeout else 0)
        assert (type(error), error.phase, error.timeout) == (kind, phase, kind is NetworkTimeout)
        assert not error.reached_server
        assert len(client.recorder.cleared) == cleared
        assert len(client.server().pool.state.idle) == 0
        assert len(deployment["a:1"].commands("find")) == 2
        deployment["a:1"].on("saslStart", scram._start)
        await client.run(find())
    # The monitor of a pool that was cleared has a new one as well.
    assert deployment["a:1"].connections_made == 3 + cleared


async def test_the_command_is_not_sent_again_when_reauthenticating_leaves_too_little_time(
    deployment: ScriptedDeployment,
) -> None:
    scram = Scram(deployment)
    hello_delay(deployment, "a:1", 0.2)
    async with authenticating_driver(deployment, **SCRAM, heartbeatFrequencyMS=500) as client:
        await client.run(find())
        await anyio.sleep(5)
        deployment["a:1"].received.clear()
        deployment["a:1"].on("find", REAUTHENTICATE, FOUND)
        deployment["a:1"].on("saslStart", lambda command: Reply(scram._start(command), delay=2.9))
        with pytest.raises(ExecutionTimeout) as caught:
            await client.run(find(), timeout=3)
        assert (caught.value.timeout, caught.value.phase) == (True, "before sending")
        assert [item.name for item in deployment["a:1"].received] == ["find", "saslStart", "saslContinue"]


async def test_cancelled_while_reauthenticating(deployment: ScriptedDeployment) -> None:
    Scram(deployment)
    async with authenticating_driver(deployment, **SCRAM) as client:
        await client.run(find())
        deployment["a:1"].on("find", REAUTHENTICATE, FOUND)
        deployment["a:1"].on("saslStart", Hang())
        with anyio.move_on_after(1) as scope:
            await client.run(find())
        assert scope.cancelled_caught
        assert len(client.server().pool.state.idle) == len(client.server().pool.state.in_use) == 0


# --- MONGODB-OIDC with deadlines ---


async def test_a_callback_may_take_longer_than_connecting(deployment: ScriptedDeployment) -> None:
    OIDCServer("t").attach(deployment)
    async with authenticating_driver(
        deployment, **oidc_options(Callback("t", seconds=50)), connectTimeoutMS=2000
    ) as client:
        await client.run(find())


async def test_an_operation_that_is_out_of_time_leaves_the_token_to_others(deployment: ScriptedDeployment) -> None:
    OIDCServer("t").attach(deployment)
    callback = Callback("t", seconds=10)
    async with authenticating_driver(deployment, **oidc_options(callback)) as client:
        with pytest.raises(WaitQueueTimeoutError):
            await client.run(find(), timeout=4)
        await client.run(find())
    (context,) = callback.contexts
    assert context.timeout_seconds == pytest.approx(4)


async def test_a_person_who_is_asked_again_does_not_hold_up_the_operation(deployment: ScriptedDeployment) -> None:
    OIDCServer("t").attach(deployment)
    callback = Callback("t")
    async with authenticating_driver(deployment, **oidc_options(callback, human=True)) as client:
        await client.run(find())
        callback.seconds = 30
        deployment["a:1"].on("find", REAUTHENTICATE, FOUND)
        begin = client.now
        with pytest.raises(ExecutionTimeout) as caught:
            await client.run(find(), timeout=3)
        assert client.now - begin == pytest.approx(3)
        assert caught.value.timeout
        # The login page stays open, and the next operation gets what comes of it.
        await client.run(find())
        assert client.now - begin == pytest.approx(30.1), "calls begin a tenth of a second apart"
    assert len(callback.contexts) == 2


async def test_one_call_for_two_servers() -> None:
    deployment = ScriptedDeployment(["a:1", "b:1"], replica_set="rs")
    oidc = OIDCServer("t")
    oidc.attach(deployment)
    callback = Callback("t", seconds=3)
    async with authenticating_driver(deployment, **oidc_options(callback), minPoolSize=3) as client:
        await client.run(find())
        await anyio.sleep(5)
    assert len(callback.contexts) == 1


# --- MONGODB-AWS ---


class AwsServer:
    def __init__(self, deployment: ScriptedDeployment, *, host: str = "sts.amazonaws.com") -> None:
        self.host = host
        self.second: list[dict[str, Any]] = []
        self.refuses = False
        deployment["a:1"].on("saslStart", self._start)
        deployment["a:1"].on("saslContinue", self._continue)

    def _start(self, command: dict[str, Any]) -> dict[str, Any]:
        assert (command["mechanism"], command["$db"]) == ("MONGODB-AWS", "$external")
        first = bson.decode(command["payload"])
        assert (len(first["r"]), first["p"]) == (32, 110)
        self.nonce = first["r"] + b"s" * 32
        return {"conversationId": 1, "done": False, "payload": bson.encode({"s": self.nonce, "h": self.host})}

    def _continue(self, command: dict[str, Any]) -> dict[str, Any]:
        self.second.append(bson.decode(command["payload"]))
        return REFUSED if self.refuses else DONE

    def signed_by(self, access_key: str, secret_key: str, token: str | None = None) -> bool:
        second = self.second[-1]
        credentials = aws.AwsCredentials(access_key, secret_key, token)
        expected = aws.authorization(credentials, self.host, self.nonce, second["d"])
        return (second["a"], second.get("t")) == (expected, token)


AWS: dict[str, Any] = {"authMechanism": "MONGODB-AWS"}


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize("token", [None, "session"])
async def test_aws_credentials_of_the_environment(
    deployment: ScriptedDeployment, environment: pytest.MonkeyPatch, token: str | None
) -> None:
    environment.setenv("AWS_ACCESS_KEY_ID", "id")
    environment.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    if token is not None:
        environment.setenv("AWS_SESSION_TOKEN", token)
    server = AwsServer(deployment)
    async with authenticating_driver(deployment, **AWS, world={"date": lambda: "20191107T002607Z"}) as client:
        await client.run(find())
        assert server.signed_by("id", "secret", token)
        assert server.second[0]["d"] == "20191107T002607Z"
        # They are read anew for every connection.
        environment.setenv("AWS_ACCESS_KEY_ID", "new")
        deployment["a:1"].on("find", REAUTHENTICATE, FOUND)
        await client.run(find())
        assert server.signed_by("new", "secret", token)
    assert "speculativeAuthenticate" not in deployment["a:1"].hellos[-1].document


async def test_an_aws_provider(deployment: ScriptedDeployment, environment: pytest.MonkeyPatch) -> None:
    environment.setenv("AWS_ACCESS_KEY_ID", "unused")
    environment.setenv("AWS_SECRET_ACCESS_KEY", "unused")
    calls = 0

    def provider() -> Any:
        nonlocal calls
        calls += 1
        return SimpleNamespace(access_key="id", secret_key=SECRET, token="t")

    server = AwsServer(deployment)
    options = {**AWS, "authMechanismProperties": {"AWS_CREDENTIAL_PROVIDER": provider}}
    async with authenticating_driver(deployment, **options) as client:
        await client.run(find())
    assert calls == 1
    assert server.signed_by("id", SECRET, "t")


async def test_aws_authentication_that_fails_clears_the_cache(deployment: ScriptedDeployment) -> None:
    class Refreshable:
        loads = 0

        def load(self) -> Any:
            self.loads += 1
            return self

        def get_frozen_credentials(self) -> Any:
            return SimpleNamespace(access_key="id", secret_key="secret", token=None)

    provider, server = Refreshable(), AwsServer(deployment)
    options = {**AWS, "authMechanismProperties": {"AWS_CREDENTIAL_PROVIDER": provider}}
    async with authenticating_driver(deployment, **options) as client:
        await client.run(find())
        for server.refuses in (False, False, True):
            client.server().pool.clear(None)
            client.server().pool.ready()
            if not server.refuses:
                await client.run(find())
        assert provider.loads == 1
        assert "Authentication failed" in str(await fails(client, find()))
        server.refuses = False
        await client.run(find())
        assert provider.loads == 2


@pytest.mark.parametrize("way", ["OIDC", "AWS"])
async def test_a_server_that_asks_again_after_the_close(deployment: ScriptedDeployment, way: str) -> None:
    callback = Callback("t")
    if way == "OIDC":
        OIDCServer("t").attach(deployment, speculates=False)
        options = oidc_options(callback)
    else:
        AwsServer(deployment)
        credentials = SimpleNamespace(access_key="a", secret_key="b", token=None)
        options = {**AWS, "authMechanismProperties": {"AWS_CREDENTIAL_PROVIDER": lambda: credentials}}
    async with authenticating_driver(deployment, **options) as client:
        await client.run(find())
        deployment["a:1"].on("find", Reply({**REAUTHENTICATE}, delay=1.0), FOUND)
        begin = client.now
        ended: list[BaseException | None] = []

        async def operation() -> None:
            try:
                await client.run(find())
            except PyMongoError as error:
                ended.append(error)
            else:
                ended.append(None)

        async with anyio.create_task_group() as group:
            group.start_soon(operation)
            await anyio.sleep(0.5)
            await client.core.close()
        assert client.now - begin == pytest.approx(1.0, abs=0.011), "nobody waits for what will not happen"
        assert ended == [None], "what is in flight may end, with the background work that it needs"


# --- threads ---


class Threads:
    """A world in which each thread takes so many seconds, or none ends before its caller gives up."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.count = 0
        self.world = {"runtime": self._runtime}

    def _runtime(self) -> Any:
        runtime: Any = threadless()

        async def run(function: Callable[[], Any], until: float = inf) -> Any:
            self.count += 1
            await runtime.sleep(min(self.seconds, until - runtime.now()))
            if runtime.now() >= until:
                raise WaitTimeout
            return function()

        runtime.run_in_thread = run
        return runtime


@pytest.mark.parametrize(("options", "most"), [({}, 1_000_000), ({"scramMaxIterations": 5000}, 5000)])
async def test_the_server_may_not_ask_for_more_iterations(
    deployment: ScriptedDeployment, options: dict[str, Any], most: int
) -> None:
    scram, threads = Scram(deployment), Threads(0)
    async with authenticating_driver(deployment, **SCRAM, **options, world=threads.world) as client:
        for asked in (4095, most + 1, 2**31 - 1):
            scram.iterations = asked
            error = await fails(client, find())
            assert f"count is {asked}, allowed are 4096 to {most} (scramMaxIterations)" in str(error)
        assert threads.count == 0, "nothing is derived for it"
        scram.iterations = 5000
        await client.run(find())
    assert threads.count == 1


async def test_aws_credentials_that_take_too_long(deployment: ScriptedDeployment) -> None:
    options = {**AWS, "authMechanismProperties": {"AWS_CREDENTIAL_PROVIDER": lambda: None}}
    async with authenticating_driver(deployment, **options, world=Threads(inf).world) as client:
        begin = client.now
        error = await fails(client, find())
        assert isinstance(error, ExecutionTimeout)
        assert "no credentials were found in time" in str(error)
        assert client.now - begin == pytest.approx(20)


async def test_keys_that_take_too_long(deployment: ScriptedDeployment) -> None:
    Scram(deployment)
    threads = Threads(10)
    async with authenticating_driver(deployment, **SCRAM, connectTimeoutMS=500, world=threads.world) as client:
        begin = client.now
        for attempt in range(1, 19):
            error = await fails(client, find())
            assert isinstance(error, ExecutionTimeout)
            assert "SCRAM-SHA-256: the key was not derived from the password in time" in str(error)
            assert client.now - begin == pytest.approx(attempt * 0.5)
        # One thread for all those attempts, and what it came to late is not lost.
        await anyio.sleep(2)
        await client.run(find())
    assert threads.count == 1


# --- what nobody may see ---


def chain(error: BaseException) -> str:
    """Everything that a traceback of `error` shows, source lines left out."""
    texts: list[str] = []
    left: list[BaseException | None] = [error]
    while left:
        each = left.pop()
        if each is not None:
            texts += [str(each), repr(each), *traceback.format_exception_only(each), repr(vars(each))]
            left += [each.__cause__, each.__context__]
    return "\n".join(texts)


def told(error: BaseException, caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the error and the logs show."""
    assert "Checkout started" in caplog.text, "the logs are looked at"
    return [chain(error), caplog.text, *(repr(vars(record)) for record in caplog.records)]


WAYS: dict[str, dict[str, Any]] = {
    "SCRAM": {"username": f"user-{SECRET}", "password": SECRET},
    "SCRAM-SHA-1": {"username": f"user-{SECRET}", "password": SECRET, "authMechanism": "SCRAM-SHA-1"},
    "PLAIN": {"username": f"user-{SECRET}", "password": SECRET, "authMechanism": "PLAIN", "tls": True},
    "MONGODB-X509": {"username": f"CN={SECRET}", "authMechanism": "MONGODB-X509"},
    "MONGODB-OIDC": {
        **oidc_options(Callback(OIDCCallbackResult(SECRET, refresh_token=SECRET))),
        "username": f"user-{SECRET}",
    },
    "human": {
        **oidc_options(Callback(OIDCCallbackResult(SECRET, refresh_token=SECRET)), human=True),
        "username": f"user-{SECRET}",
    },
    "MONGODB-AWS": {
        "authMechanism": "MONGODB-AWS",
        "authMechanismProperties": {
            "AWS_CREDENTIAL_PROVIDER": lambda: SimpleNamespace(access_key=SECRET, secret_key=SECRET, token=SECRET)
        },
    },
}


def prepare(deployment: ScriptedDeployment, way: str, options: dict[str, Any], where: str) -> None:
    """Let the server refuse the first message, the last one, or those of the first operation's reauthentication."""
    server = deployment["a:1"]
    refuse_last = where == "last message"
    answer: Any = DONE
    if way.startswith("SCRAM"):
        scram = Scram(deployment, "SCRAM-SHA-1" if way == "SCRAM-SHA-1" else "SCRAM-SHA-256", SECRET.encode())
        scram.username = options["username"].encode()
        if way == "SCRAM-SHA-1":
            scram.password = hashlib.md5(f"{options['username']}:mongo:{SECRET}".encode()).hexdigest().encode()
        if refuse_last:
            scram.password = b"another"
        server.hello = {"saslSupportedMechs": ["SCRAM-SHA-256"]}
        answer = scram._start
    elif way == "MONGODB-AWS":
        aws_server = AwsServer(deployment)
        aws_server.refuses = refuse_last
        answer = aws_server._start
    elif way in ("MONGODB-OIDC", "human"):
        oidc = OIDCServer(*([] if refuse_last else [SECRET]))
        oidc.attach(deployment, speculates=False)
        answer = oidc.answer
    if where == "first message":
        server.on("saslStart", REFUSED)
        server.on("authenticate", REFUSED)
    elif where == "again":
        server.on("find", REAUTHENTICATE)
        # The second conversation fails.
        server.on("saslStart", answer, REFUSED)
        server.on("authenticate", {"ok": 1}, REFUSED)
    elif way in ("PLAIN", "MONGODB-X509"):
        server.on("saslStart", {**DONE, "done": False})
        server.on("authenticate", REFUSED)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("where", ["first message", "last message", "again"])
async def test_secrets_stay_secret(
    deployment: ScriptedDeployment, caplog: pytest.LogCaptureFixture, way: str, where: str
) -> None:
    options = WAYS[way]
    prepare(deployment, way, options, where)
    listener = Recorder()
    with caplog.at_level(logging.DEBUG):
        async with _client(deployment, [listener], options) as client:
            with pytest.raises(OperationFailure, match="uthentication failed") as caught:
                await client["db"]["coll"].find_one()
            shown = [repr(item) for item in (client, client.stats(), client["db"]["coll"], client.options)]
    if where == "again":
        assert listener.history == ["started find", "failed find"]
    shown += told(caught.value, caplog)
    shown += [repr(event) for event in listener.of(CommandEvent, RetryEvent, PoolClearedEvent)]
    visible = "\n".join(shown)
    # The configuration names the user, and so does the error of a failed authentication.
    user = options.get("username")
    if user is not None:
        assert f"username='{user}'" in visible
        assert f"user {user!r}, mechanism " in str(caught.value)
        visible = visible.replace(user, "")
    assert "authSource " in str(caught.value)
    assert SECRET not in visible


# What a byte that is no UTF-8 is in os.environ.
UNSPEAKABLE = f"{SECRET}\udce9"


@pytest.mark.parametrize("is_checked", [True, False])
@pytest.mark.parametrize("way", ["AWS", "OIDC"])
async def test_secrets_that_no_message_can_hold_stay_secret(
    deployment: ScriptedDeployment,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    is_checked: bool,
) -> None:
    """An encoding error shows all of the text. Should a check be missing one day, the shell does not tell of it."""
    if not is_checked:
        monkeypatch.setattr(aws, "is_encodable", lambda _: True)
        monkeypatch.setattr(oidc, "is_encodable", lambda _: True)
    expected: type[Exception] = OperationFailure
    if way == "AWS":
        AwsServer(deployment)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", UNSPEAKABLE)
        monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
        options: dict[str, Any] = AWS
        expected = ConfigurationError if is_checked else OperationFailure
    else:
        OIDCServer("t").attach(deployment, speculates=False)
        options = oidc_options(Callback(UNSPEAKABLE))
    text = "cannot be encoded as UTF-8" if is_checked else "authentication failed: (Unicode|Invalid)"
    with caplog.at_level(logging.DEBUG):
        async with _client(deployment, [Recorder()], options) as client:
            with pytest.raises(expected, match=text) as caught:
                await client["db"]["coll"].find_one()
    assert SECRET not in "\n".join(told(caught.value, caplog))


def _client(
    deployment: ScriptedDeployment, listeners: list[Any], options: dict[str, Any]
) -> AbstractAsyncContextManager[Client]:
    return scripted_client(
        deployment, world={"runtime": threadless}, event_listeners=listeners, retryReads=False, **options
    )
