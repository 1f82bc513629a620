"""Data keys whose master keys are in AWS, Azure and GCP: scripted services with TLS, and a real key vault."""

from __future__ import annotations

import socket
import ssl
from base64 import b64encode
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import pytest
from bson.codec_options import CodecOptions
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from motorlite import timeout
from motorlite.encryption import Algorithm, AsyncClientEncryption
from motorlite.encryption_options import AutoEncryptionOpts, KMSConnectContext
from motorlite.errors import AutoReconnect, CertificateError, ConfigurationError, EncryptionError
from tests.support.clients import make_client
from tests.support.kms_servers import TOKEN, KeyService
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from motorlite.testing import LocalServer
    from motorlite.testing.server.certificates import Certificates

pytestmark = pytest.mark.anyio


@pytest.fixture
def service(certificates: Certificates) -> Iterator[KeyService]:
    with KeyService(certificates) as found:
        yield found


@pytest.fixture(scope="module")
def private_key() -> str:
    encoded = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return b64encode(encoded).decode()


def aws(endpoint: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The credentials and the master key."""
    return {"accessKeyId": "id", "secretAccessKey": "the planted secret"}, {
        "region": "us-east-1",
        "key": "arn:x",
        "endpoint": endpoint,
    }


@asynccontextmanager
async def encryption(
    deployment: LocalServer,
    name: str,
    provider: str,
    credentials: dict[str, Any],
    tls: dict[str, Any] | None,
    connect: Any = None,
) -> AsyncIterator[AsyncClientEncryption[Any]]:
    options = None if tls is None else {provider: tls}
    async with make_client(deployment.uri) as client:
        made: AsyncClientEncryption[Any] = AsyncClientEncryption(
            {provider: credentials}, f"{name}.keys", client, CodecOptions(), options, kms_connect_callback=connect
        )
        async with made as found:
            yield found


@pytest.mark.parametrize("provider", ["aws", "aws:named", "azure", "gcp"])
async def test_wraps_data_keys(
    deployment: LocalServer,
    database_name: str,
    service: KeyService,
    certificates: Certificates,
    private_key: str,
    provider: str,
) -> None:
    at = service.endpoint
    credentials, master_key = {
        "aws": aws(at),
        "azure": (
            {"tenantId": "t", "clientId": "c", "clientSecret": "s", "identityPlatformEndpoint": at},
            {"keyVaultEndpoint": at, "keyName": "n"},
        ),
        "gcp": (
            {"email": "e", "privateKey": private_key, "endpoint": at},
            {"projectId": "p", "location": "l", "keyRing": "r", "keyName": "n", "endpoint": at},
        ),
    }[provider.partition(":")[0]]
    tls = {"tlsCAFile": str(certificates.ca_file)}
    async with encryption(deployment, database_name, provider, credentials, tls) as explicit:
        key = await explicit.create_data_key(provider, master_key)
        encrypted = await explicit.encrypt(7, Algorithm.AEAD_AES_256_CBC_HMAC_SHA_512_Random, key_id=key)
    async with encryption(deployment, database_name, provider, credentials, tls) as explicit:
        assert await explicit.decrypt(encrypted) == 7
        before = len(service.requests)
        assert await explicit.decrypt(encrypted) == 7
        assert len(service.requests) == before  # the key is in memory
        assert TOKEN not in repr(vars(explicit))


@pytest.mark.parametrize(("script", "requests"), [(["drop"], 2), ([503], 2), (["drop", "drop", 503], 4)])
async def test_asks_again_after_passing_errors(
    deployment: LocalServer,
    database_name: str,
    service: KeyService,
    certificates: Certificates,
    script: list[int | str],
    requests: int,
) -> None:
    credentials, master_key = aws(service.endpoint)
    service.script = list(script)
    tls = {"tlsCAFile": str(certificates.ca_file)}
    async with encryption(deployment, database_name, "aws", credentials, tls) as explicit:
        assert await explicit.create_data_key("aws", master_key)
    assert len(service.requests) == requests


async def test_gives_up(
    deployment: LocalServer, database_name: str, service: KeyService, certificates: Certificates
) -> None:
    credentials, master_key = aws(service.endpoint)
    tls = {"tlsCAFile": str(certificates.ca_file)}
    async with encryption(deployment, database_name, "aws", credentials, tls) as explicit:
        service.script = ["drop"] * 9
        with pytest.raises(EncryptionError) as caught:
            await explicit.create_data_key("aws", master_key)
        assert isinstance(caught.value.cause, AutoReconnect)
        assert len(service.requests) == 4
        service.script = [400]
        with pytest.raises(EncryptionError, match="HTTP status=400") as caught:
            await explicit.create_data_key("aws", master_key)
        assert "the planted secret" not in str(caught.value)
        service.script = ["silence"]
        with pytest.raises(EncryptionError, match="did not answer in time") as caught:
            async with timeout(0.3):
                await explicit.create_data_key("aws", master_key)
        assert caught.value.timeout


async def test_closing_the_client_closes_the_connection(
    deployment: LocalServer, database_name: str, service: KeyService, certificates: Certificates
) -> None:
    credentials, master_key = aws(service.endpoint)
    service.script = ["silence"]
    tls = {"aws": {"tlsCAFile": str(certificates.ca_file)}}
    async with make_client(deployment.uri) as client:
        explicit: AsyncClientEncryption[Any] = AsyncClientEncryption(
            {"aws": credentials}, f"{database_name}.keys", client, CodecOptions(), tls
        )

        async def create() -> None:
            with pytest.raises(EncryptionError, match="the client was closed before"):
                await explicit.create_data_key("aws", master_key)

        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(create)
                await until(lambda: service.requests)
                await client.close(0)
        await explicit.close()


async def test_trusts_only_known_authorities(deployment: LocalServer, database_name: str, service: KeyService) -> None:
    credentials, master_key = aws(service.endpoint)
    async with encryption(deployment, database_name, "aws", credentials, None) as explicit:
        with pytest.raises(EncryptionError) as caught:
            await explicit.create_data_key("aws", master_key)
        assert isinstance(caught.value.cause, CertificateError)
    assert not service.requests


async def test_refuses_insecure_connections(deployment: LocalServer, database_name: str) -> None:
    credentials, _ = aws("127.0.0.1:1")
    for tls in ({"tlsInsecure": True}, {"tlsAllowInvalidCertificates": True}, {"tls": False}):
        with pytest.raises(ConfigurationError, match="kms_tls_options"):
            async with encryption(deployment, database_name, "aws", credentials, tls):
                pass


async def test_takes_credentials_from_the_environment(
    deployment: LocalServer,
    database_name: str,
    service: KeyService,
    certificates: Certificates,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the planted secret")
    _, master_key = aws(service.endpoint)
    tls = {"tlsCAFile": str(certificates.ca_file)}
    async with encryption(deployment, database_name, "aws", {}, tls) as explicit:
        assert await explicit.create_data_key("aws", master_key)
    assert len(service.requests) == 1


# --- connections of the application ---


async def test_connects_through_the_application(
    deployment: LocalServer, database_name: str, service: KeyService, certificates: Certificates
) -> None:
    """Where to is the application's choice: the certificate must be that of the key management service."""
    contexts: list[KMSConnectContext] = []
    where = service.endpoint.rpartition(":")

    async def connect(context: KMSConnectContext) -> socket.socket:
        contexts.append(context)
        return await anyio.to_thread.run_sync(socket.create_connection, (where[0], int(where[2])))

    credentials, master_key = aws("127.0.0.1:1")
    tls = {"tlsCAFile": str(certificates.ca_file)}
    async with encryption(deployment, database_name, "aws", credentials, tls, connect) as explicit:
        assert await explicit.create_data_key("aws", master_key)
        with pytest.raises(EncryptionError) as caught:
            await explicit.create_data_key("aws", {**master_key, "endpoint": "elsewhere.example:443"})
    assert isinstance(caught.value.cause, CertificateError)
    assert [(context.host, context.port) for context in contexts] == [("127.0.0.1", 1), ("elsewhere.example", 443)]
    assert 9 < contexts[0].timeout <= 10
    assert len(service.requests) == 1


@pytest.mark.parametrize("given", ["nothing", "unconnected", "datagram", "TLS"])
async def test_refuses_what_is_no_connected_socket(deployment: LocalServer, database_name: str, given: str) -> None:
    makes: dict[str, Callable[[], Any]] = {
        "nothing": lambda: None,
        "unconnected": socket.socket,
        "datagram": lambda: socket.socket(type=socket.SOCK_DGRAM),
        "TLS": lambda: ssl.create_default_context().wrap_socket(socket.socket(), server_hostname="a"),
    }
    made = makes[given]()

    async def connect(_context: KMSConnectContext) -> Any:
        return made

    credentials, master_key = aws("127.0.0.1:1")
    async with encryption(deployment, database_name, "aws", credentials, None, connect) as explicit:
        with pytest.raises(EncryptionError, match="the socket of kms_connect_callback must be") as caught:
            await explicit.create_data_key("aws", master_key)
    assert isinstance(caught.value.cause, ConfigurationError)
    assert made is None or made.fileno() == -1, "it is closed"


async def test_refuses_what_is_no_coroutine_function(deployment: LocalServer, database_name: str) -> None:
    credentials, master_key = aws("127.0.0.1:1")
    connects: Any = 7
    with pytest.raises(TypeError, match="kms_connect_callback"):
        AutoEncryptionOpts({"aws": credentials}, f"{database_name}.keys", kms_connect_callback=connects)
    with pytest.raises(TypeError, match="kms_connect_callback"):
        async with encryption(deployment, database_name, "aws", credentials, None, connects):
            pass
    async with encryption(deployment, database_name, "aws", credentials, None, lambda _context: None) as explicit:
        with pytest.raises(EncryptionError, match="must be a coroutine function"):
            await explicit.create_data_key("aws", master_key)


async def test_the_callback_has_the_time_of_the_request(deployment: LocalServer, database_name: str) -> None:
    ended: list[str] = []

    async def connect(context: KMSConnectContext) -> socket.socket:
        assert context.timeout <= 0.3
        try:
            await anyio.sleep(60)
        finally:
            ended.append("cancelled")
        raise AssertionError

    credentials, master_key = aws("127.0.0.1:1")
    async with encryption(deployment, database_name, "aws", credentials, None, connect) as explicit:
        with pytest.raises(EncryptionError, match="did not answer in time"):
            async with timeout(0.3):
                await explicit.create_data_key("aws", master_key)
    assert ended == ["cancelled"]


async def test_errors_of_the_callback_count_as_those_of_the_network(
    deployment: LocalServer, database_name: str
) -> None:
    calls = 0

    async def connect(_context: KMSConnectContext) -> socket.socket:
        nonlocal calls
        calls += 1
        raise ConnectionRefusedError("the proxy is down")

    credentials, master_key = aws("127.0.0.1:1")
    async with encryption(deployment, database_name, "aws", credentials, None, connect) as explicit:
        with pytest.raises(EncryptionError, match="the proxy is down") as caught:
            await explicit.create_data_key("aws", master_key)
    assert isinstance(caught.value.cause, AutoReconnect)
    assert calls == 4
