"""The cursor of files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite.errors import PyMongoError
from motorlite.gridfs import AsyncGridOut, AsyncGridOutCursor

if TYPE_CHECKING:
    from motorlite.gridfs import AsyncGridFSBucket
    from tests.support.clients import Client
    from tests.support.stored_files import StoredFiles

pytestmark = pytest.mark.anyio


async def test_files(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    for number in range(3):
        await bucket.upload_from_stream_with_id(number, f"f{number}", bytes([number]))
    cursor = bucket.find({}, sort=[("filename", -1)])
    assert isinstance(cursor, AsyncGridOutCursor)
    found = [file async for file in cursor]
    assert {type(file) for file in found} == {AsyncGridOut}
    assert [file.filename for file in found] == ["f2", "f1", "f0"]
    assert [await file.read() for file in found] == [b"\2", b"\1", b"\0"]
    assert (await bucket.find({"filename": "f1"}).next())._id == 1
    assert [file._id for file in await bucket.find().sort("filename").to_list(2)] == [0, 1]
    # The document is in the cursor's reply.
    assert [name for name in files.names() if name == "find fs.files"] == ["find fs.files"] * 4


async def test_options(files: StoredFiles, bucket: AsyncGridFSBucket, client: Client) -> None:
    session = client.start_session()
    await bucket.find(
        {"filename": "f"}, 3, 5, True, {"uploadDate": 1}, 7, session, allow_disk_use=True, max_time_ms=9
    ).to_list()
    command = files.server.commands("find")[-1]
    assert command["find"] == "fs.files"
    assert command["filter"] == {"filename": "f"}
    wanted = {"skip": 3, "limit": 5, "noCursorTimeout": True, "sort": {"uploadDate": 1}, "batchSize": 7}
    assert {name: command[name] for name in wanted} == wanted
    assert (command["allowDiskUse"], command["maxTimeMS"]) == (True, 9)
    assert command["lsid"] == session.session_id
    with pytest.raises(TypeError, match="no option"):
        bucket.find(colour="red")
    with pytest.raises(TypeError, match="filter"):
        bucket.find(5)


@pytest.mark.parametrize("value", [0, "", {}])
async def test_an_empty_value_of_a_wrong_type(bucket: AsyncGridFSBucket, value: Any) -> None:
    with pytest.raises(TypeError, match="no_cursor_timeout must be True or False"):
        bucket.find(no_cursor_timeout=value)


async def test_a_clone(files: StoredFiles, bucket: AsyncGridFSBucket, client: Client) -> None:
    session = client.start_session()
    await bucket.upload_from_stream_with_id(1, "f", b"x")
    cursor = bucket.find({"filename": "f"}, limit=4, session=session, timeoutMS=5000)
    assert [file._id for file in await cursor.to_list()] == [1]
    clone = cursor.clone()
    assert type(clone) is AsyncGridOutCursor
    assert [file._id for file in await clone.to_list()] == [1]
    commands = [each for each in files.server.commands("find") if each["filter"] == {"filename": "f"}]
    assert [each["limit"] for each in commands] == [4, 4]
    assert all(each["maxTimeMS"] <= 5000 and each["lsid"] == session.session_id for each in commands)


async def test_batches(bucket: AsyncGridFSBucket) -> None:
    for number in range(3):
        await bucket.upload_from_stream_with_id(number, "f", bytes([number]))
    found = [batch async for batch in bucket.find(sort={"_id": 1}, batch_size=2).batches()]
    assert [[type(file) for file in batch] for batch in found] == [[AsyncGridOut] * 2, [AsyncGridOut]]
    assert [await file.read() for batch in found for file in batch] == [b"\0", b"\1", b"\2"]


async def test_a_clone_prefetches_too(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    for number in range(3):
        await bucket.upload_from_stream_with_id(number, "f", b"x")
    async with bucket.find(sort={"_id": 1}, batch_size=1, prefetch=1).clone() as clone:
        await clone.next()
        await anyio.sleep(0.05)
        assert "getMore" in [received.name for received in files.server.received]


async def test_an_empty_slice_is_empty_in_its_clone_too(bucket: AsyncGridFSBucket) -> None:
    await bucket.upload_from_stream_with_id(1, "f", b"x")
    assert await bucket.find()[1:1].clone().to_list() == []


async def test_flags_are_refused(bucket: AsyncGridFSBucket) -> None:
    with pytest.raises(NotImplementedError):
        bucket.find().add_option(2)
    with pytest.raises(NotImplementedError):
        bucket.find().remove_option(2)


async def test_a_timeout(files: StoredFiles, bucket: AsyncGridFSBucket) -> None:
    files.delays["find"] = 1.0
    with pytest.raises(PyMongoError) as caught:
        await bucket.find({}, timeoutMS=500).to_list()
    assert caught.value.timeout
