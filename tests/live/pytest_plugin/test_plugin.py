"""What the plugin says and does besides handing out clients. The page about it is run by test_code_blocks.py."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.live.pytest_plugin.projects import REPOSITORY, Project

if TYPE_CHECKING:
    from motorlite.testing import LocalServer

# Each test runs a pytest.
pytestmark = pytest.mark.slow

DOCUMENT: Final = (Path(__file__).parents[3] / "docs" / "testing.md").read_text(encoding="utf-8")
ANYIO_ALONE: Final = ("-p", "no:asyncio", "-p", "no:trio")
ON_ASYNCIO: Final = """
import pytest

@pytest.fixture
def anyio_backend():
    return "asyncio"
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.write("conftest.py", ON_ASYNCIO)
    return made


def test_a_run_without_the_fixtures_does_not_import_the_driver(project: Project) -> None:
    project.write(
        "test_it.py",
        "import sys\n"
        "def test_modules(request):\n"
        "    assert request.config.pluginmanager.has_plugin('motorlite')\n"
        "    assert [name for name in sys.modules if name == 'bson' or name.startswith('motorlite')] == []\n",
    )
    done = project.run()
    assert done.returncode == 0, done.stdout


def test_operations_that_go_on_after_the_test_are_reported(project: Project, replica_set: LocalServer) -> None:
    project.write(
        "test_it.py",
        "import asyncio, pytest\n"
        "pytestmark = pytest.mark.anyio\n"
        "async def test_leak(motorlite_database):\n"
        "    stream = await motorlite_database.c.watch(max_await_time_ms=20_000)\n"
        "    test_leak.task = asyncio.create_task(stream.next())\n"
        "    await asyncio.sleep(0)\n"
        "async def test_that_follows(motorlite_database):\n"
        "    assert await motorlite_database.c.find_one() is None\n"
        "async def test_a_cursor_that_was_dropped(motorlite_database):\n"
        "    await motorlite_database.c.insert_many([{} for _ in range(10)])\n"
        "    async for _ in motorlite_database.c.find(batch_size=2):\n"
        "        break\n",
    )
    done = project.run(*ANYIO_ALONE, server=replica_set, mode=())
    host, port = replica_set.addresses[0]
    assert f"the test left connections of motorlite_client in use: 1 to {host}:{port}. Await or cancel" in done.stdout
    assert "3 passed, 1 error" in done.stdout
    assert "ERROR test_it.py::test_leak" in done.stdout


@pytest.mark.parametrize("is_strict", [False, True])
def test_clients_that_were_never_closed_are_shown(is_strict: bool, project: Project, replica_set: LocalServer) -> None:
    project.write("pytest.ini", "[pytest]\nfilterwarnings = error\n" if is_strict else "[pytest]\n")
    project.write(
        "test_it.py",
        "import gc, pytest\n"
        "from motorlite import AsyncMongoClient\n"
        "@pytest.mark.anyio\n"
        "async def test_leak(motorlite_server):\n"
        "    await AsyncMongoClient(motorlite_server.uri).admin.command('ping')\n"
        "    gc.collect()\n",
    )
    done = project.run(*ANYIO_ALONE, server=replica_set, mode=())
    assert re.search(r"ResourceWarning: the client of 127\.0\.0\.1:\d+ was dropped without close", done.stdout)
    assert ("1 failed" if is_strict else "1 passed, 1 warning") in done.stdout


def test_a_synchronous_test_learns_what_to_do(project: Project, replica_set: LocalServer) -> None:
    project.write("test_it.py", "def test_it(motorlite_client): pass\n")
    done = project.run(server=replica_set)
    assert "motorlite_client is for asynchronous tests, and test_it is not one of a known plugin" in done.stdout
    assert "1 error" in done.stdout


def test_a_test_of_two_plugins_learns_what_to_do(project: Project) -> None:
    project.write(
        "test_it.py",
        "import pytest\n"
        "@pytest.mark.anyio\n"
        "async def test_on_anyio(motorlite_client): pass\n"
        "@pytest.mark.trio\n"
        "async def test_on_trio(motorlite_database): pass\n",
    )
    done = project.run("--asyncio-mode=auto")
    assert "test_on_anyio is a test of pytest-asyncio and of anyio. Remove one of the marks" in done.stdout
    assert "test_on_trio is a test of pytest-asyncio and of pytest-trio. Remove one of the marks" in done.stdout
    assert "set pytest-asyncio's asyncio_mode to strict" in done.stdout
    assert "2 errors" in done.stdout


def test_an_old_pytest_asyncio_harms_only_the_tests_that_need_a_newer_one(project: Project) -> None:
    # As 0.23: without event loops of other scopes for fixtures, and the setting that names the scope for tests.
    project.write(
        "installed/pytest_asyncio.py",
        "import pytest\n"
        "fixture = pytest.fixture\n"
        "def pytest_configure(config):\n"
        "    config.addinivalue_line('markers', 'asyncio: asynchronous')\n",
    )
    project.write(
        "test_it.py",
        "import pytest\n"
        "def test_without_the_fixtures(): pass\n"
        "@pytest.mark.asyncio\n"
        "async def test_with(motorlite_client): pass\n",
    )
    done = project.run("-p", "no:asyncio", "-p", "pytest_asyncio", "-p", "no:trio")
    assert "1 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert (
        "test_with has the mark asyncio, for which motorlite_client needs pytest-asyncio 0.26 or later" in done.stdout
    )


PRINT: Final = "def test_it(motorlite_server): print('it is', motorlite_server.uri)\n"


@pytest.mark.parametrize("where", ["settings", "environment"])
def test_a_deployment_that_is_named(project: Project, standalone: LocalServer, where: str) -> None:
    if where == "settings":
        project.write("pytest.ini", f"[pytest]\nmotorlite_uri = {standalone.uri}\n")
    project.write("test_it.py", PRINT)
    named: dict[str, Any] = {"MONGODB_URI": standalone.uri} if where == "environment" else {}
    assert f"it is {standalone.uri}\n" in project.run(**named).stdout


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("mongodb://127.0.0.1:1/", "--motorlite-uri: uri names 127.0.0.1:1, which cannot be used"),
        ("127.0.0.1:1", "--motorlite-uri: uri must start with mongodb://"),
    ],
)
def test_a_deployment_that_is_not_there(uri: str, expected: str, project: Project) -> None:
    project.write("test_it.py", PRINT)
    done = project.run(f"--motorlite-uri={uri}")
    # Once, and once more, cut off, in the summary.
    assert done.stdout.count(expected) == 1 + done.stdout.count(f"Failed: {expected}")
    assert "exception" not in done.stdout
    assert "1 error" in done.stdout


def test_a_mongod_that_is_not_there(project: Project) -> None:
    project.write("test_it.py", "def test_it(motorlite_replica_set): pass\n")
    done = project.run(MONGOD="/no/such/mongod")
    assert "/no/such/mongod" in done.stdout
    assert "exception" not in done.stdout
    assert "1 error" in done.stdout


def test_a_database_on_a_server_that_remains_is_dropped(project: Project, standalone: LocalServer) -> None:
    project.write(
        "test_it.py",
        "import pytest\n"
        "@pytest.mark.anyio\n"
        "async def test_it(motorlite_database):\n"
        "    await motorlite_database.c.insert_one({})\n"
        "    print('database', motorlite_database.name)\n",
    )
    output = project.run(*ANYIO_ALONE, server=standalone).stdout
    found = re.search(r"database (motorlite_test_\w+)", output)
    assert found, output
    names = [each["name"] for each in standalone.command({"listDatabases": 1})["databases"]]
    assert found[1] not in names


def test_a_replica_set_is_repaired_and_a_server_is_started(project: Project) -> None:
    project.write(
        "test_it.py",
        "import pytest\n"
        "from motorlite.testing import failpoints\n"
        "pytestmark = pytest.mark.anyio\n"
        "async def test_break(motorlite_replica_set, motorlite_database):\n"
        "    await motorlite_database.c.insert_one({})\n"
        "    motorlite_replica_set.command(failpoints.overload())\n"
        "    motorlite_replica_set.kill(motorlite_replica_set.wait_for_primary())\n"
        "    motorlite_replica_set.freeze(motorlite_replica_set.wait_for_primary())\n"
        "async def test_repaired(motorlite_replica_set, motorlite_client):\n"
        "    status = motorlite_replica_set.command({'replSetGetStatus': 1})\n"
        "    assert {member['health'] for member in status['members']} == {1}\n"
        "    assert len((await motorlite_client.admin.command('hello'))['hosts']) == 3\n"
        "    assert await motorlite_client.test.c.find_one() is None\n"
        "async def test_transaction(motorlite_server, motorlite_client):\n"
        "    assert motorlite_server.started\n"
        "    assert len(motorlite_server.addresses) == 1\n"
        "    async with motorlite_client.start_session() as session, session.start_transaction():\n"
        "        await motorlite_client.test.c.insert_one({}, session=session)\n",
    )
    done = project.run(*ANYIO_ALONE)
    assert "3 passed" in done.stdout, done.stdout


def test_the_document_lists_all_fixtures() -> None:
    fixtures = re.findall(r"^\| `(\w+)` \|", DOCUMENT, re.MULTILINE)
    source = (REPOSITORY / "pytest_motorlite" / "__init__.py").read_text(encoding="utf-8")
    assert sorted(fixtures) == sorted(re.findall(r"^def (motorlite_\w+)\(", source, re.MULTILINE))
