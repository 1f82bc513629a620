"""Data keys whose master keys are on a KMIP server: a scripted one with TLS, and a real key vault."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from bson.codec_options import CodecOptions

from motorlite import timeout
from motorlite.encryption import Algorithm, AsyncClientEncryption
from motorlite.errors import AutoReconnect, EncryptionError
from tests.support.clients import make_client
from tests.support.kmip_server import KmipServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from motorlite.testing import LocalServer
    from motorlite.testing.server.certificates import Certificates

pytestmark = pytest.mark.anyio


@pytest.fixture
def service(certificates: Certificates) -> Iterator[KmipServer]:
    with KmipServer(certificates) as found:
        yield found


@asynccontextmanager
async def encryption(
    deployment: LocalServer, name: str, service: KmipServer, certificates: Certificates, *, has_certificate: bool = True
) -> AsyncIterator[AsyncClientEncryption[Any]]:
    tls = {"tlsCAFile": str(certificates.ca_file)}
    if has_certificate:
        tls["tlsCertificateKeyFile"] = str(certificates.client_file)
    providers, codec_options = {"kmip": {"endpoint": service.endpoint}}, CodecOptions[Any]()
    async with (
        make_client(deployment.uri) as client,
        AsyncClientEncryption(providers, f"{name}.keys", client, codec_options, {"kmip": tls}) as found,
    ):
        yield found


@pytest.mark.parametrize(
    ("master_key", "making", "reading"),
    [
        ({}, ["Register", "Activate", "Get"], ["Get"]),
        ({"delegated": True}, ["Create", "Activate", "Encrypt"], ["Decrypt"]),
    ],
    ids=["the client wraps", "the server wraps"],
)
async def test_wraps_data_keys(
    deployment: LocalServer,
    database_name: str,
    service: KmipServer,
    certificates: Certificates,
    master_key: dict[str, Any],
    making: list[str],
    reading: list[str],
) -> None:
    async with encryption(deployment, database_name, service, certificates) as explicit:
        key = await explicit.create_data_key("kmip", master_key)
        assert service.operations == making
        stored = await explicit.get_key(key)
        assert stored is not None
        assert stored["masterKey"]["keyId"] == "1"
        encrypted = await explicit.encrypt(7, Algorithm.AEAD_AES_256_CBC_HMAC_SHA_512_Random, key_id=key)
    service.operations.clear()
    async with encryption(deployment, database_name, service, certificates) as explicit:
        assert await explicit.decrypt(encrypted) == 7
        assert await explicit.decrypt(encrypted) == 7
    assert service.operations == reading


async def test_an_unknown_master_key_is_an_error(
    deployment: LocalServer, database_name: str, service: KmipServer, certificates: Certificates
) -> None:
    async with encryption(deployment, database_name, service, certificates) as explicit:
        with pytest.raises(EncryptionError, match="no such key"):
            await explicit.create_data_key("kmip", {"keyId": "gone"})
        assert await explicit.get_keys().to_list() == []


async def test_shows_the_service_its_certificate(
    deployment: LocalServer, database_name: str, service: KmipServer, certificates: Certificates
) -> None:
    async with encryption(deployment, database_name, service, certificates, has_certificate=False) as explicit:
        with pytest.raises(EncryptionError) as caught:
            await explicit.create_data_key("kmip")
        assert isinstance(caught.value.cause, AutoReconnect)
    assert not service.operations


async def test_the_deadline_covers_the_request(
    deployment: LocalServer, database_name: str, service: KmipServer, certificates: Certificates
) -> None:
    service.is_silent = True
    async with encryption(deployment, database_name, service, certificates) as explicit:
        with pytest.raises(EncryptionError) as caught:
            async with timeout(0.3):
                await explicit.create_data_key("kmip")
        assert caught.value.timeout
