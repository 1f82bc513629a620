"""The prose tests of MONGODB-OIDC, on a scripted server: machine flow and human flow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import bson
import pytest

from motorlite._options.options import client_options
from motorlite._sessions.session import Session
from motorlite._topology.topology import Topology
from motorlite.auth_oidc import OIDCCallbackResult
from motorlite.errors import ConfigurationError, OperationFailure
from motorlite.testing.scripted import Close, ScriptedDeployment, failure
from tests.support.auth_servers import (
    IDP,
    REAUTHENTICATE,
    REFUSED,
    Callback,
    OIDCServer,
    authenticating_driver,
    oidc_options,
)
from tests.support.core import FOUND, WRITTEN, fails, find, insert, later

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from motorlite._connection.auth.oidc import TokenCache
    from motorlite._operations.contract import Operation
    from motorlite.errors import PyMongoError
    from tests.support.core import Driver

pytestmark = pytest.mark.anyio


@pytest.fixture
def deployment() -> ScriptedDeployment:
    return ScriptedDeployment(["a:1"], replica_set="rs")


@pytest.fixture
def server(deployment: ScriptedDeployment) -> OIDCServer:
    oidc = OIDCServer("token", "second")
    oidc.attach(deployment)
    return oidc


@pytest.fixture
def several(deployment: ScriptedDeployment) -> OIDCServer:
    """A server with one identity provider for each user, so that it has to be told which."""

    class Server(OIDCServer):
        def answer(self, command: dict[str, Any]) -> dict[str, Any]:
            name = bson.decode(command["payload"]).get("n")
            if name is not None:
                self.idp = {"issuer": f"https://{name.partition('@')[0]}", "clientId": "abcd"}
            elif "saslStart" in command:
                return REFUSED
            return super().answer(command)

    oidc = Server("test_user1's token", "test_user2's token")
    oidc.attach(deployment)
    return oidc


@pytest.fixture(params=["callback", "environment"])
def machine(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Both ways of getting the token ``token``."""
    if request.param == "callback":
        return oidc_options(Callback("token"))
    path = tmp_path / "token"
    path.write_text("token")
    monkeypatch.setenv("OIDC_TOKEN_FILE", str(path))
    return oidc_options(ENVIRONMENT="test")


def calls(options: dict[str, Any]) -> int | None:
    """How often the callback was called; None where there is none."""
    callback = options["authMechanismProperties"].get("OIDC_CALLBACK")
    return None if callback is None else len(callback.contexts)


def tokens(client: Driver) -> TokenCache:
    """The Client Cache."""
    assert isinstance(client.core.topology, Topology)
    authenticator = client.core.topology._establisher._authenticator
    assert authenticator is not None
    return authenticator.tokens


async def read(deployment: ScriptedDeployment, options: dict[str, Any], times: int = 1) -> None:
    async with authenticating_driver(deployment, **options) as client:
        for _ in range(times):
            await client.run(find())


async def refusal(
    deployment: ScriptedDeployment, options: dict[str, Any], kind: type[PyMongoError] = OperationFailure, after: int = 0
) -> Any:
    """The error of a read, after so many that succeed."""
    async with authenticating_driver(deployment, **options) as client:
        for _ in range(after):
            await client.run(find())
        error = await fails(client, find())
    assert isinstance(error, kind)
    return error


# --- machine (1): callback authentication ---


async def test_machine_1_1_callback_is_called_during_authentication(
    deployment: ScriptedDeployment, server: OIDCServer, machine: dict[str, Any]
) -> None:
    await read(deployment, machine)
    assert calls(machine) in (1, None)
    assert server.shown == ["token"]


async def test_machine_1_2_callback_is_called_once_for_multiple_connections(
    deployment: ScriptedDeployment, server: OIDCServer, machine: dict[str, Any]
) -> None:
    # Slow enough that connections have to be made.
    deployment["a:1"].on("find", later(FOUND, 0.05))
    async with authenticating_driver(deployment, **machine) as client, anyio.create_task_group() as group:

        async def work() -> None:
            for _ in range(100):
                await client.run(find())

        for _ in range(10):
            group.start_soon(work)
    assert calls(machine) in (1, None)
    assert deployment["a:1"].connections_made >= 10
    assert set(server.shown + server.speculative) == {"token"}


# --- machine (2): callback validation ---


async def test_machine_2_1_valid_callback_inputs(deployment: ScriptedDeployment, server: OIDCServer) -> None:
    callback = Callback("token")
    await read(deployment, {"username": "principal", **oidc_options(callback)})
    (context,) = callback.contexts
    assert (context.timeout_seconds, context.username, context.version) == (60.0, "principal", 1)
    assert (context.refresh_token, context.idp_info) == (None, None)


async def test_machine_2_2_callback_returns_null(deployment: ScriptedDeployment, server: OIDCServer) -> None:
    error = await refusal(deployment, oidc_options(Callback(None)))
    assert "must return an OIDCCallbackResult, not NoneType" in str(error.__cause__)
    assert server.shown == []


async def test_machine_2_3_callback_returns_missing_data(deployment: ScriptedDeployment, server: OIDCServer) -> None:
    error = await refusal(deployment, oidc_options(Callback({"expires_in_seconds": 3})))
    assert "must return an OIDCCallbackResult, not dict" in str(error.__cause__)


def test_machine_2_4_invalid_client_configuration_with_callback() -> None:
    with pytest.raises(ConfigurationError, match="got ENVIRONMENT and OIDC_CALLBACK"):
        client_options(**oidc_options(Callback("token"), ENVIRONMENT="test"))


def test_machine_2_5_invalid_use_of_allowed_hosts() -> None:
    with pytest.raises(ConfigurationError):
        client_options(**oidc_options(ENVIRONMENT="azure", ALLOWED_HOSTS=[]))
    with pytest.raises(ConfigurationError, match="ALLOWED_HOSTS is only for OIDC_HUMAN_CALLBACK"):
        client_options(**oidc_options(ENVIRONMENT="azure", TOKEN_RESOURCE="x", ALLOWED_HOSTS=[]))


# --- machine (3): authentication failure ---


async def test_machine_3_1_a_refused_cached_token_is_replaced(
    deployment: ScriptedDeployment, server: OIDCServer, machine: dict[str, Any]
) -> None:
    async with authenticating_driver(deployment, **machine) as client:
        tokens(client).access_token = "bad"
        await client.run(find())
        assert tokens(client).access_token == "token"
    assert calls(machine) in (1, None)
    assert server.speculative == ["bad"]
    assert server.shown == ["bad", "token"]


async def test_machine_3_2_a_refused_new_token_is_an_error(deployment: ScriptedDeployment, server: OIDCServer) -> None:
    callback = Callback("bad")
    error = await refusal(deployment, oidc_options(callback))
    assert error.code == 18
    assert len(callback.contexts) == 1


async def test_machine_3_3_an_unexpected_error_does_not_clear_the_cache(
    deployment: ScriptedDeployment, server: OIDCServer, machine: dict[str, Any]
) -> None:
    deployment["a:1"].on("saslStart", failure(20), server.answer)
    async with authenticating_driver(deployment, **machine) as client:
        error = await fails(client, find())
        assert isinstance(error, OperationFailure)
        assert error.code == 20
        assert calls(machine) in (1, None)
        await client.run(find())
    assert calls(machine) in (1, None)


# --- machine (4): reauthentication ---


async def test_machine_4_1_reauthentication_succeeds(
    deployment: ScriptedDeployment, server: OIDCServer, machine: dict[str, Any]
) -> None:
    deployment["a:1"].on("find", REAUTHENTICATE, FOUND)
    await read(deployment, machine)
    assert calls(machine) in (2, None)
    assert server.shown == ["token", "token"]
    assert len(deployment["a:1"].commands("find")) == 2
    assert deployment["a:1"].connections_made == 2, "one of the monitor, one of the pool"


@pytest.mark.parametrize(
    ("name", "operation", "done"), [("find", find, FOUND), ("insert", insert, WRITTEN)], ids=["4_2_read", "4_3_write"]
)
async def test_machine_4_2_and_4_3_commands_fail_if_reauthentication_fails(
    deployment: ScriptedDeployment, server: OIDCServer, name: str, operation: Callable[[], Operation[Any]], done: Any
) -> None:
    callback = Callback("token", "bad")
    deployment["a:1"].on(name, done, REAUTHENTICATE, done)
    async with authenticating_driver(deployment, **oidc_options(callback)) as client:
        await client.run(operation())
        error = await fails(client, operation())
    assert isinstance(error, OperationFailure)
    assert error.code == 18
    assert len(callback.contexts) == 2
    assert len(deployment["a:1"].commands(name)) == 2, "not sent again"


async def test_machine_4_4_speculative_authentication_is_ignored_on_reauthentication(
    deployment: ScriptedDeployment, server: OIDCServer, machine: dict[str, Any]
) -> None:
    deployment["a:1"].on("insert", WRITTEN, REAUTHENTICATE, WRITTEN)
    async with authenticating_driver(deployment, **machine) as client:
        tokens(client).access_token = "token"
        await client.run(insert())
        assert calls(machine) in (0, None)
        assert deployment["a:1"].commands("saslStart") == []
        assert server.speculative == ["token"]
        await client.run(insert())
    assert calls(machine) in (1, None)
    assert len(deployment["a:1"].commands("saslStart")) == 1
    assert server.speculative == ["token"]


async def test_machine_4_5_reauthentication_succeeds_with_a_session(
    deployment: ScriptedDeployment, server: OIDCServer, machine: dict[str, Any]
) -> None:
    deployment["a:1"].on("find", REAUTHENTICATE, FOUND)
    async with authenticating_driver(deployment, **machine) as client:
        await client.run(find(), session=Session(is_implicit=False))
    assert calls(machine) in (2, None)
    first, second = deployment["a:1"].commands("find")
    assert first["lsid"] == second["lsid"]


# --- human (1): callback authentication ---


def human(callback: Callback, username: str | None = None, **properties: Any) -> dict[str, Any]:
    name = {} if username is None else {"username": username}
    return {**name, **oidc_options(callback, human=True, **properties)}


async def test_human_1_1_single_principal_implicit_username(deployment: ScriptedDeployment, server: OIDCServer) -> None:
    await read(deployment, human(Callback("token")))
    assert (server.names, server.shown) == ([None], ["token"])


async def test_human_1_2_single_principal_explicit_username(deployment: ScriptedDeployment, server: OIDCServer) -> None:
    await read(deployment, human(Callback("token"), "test_user1@example.com"))
    assert (server.names, server.shown) == (["test_user1@example.com"], ["token"])


@pytest.mark.parametrize("user", ["test_user1", "test_user2"])
async def test_human_1_3_and_1_4_multiple_principals(
    deployment: ScriptedDeployment, several: OIDCServer, user: str
) -> None:
    callback = Callback(f"{user}'s token")
    await read(deployment, human(callback, f"{user}@example.com"))
    assert several.shown == [f"{user}'s token"]
    idp_info = callback.contexts[0].idp_info
    assert idp_info is not None
    assert idp_info.issuer == f"https://{user}"


async def test_human_1_5_multiple_principals_and_no_user(deployment: ScriptedDeployment, several: OIDCServer) -> None:
    callback = Callback("test_user1's token")
    await refusal(deployment, human(callback))
    assert callback.contexts == []


@pytest.mark.parametrize("allowed", [[], ["example.com"]])
async def test_human_1_6_allowed_hosts_blocked(
    deployment: ScriptedDeployment, server: OIDCServer, allowed: list[str]
) -> None:
    callback = Callback("token")
    error = await refusal(deployment, human(callback, ALLOWED_HOSTS=allowed), ConfigurationError)
    assert "a is not one of ALLOWED_HOSTS" in str(error)
    assert callback.contexts == []
    assert (server.shown, server.names, server.speculative) == ([], [], [])


def test_human_1_7_allowed_hosts_in_the_connection_string_are_refused() -> None:
    options = "authMechanism=MONGODB-OIDC&authMechanismProperties=ALLOWED_HOSTS:%5B%22example.com%22%5D"
    properties = {"OIDC_HUMAN_CALLBACK": Callback("token")}
    with pytest.raises(ConfigurationError, match="ALLOWED_HOSTS"):
        client_options(f"mongodb+srv://example.com/?{options}", authMechanismProperties=properties)


async def test_human_1_8_machine_identity_provider_with_human_callback(deployment: ScriptedDeployment) -> None:
    OIDCServer("token", idp={"issuer": "https://issuer"}).attach(deployment)
    callback = Callback("token")
    await read(deployment, human(callback, "test_machine"))
    (context,) = callback.contexts
    assert context.idp_info is not None
    assert context.idp_info.clientId is None


# --- human (2): callback validation ---


async def test_human_2_1_valid_callback_inputs(deployment: ScriptedDeployment, server: OIDCServer) -> None:
    callback = Callback("token")
    await read(deployment, human(callback, "me"))
    (context,) = callback.contexts
    assert (context.timeout_seconds, context.username, context.version) == (300.0, "me", 1)
    assert context.refresh_token is None
    assert context.idp_info is not None
    assert vars(context.idp_info) == IDP


async def test_human_2_2_callback_returns_missing_data(deployment: ScriptedDeployment, server: OIDCServer) -> None:
    await refusal(deployment, human(Callback({})))
    assert server.shown == []


def result(token: str, refresh_token: str | None = None) -> Any:
    return OIDCCallbackResult(token, refresh_token=refresh_token)


@pytest.fixture
def reauthenticating(deployment: ScriptedDeployment, server: OIDCServer) -> OIDCServer:
    """A server that wants the second read to authenticate again."""
    deployment["a:1"].on("find", FOUND, REAUTHENTICATE, FOUND)
    return server


async def test_human_2_3_refresh_token_is_passed_to_the_callback(
    deployment: ScriptedDeployment, reauthenticating: OIDCServer
) -> None:
    callback = Callback(result("token", "refresh"), result("second", "refresh"))
    await read(deployment, human(callback), 2)
    assert [context.refresh_token for context in callback.contexts] == [None, "refresh"]
    assert callback.contexts[0].idp_info == callback.contexts[1].idp_info
    assert (len(reauthenticating.names), reauthenticating.shown) == (1, ["token", "second"])


# --- human (3): speculative authentication ---


async def test_human_3_1_uses_speculative_authentication_if_there_is_a_cached_token(
    deployment: ScriptedDeployment, server: OIDCServer
) -> None:
    callback = Callback("token")
    deployment["a:1"].on("find", Close(), FOUND)
    async with authenticating_driver(deployment, **human(callback)) as client:
        await fails(client, find())
        deployment["a:1"].on("saslStart", failure(18))
        await client.run(find())
    assert server.speculative == ["token"]
    assert len(callback.contexts) == 1


async def test_human_3_2_does_not_use_speculative_authentication_without_a_cached_token(
    deployment: ScriptedDeployment, server: OIDCServer
) -> None:
    deployment["a:1"].on("saslStart", failure(18))
    error = await refusal(deployment, human(Callback("token")))
    assert error.code == 18
    assert server.speculative == []


# --- human (4): reauthentication ---


@pytest.mark.usefixtures("reauthenticating")
async def test_human_4_1_reauthentication_succeeds(deployment: ScriptedDeployment) -> None:
    callback = Callback("token", "second")
    async with authenticating_driver(deployment, **human(callback)) as client:
        await client.run(find())
        assert len(callback.contexts) == 1
        client.recorder.clear()
        await client.run(find())
        assert client.recorder.history == ["started find", "failed find", "started find", "succeeded find"]
    assert len(callback.contexts) == 2


async def test_human_4_2_reauthentication_succeeds_without_refresh_token(
    deployment: ScriptedDeployment, reauthenticating: OIDCServer
) -> None:
    callback = Callback(result("token"), result("second"))
    await read(deployment, human(callback), 2)
    assert len(callback.contexts) == 2
    assert len(reauthenticating.names) == 2, "from the beginning"


@pytest.mark.usefixtures("reauthenticating")
async def test_human_4_3_reauthentication_succeeds_after_refresh_fails(deployment: ScriptedDeployment) -> None:
    callback = Callback(result("token", "bad refresh token"), result("token"))
    await read(deployment, human(callback), 2)
    assert len(callback.contexts) == 2


@pytest.mark.usefixtures("reauthenticating")
async def test_human_4_4_reauthentication_fails(deployment: ScriptedDeployment) -> None:
    callback = Callback(result("token", "refresh"), result("bad", "refresh"))
    error = await refusal(deployment, human(callback), after=1)
    assert error.code == 18
    assert len(callback.contexts) == 3
    assert [context.refresh_token for context in callback.contexts] == [None, "refresh", None]
