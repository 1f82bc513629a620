"""The collections of a bucket: their settings, and the deadline of what is done with them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest
from bson.codec_options import CodecOptions, TypeDecoder, TypeRegistry
from bson.raw_bson import DEFAULT_RAW_BSON_OPTIONS
from bson.son import SON

import motorlite
from motorlite._gridfs.store import is_cancellation
from motorlite.errors import OperationFailure, PyMongoError
from motorlite.gridfs import AsyncGridFSBucket

if TYPE_CHECKING:
    from tests.support.clients import Client
    from tests.support.stored_files import StoredFiles

pytestmark = pytest.mark.anyio


class Shouted(TypeDecoder):
    """Changes text, which GridFS must not see."""

    bson_type = str

    def transform_bson(self, value: Any) -> Any:
        return value.upper()


async def test_types_of_the_application_s_own_do_not_change_files(client: Client) -> None:
    options: CodecOptions[Any] = CodecOptions(document_class=SON, type_registry=TypeRegistry([Shouted()]))
    bucket = AsyncGridFSBucket(client.db.with_options(codec_options=options))
    await bucket.upload_from_stream_with_id(1, "f", b"0123456789", 4, {"a": {"b": 1}})
    async with await bucket.open_download_stream(1) as file:
        assert await file.read() == b"0123456789"
        assert file.filename == "f"
        # The application's class of documents stays.
        assert type(file.metadata) is SON


async def test_raw_documents(client: Client) -> None:
    bucket = AsyncGridFSBucket(client.db.with_options(codec_options=DEFAULT_RAW_BSON_OPTIONS))
    await bucket.upload_from_stream_with_id(1, "f", b"0123456789", 4)
    assert await (await bucket.open_download_stream(1)).read() == b"0123456789"
    assert [await file.read() async for file in bucket.find({})] == [b"0123456789"]
    await bucket.delete_by_name("f")


async def test_a_block_around_a_step_of_a_stream(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    stream = bucket.open_upload_stream("f", timeoutMS=60_000)
    await stream.write(b"x")
    files.delays["insert"] = 1
    with motorlite.timeout(0.5), pytest.raises(PyMongoError) as caught:
        await stream.close()
    assert caught.value.timeout


async def test_cancellations(client: Client) -> None:
    """What ends a call so that chunks are deleted for it. Errors do in a cancel scope that has expired."""
    chunks = client.db.fs.chunks
    assert is_cancellation(asyncio.CancelledError(), chunks)
    assert is_cancellation(BaseException(), chunks)
    await client.admin.command("ping")
    for error in (GeneratorExit(), KeyboardInterrupt(), SystemExit(), OSError(), OperationFailure("no")):
        assert not is_cancellation(error, chunks)
    for seconds, is_over in ((60, False), (-1, True)):
        found = []
        with anyio.move_on_after(seconds):
            found += [is_cancellation(error, chunks) for error in (OperationFailure("no"), GeneratorExit())]
            await anyio.lowlevel.checkpoint()
        assert found == [is_over, False]
