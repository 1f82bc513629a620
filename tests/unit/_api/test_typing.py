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

from typing import Any, TypedDict, assert_type

from motorlite import AsyncChangeStream, AsyncClientSession, AsyncCollection, AsyncDatabase, AsyncMongoClient


class Movie(TypedDict):
    name: str


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
        assert_type(shop.resume_token, dict[str, Any] | None)
    assert_type(movies.watch([], "updateLookup"), AsyncChangeStream[Movie])


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
"""
EXPECTED = {number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# error")}

# Each checks the whole package: seconds, and more beside other work.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def run(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout


def test_mypy(program: Path) -> None:
    output = run(sys.executable, "-m", "mypy", "--strict", "--cache-dir", ".mypy_cache/typing", str(program))
    found = re.findall(r"program\.py:(\d+): error: (.*)", output)
    assert {int(line) for line, _ in found} == EXPECTED, output


def test_pyright(program: Path) -> None:
    # Its configuration is where the package is.
    config = program.with_name("pyrightconfig.json")
    config.write_text(json.dumps({"extraPaths": [str(ROOT)], "include": ["."]}))
    output = run(
        sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "--project", str(config)
    )
    diagnostics = json.loads(output)["generalDiagnostics"]
    found = {each["range"]["start"]["line"] + 1 for each in diagnostics if each["severity"] == "error"}
    assert found == EXPECTED, output
