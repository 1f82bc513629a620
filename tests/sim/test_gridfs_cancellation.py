"""GridFS, cancelled at each await point: no half file, no chunks without a file, nothing kept."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import ref

import anyio
import pytest
from bson.regex import Regex

from motorlite._gridfs import upload
from motorlite.errors import InvalidOperation, PyMongoError
from motorlite.gridfs import CorruptGridFile
from motorlite.testing.cancellation import cancel_at, count_await_points
from tests.support.cancellation import counted, settle
from tests.support.kept_errors import garbage, without_collector
from tests.support.stored_files import stored_files
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine

    from motorlite.gridfs import AsyncGridFSBucket
    from tests.support.clients import Client
    from tests.support.stored_files import StoredFiles

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

CONTENT = bytes(range(30))
# The server is slow to store and quick to delete: a deletion that did not care would come first.
SLOW_INSERTS = {"insert": 0.05, "delete": 0.002}


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two chunks in a batch, so that there are several."""
    monkeypatch.setattr(upload, "BATCH", 8)


async def slowly() -> AsyncGenerator[bytes, None]:
    for start in range(0, len(CONTENT), 10):
        await anyio.sleep(0.001)
        yield CONTENT[start : start + 10]


@dataclass(frozen=True)
class Scenario:
    """A call to cancel: what is stored before, and the await points that were known when the test was written."""

    run: Callable[[AsyncGridFSBucket], Coroutine[Any, Any, None]]
    points: int
    before: dict[int, bytes] = field(default_factory=dict)
    is_upload: bool = False
    deletes: bool = False

    async def prepare(self, bucket: AsyncGridFSBucket) -> None:
        for file_id, content in self.before.items():
            await bucket.upload_from_stream_with_id(file_id, "f", content)


async def upload_a_stream(bucket: AsyncGridFSBucket) -> None:
    """The source has to be waited for too."""
    async with aclosing(slowly()) as source:
        await bucket.upload_from_stream_with_id(1, "f", source)


async def write_to_a_stream(bucket: AsyncGridFSBucket) -> None:
    """The application writes and waits for things of its own."""
    async with aclosing(slowly()) as source, bucket.open_upload_stream_with_id(1, "f") as stream:
        async for data in source:
            await stream.write(data)


async def replace(bucket: AsyncGridFSBucket) -> None:
    """There is a file with this id: it has to stay as it is."""
    with pytest.raises(PyMongoError):
        await bucket.upload_from_stream_with_id(1, "g", b"other")


async def abort(bucket: AsyncGridFSBucket) -> None:
    """The application gives up, and is cancelled meanwhile."""
    stream = bucket.open_upload_stream_with_id(1, "f")
    await stream.write(CONTENT)
    await stream.abort()


async def download(bucket: AsyncGridFSBucket) -> None:
    async with await bucket.open_download_stream(1) as stream:
        assert await stream.read() == CONTENT


SCENARIOS = {
    # A server and a connection, the indexes, four batches, the document.
    "upload of bytes": Scenario(lambda bucket: bucket.upload_from_stream_with_id(1, "f", CONTENT), 12, is_upload=True),
    "upload of a stream": Scenario(upload_a_stream, 8, {0: b"first"}, is_upload=True),
    "upload stream": Scenario(write_to_a_stream, 8, {0: b"first"}, is_upload=True),
    "replacement": Scenario(replace, 1, {1: CONTENT}),
    # Chunks are not in the way.
    "replacement of an empty file": Scenario(replace, 2, {1: b""}),
    "deletion": Scenario(lambda bucket: bucket.delete(1), 2, {1: CONTENT}, deletes=True),
    "deletion by name": Scenario(lambda bucket: bucket.delete_by_name("f"), 3, {1: CONTENT, 2: CONTENT}, deletes=True),
    "abort": Scenario(abort, 11),
    # The document, three batches of chunks.
    "download": Scenario(download, 4, {1: CONTENT}),
}
everywhere = pytest.mark.parametrize("is_replica_set", [True, False], ids=["replica set", "standalone"])
whenever = pytest.mark.parametrize("late", [False, True], ids=["while-waiting", "after-the-wake-up"])


async def check(files: StoredFiles, bucket: AsyncGridFSBucket, client: Client) -> None:
    """Every file is whole, no chunk is without a file, and the connections are back."""
    await anyio.sleep(2)
    ids = [file["_id"] for file in files.files]
    assert [chunk for chunk in files.chunks if chunk["files_id"] not in ids] == []
    for file_id in ids:
        async with await bucket.open_download_stream(file_id) as stream:
            assert await stream.read() in (CONTENT, b"first", b"")
    (stats,) = client.stats().servers.values()
    assert (stats.in_use, stats.pending, stats.waiting) == (0, 0, 0)
    assert files.cursors == {}
    lsids = [bytes(session.lsid["id"]) for session in client._core.sessions._free]
    assert len(set(lsids)) == len(lsids), "a session was given back twice"


@everywhere
@whenever
@pytest.mark.parametrize("name", SCENARIOS)
async def test_cancelled_at_each_await_point(
    name: str, late: bool, is_replica_set: bool, anyio_backend_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("motorlite._gridfs.grid_out._READ_AHEAD", 8)
    # Trio cannot cancel a task that was already woken; the case does not exist there.
    late = late and anyio_backend_name == "asyncio"
    scenario = SCENARIOS[name]
    async with stored_files(replica_set=is_replica_set) as (files, bucket, _):
        await scenario.prepare(bucket)
        points = await count_await_points(lambda: scenario.run(bucket))
    counted[f"GridFS {name}, {anyio_backend_name}, {'late' if late else 'while waiting'}"] = points
    assert points >= scenario.points, f"only {points} await points are left of {scenario.points}"
    for point in range(1, points + 1):
        async with stored_files(replica_set=is_replica_set) as (files, bucket, client):
            await scenario.prepare(bucket)
            files.delays.update(SLOW_INSERTS)
            assert await cancel_at(lambda: scenario.run(bucket), point, late=late)
            await settle()
            await check(files, bucket, client)
            stored = [file["_id"] for file in files.files]
            if scenario.is_upload and not late:
                # Not even the document, which the server may have stored after the cancellation.
                assert stored == list(scenario.before)
            assert scenario.deletes or set(scenario.before) <= set(stored)


@pytest.mark.parametrize("limit", [None, 50_000])
async def test_a_document_that_may_still_arrive_keeps_its_chunks(limit: int | None) -> None:
    """Without retryable writes, and without a reply, nobody knows whether the document will be stored."""
    async with stored_files(replica_set=False) as (files, bucket, client):
        files.delays["insert fs.files"] = 60.0
        started = anyio.current_time()
        with anyio.move_on_after(1):
            await bucket.upload_from_stream_with_id(1, "f", CONTENT, timeoutMS=limit)
        # The pool waits for the reply as long as the server may take; the upload does not.
        assert anyio.current_time() - started < 5
        assert len(files.chunks) == 8
        assert files.files == []
        await anyio.sleep(100)
        await check(files, bucket, client)
        assert len(files.files) == 1


async def test_a_write_that_the_server_did_not_begin_is_refused_after_the_deletion() -> None:
    async with stored_files() as (files, bucket, client):
        files.delays.update({"insert fs.files": 60.0, "delete": 0.002})
        with anyio.move_on_after(1) as scope:
            await bucket.upload_from_stream_with_id(1, "f", CONTENT)
        assert scope.cancelled_caught
        assert files.chunks == []
        await anyio.sleep(100)
        assert files.files == []
        await check(files, bucket, client)


@pytest.mark.parametrize("step", ["delete", "delete_by_name"])
async def test_a_deletion_that_is_carried_out_late(step: str) -> None:
    async with stored_files() as (files, bucket, client):
        await bucket.upload_from_stream_with_id("f", "f", CONTENT)
        files.delays["delete fs.files"] = 0.5
        with anyio.move_on_after(0.1) as scope:
            await getattr(bucket, step)("f")
        assert scope.cancelled_caught
        assert (files.files, files.chunks) == ([], [])
        await check(files, bucket, client)


async def test_a_deletion_of_an_id_that_is_a_pattern() -> None:
    """No file has such an id, and the files whose ids match it are left alone."""
    async with stored_files() as (files, bucket, _):
        for name in ("alpha", "anna"):
            await bucket.upload_from_stream_with_id(name, name, CONTENT)
        before = [*files.files], [*files.chunks]
        files.delays["delete fs.files"] = 0.5
        with anyio.move_on_after(0.1) as scope:
            await bucket.delete(Regex("^a"))
        assert scope.cancelled_caught
        assert (files.files, files.chunks) == before


@pytest.mark.parametrize("step", ["delete", "delete_by_name"])
async def test_a_deletion_that_no_majority_has_yet(step: str) -> None:
    """Whether the file is gone is a question to the primary alone."""
    async with stored_files(readConcernLevel="majority") as (files, bucket, _):
        await bucket.upload_from_stream_with_id("f", "f", CONTENT)
        files.committed["fs.files"] = [*files.files]
        files.delays["delete fs.files"] = 0.5
        with anyio.move_on_after(0.1) as scope:
            await getattr(bucket, step)("f")
        assert scope.cancelled_caught
        assert (files.files, files.chunks) == ([], [])


@pytest.mark.parametrize("step", ["delete", "delete_by_name"])
async def test_a_deletion_that_may_be_rolled_back(step: str) -> None:
    """No chunk is deleted before the deletion of the file lasts."""
    async with stored_files() as (files, bucket, _):
        await bucket.upload_from_stream_with_id("f", "f", CONTENT)
        files.delays["delete fs.files"] = 0.5
        chunks = [*files.chunks]
        notes: list[str] = []

        async def fail() -> None:
            await anyio.sleep(0.3)
            concern = {"code": 64, "errmsg": "waiting for replication timed out"}
            files.answers["delete fs.files"] = [{"ok": 1, "n": 0, "writeConcernError": concern}]

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fail)
            with anyio.move_on_after(0.1) as scope:
                try:
                    await getattr(bucket, step)("f")
                except BaseException as error:
                    notes = error.__notes__
                    raise
        assert scope.cancelled_caught
        (note,) = notes
        assert note.startswith("there may be chunks without a file in db.fs.chunks: ")
        assert files.chunks == chunks


@pytest.mark.parametrize("step", ["delete", "delete_by_name"])
async def test_a_deletion_that_may_still_be_carried_out_says_so(step: str) -> None:
    async with stored_files() as (files, bucket, _):
        await bucket.upload_from_stream_with_id("f", "f", CONTENT)
        files.delays["delete fs.files"] = 60.0
        notes: list[str] = []
        with anyio.move_on_after(0.1) as scope:
            try:
                await getattr(bucket, step)("f")
            except BaseException as error:
                notes = error.__notes__
                raise
        assert scope.cancelled_caught
        (note,) = notes
        assert note.startswith("there may be chunks without a file in db.fs.chunks: a reply was lost")
        await anyio.sleep(100)
        assert (len(files.files), len(files.chunks)) == (0, 8)


async def test_the_deletion_is_limited_in_time() -> None:
    async with stored_files() as (files, bucket, _):
        files.delays["delete"] = 600.0
        started = anyio.current_time()
        notes: list[str] = []
        with anyio.move_on_after(0.5) as scope:
            try:
                async with bucket.open_upload_stream_with_id(1, "f") as stream:
                    await stream.write(CONTENT)
                    await anyio.sleep_forever()
            except BaseException as error:
                notes = error.__notes__
                raise
        assert notes == ["there may be chunks without a file in db.fs.chunks: 5 s were not enough"]
        assert scope.cancelled_caught
        assert anyio.current_time() - started == pytest.approx(5.5)
        assert stream.closed


async def test_nothing_is_waited_for_without_a_server() -> None:
    async with stored_files() as (files, bucket, client):
        notes: list[str] = []
        with anyio.move_on_after(60) as scope:
            try:
                async with bucket.open_upload_stream_with_id(1, "f") as stream:
                    await stream.write(CONTENT)
                    files.deployment.step_down(None)
                    files.server.drop_connections()
                    await until(lambda: not client.topology_description.has_writable_server())
                    started = anyio.current_time()
                    scope.cancel()
                    await anyio.sleep_forever()
            except BaseException as error:
                notes = error.__notes__
                raise
        assert anyio.current_time() == started
        assert notes == ["there may be chunks without a file in db.fs.chunks: no server is known that takes writes"]


async def test_a_timed_out_upload_is_left_as_the_specification_demands() -> None:
    async with stored_files() as (files, bucket, _):
        await bucket.upload_from_stream_with_id(0, "first", b"first")
        files.delays["insert fs.files"] = 60.0
        files.server.received.clear()
        with pytest.raises(PyMongoError) as caught:
            await bucket.upload_from_stream_with_id(1, "f", CONTENT, timeoutMS=1000)
        assert caught.value.timeout
        assert "delete fs.chunks" not in files.names()


@everywhere
async def test_nothing_is_kept_with_the_collector_off(is_replica_set: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("motorlite._gridfs.grid_out._READ_AHEAD", 8)

    async def cancelled(step: Coroutine[Any, Any, Any], after: float) -> None:
        with anyio.move_on_after(after) as scope:
            await step
        assert scope.cancelled_caught

    async def upload_of(bucket: AsyncGridFSBucket, kept: list[Any]) -> None:
        async with bucket.open_upload_stream_with_id(1, "f") as stream:
            kept.append(ref(stream))
            await stream.write(CONTENT)

    async def download_of(bucket: AsyncGridFSBucket, kept: list[Any]) -> None:
        async with await bucket.open_download_stream(0) as stream:
            kept.append(ref(stream))
            await stream.read()

    async with stored_files(replica_set=is_replica_set) as (files, bucket, _):
        await bucket.upload_from_stream_with_id(0, "first", CONTENT)
        kept: list[Any] = []
        with without_collector():
            files.delays.update(SLOW_INSERTS)
            for after in (0.01, 0.06, 0.21):
                await cancelled(upload_of(bucket, kept), after)
            for after in (0.011, 0.021):
                await cancelled(download_of(bucket, kept), after)
            with pytest.raises(PyMongoError):
                await bucket.upload_from_stream_with_id(0, "f", b"again")
            del files.chunks[3]
            with pytest.raises(CorruptGridFile):
                await download_of(bucket, kept)
            await anyio.sleep(2)
            assert [each() for each in kept if each() is not None] == []
            assert garbage() == []
        assert files.cursors == {}


async def test_a_cancelled_write_is_not_closed_in_silence() -> None:
    async with stored_files() as (files, bucket, _):
        stream = bucket.open_upload_stream_with_id(1, "f")

        async def block() -> None:
            async with stream:
                with anyio.move_on_after(0.005):
                    await stream.write(CONTENT)

        with pytest.raises(InvalidOperation, match="the upload was cancelled, so there is no file"):
            await block()
        assert stream.closed
        with pytest.raises(InvalidOperation, match="cancelled"):
            await stream.close()
        await stream.abort()
        await stream.close()
        assert (files.files, files.chunks) == ([], [])
