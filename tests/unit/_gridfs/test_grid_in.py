"""Writing a file: its chunks and its document, in which order, and what happens after errors."""

from __future__ import annotations

import datetime
import io
import random
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from bson.int64 import Int64
from bson.objectid import ObjectId

from motorlite import AsyncMongoClient
from motorlite._gridfs import upload
from motorlite.errors import (
    BulkWriteError,
    ConfigurationError,
    DuplicateKeyError,
    ExecutionTimeout,
    InvalidOperation,
    OperationFailure,
    PyMongoError,
)
from motorlite.gridfs import DEFAULT_CHUNK_SIZE, AsyncGridFSBucket, AsyncGridIn, FileExists, NoFile
from motorlite.testing.scripted import failure
from motorlite.write_concern import WriteConcern
from tests.support.kept_errors import is_kept_copy
from tests.support.stored_files import stored_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.clients import Client
    from tests.support.stored_files import StoredFiles

pytestmark = pytest.mark.anyio

INSERT_CHUNKS, INSERT_FILE, DELETE_CHUNKS = "insert fs.chunks", "insert fs.files", "delete fs.chunks"


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two chunks in a batch, so that there are several."""
    monkeypatch.setattr(upload, "BATCH", 8)


def stored(files: StoredFiles, file_id: Any = 1) -> bytes:
    """The content of a file."""
    chunks = sorted((chunk for chunk in files.chunks if chunk["files_id"] == file_id), key=lambda chunk: chunk["n"])
    assert [chunk["n"] for chunk in chunks] == list(range(len(chunks)))
    return b"".join(chunk["data"] for chunk in chunks)


def batches(files: StoredFiles) -> list[int]:
    """How many chunks each batch had."""
    return [len(each["documents"]) for each in files.server.commands("insert") if each["insert"] == "fs.chunks"]


async def write_and_close(stream: AsyncGridIn, data: bytes) -> None:
    await stream.write(data)
    await stream.close()


async def write_and_raise(stream: AsyncGridIn, data: bytes) -> None:
    async with stream:
        await stream.write(data)
        raise RuntimeError("mine")


async def test_a_file(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    before = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=1)
    async with bucket.open_upload_stream("f", metadata={"a": 1}) as stream:
        await stream.write(b"abcdef")
        await stream.write(b"")
        await stream.writelines([b"gh", bytearray(b"i"), memoryview(b"jk")])
        assert not stream.closed
    assert stream.closed
    (document,) = files.files
    assert list(document) == ["_id", "filename", "chunkSize", "metadata", "length", "uploadDate"]
    assert isinstance(document["_id"], ObjectId)
    assert document["_id"] == stream._id
    assert (document["filename"], document["chunkSize"], document["metadata"]) == ("f", 4, {"a": 1})
    assert type(document["length"]) is Int64
    assert document["length"] == stream.length == 11
    assert before.replace(tzinfo=None) <= document["uploadDate"] <= stream.upload_date.replace(tzinfo=None)
    assert [chunk["data"] for chunk in files.chunks] == [b"abcd", b"efgh", b"ijk"]
    assert all(set(chunk) == {"_id", "files_id", "n", "data"} for chunk in files.chunks)
    assert {chunk["files_id"] for chunk in files.chunks} == {document["_id"]}


async def test_the_document_comes_last(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    await bucket.upload_from_stream_with_id(0, "first", b"x")
    files.server.received.clear()
    stream = bucket.open_upload_stream_with_id(1, "f")
    await stream.write(bytes(18))
    assert files.names() == [INSERT_CHUNKS] * 2
    await stream.close()
    assert files.names() == [INSERT_CHUNKS] * 3 + [INSERT_FILE, "find fs.chunks"]
    await stream.close()
    assert len(files.names()) == 5
    # All writes of an upload are of one session, so that the server carries them out in their order.
    inserts = files.server.commands("insert")
    assert len({bytes(each["lsid"]["id"]) for each in inserts}) == 1
    numbers = [each["txnNumber"] for each in inserts]
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("size", [0, 1, 4, 7, 8, 9, 16, 17])
async def test_batches(files: StoredFiles, bucket: AsyncGridFSBucket, size: int) -> None:
    content = bytes(range(size))
    await bucket.upload_from_stream_with_id(1, "f", content)
    assert stored(files) == content
    count = -(-size // 4)
    assert batches(files) == [2] * (count // 2) + [1] * (count % 2)


@pytest.mark.parametrize("seed", range(10))
async def test_pieces_of_any_size(files: StoredFiles, bucket: AsyncGridFSBucket, seed: int) -> None:
    numbers = random.Random(seed)
    pieces = [numbers.randbytes(numbers.randrange(20)) for _ in range(numbers.randrange(10))]
    async with bucket.open_upload_stream_with_id(1, "f", numbers.randint(1, 7)) as stream:
        for piece in pieces:
            await stream.write(piece)
    assert stored(files) == b"".join(pieces)
    assert stream.length == files.files[0]["length"] == len(b"".join(pieces))
    assert all(len(chunk["data"]) == stream.chunk_size for chunk in files.chunks[:-1])
    assert len(files.chunks) == -(-stream.length // stream.chunk_size)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
async def test_what_was_written_may_be_changed(files: StoredFiles, bucket: AsyncGridFSBucket, kind: Any) -> None:
    data = bytearray(b"abcdefghij")
    async with bucket.open_upload_stream_with_id(1, "f", 6) as stream:
        await stream.write(kind(data))
        data[:] = b"x" * 10
    assert stored(files) == b"abcdefghij"


def test_a_whole_chunk_is_not_copied() -> None:
    data = b"abcd"
    (chunk,) = upload.Splitter("file", 4, ObjectId).cut(data)
    assert chunk["data"] is data


async def test_tiny_chunks_make_batches_too(
    files: StoredFiles, bucket: AsyncGridFSBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "BATCH_CHUNKS", 3)
    await bucket.upload_from_stream_with_id(1, "f", b"abcdefg", 1)
    assert batches(files) == [3, 3, 1]


# --- sources ---


async def test_sources(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    async def pieces() -> Any:
        yield b"abc"
        await anyio.sleep(1)
        yield b"defghijkl"

    async with bucket.open_upload_stream_with_id(1, "f") as stream:
        await stream.write(io.BytesIO(b"0123456789"))
        await stream.write(pieces())
        await stream.write(b"!")
    assert stored(files) == b"0123456789abcdefghijkl!"


async def test_text_needs_an_encoding(files: StoredFiles, client: Client) -> None:
    async with AsyncGridIn(client.db.fs, _id=1, encoding="utf-16-le") as stream:
        await stream.write("ab")
    assert stored(files) == b"a\0b\0"
    assert files.files[0]["encoding"] == "utf-16-le"
    stream = AsyncGridIn(client.db.fs)
    with pytest.raises(TypeError, match="text needs an encoding"):
        await stream.write("ab")


@pytest.mark.parametrize("data", [5, None, [b"a"], iter([b"a"]), object()])
async def test_what_cannot_be_written(files: StoredFiles, bucket: AsyncGridFSBucket, data: Any) -> None:
    stream = bucket.open_upload_stream_with_id(1, "f")
    with pytest.raises(TypeError, match="bytes, a file, a stream or an async iterable of bytes"):
        await stream.write(data)
    await stream.write(b"ok")
    await stream.close()
    assert stored(files) == b"ok"


async def test_a_source_that_fails(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell() > 0:
                raise OSError("the disk is broken")
            super().read(1)
            return b"0123456789"

    with pytest.raises(OSError, match="the disk is broken"):
        await bucket.upload_from_stream_with_id(1, "f", Broken(b"xx"))
    assert files.files == files.chunks == []
    assert DELETE_CHUNKS in files.names()


async def test_a_source_that_fails_is_the_end_of_the_upload(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell() > 0:
                raise OSError("the disk is broken")
            super().read(1)
            return bytes(10)

    async def upload_regardless(stream: AsyncGridIn) -> None:
        async with stream:
            with pytest.raises(OSError, match="the disk is broken"):
                await stream.write(Broken(b"xx"))

    stream = bucket.open_upload_stream_with_id(1, "f")
    with pytest.raises(InvalidOperation, match="a part of the file is missing"):
        await upload_regardless(stream)
    assert files.files == files.chunks == []
    assert DELETE_CHUNKS in files.names()


async def test_a_source_that_fails_before_anything_is_stored(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    stream = bucket.open_upload_stream_with_id(1, "f")
    with pytest.raises(RuntimeError, match="mine"):
        await write_and_raise(stream, b"01234")
    assert files.names() == []
    assert stream.closed


async def test_the_original_error_is_raised_if_the_deletion_fails(
    files: StoredFiles, bucket: AsyncGridFSBucket
) -> None:
    files.answers["delete"] = [failure(2)]
    with pytest.raises(RuntimeError, match="mine") as caught:
        await write_and_raise(bucket.open_upload_stream_with_id(1, "f"), bytes(10))
    (note,) = caught.value.__notes__
    assert note.startswith("there may be chunks without a file in db.fs.chunks: scripted failure")


# --- errors of operations ---


@pytest.mark.parametrize("what", [INSERT_CHUNKS, INSERT_FILE])
async def test_after_an_error_the_chunks_are_left(
    files: StoredFiles, bucket: AsyncGridFSBucket, client: Client, what: str
) -> None:
    """GridFS specification, "Operation Failure"."""
    await bucket.upload_from_stream_with_id(0, "first", b"x")
    files.answers[what] = [failure(2)]
    files.server.received.clear()
    stream = bucket.open_upload_stream_with_id(1, "f")
    with pytest.raises(PyMongoError, match="scripted"):
        async with stream:
            await stream.write(bytes(10))
    assert DELETE_CHUNKS not in files.names()
    assert [file["_id"] for file in files.files] == [0]
    assert client.stats().sessions == 1, "the session is given back at the end of the block"
    await stream.abort()
    assert {chunk["files_id"] for chunk in files.chunks} == {0}


async def test_an_upload_that_failed_does_not_go_on(
    files: StoredFiles, bucket: AsyncGridFSBucket, client: Client
) -> None:
    stream = bucket.open_upload_stream_with_id(1, "f")
    files.answers[INSERT_CHUNKS] = [failure(2)]

    async def upload_regardless() -> None:
        async with stream:
            with pytest.raises(PyMongoError, match="scripted") as caught:
                await stream.write(bytes(10))
            assert is_kept_copy(stream._upload.failure, caught.value)
            for step in (partial(stream.write, b"x"), stream.close):
                with pytest.raises(InvalidOperation, match="a part of the file is missing"):
                    await step()

    # That the error is swallowed is not the end of it.
    with pytest.raises(InvalidOperation, match="a part of the file is missing"):
        await upload_regardless()
    assert client.stats().sessions == 1
    assert files.files == []
    await stream.abort()
    assert stream.closed
    assert files.chunks == []


# The chunks of an empty file are not in the way: it is noticed at the end.
@pytest.mark.parametrize(("content", "cause"), [(b"0123456789", BulkWriteError), (b"", DuplicateKeyError)])
async def test_a_file_with_this_id(
    files: StoredFiles, bucket: AsyncGridFSBucket, content: bytes, cause: type[Exception]
) -> None:
    await bucket.upload_from_stream_with_id(1, "f", content)
    stream = bucket.open_upload_stream_with_id(1, "g")
    with pytest.raises(FileExists, match=r"db\.fs\.files has a file with the id 1 already") as caught:
        await write_and_close(stream, bytes(10))
    assert isinstance(caught.value.__cause__, cause)
    await stream.abort()
    assert stored(files) == content
    assert [file["filename"] for file in files.files] == ["f"]


async def test_a_bulk_write_error_of_another_kind(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    files.answers[INSERT_CHUNKS] = [{"n": 0, "writeErrors": [{"index": 0, "code": 5, "errmsg": "no"}]}]
    with pytest.raises(BulkWriteError):
        await bucket.upload_from_stream_with_id(1, "f", b"x")


@pytest.mark.parametrize("is_replica_set", [True, False])
async def test_a_file_that_is_deleted_before_it_is_checked(is_replica_set: bool) -> None:
    """The upload deletes its document again: nothing is left, and nothing is in doubt."""
    async with stored_files(replica_set=is_replica_set) as (files, bucket, _):
        await bucket.upload_from_stream_with_id(0, "first", b"x")
        files.answers["find fs.chunks"] = [{"cursor": {"id": 0, "ns": "db.fs.chunks", "firstBatch": []}}]
        stream = bucket.open_upload_stream_with_id(1, "f")
        with pytest.raises(NoFile, match="was deleted while it was uploaded") as caught:
            await write_and_close(stream, bytes(10))
        assert not caught.value.may_have_been_executed
        assert [file["_id"] for file in files.files] == [0]
        assert {chunk["files_id"] for chunk in files.chunks} == {0}
        files.server.received.clear()
        await stream.abort()
        assert files.names() == []


async def test_a_check_that_fails_leaves_the_file(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    files.answers["find fs.chunks"] = [failure(13)]
    stream = bucket.open_upload_stream_with_id(1, "f")
    with pytest.raises(OperationFailure) as caught:
        await write_and_close(stream, bytes(10))
    assert caught.value.may_have_been_executed
    assert len(files.files) == 1


# --- the end ---


async def test_abort(files: StoredFiles, bucket: AsyncGridFSBucket, client: Client) -> None:
    await bucket.upload_from_stream_with_id(0, "first", b"x")
    stream = bucket.open_upload_stream_with_id(1, "f")
    await stream.write(bytes(10))
    assert len(files.chunks) == 3
    files.server.received.clear()
    await stream.abort()
    await stream.abort()
    assert files.names() == [DELETE_CHUNKS]
    assert stream.closed
    assert [chunk["files_id"] for chunk in files.chunks] == [0]
    with pytest.raises(ValueError, match="closed"):
        await stream.write(b"x")
    await stream.close()
    assert [file["_id"] for file in files.files] == [0]
    assert client.stats().sessions == 1


async def test_abort_again_after_an_error(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    stream = bucket.open_upload_stream_with_id(1, "f")
    await stream.write(bytes(10))
    files.answers["delete"] = [failure(2)]
    with pytest.raises(PyMongoError, match="scripted"):
        await stream.abort()
    assert stream.closed
    await stream.abort()
    assert files.chunks == []


async def test_chunks_are_deleted_in_parts(
    files: StoredFiles, bucket: AsyncGridFSBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "_DELETED_AT_ONCE", 3)
    stream = bucket.open_upload_stream_with_id({"a": 1}, "f")
    await stream.write(bytes(30))
    await stream.abort()
    deletes = [each["deletes"][0]["q"] for each in files.server.commands("delete")]
    assert [len(each["_id"]["$in"]) for each in deletes] == [3, 3, 1]
    assert {str(each["files_id"]) for each in deletes} == {"{'$eq': {'a': 1}}"}
    assert files.chunks == []


async def test_two_tasks(bucket: AsyncGridFSBucket) -> None:
    stream = bucket.open_upload_stream_with_id(1, "f")
    async with anyio.create_task_group() as group:
        group.start_soon(stream.write, bytes(10))
        await anyio.sleep(0.001)
        for step in (partial(stream.write, b"x"), stream.close, stream.abort):
            with pytest.raises(InvalidOperation, match="task"):
                await step()
    await stream.close()


async def end_after_a_while(stream: AsyncGridIn, error: Exception | None = None) -> None:
    async with stream:
        await anyio.sleep(0.5)
        if error is not None:
            raise error


@pytest.mark.parametrize("is_replica_set", [True, False])
@pytest.mark.parametrize("step", [INSERT_CHUNKS, INSERT_FILE, "source"])
async def test_the_block_ends_while_another_task_writes(step: str, is_replica_set: bool) -> None:
    # Where writes have an order, the server refuses the one that the deletion has overtaken.
    is_refused = is_replica_set and step != "source"

    async def write(stream: AsyncGridIn) -> None:
        with pytest.raises(OperationFailure if is_refused else InvalidOperation) as caught:
            await (stream.close() if step == INSERT_FILE else stream.write(Slow() if step == "source" else bytes(30)))
        assert is_refused or "another task has given up the upload" in str(caught.value)

    async with stored_files(replica_set=is_replica_set) as (files, bucket, client):
        await bucket.upload_from_stream_with_id(0, "first", b"x")
        files.delays[step] = 1
        stream = bucket.open_upload_stream_with_id(1, "f")
        if step != INSERT_CHUNKS:
            await stream.write(bytes(30))
        async with anyio.create_task_group() as group:
            group.start_soon(write, stream)
            with pytest.raises(InvalidOperation, match="two tasks are writing"):
                await end_after_a_while(stream)
        assert [file["_id"] for file in files.files] == [0]
        assert {chunk["files_id"] for chunk in files.chunks} == {0}
        assert stream.closed
        assert client.stats().sessions <= 1


@pytest.mark.parametrize("is_failed", [True, False])
async def test_the_block_ends_before_another_task_has_sent_anything(is_failed: bool) -> None:
    async def write(stream: AsyncGridIn) -> None:
        with pytest.raises(InvalidOperation, match="another task has given up the upload"):
            await stream.write(Slow())

    async with stored_files() as (files, bucket, _):
        await bucket.upload_from_stream_with_id(0, "first", b"x")
        stream = bucket.open_upload_stream_with_id(1, "f")
        async with anyio.create_task_group() as group:
            group.start_soon(write, stream)
            with pytest.raises(ZeroDivisionError if is_failed else InvalidOperation):
                await end_after_a_while(stream, ZeroDivisionError() if is_failed else None)
        assert {chunk["files_id"] for chunk in files.chunks} == {0}


async def test_the_block_ends_without_a_server_while_another_task_writes() -> None:
    async def write(stream: AsyncGridIn) -> None:
        with pytest.raises(InvalidOperation, match="another task has given up the upload"):
            await stream.write(bytes(60))

    async with stored_files() as (files, bucket, client):
        await bucket.upload_from_stream_with_id(0, "first", b"x")
        files.delays[INSERT_CHUNKS] = 1
        stream = bucket.open_upload_stream_with_id(1, "f")
        async with anyio.create_task_group() as group:
            group.start_soon(write, stream)
            error = ZeroDivisionError()
            await anyio.sleep(0.5)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(type(client.topology_description), "has_writable_server", lambda _: False)
                await stream.__aexit__(ZeroDivisionError, error, None)
        assert "no server is known that takes writes" in error.__notes__[0]
        assert {chunk["files_id"] for chunk in files.chunks} == {0}


@pytest.mark.parametrize("is_replica_set", [True, False])
@pytest.mark.parametrize("step", [INSERT_CHUNKS, INSERT_FILE])
async def test_the_block_ends_while_an_insertion_is_cancelled(step: str, is_replica_set: bool) -> None:
    """The server carries it out after the block has deleted everything."""

    async def write(stream: AsyncGridIn) -> None:
        with anyio.move_on_after(0.8), suppress(PyMongoError):
            await (stream.write(bytes(30)) if step == INSERT_CHUNKS else stream.close())

    async with stored_files(replica_set=is_replica_set) as (files, bucket, _):
        await bucket.upload_from_stream_with_id(0, "first", b"x")
        files.delays[step] = 1
        stream = bucket.open_upload_stream_with_id(1, "f")
        if step == INSERT_FILE:
            await stream.write(bytes(30))
        async with anyio.create_task_group() as group:
            group.start_soon(write, stream)
            with pytest.raises(InvalidOperation, match="two tasks are writing"):
                await end_after_a_while(stream)
        await anyio.sleep(2)
        await stream.abort()
        assert [file["_id"] for file in files.files] == [0]
        assert {chunk["files_id"] for chunk in files.chunks} == {0}


async def test_lines_that_fail_are_the_end_of_the_upload(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    def lines() -> Iterator[bytes]:
        yield b"one"
        raise ZeroDivisionError

    stream = bucket.open_upload_stream_with_id(1, "f")
    with pytest.raises(ZeroDivisionError):
        await stream.writelines(lines())
    with pytest.raises(InvalidOperation, match="a part of the file is missing"):
        await stream.close()
    assert files.files == []


async def test_lines_go_on_after_one_that_cannot_be_written(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    lines = (line for line in (b"one", 5, b"two"))
    stream = bucket.open_upload_stream_with_id(1, "f")
    with pytest.raises(TypeError, match="not 5"):
        await stream.writelines(lines)
    await stream.writelines(lines)
    await stream.close()
    assert stored(files) == b"onetwo"


async def test_a_block_that_fails_after_its_time_leaves_nothing(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    stream = bucket.open_upload_stream_with_id(1, "f", timeoutMS=400)
    await stream.write(bytes(30))
    assert files.chunks
    error = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        await end_after_a_while(stream, error)
    assert files.chunks == []
    assert not hasattr(error, "__notes__")


async def test_a_generator_that_is_closed_sends_nothing(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    async def writing() -> Any:
        async with bucket.open_upload_stream_with_id(1, "f") as stream:
            await stream.write(bytes(10))
            yield stream

    generator = writing()
    stream = await anext(generator)
    count = len(files.names())
    await generator.aclose()
    assert stream.closed
    assert len(files.names()) == count


# --- progress, sessions, timeouts ---


async def test_progress(bucket: AsyncGridFSBucket) -> None:
    seen: list[tuple[int, int | None]] = []
    await bucket.upload_from_stream("f", bytes(20), progress=lambda done, total: seen.append((done, total)))
    assert seen == [(8, 20), (16, 20), (20, 20)]
    seen.clear()
    await bucket.upload_from_stream("f", io.BytesIO(bytes(9)), progress=lambda done, total: seen.append((done, total)))
    assert seen == [(8, None), (9, None)]
    with pytest.raises(TypeError, match="progress must be a function"):
        bucket.open_upload_stream("f", progress=5)  # type: ignore[arg-type]


async def test_progress_that_raises_ends_the_upload(
    files: StoredFiles, bucket: AsyncGridFSBucket, client: Client
) -> None:
    def progress(done: int, _total: int | None) -> None:
        if done > 8:
            raise RuntimeError("enough")

    # At the end, and before.
    for size in (10, 40):
        with pytest.raises(RuntimeError, match="enough"):
            await bucket.upload_from_stream("f", bytes(size), progress=progress)
        assert files.files == files.chunks == []
        assert client.stats().sessions == 1
    stream = bucket.open_upload_stream("f", progress=progress)
    with pytest.raises(RuntimeError, match="enough"):
        await stream.write(bytes(40))
    with pytest.raises(InvalidOperation, match="a part of the file is missing"):
        await stream.close()
    # In the last batch, which `close` sends.
    stream = bucket.open_upload_stream("f", progress=progress)
    await stream.write(bytes(10))
    with pytest.raises(RuntimeError, match="enough"):
        await stream.close()
    with pytest.raises(InvalidOperation, match="has failed"):
        await stream.close()
    assert files.files == []


@pytest.mark.parametrize("is_bound", [False, True])
async def test_the_caller_s_session(
    files: StoredFiles, bucket: AsyncGridFSBucket, client: Client, is_bound: bool
) -> None:
    async with client.start_session() as session:
        if is_bound:
            async with session.bind(end_session=False):
                await bucket.upload_from_stream_with_id(1, "f", bytes(10))
                await (await bucket.open_download_stream(1)).read()
        else:
            await bucket.upload_from_stream("f", bytes(10), session=session)
        used = {bytes(received.document["lsid"]["id"]) for received in files.server.received}
        assert used == {bytes(session.session_id["id"])}
    assert client.stats().sessions == 1


async def test_a_transaction_is_refused(bucket: AsyncGridFSBucket, client: Client) -> None:
    session = client.start_session()
    await session.start_transaction()
    calls: list[Callable[[], Any]] = [
        lambda: bucket.open_upload_stream("f", session=session),
        lambda: bucket.open_download_stream(1, session),
        lambda: bucket.open_download_stream_by_name("f", session=session),
        lambda: bucket.delete(1, session),
        lambda: bucket.delete_by_name("f", session),
        lambda: bucket.rename(1, "g", session),
        lambda: bucket.rename_by_name("f", "g", session),
        lambda: bucket.find(session=session),
    ]
    for call in calls:
        with pytest.raises(InvalidOperation, match="in a transaction"):
            await call()
    async with session.bind():
        with pytest.raises(InvalidOperation, match="in a transaction"):
            bucket.open_upload_stream("f")
    await session.end_session()


async def test_a_transaction_that_begins_after_the_upload(
    files: StoredFiles, bucket: AsyncGridFSBucket, client: Client
) -> None:
    async with client.start_session() as session:
        stream = bucket.open_upload_stream_with_id(1, "f", session=session)
        other = bucket.open_upload_stream_with_id(2, "g", session=session)
        for each in (stream, other):
            await each.write(bytes(10))
        await session.start_transaction()
        files.server.received.clear()
        await stream.write(b"x")  # sends nothing
        for step in (stream.close, other.abort):
            with pytest.raises(InvalidOperation, match="in a transaction"):
                await step()
        assert files.names() == []
        await session.abort_transaction()
        # Nothing is lost.
        await stream.close()
        await other.abort()
        assert stored(files) == bytes(10) + b"x"
        assert {chunk["files_id"] for chunk in files.chunks} == {1}
        await session.start_transaction()
        async with session.bind(end_session=False):
            with pytest.raises(InvalidOperation, match="in a transaction"):
                await stream.set("filename", "h")
        await session.abort_transaction()


async def test_a_transaction_that_begins_during_a_write(
    files: StoredFiles, bucket: AsyncGridFSBucket, client: Client
) -> None:
    async with client.start_session() as session:
        stream = bucket.open_upload_stream_with_id(1, "f", session=session)

        class Starting(io.BytesIO):
            def read(self, _size: int | None = -1) -> bytes:
                if self.tell() > 0:
                    session.start_transaction()
                super().read(1)
                return bytes(8)

        with pytest.raises(InvalidOperation, match="in a transaction"):
            await stream.write(Starting(b"xx"))
        await session.abort_transaction()
        with pytest.raises(InvalidOperation, match="a part of the file is missing"):
            await stream.close()
        await stream.abort()
        assert files.files == files.chunks == []


async def test_a_timeout_is_that_of_the_whole_stream(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    stream = bucket.open_upload_stream_with_id(1, "f", timeoutMS=1000)
    await stream.write(bytes(10))
    assert all(received.document["maxTimeMS"] <= 1000 for received in files.server.received)
    await anyio.sleep(2)
    with pytest.raises(PyMongoError) as caught:
        await stream.close()
    assert caught.value.timeout
    assert files.files == []
    assert len(files.chunks) == 2
    # What is left can be deleted nevertheless, in as much time.
    files.delays["delete"] = 5
    started = anyio.current_time()
    with pytest.raises(PyMongoError) as caught:
        await stream.abort()
    assert caught.value.timeout
    assert anyio.current_time() - started == pytest.approx(1)
    del files.delays["delete"]
    await stream.abort()
    assert files.chunks == []


class Slow:
    async def read(self, _size: int) -> bytes:
        await anyio.sleep(1)
        return bytes(10)

    async def write(self, _data: bytes) -> None:
        await anyio.sleep(1)


async def test_the_application_does_not_exceed_the_timeout(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    await bucket.upload_from_stream_with_id(1, "f", bytes(100))
    for call in (partial(bucket.upload_from_stream, "g", Slow()), partial(bucket.download_to_stream, 1, Slow())):
        started = anyio.current_time()
        with pytest.raises(ExecutionTimeout):
            await call(timeoutMS=2500)
        assert anyio.current_time() - started == pytest.approx(2.5)
    assert [file["_id"] for file in files.files] == [1]


# --- fields and the rest ---


async def test_fields(files: StoredFiles, client: Client) -> None:
    stream = AsyncGridIn(client.db.fs, _id=5, filename="f", content_type="a/b", chunk_size=7, author="me")
    assert (stream._id, stream.filename, stream.name, stream.content_type) == (5, "f", "f", "a/b")
    assert (stream.chunk_size, stream.author, stream.md5) == (7, "me", None)
    for name in ("length", "upload_date", "nothing", "_nothing"):
        assert not hasattr(stream, name)
    stream.filename = "g"
    stream.content_type = "c/d"
    stream.author = "you"
    stream.more = stream._private = 1
    await stream.set("even_more", 2)
    with pytest.raises(AttributeError):
        stream.chunk_size = 9  # type: ignore[misc]
    await stream.close()
    (document,) = files.files
    wanted = {"_id": 5, "filename": "g", "contentType": "c/d", "chunkSize": 7, "author": "you", "more": 1}
    assert {name: document[name] for name in wanted} == wanted
    assert document["even_more"] == 2
    assert (stream.length, stream.more, stream._private, document["_private"]) == (0, 1, 1, 1)
    for name, error in (("name", InvalidOperation), ("content_type", InvalidOperation), ("another", AttributeError)):
        with pytest.raises(error, match="use set"):
            setattr(stream, name, "x")
    await stream.set("filename", "h")
    assert files.files[0]["filename"] == stream.filename == "h"
    with pytest.raises(InvalidOperation, match="delete it instead"):
        await stream.abort()
    assert files.files


async def test_an_id_and_a_chunk_size_that_are_set_before_the_first_write(
    files: StoredFiles, bucket: AsyncGridFSBucket
) -> None:
    stream = bucket.open_upload_stream("f")
    await stream.set("_id", 1)
    stream.chunkSize = 3
    for size, error in ((0, ValueError), ("3", TypeError)):
        with pytest.raises(error, match="chunkSize must be an integer"):
            stream.chunkSize = size
    await stream.write(b"01234567")
    assert (stream._id, stream.chunk_size) == (1, 3)
    # Chunks with the old ones would belong to no file.
    for name in ("_id", "chunkSize"):
        with pytest.raises(InvalidOperation, match="after something was written"):
            await stream.set(name, 2)
    await stream.close()
    assert stored(files) == await (await bucket.open_download_stream(1)).read() == b"01234567"
    assert [len(chunk["data"]) for chunk in files.chunks] == [3, 3, 2]


async def test_a_file_for_writing(bucket: AsyncGridFSBucket) -> None:
    stream = bucket.open_upload_stream("f")
    assert (stream.readable(), stream.seekable(), stream.writable(), stream.writeable()) == (False, False, True, True)
    with pytest.raises(io.UnsupportedOperation):
        stream.read()
    assert stream.chunk_size == 4
    await stream.abort()
    with pytest.raises(InvalidOperation, match="no file"):
        await stream.set("filename", "g")


async def test_wrong_arguments(bucket: AsyncGridFSBucket, client: Client) -> None:
    assert AsyncGridIn(client.db.fs).chunk_size == DEFAULT_CHUNK_SIZE == 261_120
    assert AsyncGridIn(client.db.fs, chunk_size=2**31 - 1).chunk_size == 2**31 - 1
    with pytest.raises(TypeError, match="root_collection"):
        AsyncGridIn(client.db)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="acknowledged"):
        AsyncGridIn(client.db.fs.with_options(write_concern=WriteConcern(w=0)))
    for size in (0, -1, 2**31):
        with pytest.raises(ValueError, match="chunk_size must be an integer"):
            AsyncGridIn(client.db.fs, chunk_size=size)
    for wrong in ("4", 4.0, True, None):
        with pytest.raises(TypeError, match="chunk_size must be an integer"):
            AsyncGridIn(client.db.fs, chunk_size=wrong)
    with pytest.raises(TypeError, match="session must be an AsyncClientSession"):
        bucket.open_upload_stream("f", session=5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="session must be an AsyncClientSession"):
        await bucket.delete(1, "session")  # type: ignore[arg-type]


def test_creating_one_needs_no_event_loop() -> None:
    client = AsyncMongoClient[dict[str, Any]]()
    assert AsyncGridFSBucket(client.db).open_upload_stream("f").filename == "f"
