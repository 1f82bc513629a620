"""Reading a stored file: as from any other file, in batches, and once more after an error."""

from __future__ import annotations

import io
import os
import random
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

from motorlite._api import turns
from motorlite._gridfs import grid_out
from motorlite.errors import InvalidOperation, PyMongoError
from motorlite.gridfs import AsyncGridOut, CorruptGridFile, NoFile
from motorlite.monitoring import CommandSucceededEvent
from motorlite.testing.scripted import failure
from tests.support.events import Recorder
from tests.support.stored_files import stored_files

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from motorlite.gridfs import AsyncGridFSBucket, AsyncGridIn
    from tests.support.clients import Client
    from tests.support.stored_files import StoredFiles

pytestmark = pytest.mark.anyio

TEXT = b"first line\nsecond\n\nand the last one, which is longer than the others"


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three chunks in a batch, so that there are several."""
    monkeypatch.setattr(grid_out, "_READ_AHEAD", 8)


# Each with what a file of Python does.
STEPS: dict[str, Callable[[Any, random.Random], Any]] = {
    "read": lambda file, numbers: file.read(numbers.choice([-1, 0, 1, 3, 4, 5, 9, 1000])),
    "readline": lambda file, numbers: file.readline(numbers.choice([-1, 0, 1, 5, 30])),
    "from the beginning": lambda file, numbers: file.seek(numbers.randrange(80)),
    "from here": lambda file, numbers: file.seek(numbers.randrange(5), os.SEEK_CUR),
    "from the end": lambda file, numbers: file.seek(-numbers.randrange(60), os.SEEK_END),
}


@pytest.mark.parametrize("seed", range(8))
async def test_it_is_read_as_any_other_file(files: StoredFiles, bucket: AsyncGridFSBucket, seed: int) -> None:
    await bucket.upload_from_stream_with_id(1, "f", TEXT)
    expected = io.BytesIO(TEXT)
    async with await bucket.open_download_stream(1) as stream:
        for name in random.Random(seed).choices(list(STEPS), k=60):
            state = random.Random(seed).getstate()
            one, other = random.Random(), random.Random()
            one.setstate(state)
            other.setstate(state)
            assert await STEPS[name](stream, one) == STEPS[name](expected, other), name
            assert stream.tell() == expected.tell(), name
            seed += 1
    assert files.cursors == {}


async def test_lines(bucket: AsyncGridFSBucket) -> None:
    expected = TEXT.splitlines(keepends=True)
    await bucket.upload_from_stream_with_id(1, "f", TEXT)
    assert [line async for line in await bucket.open_download_stream(1)] == expected
    assert await (await bucket.open_download_stream(1)).readlines() == expected
    assert await (await bucket.open_download_stream(1)).to_list() == expected
    stream = await bucket.open_download_stream(1)
    # As files do that are not in memory, it reads on until there is more than that.
    assert await stream.readlines(12) == expected[:2]
    assert await stream.readlines(1) == expected[2:]


SMALL_STEPS: dict[str, Callable[[AsyncGridOut, AsyncGridIn], Awaitable[Any]]] = {
    "readline": lambda stream, _: stream.readline(1),
    "read": lambda stream, _: stream.read(1),
    "readchunk": lambda stream, _: stream.readchunk(),
    "write": lambda _, upload: upload.write(b"x"),
}


@pytest.mark.parametrize("way", ["readlines", "async for", *SMALL_STEPS])
async def test_other_tasks_get_their_turns(
    bucket: AsyncGridFSBucket, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """However little each step does, and although most of them wait for nothing."""
    monkeypatch.setattr(turns, "TURN", 0.0)
    monkeypatch.setattr(grid_out, "SLICE", 2)
    others = 0

    async def other() -> None:
        nonlocal others
        while True:
            await anyio.lowlevel.checkpoint()
            others += 1

    upload = bucket.open_upload_stream_with_id(2, "g", 1000)
    await bucket.upload_from_stream_with_id(1, "f", b"\n" * 1000, 1000)
    async with await bucket.open_download_stream(1) as stream, anyio.create_task_group() as tasks:
        await stream.readline()
        tasks.start_soon(other)
        await anyio.lowlevel.checkpoint()
        others = 0
        if way == "readlines":
            assert len(await stream.readlines()) == 999
        elif way == "async for":
            assert len([line async for line in stream]) == 999
        else:
            for _ in range(499):
                await SMALL_STEPS[way](stream, upload)
        tasks.cancel_scope.cancel()
    assert others >= 490
    await upload.abort()


async def test_chunks(bucket: AsyncGridFSBucket) -> None:
    await bucket.upload_from_stream_with_id(1, "f", b"abcdefghij")
    async with await bucket.open_download_stream(1) as stream:
        assert [await stream.readchunk(), await stream.read(1)] == [b"abcd", b"e"]
        assert [await stream.readchunk() for _ in range(3)] == [b"fgh", b"ij", b""]
        await stream.seek(9)
        assert await stream.readchunk() == b"j"


@pytest.mark.parametrize("size", [-1, 0, 1, 2, 5, 10, 11, 100])
async def test_lines_up_to_a_size_are_those_of_a_file(bucket: AsyncGridFSBucket, tmp_path: Path, size: int) -> None:
    content = b"abcd\nefghi\n\n\nj\nklmnopqrstuvw\r\nxyz"
    path = tmp_path / "f"
    path.write_bytes(content)
    await bucket.upload_from_stream_with_id(1, "f", content)
    async with await bucket.open_download_stream(1) as stream:
        with path.open("rb") as file:
            while lines := file.readlines(size):
                assert await stream.readlines(size) == lines
                assert await stream.seek(0, os.SEEK_CUR) == file.tell()
            assert await stream.readlines(size) == []


async def test_lines_that_fail_leave_the_position(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    await bucket.upload_from_stream_with_id(1, "f", b"ab\nc\ndefghijk\nlm")
    async with await bucket.open_download_stream(1) as stream:
        assert await stream.readline() == b"ab\n"
        files.answers["getMore"] = [failure(1)]
        with pytest.raises(PyMongoError):
            await stream.readlines()
        assert stream.tell() == 3
        assert await stream.readlines() == [b"c\n", b"defghijk\n", b"lm"]


async def test_the_number_of_commands(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    await bucket.upload_from_stream_with_id(1, "f", bytes(40))
    files.server.received.clear()
    await (await bucket.open_download_stream(1)).read()
    # Ten chunks, three in each batch; the last batch is not full, which ends the cursor.
    assert files.names() == ["find fs.files", "find fs.chunks"] + [f"getMore {n}" for n in (1, 2, 3)]
    (find,) = (each for each in files.server.commands("find") if each["find"] == "fs.chunks")
    assert find["filter"] == {"files_id": 1}
    assert find["sort"] == {"n": 1}
    assert find["batchSize"] == 3


@pytest.mark.parametrize(("content", "batch_size"), [(b"", None), (b"abcd", 2)])
async def test_no_more_is_asked_for_than_the_file_has(
    files: StoredFiles, bucket: AsyncGridFSBucket, content: bytes, batch_size: int | None
) -> None:
    await bucket.upload_from_stream_with_id(1, "f", content)
    files.server.received.clear()
    async with await bucket.open_download_stream(1) as stream:
        assert await stream.read() == content
        assert await stream.readchunk() == await stream.readline() == b""
    sizes = [each["batchSize"] for each in files.server.commands("find") if each["find"] == "fs.chunks"]
    assert sizes == ([] if batch_size is None else [batch_size])
    assert len(files.names()) == 1 + len(sizes)


async def test_what_lies_before_the_position_is_not_read(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    await bucket.upload_from_stream_with_id(1, "f", bytes(range(40)))
    files.server.received.clear()
    async with await bucket.open_download_stream(1) as stream:
        await stream.seek(30)
        assert await stream.read(2) == bytes([30, 31])
        # Within the chunk, and on to the next one: the same cursor.
        await stream.seek(28)
        await stream.seek(32)
        assert await stream.read(1) == bytes([32])
        finds = [each for each in files.server.commands("find") if each["find"] == "fs.chunks"]
        assert [each["filter"] for each in finds] == [{"files_id": 1, "n": {"$gte": 7}}]
        await stream.seek(0)
        assert await stream.read(1) == b"\0"
    assert files.cursors == {}


async def test_a_cursor_that_was_idle_for_too_long(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    await bucket.upload_from_stream_with_id(1, "f", TEXT)
    async with await bucket.open_download_stream(1) as stream:
        assert await stream.read(5) == TEXT[:5]
        files.cursors.clear()
        assert await stream.read() == TEXT[5:]


async def test_a_chunk_can_be_read_again_after_an_error(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    await bucket.upload_from_stream_with_id(1, "f", TEXT)
    async with await bucket.open_download_stream(1) as stream:
        start = b"".join([await stream.readchunk() for _ in range(3)])
        # At the end of the batch: the next chunk is that which the cursor should have next.
        files.answers["getMore"] = [failure(2)]
        with pytest.raises(PyMongoError, match="scripted"):
            await stream.readchunk()
        assert start + await stream.readchunk() == TEXT[:16]


async def test_a_read_that_was_cancelled_can_be_repeated(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    await bucket.upload_from_stream_with_id(1, "f", TEXT)
    async with await bucket.open_download_stream(1) as stream:
        files.delays["getMore"] = 5
        with anyio.move_on_after(1) as scope:
            await stream.read()
        assert scope.cancelled_caught
        assert stream.tell() == 0
        del files.delays["getMore"]
        assert await stream.read() == TEXT
    await anyio.sleep(10)
    assert files.cursors == {}


async def test_a_timeout_is_that_of_the_whole_stream(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    await bucket.upload_from_stream_with_id(1, "f", TEXT)
    stream = await bucket.open_download_stream(1, timeoutMS=1000)
    await anyio.sleep(0.9)
    assert await stream.readchunk() == TEXT[:4]
    files.delays["getMore"] = 0.2
    with pytest.raises(PyMongoError) as caught:
        await stream.read()
    assert caught.value.timeout
    with pytest.raises(PyMongoError) as caught:
        await stream.read()
    assert caught.value.timeout
    finds = files.server.commands("find")[-2:]
    assert all(0 < each["maxTimeMS"] <= 1000 for each in finds)
    await stream.close()


async def test_two_tasks(bucket: AsyncGridFSBucket) -> None:
    await bucket.upload_from_stream_with_id(1, "f", TEXT)
    async with await bucket.open_download_stream(1) as stream, anyio.create_task_group() as group:
        group.start_soon(stream.read)
        await anyio.sleep(0.001)
        with pytest.raises(InvalidOperation, match="two tasks"):
            await stream.read()
        with pytest.raises(InvalidOperation, match="another task"):
            await stream.seek(1)


async def test_a_seek_while_another_task_begins_to_read(bucket: AsyncGridFSBucket, client: Client) -> None:
    await bucket.upload_from_stream_with_id(1, "f", TEXT)
    stream = AsyncGridOut(client.db.fs, 1)

    async def seek() -> None:
        with pytest.raises(InvalidOperation, match="another task is reading"):
            await stream.seek(-3, os.SEEK_END)

    async with anyio.create_task_group() as group:
        group.start_soon(seek)
        # It waits for the document of the file.
        await anyio.sleep(0.001)
        assert await stream.read(10) == TEXT[:10]
    assert stream.tell() == 10


@pytest.mark.parametrize("is_bound", [False, True])
async def test_a_transaction_that_begins_after_the_file_was_opened(
    files: StoredFiles, bucket: AsyncGridFSBucket, client: Client, is_bound: bool
) -> None:
    await bucket.upload_from_stream_with_id(1, "f", TEXT)
    async with client.start_session() as session:
        stream = await bucket.open_download_stream(1, None if is_bound else session)
        await session.start_transaction()
        files.server.received.clear()
        async with session.bind(end_session=False):
            with pytest.raises(InvalidOperation, match="in a transaction"):
                await stream.read()
        assert files.names() == []
        await session.abort_transaction()
        assert await stream.read() == TEXT


@pytest.mark.virtual_time
async def test_closed_while_another_task_reads(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    await bucket.upload_from_stream_with_id(1, "f", TEXT)
    files.delays["getMore"] = 1.0
    async with anyio.create_task_group() as group:
        stream = await bucket.open_download_stream(1)

        async def read() -> None:
            with pytest.raises(ValueError, match="the file is closed"):
                await stream.read()

        group.start_soon(read)
        await anyio.sleep(0.5)
        await stream.close()


async def test_a_closed_file(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    await bucket.upload_from_stream_with_id(1, "f", TEXT)
    stream = await bucket.open_download_stream(1)
    assert not stream.closed
    await stream.readchunk()
    assert files.cursors
    await stream.close()
    await stream.close()
    assert stream.closed
    assert files.cursors == {}
    for step in (stream.read, stream.readline, stream.readchunk, stream.readlines, lambda: stream.seek(0)):
        with pytest.raises(ValueError, match="closed"):
            await step()


@pytest.mark.parametrize(("position", "whence"), [(-1, os.SEEK_SET), (-1, os.SEEK_CUR), (-100, os.SEEK_END), (0, 7)])
async def test_no_such_position(bucket: AsyncGridFSBucket, position: int, whence: int) -> None:
    await bucket.upload_from_stream_with_id(1, "f", TEXT)
    async with await bucket.open_download_stream(1) as stream:
        with pytest.raises(OSError, match="must"):
            await stream.seek(position, whence)
        assert stream.tell() == 0


@pytest.mark.parametrize("size", ["1", 1.0, None, True])
async def test_sizes_are_integers(bucket: AsyncGridFSBucket, size: Any) -> None:
    await bucket.upload_from_stream_with_id(1, "f", TEXT)
    async with await bucket.open_download_stream(1) as stream:
        for step in (stream.read, stream.readline, stream.seek):
            with pytest.raises(TypeError, match="must be an integer"):
                await step(size)


async def test_it_is_opened_at_the_first_use(files: StoredFiles, bucket: AsyncGridFSBucket, client: Client) -> None:
    await bucket.upload_from_stream_with_id(1, "f", b"abcd", metadata={"a": 1})
    files.server.received.clear()
    stream = AsyncGridOut(client.db.fs, 1)
    assert files.names() == []
    with pytest.raises(InvalidOperation, match="call open"):
        stream.filename  # noqa: B018
    assert not hasattr(stream, "__length_hint__")
    assert not hasattr(stream, "_author")
    assert await stream.read() == b"abcd"
    assert stream.filename == "f"
    assert await AsyncGridOut(client.db.fs, file_document=files.files[0]).read() == b"abcd"
    with pytest.raises(NoFile, match=r"db\.fs\.files has no file with the id 2"):
        await AsyncGridOut(client.db.fs, 2).open()
    with pytest.raises(TypeError, match="root_collection"):
        AsyncGridOut(client.db, 1)  # type: ignore[arg-type]


# What a server may have instead of the ten bytes in three chunks. test_files.py has more chunks that do not fit.
LIES: dict[str, tuple[Callable[[StoredFiles], Any], str]] = {
    "the first chunk is missing": (lambda files: files.chunks.pop(0), "chunk 0 of 3 is missing; the next one is 1"),
    "a chunk is missing": (lambda files: files.chunks.pop(1), "chunk 1 of 3 is missing; the next one is 2"),
    "the last chunk is missing": (lambda files: files.chunks.pop(), "chunk 2 of 3 is missing; there are no more"),
    "all are missing": (lambda files: files.chunks.clear(), "chunk 0 of 3 is missing; there are no more"),
    "a chunk is too short": (lambda files: files.chunks[1].update(data=b"x"), "chunk 1 of 3 has 1 bytes instead of 4"),
    "a surplus chunk": (
        lambda files: files.chunks.append({"_id": 9, "files_id": 1, "n": 3, "data": b"x"}),
        "after its 3 chunks the file has another: number 3",
    ),
    "the length is too short": (lambda files: files.files[0].update(length=9), "chunk 2 of 3 has 2 bytes instead of 1"),
    "the length is too long": (lambda files: files.files[0].update(length=11), "chunk 2 of 3 has 2 bytes instead of 3"),
    "the length is enormous": (lambda files: files.files[0].update(length=2**62), "bytes instead of 4"),
    "the length is negative": (lambda files: files.files[0].update(length=-1), "the file's length is -1"),
    "the chunks are of another size": (lambda files: files.files[0].update(chunkSize=5), "has 4 bytes instead of 5"),
    "the chunks have no size": (lambda files: files.files[0].update(chunkSize=0), "the file's chunkSize is 0"),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("chunks_at_once", [1, 100])
async def test_a_file_that_is_not_whole(
    files: StoredFiles, bucket: AsyncGridFSBucket, lie: str, chunks_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grid_out, "_READ_AHEAD", 4 * chunks_at_once)
    tamper, message = LIES[lie]
    await bucket.upload_from_stream_with_id(1, "f", b"abcdefghij")
    tamper(files)
    async with await bucket.open_download_stream(1) as stream:
        with pytest.raises(CorruptGridFile, match=message):
            await stream.read()
        assert stream.tell() == 0
    target = io.BytesIO()
    with pytest.raises(CorruptGridFile, match=message):
        await bucket.download_to_stream(1, target)
    # What was written until then is right.
    assert b"abcdefghij".startswith(target.getvalue())
    with pytest.raises(CorruptGridFile, match=message):
        [line async for line in await bucket.open_download_stream(1)]
    await anyio.sleep(1)
    assert files.cursors == {}


async def test_the_document_of_a_file_without_an_id(client: Client) -> None:
    file = AsyncGridOut(client.db.fs, file_document={"length": 10, "chunkSize": 4})
    with pytest.raises(CorruptGridFile, match="the file's document has no _id"):
        await file.read()


@pytest.mark.parametrize("content", [b"", b"abcd"])
async def test_an_empty_surplus_chunk_does_no_harm(
    files: StoredFiles, bucket: AsyncGridFSBucket, content: bytes
) -> None:
    await bucket.upload_from_stream_with_id(1, "f", content)
    files.chunks.append({"_id": 9, "files_id": 1, "n": len(files.chunks), "data": b""})
    async with await bucket.open_download_stream(1) as stream:
        assert await stream.read() == content


async def test_what_lies_beyond_what_was_read_is_not_noticed(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    await bucket.upload_from_stream_with_id(1, "f", b"abcdefghij")
    files.chunks.pop()
    async with await bucket.open_download_stream(1) as stream:
        assert await stream.read(8) == b"abcdefgh"


LARGE = bytes(range(256)) * 3000
"""Three chunks of 256 KB: large enough that they are not copied out of their batch."""


@pytest.mark.parametrize("at_once", [1, 2, 8])
async def test_large_chunks(
    bucket: AsyncGridFSBucket, files: StoredFiles, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(grid_out, "_READ_AHEAD", at_once * 256_000)
    await bucket.upload_from_stream_with_id(1, "f", LARGE, 256_000)
    async with await bucket.open_download_stream(1) as stream:
        found = await stream.read()
        assert type(found) is bytes
        assert found == LARGE
        await stream.seek(-100, os.SEEK_END)
        assert await stream.read() == LARGE[-100:]
        await stream.seek(255_990)
        parts = [await stream.read(5), await stream.readchunk(), await stream.readline(), await stream.read(300_000)]
        assert [type(part) for part in parts] == [bytes] * 4
        position = 255_990 + sum(map(len, parts))
        assert b"".join(parts) == LARGE[255_990:position]
        assert await stream.readlines() == io.BytesIO(LARGE[position:]).readlines()
    assert files.cursors == {}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": 7}, "chunk 1 of 3 is missing; the next one is 2"),
        ({"data": LARGE[1:256_000]}, "chunk 1 of 3 has 255999 bytes instead of 256000"),
        ({"data": "x" * 256_000}, "the data of chunk 1 is not binary but of type str"),
    ],
)
async def test_a_large_chunk_that_does_not_fit(
    bucket: AsyncGridFSBucket, files: StoredFiles, monkeypatch: pytest.MonkeyPatch, change: Any, message: str
) -> None:
    monkeypatch.setattr(grid_out, "_READ_AHEAD", 2_000_000)
    await bucket.upload_from_stream_with_id(1, "f", LARGE, 256_000)
    files.chunks[1].update(change)
    async with await bucket.open_download_stream(1) as stream:
        with pytest.raises(CorruptGridFile, match=message):
            await stream.read()
        assert stream.tell() == 0
        assert await stream.read(256_000) == LARGE[:256_000]


async def test_listeners_get_large_chunks_as_usual() -> None:
    recorder = Recorder(CommandSucceededEvent)
    async with stored_files(event_listeners=[recorder]) as (_, bucket, _client):
        await bucket.upload_from_stream_with_id(1, "f", LARGE, 256_000)
        assert await (await bucket.open_download_stream(1)).read() == LARGE
    replies = [event.reply for event in recorder.events if event.command_name == "find"]
    assert {type(chunk) for chunk in replies[-1]["cursor"]["firstBatch"]} == {dict}
