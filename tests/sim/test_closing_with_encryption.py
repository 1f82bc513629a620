"""A client that closes while its encryption waits for a key management service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest
from bson.codec_options import CodecOptions

from motorlite.encryption import AsyncClientEncryption
from motorlite.errors import EncryptionError, InvalidOperation
from motorlite.testing.scripted import ScriptedDeployment
from tests.support.clients import scripted_client

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

    from motorlite.encryption_options import KMSConnectContext

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

AWS = {"accessKeyId": "id", "secretAccessKey": "the planted secret"}
MASTER_KEY = {"region": "us-east-1", "key": "arn:x", "endpoint": "kms.example:443"}


async def error_of_closing(
    connect: Callable[[KMSConnectContext], Awaitable[socket.socket]], grace: float
) -> tuple[EncryptionError, float]:
    """Close the client 0.5 s after a data key was asked for; return the error, and the seconds that closing took."""
    errors: list[EncryptionError] = []
    async with scripted_client(ScriptedDeployment(wire_version=25)) as client:
        encryption: AsyncClientEncryption[Any] = AsyncClientEncryption(
            {"aws": AWS}, "db.keys", client, CodecOptions(), kms_connect_callback=connect
        )

        async def create() -> None:
            with pytest.raises(EncryptionError) as caught:
                await encryption.create_data_key("aws", MASTER_KEY)
            errors.append(caught.value)

        async with anyio.create_task_group() as group:
            group.start_soon(create)
            await anyio.sleep(0.5)
            began = anyio.current_time()
            await client.close(grace)
            took = anyio.current_time() - began
            await anyio.sleep(0.01)
            assert errors, "the request ends with its client"
        await encryption.close()
    return errors[0], took


@pytest.mark.parametrize("grace", [0.0, 2.0])
async def test_a_request_has_the_grace_of_closing(grace: float) -> None:
    ended: list[float] = []

    async def connect(_context: KMSConnectContext) -> socket.socket:
        try:
            await anyio.sleep(60)
        finally:
            ended.append(anyio.current_time())
        raise AssertionError

    error, took = await error_of_closing(connect, grace)
    assert isinstance(error.cause, InvalidOperation)
    assert str(error) == "the client was closed before the key management service at kms.example:443 answered"
    assert took == pytest.approx(grace, abs=0.05)
    assert len(ended) == 1


async def test_the_wait_for_the_next_request_ends_at_once() -> None:
    calls = 0

    async def connect(_context: KMSConnectContext) -> socket.socket:
        nonlocal calls
        calls += 1
        if calls == 1:
            await anyio.sleep(0.499)
        raise ConnectionRefusedError

    error, took = await error_of_closing(connect, 2.0)
    assert isinstance(error.cause, InvalidOperation)
    assert "the client is closed" in str(error)
    assert took < 0.05
    assert calls == 1
