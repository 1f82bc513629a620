"""The older interface."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from bson.objectid import ObjectId

from motorlite.errors import ConfigurationError
from motorlite.gridfs import AsyncGridFS, AsyncGridIn, AsyncGridOut, FileExists, NoFile
from motorlite.write_concern import WriteConcern

if TYPE_CHECKING:
    from tests.support.clients import Client
    from tests.support.stored_files import StoredFiles

pytestmark = pytest.mark.anyio


async def filled(client: Client, files: StoredFiles) -> AsyncGridFS:
    fs = AsyncGridFS(client.db)
    for number in range(3):
        await fs.put(str(number).encode(), _id=number, filename="f" if number else None, author="a")
    files.spread()
    return fs


async def test_put_and_get(files: StoredFiles, client: Client) -> None:
    fs = AsyncGridFS(client.db, "images")
    file_id = await fs.put(io.BytesIO(b"0123456789"), filename="f", chunk_size=4, author="me")
    assert isinstance(file_id, ObjectId)
    (document,) = files.documents("images.files")
    assert (document["author"], document["chunkSize"], document["length"]) == ("me", 4, 10)
    file = await fs.get(file_id)
    assert type(file) is AsyncGridOut
    assert (await file.read(), file.author) == (b"0123456789", "me")
    with pytest.raises(FileExists):
        await fs.put(b"x", _id=file_id)
    with pytest.raises(NoFile):
        await fs.get("other")
    assert await fs.put("text", encoding="utf-8")


async def test_new_file(client: Client) -> None:
    fs = AsyncGridFS(client.db)
    async with client.start_session() as session, fs.new_file(_id=1, session=session) as stream:
        assert type(stream) is AsyncGridIn
        await stream.write(b"x")
    assert not hasattr(stream, "session")
    assert await (await fs.get(1)).read() == b"x"


async def test_versions(files: StoredFiles, client: Client) -> None:
    fs = await filled(client, files)
    for version, content in ((0, b"1"), (1, b"2"), (-1, b"2"), (-2, b"1"), (None, b"2")):
        assert await (await fs.get_version("f", version)).read() == content
    assert await (await fs.get_last_version("f")).read() == b"2"
    assert await (await fs.get_last_version(author="a")).read() == b"2"
    assert await (await fs.get_version(version=0, author="a")).read() == b"0"
    assert await (await fs.get_version()).read() == b"2"
    with pytest.raises(NoFile, match="no revision 2 of the file with filename 'f'"):
        await fs.get_version("f", 2)
    with pytest.raises(NoFile, match="no file with author 'b', filename 'f'"):
        await fs.get_version("f", author="b")


async def test_delete(files: StoredFiles, client: Client) -> None:
    fs = await filled(client, files)
    await fs.delete(1)
    await fs.delete(1)
    assert [file["_id"] for file in files.files] == [0, 2]
    assert [chunk["files_id"] for chunk in files.chunks] == [0, 2]


async def test_names(files: StoredFiles, client: Client) -> None:
    assert await (await filled(client, files)).list() == ["f", "f"]


async def test_find(files: StoredFiles, client: Client) -> None:
    fs = await filled(client, files)
    assert [file._id async for file in fs.find({"filename": "f"}).sort("_id", -1)] == [2, 1]
    found = await fs.find_one(1)
    assert found is not None
    assert await found.read() == b"1"
    found = await fs.find_one({"filename": "f"}, sort=[("uploadDate", -1)])
    assert found is not None
    assert found._id == 2
    assert await fs.find_one({"filename": "g"}) is None
    assert await fs.find_one() is not None
    assert files.cursors == {}


async def test_exists(files: StoredFiles, client: Client) -> None:
    fs = AsyncGridFS(client.db)
    assert not await fs.exists()
    fs = await filled(client, files)
    assert await fs.exists()
    assert await fs.exists(1)
    assert await fs.exists({"filename": "f"})
    assert await fs.exists(filename="f", author="a")
    assert not await fs.exists(7)
    assert not await fs.exists({"filename": "g"})
    assert not await fs.exists(author="b")


async def test_wrong_arguments(client: Client) -> None:
    with pytest.raises(TypeError, match="database must be an instance of AsyncDatabase"):
        AsyncGridFS(client)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="collection"):
        AsyncGridFS(client.db, 5)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="acknowledged"):
        AsyncGridFS(client.db.with_options(write_concern=WriteConcern(w=0)))
