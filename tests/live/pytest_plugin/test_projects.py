"""A project for each of the plugins for asynchronous tests uses the fixtures: strict and automatic, on both loops."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest

from tests.live.pytest_plugin.projects import Project

if TYPE_CHECKING:
    from pathlib import Path

    from motorlite.testing import LocalServer

# Each test runs a pytest.
pytestmark = pytest.mark.slow

# What all projects do: a fixture of the user's on top of the client, and tests that must not see each other's data.
USE: Final = """
async def store(client, database):
    names = await client.list_database_names()
    assert database.name not in names
    await database.parts.insert_many([{"_id": n} for n in range(3)])
    found = [part["_id"] async for part in database.parts.find().batch_size(2)]
    assert found == [0, 1, 2]
"""
PYTEST_ASYNCIO: Final = """
import asyncio
import pytest
import pytest_asyncio
from use import store

@pytest_asyncio.fixture
async def part(motorlite_database):
    await motorlite_database.parts.insert_one({"_id": "of the fixture"})
    yield await motorlite_database.parts.find_one()
    await motorlite_database.parts.delete_many({})  # the client is still open

MARK
@pytest.mark.parametrize("turn", [1, 2])
async def test_fixtures(turn, motorlite_client, motorlite_database):
    await store(motorlite_client, motorlite_database)

MARK
async def test_a_fixture_on_top(part):
    assert part == {"_id": "of the fixture"}

@pytest.mark.asyncio(loop_scope="session")
async def test_the_loop_of_the_session(motorlite_client, motorlite_database):
    await store(motorlite_client, motorlite_database)

@pytest.mark.asyncio(loop_scope="class")
class TestTheLoopOfTheClass:
    async def test_fixtures(self, motorlite_client, motorlite_database):
        await store(motorlite_client, motorlite_database)
"""
ANYIO: Final = """
import pytest
from use import store
import running

MARKS

@pytest.fixture
async def part(motorlite_database, ANYIO_BACKEND):
    await motorlite_database.parts.insert_one({"_id": running.backend()})
    yield await motorlite_database.parts.find_one()
    await motorlite_database.parts.delete_many({})

async def test_fixtures(motorlite_client, motorlite_database):
    await store(motorlite_client, motorlite_database)

async def test_a_fixture_on_top(part):
    print("backend:", part["_id"])
    assert part == {"_id": running.backend()}
"""
BACKEND: Final = """
import sys

def backend():
    if "trio" in sys.modules:
        import trio
        try:
            trio.lowlevel.current_task()
            return "trio"
        except RuntimeError:
            pass
    return "asyncio"
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.write("use.py", USE)
    made.write("running.py", BACKEND)
    return made


def passed(output: str) -> int:
    """The number of tests that passed, if all did and there was no warning."""
    lines = [line for line in output.splitlines() if re.search(r"\d+ passed", line)]
    assert lines, output
    found = re.fullmatch(r"=*\s*(\d+) passed in .*", lines[-1])
    assert found, output
    return int(found[1])


@pytest.mark.parametrize(("mode", "mark"), [("strict", "@pytest.mark.asyncio"), ("auto", "")])
def test_pytest_asyncio(mode: str, mark: str, project: Project, replica_set: LocalServer) -> None:
    project.write("test_it.py", PYTEST_ASYNCIO.replace("MARK", mark))
    done = project.run(f"--asyncio-mode={mode}", "-p", "no:trio", server=replica_set)
    assert passed(done.stdout) == 5, done.stderr


def test_pytest_asyncio_with_one_loop_for_all_tests(project: Project, replica_set: LocalServer) -> None:
    project.write(
        "pytest.ini",
        "[pytest]\nasyncio_default_test_loop_scope = session\nasyncio_default_fixture_loop_scope = session\n",
    )
    project.write("test_it.py", PYTEST_ASYNCIO.replace("MARK", "@pytest.mark.asyncio"))
    assert passed(project.run("-p", "no:trio", server=replica_set).stdout) == 5


@pytest.mark.parametrize("others", [("-p", "no:asyncio", "-p", "no:trio"), ()], ids=["alone", "with the others"])
def test_anyio(others: tuple[str, ...], project: Project, replica_set: LocalServer) -> None:
    text = ANYIO.replace("MARKS", "pytestmark = pytest.mark.anyio").replace("ANYIO_BACKEND", "anyio_backend")
    project.write("test_it.py", text)
    done = project.run(*others, server=replica_set)
    assert passed(done.stdout) == 4, done.stderr
    assert done.stdout.count("backend: trio") == done.stdout.count("backend: asyncio") == 1


@pytest.mark.parametrize(
    ("settings", "marks"), [("", "pytestmark = pytest.mark.trio"), ("[pytest]\ntrio_mode = true\n", "")]
)
def test_pytest_trio(settings: str, marks: str, project: Project, replica_set: LocalServer) -> None:
    project.write("pytest.ini", settings)
    project.write("test_it.py", ANYIO.replace("MARKS", marks).replace(", ANYIO_BACKEND", ""))
    done = project.run("-p", "no:asyncio", server=replica_set)
    assert passed(done.stdout) == 2, done.stderr
    assert "backend: trio" in done.stdout
