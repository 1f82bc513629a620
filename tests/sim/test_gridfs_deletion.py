"""GridFS: a file is deleted, by its id or with its collections, while it is uploaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite._gridfs import upload
from motorlite.errors import OperationFailure
from motorlite.gridfs import NoFile
from motorlite.testing.scripted import failure
from tests.support.stored_files import DELAY, stored_files

if TYPE_CHECKING:
    from motorlite.gridfs import AsyncGridFSBucket
    from tests.support.stored_files import StoredFiles

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

CONTENT = bytes(range(30))
# A look for the indexes, four batches of chunks, the document and the look at the end.
STEPS = 8


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two chunks in a batch, so that there are several."""
    monkeypatch.setattr(upload, "BATCH", 8)


async def stored(files: StoredFiles, bucket: AsyncGridFSBucket) -> bool:
    """Whether the file is there, and whole. Otherwise there are no chunks of it."""
    if not [file for file in files.files if file["_id"] == 1]:
        assert [chunk for chunk in files.chunks if chunk["files_id"] == 1] == []
        return False
    async with await bucket.open_download_stream(1) as stream:
        assert await stream.read() == CONTENT
    return True


# Also in the middle of a step of the upload.
QUARTERS = range(4 * STEPS + 4)


@pytest.mark.parametrize(
    ("step", "quarter"),
    [*(("delete", quarter) for quarter in QUARTERS), *(("drop", quarter) for quarter in QUARTERS if quarter % 4 == 2)],
)
async def test_a_deletion_during_an_upload(step: str, quarter: int) -> None:
    uploaded = deleted = False
    message = "was deleted while it was uploaded"
    async with stored_files() as (files, bucket, _):
        await bucket.upload_from_stream_with_id(0, "first", b"first")

        async def delete() -> None:
            nonlocal deleted
            await anyio.sleep(DELAY * quarter / 4)
            deleted = True
            try:
                await (bucket.delete(1) if step == "delete" else bucket.drop())
            except NoFile:
                deleted = False

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(delete)
            try:
                await bucket.upload_from_stream_with_id(1, "f", CONTENT)
            except NoFile as error:
                message = str(error)
            else:
                uploaded = True
        assert "was deleted while it was uploaded" in message
        # What both say is what is there. Collections may also be dropped before the upload has stored anything.
        is_there = await stored(files, bucket)
        assert is_there <= uploaded
        if step == "delete":
            assert is_there is (uploaded and not deleted)
            assert {file["_id"] for file in files.files} >= {0}


async def test_a_look_at_the_chunks_that_fails() -> None:
    """The file is there, but whether it is whole is unknown: `abort` deletes it."""
    async with stored_files() as (files, bucket, _):
        await bucket.upload_from_stream_with_id(0, "first", b"first")
        stream: Any = bucket.open_upload_stream_with_id(1, "f")
        await stream.write(CONTENT)
        files.answers["find fs.chunks"] = [failure(1)]
        with pytest.raises(OperationFailure):
            await stream.close()
        assert not stream.closed
        await stream.abort()
        assert not await stored(files, bucket)
