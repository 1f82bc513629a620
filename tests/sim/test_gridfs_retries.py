"""Which operations of GridFS are retried: those of the specifications once, all of them after overload errors."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final

import pytest

from motorlite._gridfs import grid_out, upload
from motorlite.errors import AutoReconnect
from motorlite.gridfs import AsyncGridFS, AsyncGridFSBucket
from motorlite.testing.scripted import Close, failure, overloaded
from tests.support.stored_files import stored_files

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support.clients import Client

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

CONTENT = bytes(range(20))


async def download(bucket: AsyncGridFSBucket) -> None:
    target = io.BytesIO()
    await bucket.download_to_stream(1, target)
    assert target.getvalue() == CONTENT


async def download_by_name(bucket: AsyncGridFSBucket) -> None:
    target = io.BytesIO()
    await bucket.download_to_stream_by_name("f", target)
    assert target.getvalue() == CONTENT


async def read_later(bucket: AsyncGridFSBucket) -> None:
    async with await bucket.open_download_stream(1) as stream:
        await stream.seek(10)
        assert await stream.read() == CONTENT[10:]


# Reads by the commands that they send, and the names of the first commands that fail.
READS: Final[dict[str, tuple[str, Callable[[AsyncGridFSBucket, Client], Awaitable[Any]]]]] = {
    "download": ("find fs.files", lambda bucket, _: download(bucket)),
    "download, chunks": ("find fs.chunks", lambda bucket, _: download(bucket)),
    "download by name": ("find fs.files", lambda bucket, _: download_by_name(bucket)),
    "download by name, chunks": ("find fs.chunks", lambda bucket, _: download_by_name(bucket)),
    "read after a seek": ("find fs.chunks", lambda bucket, _: read_later(bucket)),
    "find": ("find fs.files", lambda bucket, _: bucket.find({}).to_list()),
    "get": ("find fs.files", lambda _, client: AsyncGridFS(client.db).get(1)),
    "get_version": ("find fs.files", lambda _, client: AsyncGridFS(client.db).get_version("f")),
    "list": ("distinct fs.files", lambda _, client: AsyncGridFS(client.db).list()),
    "exists": ("find fs.files", lambda _, client: AsyncGridFS(client.db).exists(1)),
    "delete by name": ("find fs.files", lambda bucket, _: bucket.delete_by_name("f")),
    "upload, files": (
        "find fs.files",
        lambda _, client: AsyncGridFSBucket(client.db).upload_from_stream("g", CONTENT),
    ),
}
WRITES: Final[dict[str, tuple[str, Callable[[AsyncGridFSBucket, Client], Awaitable[Any]]]]] = {
    "upload, chunks": ("insert fs.chunks", lambda bucket, _: bucket.upload_from_stream("g", CONTENT)),
    "upload, file": ("insert fs.files", lambda bucket, _: bucket.upload_from_stream("g", CONTENT)),
    "rename": ("update fs.files", lambda bucket, _: bucket.rename(1, "g")),
    "delete": ("delete fs.files", lambda bucket, _: bucket.delete(1)),
}
OTHERS: Final[dict[str, tuple[str, Callable[[AsyncGridFSBucket, Client], Awaitable[Any]]]]] = {
    "download, more chunks": ("getMore", lambda bucket, _: download(bucket)),
    "rename by name": ("update fs.files", lambda bucket, _: bucket.rename_by_name("f", "g")),
    "delete, chunks": ("delete fs.chunks", lambda bucket, _: bucket.delete(1)),
    "delete by name, files": ("delete fs.files", lambda bucket, _: bucket.delete_by_name("f")),
    "drop": ("drop fs.files", lambda bucket, _: bucket.drop()),
}
ALL: Final = {**READS, **WRITES, **OTHERS}


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several batches, up and down."""
    monkeypatch.setattr(upload, "BATCH", 8)
    monkeypatch.setattr(grid_out, "_READ_AHEAD", 8)


@pytest.mark.parametrize("answer", [Close(), failure(91, "RetryableWriteError")], ids=["network", "state change"])
@pytest.mark.parametrize("name", READS)
async def test_reads_are_retried_once(name: str, answer: Any) -> None:
    command, call = READS[name]
    async with stored_files() as (files, bucket, client):
        await bucket.upload_from_stream_with_id(1, "f", CONTENT)
        files.answers[command] = [answer]
        await call(bucket, client)
        assert sum(client.stats().retries.values()) == 1
        files.answers[command] = [answer, answer]
        with pytest.raises(AutoReconnect):
            await call(bucket, client)


@pytest.mark.parametrize("answer", [Close(), failure(91, "RetryableWriteError")], ids=["network", "state change"])
@pytest.mark.parametrize("name", WRITES)
async def test_writes_of_one_document_or_batch_are_retried_once(name: str, answer: Any) -> None:
    command, call = WRITES[name]
    async with stored_files() as (files, bucket, client):
        await bucket.upload_from_stream_with_id(1, "f", CONTENT)
        files.answers[command] = [answer]
        await call(bucket, client)
        assert sum(client.stats().retries.values()) == 1


@pytest.mark.parametrize("name", OTHERS)
async def test_others_are_not(name: str) -> None:
    command, call = OTHERS[name]
    async with stored_files() as (files, bucket, client):
        await bucket.upload_from_stream_with_id(1, "f", CONTENT)
        files.answers[command] = [Close()]
        with pytest.raises(AutoReconnect):
            await call(bucket, client)
        assert client.stats().retries == {}


@pytest.mark.parametrize("name", ALL)
async def test_all_are_retried_after_overload(name: str) -> None:
    command, call = ALL[name]
    async with stored_files() as (files, bucket, client):
        await bucket.upload_from_stream_with_id(1, "f", CONTENT)
        files.answers[command] = [overloaded(), overloaded()]
        await call(bucket, client)
        assert client.stats().retries == {"overload": 2}
