"""Writing a file: its chunks and its document, in which order, and what happens after errors."""

from __future__ import annotations

import datetime
import io
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest
from bson.int64 import Int64
from bson.objectid import ObjectId

from motorlite._api import turns
from motorlite._gridfs import upload
from motorlite.errors import BulkWriteError, ConfigurationError, InvalidOperation, PyMongoError
from motorlite.gridfs import DEFAULT_CHUNK_SIZE, AsyncGridIn, FileExists
from motorlite.testing.scripted import failure
from motorlite.write_concern import WriteConcern
from tests.support.kept_errors import is_kept_copy
from tests.support.stored_files import stored_files

if TYPE_CHECKING:
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


async def write_and_raise(stream: AsyncGridIn, data: bytes) -> None:
    async with stream:
        await stream.write(data)
        raise RuntimeError("mine")


async def test_a_file() -> None:
    async with stored_files() as (files, bucket, _):
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


async def test_the_document_comes_last() -> None:
    async with stored_files() as (files, bucket, _):
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
async def test_batches(size: int) -> None:
    async with stored_files() as (files, bucket, _):
        content = bytes(range(size))
        await bucket.upload_from_stream_with_id(1, "f", content)
        assert stored(files) == content
        batches = [each for each in files.server.commands("insert") if each["insert"] == "fs.chunks"]
        assert [len(each["documents"]) for each in batches[:-1]] == [2] * (len(batches) - 1)
        assert sum(len(each["documents"]) for each in batches) == -(-size // 4)


async def test_tiny_chunks_make_batches_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "BATCH_CHUNKS", 3)
    async with stored_files() as (files, bucket, _):
        await bucket.upload_from_stream_with_id(1, "f", b"abcdefg", 1)
        batches = [each for each in files.server.commands("insert") if each["insert"] == "fs.chunks"]
        assert [len(each["documents"]) for each in batches] == [3, 3, 1]


async def test_small_writes_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """They send nothing, but a program may do nothing else."""
    monkeypatch.setattr(turns, "TURN", 0.0)
    others = 0

    async def other() -> None:
        nonlocal others
        while True:
            await anyio.lowlevel.checkpoint()
            others += 1

    async with stored_files() as (_, bucket, _), anyio.create_task_group() as tasks:
        stream = bucket.open_upload_stream_with_id(1, "f", 1000)
        tasks.start_soon(other)
        await anyio.lowlevel.checkpoint()
        for _ in range(100):
            await stream.write(b"x")
        assert others >= 99
        await stream.abort()
        tasks.cancel_scope.cancel()


# --- sources ---


async def test_sources() -> None:
    async def pieces() -> Any:
        yield b"abc"
        await anyio.sleep(1)
        yield b"defghijkl"

    async with stored_files() as (files, bucket, _):
        async with bucket.open_upload_stream_with_id(1, "f") as stream:
            await stream.write(io.BytesIO(b"0123456789"))
            await stream.write(pieces())
            await stream.write(b"!")
        assert stored(files) == b"0123456789abcdefghijkl!"


async def test_text_needs_an_encoding() -> None:
    async with stored_files() as (files, _, client):
        async with AsyncGridIn(client.db.fs, _id=1, encoding="utf-16-le") as stream:
            await stream.write("ab")
        assert stored(files) == b"a\0b\0"
        assert files.files[0]["encoding"] == "utf-16-le"
        stream = AsyncGridIn(client.db.fs)
        with pytest.raises(TypeError, match="text needs an encoding"):
            await stream.write("ab")


@pytest.mark.parametrize("data", [5, None, [b"a"], object()])
async def test_what_cannot_be_written(data: Any) -> None:
    async with stored_files() as (files, bucket, _):
        stream = bucket.open_upload_stream_with_id(1, "f")
        with pytest.raises(TypeError):
            await stream.write(data)
        await stream.write(b"ok")
        await stream.close()
        assert stored(files) == b"ok"


async def test_a_source_that_fails() -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell() > 0:
                raise OSError("the disk is broken")
            super().read(1)
            return b"0123456789"

    async with stored_files() as (files, bucket, _):
        with pytest.raises(OSError, match="the disk is broken"):
            await bucket.upload_from_stream_with_id(1, "f", Broken(b"xx"))
        assert files.files == files.chunks == []
        assert DELETE_CHUNKS in files.names()


async def test_a_source_that_fails_before_anything_is_stored() -> None:
    async with stored_files() as (files, bucket, _):
        stream = bucket.open_upload_stream_with_id(1, "f")
        with pytest.raises(RuntimeError, match="mine"):
            await write_and_raise(stream, b"01234")
        assert files.names() == []
        assert stream.closed


async def test_the_original_error_is_raised_if_the_deletion_fails() -> None:
    async with stored_files() as (files, bucket, _):
        files.answers["delete"] = [failure(2)]
        with pytest.raises(RuntimeError, match="mine") as caught:
            await write_and_raise(bucket.open_upload_stream_with_id(1, "f"), bytes(10))
        (note,) = caught.value.__notes__
        assert note.startswith("there may be chunks without a file in db.fs.chunks: scripted failure")


# --- errors of operations ---


@pytest.mark.parametrize("what", [INSERT_CHUNKS, INSERT_FILE])
async def test_after_an_error_the_chunks_are_left(what: str) -> None:
    """GridFS specification, "Operation Failure"."""
    async with stored_files() as (files, bucket, _):
        await bucket.upload_from_stream_with_id(0, "first", b"x")
        files.answers[what] = [failure(2)]
        files.server.received.clear()
        with pytest.raises(PyMongoError, match="scripted"):
            await bucket.upload_from_stream_with_id(1, "f", bytes(10))
        assert DELETE_CHUNKS not in files.names()
        assert [file["_id"] for file in files.files] == [0]


async def test_an_upload_that_failed_does_not_go_on() -> None:
    async with stored_files() as (files, bucket, _):
        stream = bucket.open_upload_stream_with_id(1, "f")
        files.answers[INSERT_CHUNKS] = [failure(2)]
        with pytest.raises(PyMongoError, match="scripted") as caught:
            await stream.write(bytes(10))
        assert is_kept_copy(stream._upload.failure, caught.value)
        for step in (partial(stream.write, b"x"), stream.close):
            with pytest.raises(InvalidOperation, match="a part of the file is missing"):
                await step()
        assert files.files == []
        await stream.abort()
        assert stream.closed
        assert files.chunks == []


async def test_a_swallowed_error_is_not_the_end_of_it() -> None:
    async with stored_files() as (files, bucket, _):
        files.answers[INSERT_CHUNKS] = [failure(2)]

        async def upload_regardless() -> None:
            async with bucket.open_upload_stream_with_id(1, "f") as stream:
                with pytest.raises(PyMongoError, match="scripted"):
                    await stream.write(bytes(10))

        with pytest.raises(InvalidOperation, match="a part of the file is missing"):
            await upload_regardless()
        assert files.files == []


async def test_a_file_with_this_id() -> None:
    async with stored_files() as (files, bucket, _):
        await bucket.upload_from_stream_with_id(1, "f", b"0123456789")
        stream = bucket.open_upload_stream_with_id(1, "g")
        with pytest.raises(FileExists, match=r"db\.fs\.files has a file with the id 1 already") as caught:
            await stream.write(bytes(10))
        assert isinstance(caught.value.__cause__, BulkWriteError)
        await stream.abort()
        assert stored(files) == b"0123456789"
        assert [file["filename"] for file in files.files] == ["f"]


async def test_an_empty_file_with_this_id() -> None:
    async with stored_files() as (files, bucket, _):
        await bucket.upload_from_stream_with_id(1, "f", b"")
        stream = bucket.open_upload_stream_with_id(1, "g")
        await stream.write(b"0123456789")
        with pytest.raises(FileExists):
            await stream.close()
        await stream.abort()
        assert files.chunks == []
        assert [file["filename"] for file in files.files] == ["f"]


async def test_a_bulk_write_error_of_another_kind() -> None:
    async with stored_files() as (files, bucket, _):
        files.answers[INSERT_CHUNKS] = [{"n": 0, "writeErrors": [{"index": 0, "code": 5, "errmsg": "no"}]}]
        with pytest.raises(BulkWriteError):
            await bucket.upload_from_stream_with_id(1, "f", b"x")


# --- the end ---


async def test_abort() -> None:
    async with stored_files() as (files, bucket, client):
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


async def test_a_stored_file_is_not_aborted() -> None:
    async with stored_files() as (files, bucket, _):
        stream = bucket.open_upload_stream_with_id(1, "f")
        await stream.close()
        with pytest.raises(InvalidOperation, match="delete it instead"):
            await stream.abort()
        assert files.files


async def test_abort_again_after_an_error() -> None:
    async with stored_files() as (files, bucket, _):
        stream = bucket.open_upload_stream_with_id(1, "f")
        await stream.write(bytes(10))
        files.answers["delete"] = [failure(2)]
        with pytest.raises(PyMongoError, match="scripted"):
            await stream.abort()
        assert stream.closed
        await stream.abort()
        assert files.chunks == []


async def test_chunks_are_deleted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "_DELETED_AT_ONCE", 3)
    async with stored_files() as (files, bucket, _):
        stream = bucket.open_upload_stream_with_id({"a": 1}, "f")
        await stream.write(bytes(30))
        await stream.abort()
        deletes = [each["deletes"][0]["q"] for each in files.server.commands("delete")]
        assert [len(each["_id"]["$in"]) for each in deletes] == [3, 3, 1]
        assert {str(each["files_id"]) for each in deletes} == {"{'$eq': {'a': 1}}"}
        assert files.chunks == []


async def test_two_tasks() -> None:
    async with stored_files() as (_, bucket, _):
        stream = bucket.open_upload_stream_with_id(1, "f")
        async with anyio.create_task_group() as group:
            group.start_soon(stream.write, bytes(10))
            await anyio.sleep(0.001)
            for step in (partial(stream.write, b"x"), stream.close, stream.abort):
                with pytest.raises(InvalidOperation, match="task"):
                    await step()
        await stream.close()


async def test_a_generator_that_is_closed_sends_nothing() -> None:
    async with stored_files() as (files, bucket, _):

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


async def test_progress() -> None:
    seen: list[tuple[int, int | None]] = []
    async with stored_files() as (_, bucket, _):
        await bucket.upload_from_stream("f", bytes(20), progress=lambda done, total: seen.append((done, total)))
        assert seen == [(8, 20), (16, 20), (20, 20)]
        seen.clear()
        await bucket.upload_from_stream(
            "f", io.BytesIO(bytes(9)), progress=lambda done, total: seen.append((done, total))
        )
        assert seen == [(8, None), (9, None)]
        with pytest.raises(TypeError, match="progress must be a function"):
            bucket.open_upload_stream("f", progress=5)  # type: ignore[arg-type]


async def test_progress_that_raises_ends_the_upload() -> None:
    def progress(done: int, _total: int | None) -> None:
        if done > 8:
            raise RuntimeError("enough")

    async with stored_files() as (files, bucket, _):
        with pytest.raises(RuntimeError, match="enough"):
            await bucket.upload_from_stream("f", bytes(40), progress=progress)
        assert files.files == files.chunks == []
        stream = bucket.open_upload_stream("f", progress=progress)
        with pytest.raises(RuntimeError, match="enough"):
            await stream.write(bytes(40))
        with pytest.raises(InvalidOperation, match="a part of the file is missing"):
            await stream.close()


async def test_progress_that_raises_at_the_end() -> None:
    def progress(done: int, total: int | None) -> None:
        if done == total:
            raise RuntimeError("enough")

    async with stored_files() as (files, bucket, client):
        with pytest.raises(RuntimeError, match="enough"):
            await bucket.upload_from_stream("f", bytes(10), progress=progress)
        assert files.files == files.chunks == []
        assert client.stats().sessions == 1


async def test_the_caller_s_session() -> None:
    async with stored_files() as (files, bucket, client):
        async with client.start_session() as session:
            await bucket.upload_from_stream("f", bytes(10), session=session)
            assert {bytes(received.document["lsid"]["id"]) for received in files.server.received} == {
                bytes(session.session_id["id"])
            }
        assert client.stats().sessions == 1


async def test_a_bound_session() -> None:
    async with stored_files() as (files, bucket, client), client.start_session() as session:
        async with session.bind(end_session=False):
            await bucket.upload_from_stream_with_id(1, "f", bytes(10))
            await (await bucket.open_download_stream(1)).read()
        assert {bytes(received.document["lsid"]["id"]) for received in files.server.received} == {
            bytes(session.session_id["id"])
        }


async def test_a_transaction_is_refused() -> None:
    async with stored_files() as (_, bucket, client):
        session = client.start_session()
        await session.start_transaction()
        with pytest.raises(InvalidOperation, match="in a transaction"):
            bucket.open_upload_stream("f", session=session)
        for step in (
            lambda: bucket.open_download_stream(1, session),
            lambda: bucket.open_download_stream_by_name("f", session=session),
            lambda: bucket.delete(1, session),
            lambda: bucket.delete_by_name("f", session),
            lambda: bucket.rename(1, "g", session),
            lambda: bucket.rename_by_name("f", "g", session),
        ):
            with pytest.raises(InvalidOperation, match="in a transaction"):
                await step()
        with pytest.raises(InvalidOperation, match="in a transaction"):
            bucket.find(session=session)
        async with session.bind():
            with pytest.raises(InvalidOperation, match="in a transaction"):
                bucket.open_upload_stream("f")
        await session.end_session()


@pytest.mark.parametrize("session", [5, "session", object()])
async def test_what_is_no_session(session: Any) -> None:
    async with stored_files() as (_, bucket, _):
        with pytest.raises(TypeError, match="session must be an AsyncClientSession"):
            bucket.open_upload_stream("f", session=session)
        with pytest.raises(TypeError, match="session must be an AsyncClientSession"):
            await bucket.delete(1, session)


async def test_a_timeout_is_that_of_the_whole_stream() -> None:
    async with stored_files() as (files, bucket, _):
        stream = bucket.open_upload_stream_with_id(1, "f", timeoutMS=1000)
        await stream.write(bytes(10))
        assert all(received.document["maxTimeMS"] <= 1000 for received in files.server.received)
        await anyio.sleep(2)
        with pytest.raises(PyMongoError) as caught:
            await stream.close()
        assert caught.value.timeout
        with pytest.raises(PyMongoError) as caught:
            await stream.abort()
        assert caught.value.timeout
        assert files.files == []


async def test_a_source_does_not_exceed_the_timeout() -> None:
    class Slow:
        async def read(self, _size: int) -> bytes:
            await anyio.sleep(1)
            return bytes(10)

    async with stored_files() as (files, bucket, _):
        started = anyio.current_time()
        with pytest.raises(PyMongoError) as caught:
            await bucket.upload_from_stream("f", Slow(), timeoutMS=2500)
        assert caught.value.timeout
        assert anyio.current_time() - started == pytest.approx(2.5)
        assert files.files == []


# --- fields and the rest ---


async def test_fields() -> None:
    async with stored_files() as (files, _, client):
        stream = AsyncGridIn(client.db.fs, _id=5, filename="f", content_type="a/b", chunk_size=7, author="me")
        assert (stream._id, stream.filename, stream.name, stream.content_type) == (5, "f", "f", "a/b")
        assert (stream.chunk_size, stream.author, stream.md5) == (7, "me", None)
        for name in ("length", "upload_date", "nothing", "_nothing"):
            assert not hasattr(stream, name)
        stream.filename = "g"
        stream.content_type = "c/d"
        stream.author = "you"
        stream.more = 1
        await stream.set("even_more", 2)
        with pytest.raises(AttributeError):
            stream.chunk_size = 9  # type: ignore[misc]
        await stream.close()
        (document,) = files.files
        wanted = {"_id": 5, "filename": "g", "contentType": "c/d", "chunkSize": 7, "author": "you", "more": 1}
        assert {name: document[name] for name in wanted} == wanted
        assert document["even_more"] == 2
        assert (stream.length, stream.more) == (0, 1)
        for name in ("filename", "content_type", "another"):
            with pytest.raises(AttributeError, match="use set"):
                setattr(stream, name, "x")
        await stream.set("filename", "h")
        assert files.files[0]["filename"] == stream.filename == "h"


async def test_set_after_an_abort() -> None:
    async with stored_files() as (_, bucket, _):
        stream = bucket.open_upload_stream("f")
        await stream.abort()
        with pytest.raises(InvalidOperation, match="no file"):
            await stream.set("filename", "g")


async def test_a_file_for_writing() -> None:
    async with stored_files() as (_, bucket, _):
        stream = bucket.open_upload_stream("f")
        assert (stream.readable(), stream.seekable(), stream.writable(), stream.writeable()) == (
            False,
            False,
            True,
            True,
        )
        with pytest.raises(io.UnsupportedOperation):
            stream.read()
        assert stream.chunk_size == 4


async def test_wrong_arguments() -> None:
    async with stored_files() as (_, _, client):
        assert AsyncGridIn(client.db.fs).chunk_size == DEFAULT_CHUNK_SIZE == 261_120
        with pytest.raises(TypeError, match="root_collection"):
            AsyncGridIn(client.db)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="acknowledged"):
            AsyncGridIn(client.db.fs.with_options(write_concern=WriteConcern(w=0)))
        for size, kind in ((0, ValueError), (-1, ValueError), (2**31, ValueError), ("4", TypeError), (4.0, TypeError)):
            with pytest.raises(kind, match="chunk_size must be an integer"):
                AsyncGridIn(client.db.fs, chunk_size=size)


def test_creating_one_needs_no_event_loop() -> None:
    from motorlite import AsyncMongoClient
    from motorlite.gridfs import AsyncGridFSBucket

    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient()
    assert AsyncGridFSBucket(client.db).open_upload_stream("f").filename == "f"


async def test_the_session_is_given_back_at_the_end_of_the_block() -> None:
    async with stored_files() as (files, bucket, client):
        files.answers[INSERT_FILE] = [failure(2)]
        stream = bucket.open_upload_stream("f")
        with pytest.raises(PyMongoError, match="scripted"):
            async with stream:
                await stream.write(bytes(10))
        assert client.stats().sessions == 1
        await stream.abort()
        assert files.chunks == []
        files.answers[INSERT_CHUNKS] = [failure(2)]
        with pytest.raises(PyMongoError, match="scripted"):
            await bucket.upload_from_stream("f", bytes(10))
        assert client.stats().sessions == 1
