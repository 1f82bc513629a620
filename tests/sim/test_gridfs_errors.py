"""GridFS: what the error of a call says about the operations of it that had succeeded before."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import motorlite
from motorlite._gridfs import upload
from motorlite.errors import AutoReconnect, NetworkTimeout, PyMongoError, RateLimitError
from motorlite.overload import RateLimit
from motorlite.read_preferences import ReadPreference
from motorlite.testing.scripted import failure
from tests.support.stored_files import stored_files

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from motorlite.gridfs import AsyncGridFSBucket

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

CONTENT = bytes(range(20))


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two chunks in a batch, so that there are several."""
    monkeypatch.setattr(upload, "BATCH", 8)


async def upload_another(bucket: AsyncGridFSBucket) -> None:
    await bucket.upload_from_stream_with_id(2, "g", CONTENT)


async def test_no_fallback_answers_instead_of_the_server() -> None:
    """The last look for the chunks is refused: an upload must not take the fallback's answer for their deletion."""
    limits = {"db.fs.chunks": RateLimit(rate=0.001, burst=3)}  # for one index and one batch
    async with stored_files(rate_limit=limits, wait_queue="degrade") as (files, bucket, _):
        for fallback in (lambda _: None, ReadPreference.SECONDARY):
            with motorlite.call_options(fallback=fallback) as block, pytest.raises(RateLimitError):
                await bucket.upload_from_stream_with_id(1, "f", CONTENT[:8])
            assert not block.is_degraded
        assert len(files.files) == 1
        assert len(files.chunks) == 2


@pytest.mark.parametrize(
    ("call", "command", "may_have_been_executed"),
    [
        (upload_another, "insert fs.chunks", False),
        (upload_another, "insert fs.files", True),
        # The look for the chunks, after all is stored.
        (upload_another, "find fs.chunks", True),
        (lambda bucket: bucket.delete(1), "delete fs.files", False),
        (lambda bucket: bucket.delete(1), "delete fs.chunks", True),
        # There is no such file, so nothing was deleted.
        (lambda bucket: bucket.delete(3), "delete fs.chunks", False),
        (lambda bucket: bucket.delete_by_name("f"), "delete fs.files", False),
        (lambda bucket: bucket.delete_by_name("f"), "delete fs.chunks", True),
        (lambda bucket: bucket.drop(), "drop fs.files", False),
        (lambda bucket: bucket.drop(), "drop fs.chunks", True),
    ],
)
async def test_a_part_that_was_executed(
    call: Callable[[AsyncGridFSBucket], Awaitable[None]], command: str, may_have_been_executed: bool
) -> None:
    async with stored_files() as (files, bucket, _):
        await bucket.upload_from_stream_with_id(1, "f", CONTENT)
        # Refused by the server, and not to be retried.
        files.answers[command] = [failure(13)]
        with pytest.raises(PyMongoError) as caught:
            await call(bucket)
    assert caught.value.may_have_been_executed is may_have_been_executed


async def test_a_batch_after_others() -> None:
    async with stored_files() as (files, bucket, _):

        def refuse_the_next(_done: int, _total: int | None) -> None:
            files.answers["insert fs.chunks"] = [failure(13)]

        with pytest.raises(PyMongoError) as caught:
            await bucket.upload_from_stream("f", CONTENT, progress=refuse_the_next)
    assert caught.value.may_have_been_executed


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
@pytest.mark.parametrize("is_upload", [True, False], ids=["upload", "deletion"])
async def test_a_second_cancellation_ends_the_clean_up(is_upload: bool) -> None:
    """asyncio cancels once more in spite of the shield; then chunks may be left, and the exception says so."""
    async with stored_files() as (files, bucket, _):
        await bucket.upload_from_stream_with_id(1, "f", CONTENT)
        files.delays |= {"insert fs.files": 1.0, "delete": 1.0, "delete fs.chunks": 1.0}
        task: asyncio.Future[Any] = asyncio.ensure_future(upload_another(bucket) if is_upload else bucket.delete(1))
        await asyncio.sleep(0.5 if is_upload else 1.5)
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0.5)
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
    (note,) = caught.value.__notes__
    assert note == "there may be chunks without a file in db.fs.chunks: their deletion was cancelled"


async def test_an_upload_that_may_still_be_stored_is_not_given_up_silently() -> None:
    """After the stream, nothing can come after an insertion whose reply was lost: `abort` cannot promise anything."""
    async with stored_files() as (files, bucket, _):
        stream = bucket.open_upload_stream_with_id(1, "f")
        files.delays["insert fs.files"] = 100.0
        with pytest.raises(NetworkTimeout) as caught, motorlite.timeout(0.5):
            async with stream:
                await stream.write(CONTENT)
        assert caught.value.may_have_been_executed
        with pytest.raises(AutoReconnect, match="the file may be stored, now or later") as refused:
            await stream.abort()
    assert refused.value.may_have_been_executed
