"""Type checkers: a misspelt method is an error, what follows it is still checked, and documents keep their type."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

# An error is expected in each line that says so, and in no other.
PROGRAM = """\
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack, assert_type

from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument

import motorlite
from motorlite import (
    AsyncChangeStream,
    AsyncClientSession,
    AsyncCollection,
    AsyncCommandCursor,
    AsyncCursor,
    AsyncDatabase,
    AsyncMongoClient,
)
from motorlite.client_options import ClientKeywords
from motorlite.errors import (
    AutoReconnect,
    BulkWriteError,
    ClientBulkWriteException,
    DuplicateKeyError,
    NotPrimaryError,
    OperationFailure,
    WriteConcernError,
)
from motorlite.gridfs import AsyncGridFSBucket
from motorlite.operations import IndexModel, InsertOne, ReplaceOne


class Movie(TypedDict):
    name: str


class Document(dict[str, Any]):
    pass


async def misspelt(client: AsyncMongoClient[dict[str, Any]], session: AsyncClientSession) -> None:
    await client.shop.parts.inser_one({})  # error
    await client.shop.comand("ping")  # error
    client.star_session()  # error
    await session.end_sesion()  # error
    count: int = await client.shop.parts.count_documents({})
    wrong: str = count  # error
    print(wrong)


async def not_there_yet(client: AsyncMongoClient[dict[str, Any]]) -> None:
    await client.bulk_write([1])  # error
    number: int = "a"  # error
    print(number)


def truth(collection: AsyncCollection[Movie], database: AsyncDatabase[Movie]) -> None:
    if collection:
        number: int = "a"  # error
        print(number)
    if not database:
        print("never")
    text: str = 3  # error
    print(text)


async def documents_of_a_type(client: AsyncMongoClient) -> None:
    movies: AsyncCollection[Movie] = client.test.movies
    same: AsyncCollection[Movie] = client["test"]["movies"]
    also: AsyncCollection[Movie] = client.get_database("test").get_collection("movies")
    movie = await movies.find_one({})
    assert_type(movie, Movie | None)
    await movies.insert_one({"name": "Big"})
    await movies.insert_one({"title": "Big"})  # error
    async for found in same.find():
        assert_type(found, Movie)
    print(also)


async def clients() -> None:
    async with AsyncMongoClient("mongodb://localhost") as client:
        movies: AsyncCollection[Movie] = client.test.movies
        print(movies)
    typed: AsyncMongoClient[Movie] = AsyncMongoClient("mongodb://localhost", document_class=Movie)
    assert_type(await typed.test.movies.find_one(), Movie | None)
    plain: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient("mongodb://localhost")
    assert_type(await plain.test.movies.find_one(), dict[str, Any] | None)


async def changes(client: AsyncMongoClient[dict[str, Any]], movies: AsyncCollection[Movie]) -> None:
    async with client.watch() as everything, await client.shop.watch() as shop:
        assert_type(await everything.next(), dict[str, Any])
        assert_type(await shop.try_next(), dict[str, Any] | None)
        assert_type(shop.resume_token, Mapping[str, Any] | None)
    # Changes, and what a pipeline makes, are no documents of the collection.
    assert_type(movies.watch([], "updateLookup"), AsyncChangeStream[dict[str, Any]])
    assert_type(movies.database.watch(), AsyncChangeStream[dict[str, Any]])
    assert_type(movies.database.client.watch(), AsyncChangeStream[dict[str, Any]])
    async for change in movies.watch():
        print(change["operationType"], change["ns"]["coll"])
        wrong: Movie = change  # error
        print(wrong)


async def sessions(client: AsyncMongoClient) -> None:
    assert_type(await client.start_session(), AsyncClientSession[AsyncMongoClient[Any]])
    async with client.start_session() as one, await client.start_session() as other:
        assert_type(one, AsyncClientSession[AsyncMongoClient[Any]])
        assert_type(other, AsyncClientSession[AsyncMongoClient[Any]])
        async with one.start_transaction(), await other.start_transaction(), one.bind() as bound:
            assert_type(bound, AsyncClientSession[AsyncMongoClient[Any]])

        async def number(session: AsyncClientSession) -> int:
            return 5

        assert_type(await one.with_transaction(number), int)


async def classes_of_documents(client: AsyncMongoClient, movies: AsyncDatabase[Movie]) -> None:
    assert_type(AsyncMongoClient(), AsyncMongoClient[Any])
    assert_type(AsyncMongoClient("mongodb://a", document_class=Movie), AsyncMongoClient[Movie])
    assert_type(AsyncMongoClient("mongodb://a", document_class=Document), AsyncMongoClient[Document])
    assert_type(AsyncMongoClient("mongodb://a", document_class=RawBSONDocument), AsyncMongoClient[RawBSONDocument])
    assert_type(AsyncMongoClient[Movie]().shop, AsyncDatabase[Movie])
    assert_type(AsyncMongoClient[Movie]().get_default_database(), AsyncDatabase[Movie])
    assert_type(movies.get_collection("movies"), AsyncCollection[Movie])
    assert_type(await movies.create_collection("movies"), AsyncCollection[Movie])
    assert_type(client.shop.get_collection("movies"), AsyncCollection[Any])
    annotated: AsyncCollection[Movie] = client.shop.get_collection("movies")
    print(annotated)

    def returned() -> AsyncCollection[Movie]:
        return client.shop.get_collection("movies")

    options = CodecOptions(Document)
    assert_type(movies.get_collection("movies", options), AsyncCollection[Document])
    assert_type(await movies.create_collection("movies", options), AsyncCollection[Document])
    assert_type(client.get_database("shop", codec_options=options), AsyncDatabase[Document])
    assert_type(client.get_default_database(codec_options=options), AsyncDatabase[Document])
    assert_type(client.get_database("shop", options), AsyncDatabase[Document])
    assert_type(client.get_default_database("shop", options, None), AsyncDatabase[Document])
    assert_type(movies.with_options(options), AsyncDatabase[Document])
    assert_type(movies.movies.with_options(options), AsyncCollection[Document])
    assert_type(movies.client, AsyncMongoClient[Movie])
    assert_type(returned().database, AsyncDatabase[Movie])
    wrong: AsyncCollection[Document] = movies.get_collection("movies")  # error
    print(wrong)


async def pipelines_and_results(movies: AsyncCollection[Movie]) -> None:
    stages: list[dict[str, object]] = [{"$match": {"name": "Big"}}]
    assert_type(movies.aggregate(stages), AsyncCommandCursor[dict[str, Any]])
    assert_type(await movies.aggregate(({"$limit": 1},)).to_list(), list[dict[str, Any]])
    assert_type(movies.database.aggregate(stages), AsyncCommandCursor[dict[str, Any]])
    assert_type(movies.database.cursor_command("checkMetadataConsistency"), AsyncCommandCursor[dict[str, Any]])
    raw = CodecOptions(RawBSONDocument)
    assert_type(movies.database.cursor_command("a", codec_options=raw), AsyncCommandCursor[RawBSONDocument])
    async for total in movies.aggregate(stages):
        total["share"] = total["count"] / 2
    assert_type(await movies.find_one_and_update({}, stages), Movie | None)
    assert_type(await movies.find_one_and_update({}, {"$set": {"name": "Big"}}, return_document=True), Movie | None)
    movies.aggregate({"$match": {}})  # error
    movies.aggregate([1])  # error
    movies.aggregate([], allowDiskUs=True)  # error
    assert_type(movies.find({}, ["name"], sort=[("name", 1)]), AsyncCursor[Movie])
    movies.find({}, limit="5")  # error
    movies.find({}, max_time_ms="5")  # error
    async for batch in movies.find().batches():
        assert_type(batch, list[Movie])
    assert_type((await movies.insert_one({"name": "Big"})).inserted_id, Any)
    assert_type((await movies.insert_many([{"name": "Big"}])).inserted_ids, list[Any])
    assert_type((await movies.update_many({}, stages)).modified_count, int)
    assert_type((await movies.delete_one({})).deleted_count, int)
    assert_type((await movies.bulk_write([InsertOne(Movie(name="Big"))])).inserted_count, int)
    await movies.bulk_write([ReplaceOne({}, {"title": "Big"})])  # error
    assert_type(await movies.create_indexes([IndexModel([("name", 1)])]), list[str])
    assert_type(await movies.count_documents({}), int)
    for movie in movies.find():  # error
        print(movie)
    found = await movies.find_one({})
    print(found["name"])  # error


def options(**given: Unpack[ClientKeywords]) -> AsyncMongoClient:
    AsyncMongoClient("mongodb://a", maxPoolSize=5, timeoutMS=2.5, tls=True, w="majority", compressors=["zlib"])
    AsyncMongoClient(readPreference="nearest", read_preference=motorlite.ReadPreference.NEAREST, retry_strategy=None)
    AsyncMongoClient(maxPoolSize="5")  # error
    AsyncMongoClient(maxPoolSiez=5)  # error
    AsyncMongoClient(readPreference="secondry")  # error
    AsyncMongoClient(authMechanism="SCRAM")  # error
    AsyncMongoClient(wait_queue=100)  # error
    AsyncMongoClient(serverSelectionTimeoutMS=None)  # error
    AsyncMongoClient(tls="yes")  # error
    return AsyncMongoClient("mongodb://a", **given)


async def failures(collection: AsyncCollection[Movie]) -> None:
    try:
        await collection.insert_one({"name": "Big"})
    except (BulkWriteError, ClientBulkWriteException) as error:
        print(error.details["writeErrors"])
    except (DuplicateKeyError, WriteConcernError) as error:
        print(error.details["keyValue"])
    except NotPrimaryError as error:
        print(error.details["topologyVersion"])
    except (AutoReconnect, OperationFailure) as error:
        assert_type(error.details, Mapping[str, Any])


async def public_names(client: AsyncMongoClient, bucket: AsyncGridFSBucket, session: AsyncClientSession) -> None:
    await client.shop.parts.insert_one({}, sesion=None)  # error
    client.shop.parts.find({}, 1)  # error
    await client.shop.parts.find_one_and_delete(1)  # error
    await client.shop.parts.create_index(1)  # error
    await client.shop.parts.drop_search_index(1)  # error
    await client.shop.command(1)  # error
    await client.list_database_names(1)  # error
    await client.bulk_write(1)  # error
    await bucket.upload_from_stream(1, b"")  # error
    await bucket.download_to_stream_by_name(1, b"")  # error
    session.start_transaction(1)  # error


async def limits() -> None:
    with motorlite.timeout(1):
        number: int = "a"  # error
    async with motorlite.timeout(None):
        number = "a"  # error
    print(number)
    motorlite.timeout("1")  # error
"""
EXPECTED = {number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# error")}

# The programs of the page about types, which have no errors.
PAGE = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "typing.md").read_text(encoding="utf-8"), re.DOTALL)

# Each checks the whole package: seconds, and more beside other work.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    for number, code in enumerate(PAGE):
        path.with_name(f"page_{number}.py").write_text(code)
    return path


def run(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout


def test_mypy(program: Path) -> None:
    files = sorted(map(str, program.parent.glob("*.py")))
    output = run(sys.executable, "-m", "mypy", "--strict", "--cache-dir", ".mypy_cache/typing", *files)
    found = re.findall(r"program\.py:(\d+): error: (.*)", output)
    assert {int(line) for line, _ in found} == EXPECTED, output
    # Programs know the public classes, not those that they are made of.
    assert {name for _, text in found for name in re.findall(r'" of "(\w+)"', text)} == {
        *("AsyncClientSession", "AsyncCollection", "AsyncDatabase", "AsyncGridFSBucket", "AsyncMongoClient"),
    }
    assert PAGE
    assert "page_" not in output


def test_pyright(program: Path) -> None:
    # Its configuration is where the package is.
    config = program.with_name("pyrightconfig.json")
    config.write_text(json.dumps({"extraPaths": [str(ROOT)], "include": ["."]}))
    output = run(
        sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "--project", str(config)
    )
    diagnostics = json.loads(output)["generalDiagnostics"]
    found = {
        (Path(each["file"]).name, each["range"]["start"]["line"] + 1)
        for each in diagnostics
        if each["severity"] == "error"
    }
    assert found == {("program.py", line) for line in EXPECTED}, output
