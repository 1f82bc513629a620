"""The collections of a bucket: their settings, and the deadline of what is done with them."""

from __future__ import annotations

from typing import Any

import pytest
from bson.codec_options import CodecOptions, TypeDecoder, TypeRegistry
from bson.raw_bson import DEFAULT_RAW_BSON_OPTIONS
from bson.son import SON

import motorlite
from motorlite._base.deadline import NO_DEADLINE
from motorlite._gridfs.store import Store
from motorlite.errors import PyMongoError
from motorlite.gridfs import AsyncGridFSBucket
from tests.support.fake_core import fake_client
from tests.support.stored_files import stored_files

pytestmark = pytest.mark.anyio


class Shouted(TypeDecoder):
    """Changes text, which GridFS must not see."""

    bson_type = str

    def transform_bson(self, value: Any) -> Any:
        return value.upper()


async def test_types_of_the_application_s_own_do_not_change_files() -> None:
    options: CodecOptions[Any] = CodecOptions(document_class=SON, type_registry=TypeRegistry([Shouted()]))
    async with stored_files() as (_, _, client):
        bucket = AsyncGridFSBucket(client.db.with_options(codec_options=options))
        await bucket.upload_from_stream_with_id(1, "f", b"0123456789", 4, {"a": {"b": 1}})
        async with await bucket.open_download_stream(1) as file:
            assert await file.read() == b"0123456789"
            assert file.filename == "f"
            # The application's class of documents stays.
            assert type(file.metadata) is SON


async def test_raw_documents() -> None:
    async with stored_files() as (_, _, client):
        bucket = AsyncGridFSBucket(client.db.with_options(codec_options=DEFAULT_RAW_BSON_OPTIONS))
        await bucket.upload_from_stream_with_id(1, "f", b"0123456789", 4)
        assert await (await bucket.open_download_stream(1)).read() == b"0123456789"
        assert [await file.read() async for file in bucket.find({})] == [b"0123456789"]
        await bucket.delete_by_name("f")


def test_without_a_timeout_nothing_is_begun() -> None:
    client, core = fake_client()
    assert Store(client.db.fs).lifetime() is NO_DEADLINE
    assert core.entered == 0


async def test_lifetimes() -> None:
    client, core = fake_client()
    store = Store(client.db.fs.with_options(timeoutMS=5000))
    assert store.lifetime().timeout == 5.0
    assert store.lifetime(250).timeout == 0.25
    assert store.lifetime(0).is_set
    assert core.entered == 3
    with motorlite.timeout(2):
        assert Store(client.db.fs).lifetime().timeout == 2.0


async def test_a_block_around_a_step_of_a_stream() -> None:
    async with stored_files() as (files, bucket, _):
        stream = bucket.open_upload_stream("f", timeoutMS=60_000)
        await stream.write(b"x")
        files.delays["insert"] = 1
        with motorlite.timeout(0.5), pytest.raises(PyMongoError) as caught:
            await stream.close()
        assert caught.value.timeout
