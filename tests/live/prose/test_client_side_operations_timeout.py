"""The prose tests of the client-side operations timeout specification that need a real server."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio.lowlevel
import pytest
from bson.codec_options import CodecOptions
from bson.objectid import ObjectId

from motorlite import timeout
from motorlite.encryption import Algorithm, AsyncClientEncryption
from motorlite.errors import PyMongoError
from motorlite.gridfs import AsyncGridFSBucket
from motorlite.testing import failpoints
from tests.support.clients import make_client
from tests.support.events import Recorder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable

    from motorlite.testing import LocalServer
    from tests.live.conftest import Fail
    from tests.support.clients import Client

pytestmark = pytest.mark.anyio

MEGABYTE = 1024 * 1024


@pytest.mark.slow
async def test_1_multi_batch_inserts(standalone: LocalServer, database_name: str, fail: Fail) -> None:
    """The batches of insert_many share one limit."""
    record = Recorder()
    fail(standalone, failpoints.fail_command(["insert"], block_ms=1010, times=2))
    options: dict[str, Any] = {"timeoutMS": 2000, "readConcernLevel": "majority", "w": "majority"}
    async with make_client(standalone, event_listeners=[record], **options) as client:
        await client.admin.command("ping", timeoutMS=0)
        with pytest.raises(PyMongoError) as caught:
            await client[database_name].coll.insert_many([{"a": "b" * MEGABYTE} for _ in range(50)])
        assert caught.value.timeout
        assert len(record.commands("insert")) == 2


TIMEOUT_MS, BLOCKED_MS = 150, 200


# --- client-side encryption ---

DETERMINISTIC = Algorithm.AEAD_AES_256_CBC_HMAC_SHA_512_Deterministic


@asynccontextmanager
async def encryption(
    server: LocalServer, name: str, record: Recorder
) -> AsyncIterator[tuple[AsyncClientEncryption[Any], Client]]:
    """A client of the key vault with a timeout, already connected, and explicit encryption with it."""
    providers = {"local": {"key": bytes(range(96))}}
    async with make_client(server, timeoutMS=TIMEOUT_MS, event_listeners=[record]) as client:
        await client.admin.command("ping", timeoutMS=0)
        async with AsyncClientEncryption(providers, f"{name}.keys", client, CodecOptions()) as found:
            yield found, client


async def test_3_1_create_data_key_can_be_timed_out(replica_set: LocalServer, database_name: str, fail: Fail) -> None:
    """Client-side operations timeout, 3, first part."""
    record = Recorder()
    async with encryption(replica_set, database_name, record) as (subject, _):
        fail(replica_set, failpoints.fail_command(["insert"], times=1, block_ms=BLOCKED_MS))
        assert await is_timeout(subject.create_data_key("local"))
    assert len(record.commands("insert")) == 1


async def test_3_2_encrypt_can_be_timed_out(replica_set: LocalServer, database_name: str, fail: Fail) -> None:
    """Client-side operations timeout, 3, second part."""
    record = Recorder()
    async with encryption(replica_set, database_name, record) as (subject, _):
        with timeout(None):
            key = await subject.create_data_key("local")
        fail(replica_set, failpoints.fail_command(["find"], times=1, block_ms=BLOCKED_MS))
        assert await is_timeout(subject.encrypt("hello", DETERMINISTIC, key_id=key))
    assert len(record.commands("find")) == 1


async def test_3_3_decrypt_can_be_timed_out(replica_set: LocalServer, database_name: str, fail: Fail) -> None:
    """Client-side operations timeout, 3, third part."""
    async with encryption(replica_set, database_name, Recorder()) as (subject, _):
        with timeout(None):
            key = await subject.create_data_key("local")
            encrypted = await subject.encrypt("hello", DETERMINISTIC, key_id=key)
    record = Recorder()
    async with encryption(replica_set, database_name, record) as (subject, _):
        fail(replica_set, failpoints.fail_command(["find"], times=1, block_ms=BLOCKED_MS))
        assert await is_timeout(subject.decrypt(encrypted))
    assert len(record.commands("find")) == 1


# --- GridFS ---

FILE_ID = ObjectId("000000000000000000000005")


async def is_timeout(operation: Awaitable[Any]) -> bool:
    """Whether an operation fails with a timeout. Keeps no error, nor what that refers to."""
    try:
        await operation
    except PyMongoError as error:
        return error.timeout
    return False


async def test_6_1_uploads_via_open_upload_stream_can_be_timed_out(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    """Client-side operations timeout, 6, first part."""
    async with make_client(replica_set, timeoutMS=TIMEOUT_MS) as client:
        await client.admin.command("ping", timeoutMS=0)
        fail(replica_set, failpoints.fail_command(["insert"], times=1, block_ms=BLOCKED_MS))
        stream = AsyncGridFSBucket(client[database_name]).open_upload_stream("filename")
        await stream.write(b"\x12")
        assert await is_timeout(stream.close())
        # It keeps its session, in which `abort` could delete what was stored.
        del stream
        await anyio.lowlevel.checkpoint()


async def test_6_2_aborting_an_upload_stream_can_be_timed_out(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    """Client-side operations timeout, 6, second part."""
    async with make_client(replica_set, timeoutMS=TIMEOUT_MS) as client:
        await client.admin.command("ping", timeoutMS=0)
        fail(replica_set, failpoints.fail_command(["delete"], times=1, block_ms=BLOCKED_MS))
        stream = AsyncGridFSBucket(client[database_name], chunk_size_bytes=2).open_upload_stream("filename")
        await stream.write(b"\1\2\3\4")
        assert await is_timeout(stream.abort())
        del stream
        await anyio.lowlevel.checkpoint()


async def test_7_download(replica_set: LocalServer, database_name: str, fail: Fail) -> None:
    """Client-side operations timeout, 7."""
    record = Recorder()
    async with make_client(replica_set, timeoutMS=TIMEOUT_MS, event_listeners=[record]) as client:
        file = {"_id": FILE_ID, "length": 10, "chunkSize": 4, "filename": "length-10", "metadata": {}}
        await client[database_name].fs.files.insert_one(file, timeoutMS=0)
        record.clear()
        stream = await AsyncGridFSBucket(client[database_name]).open_download_stream(FILE_ID)
        fail(replica_set, failpoints.fail_command(["find"], times=1, block_ms=BLOCKED_MS))
        assert await is_timeout(stream.read())
        assert [command["find"] for command in record.commands("find")] == ["fs.files", "fs.chunks"]
