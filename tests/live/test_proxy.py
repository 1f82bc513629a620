"""SOCKS5 proxies in front of real servers: the connection strings of the specification's test plan, and others."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from motorlite.errors import ServerSelectionTimeoutError
from motorlite.testing import LocalServer
from tests.support.clients import make_client
from tests.support.events import Recorder
from tests.support.socks5_server import Socks5Server

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.anyio

USER, PASSWORD = "username", "p4ssw0rd"
RIGHT = {"proxyUsername": USER, "proxyPassword": PASSWORD}
WRONG = {"proxyUsername": "nonexistentuser", "proxyPassword": "badauth"}
# Resolved by the proxy alone.
MAPPED = "mapped.invalid:12345"


@pytest.fixture(scope="module")
def secure() -> Iterator[LocalServer]:
    """A replica set that wants TLS."""
    with LocalServer.start("replicaset", tls=True) as server:
        yield server


@pytest.fixture(params=["plain", "tls"])
def server(request: pytest.FixtureRequest) -> LocalServer:
    found: LocalServer = request.getfixturevalue("replica_set" if request.param == "plain" else "secure")
    return found


def tls_of(server: LocalServer) -> dict[str, Any]:
    if server.ca_file is None:
        return {}
    return {
        "tls": True,
        "tlsCAFile": str(server.ca_file),
        "tlsCertificateKeyFile": str(server.client_certificate_file),
        # The name is one that no certificate has.
        "tlsAllowInvalidHostnames": True,
    }


@pytest.mark.parametrize("is_mapped", [True, False], ids=["direct", "replica set"])
@pytest.mark.parametrize(
    ("demands_login", "login", "succeeds"),
    [
        (True, {}, False),
        (False, {}, True),
        (True, WRONG, False),
        (False, WRONG, True),
        (True, RIGHT, True),
    ],
    ids=["no login", "none needed", "wrong login", "wrong, none needed", "right login"],
)
async def test_the_test_plan(
    is_mapped: bool,
    demands_login: bool,
    login: dict[str, str],
    succeeds: bool,
    server: LocalServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "motorlite")
    host, port = server.addresses[0]
    assert port is not None
    with Socks5Server(*((USER, PASSWORD) if demands_login else ()), map_to={MAPPED: (host, port)}) as proxy:
        query: dict[str, Any] = {"directConnection": "true"} if is_mapped else {"replicaSet": server.replica_set}
        query |= {"proxyHost": "localhost", "proxyPort": proxy.port, **login}
        options = tls_of(server) | {"serverSelectionTimeoutMS": 10_000 if succeeds else 500}
        name = MAPPED if is_mapped else f"{host}:{port}"
        uri = f"mongodb://{name}/?" + "&".join(f"{key}={value}" for key, value in query.items())
        record = Recorder()
        async with make_client(uri, event_listeners=[record], **options) as client:
            if succeeds:
                assert (await client.admin.command("hello"))["ok"] == 1
                expected = ("mapped.invalid", 12345) if is_mapped else (host, port)
                assert {event.connection_id for event in record.started_events} == {expected}
                assert set(proxy.requests) == {expected}, "monitors and operations, and nobody beside the proxy"
                assert len(proxy.requests) >= 2
            else:
                with pytest.raises(ServerSelectionTimeoutError, match="SOCKS5 proxy localhost") as caught:
                    await client.admin.command("hello")
                seen = f"{caught.value!r} {caught.value} {client!r} {client.options!r} {caplog.text}"
                for secret in login.values():
                    assert secret not in seen
                assert proxy.requests == []
