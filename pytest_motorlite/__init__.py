"""A pytest plugin: a MongoDB server for tests, and clients for pytest-asyncio, anyio's plugin and pytest-trio.

pytest loads this package in every run of an environment that has motorlite. It is therefore outside of `motorlite`,
and imports the driver when a test asks for the first fixture.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from motorlite import AsyncDatabase, AsyncMongoClient
    from motorlite.testing import LocalServer

__all__ = [
    "motorlite_client",
    "motorlite_client_options",
    "motorlite_database",
    "motorlite_replica_set",
    "motorlite_server",
]

URI = "motorlite_uri"
# A setting of pytest-asyncio, since 0.26. Older versions have no event loops of other scopes for fixtures.
LOOP_SCOPE = "asyncio_default_test_loop_scope"
ON_ASYNCIO = "motorlite-on-asyncio"
MEMBERS = 3
# Shown unless the project's own filters say otherwise: Python hides such warnings.
DROPPED_CLIENTS = "default:the client of .* was dropped without close:ResourceWarning"


@dataclass(frozen=True, slots=True)
class Target:
    """What a client is made with: its server and options."""

    server: LocalServer
    options: Mapping[str, Any]


# --- the hooks ---


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option and the setting that name a running deployment."""
    what = "connection string of the deployment for motorlite_server; by default MONGODB_URI, or else one is started"
    parser.getgroup("motorlite").addoption("--motorlite-uri", dest=URI, metavar="URI", help=what)
    parser.addini(URI, what, default="")


def pytest_configure(config: pytest.Config) -> None:
    """Show dropped clients, and add fixtures for pytest-asyncio if it is there and new enough."""
    config.getini("filterwarnings").insert(0, DROPPED_CLIENTS)
    try:
        config.getini(LOOP_SCOPE)
    except ValueError:  # no such setting
        return
    config.pluginmanager.register(import_module("pytest_motorlite._on_asyncio"), ON_ASYNCIO)


# --- servers ---


@pytest.fixture(scope="session")
def motorlite_server(request: pytest.FixtureRequest) -> Iterator[LocalServer]:
    """A MongoDB deployment for all tests: the one that was named, or else a replica set of one member.

    It is the deployment of the option ``--motorlite-uri``, of the setting ``motorlite_uri``, or of the environment
    variable ``MONGODB_URI``. Without any, a mongod is started, which ends with the test run.
    """
    from motorlite.testing import LocalServer, ServerNotFound

    option, setting = request.config.getoption(URI), request.config.getini(URI)
    server, problem = None, ""
    try:
        if option or setting:
            server = LocalServer.start(uri=option or setting)
        else:
            server = LocalServer.start(None if os.environ.get("MONGODB_URI") else "replicaset")
    except ServerNotFound as error:
        problem = f"{'--motorlite-uri: ' if option else f'{URI}: ' if setting else ''}{error}"
    # Not in the clause: pytest would show the message three times, as that of each error in the chain.
    if server is None:
        _fail(problem)
    with server:
        yield server


@pytest.fixture(scope="session")
def _motorlite_members() -> Iterator[LocalServer]:
    """The replica set of `motorlite_replica_set`."""
    from motorlite.testing import LocalServer, ServerNotFound

    server, problem = None, ""
    try:
        server = LocalServer.start("replicaset", nodes=MEMBERS, own=True)
    except ServerNotFound as error:
        problem = str(error)
    if server is None:
        _fail(problem)
    with server:
        yield server


@pytest.fixture
def motorlite_replica_set(_motorlite_members: LocalServer) -> Iterator[LocalServer]:
    """A replica set of three members to be broken: tests may kill and freeze members, and set failpoints.

    It is started once in a test run, and repaired after each test. `motorlite_client` connects to it in tests that use
    this fixture.
    """
    yield _motorlite_members
    _motorlite_members.restore()


# --- clients ---


@pytest.fixture
def motorlite_client_options() -> dict[str, Any]:
    """The keyword arguments of `motorlite_client`: none. Override this fixture to change them."""
    return {}


@pytest.fixture
def motorlite_client(request: pytest.FixtureRequest) -> AsyncMongoClient[dict[str, Any]]:
    """A client of the test's own, opened and closed in the test's event loop.

    It connects to `motorlite_replica_set` if the test uses that fixture, and to `motorlite_server` otherwise. The test
    fails if it leaves operations running.
    """
    # Each of the plugins for asynchronous tests runs the fixtures that it takes for its own. Which one runs this test
    # is known only here, so the fixture that opens the client is chosen here.
    client: AsyncMongoClient[dict[str, Any]] = request.getfixturevalue(_opening_fixture(request))
    return client


@pytest.fixture
def motorlite_database(
    motorlite_client: AsyncMongoClient[dict[str, Any]], _motorlite_target: Target
) -> Iterator[AsyncDatabase[dict[str, Any]]]:
    """A database of the test's own, which is empty and has a new name; dropped if the server outlives the tests."""
    from bson import ObjectId

    database = motorlite_client[f"motorlite_test_{ObjectId()}"]
    yield database
    # Servers that were started here are removed with all that is in them.
    if not _motorlite_target.server.started:
        _motorlite_target.server.command({"dropDatabase": 1}, database.name)


@pytest.fixture
def _motorlite_target(request: pytest.FixtureRequest, motorlite_client_options: Mapping[str, Any]) -> Target:
    """What the client of this test is made with."""
    name = "motorlite_replica_set" if "motorlite_replica_set" in request.fixturenames else "motorlite_server"
    return Target(request.getfixturevalue(name), motorlite_client_options)


@pytest.fixture
async def _motorlite_client(_motorlite_target: Target) -> AsyncIterator[AsyncMongoClient[dict[str, Any]]]:
    """The client for tests of anyio's plugin and of pytest-trio, which run plain asynchronous fixtures."""
    from pytest_motorlite._clients import opened

    async with opened(_motorlite_target.server.uri, _motorlite_target.options) as client:
        yield client


def _opening_fixture(request: pytest.FixtureRequest) -> str:
    """The name of the fixture that opens the client for this test."""
    node = request.node
    marker = node.get_closest_marker("asyncio")
    other = "pytest-trio" if node.get_closest_marker("trio") else "anyio" if _is_of_anyio(request) else None
    has_asyncio = request.config.pluginmanager.has_plugin(ON_ASYNCIO)
    if marker and other and has_asyncio:
        # They would open the client in the event loop of one, and run the test in that of the other.
        _fail(
            f"{node.name} is a test of pytest-asyncio and of {other}. Remove one of the marks; if it has only that of "
            f"{other}, set pytest-asyncio's asyncio_mode to strict, because its mode auto takes all tests and fixtures."
        )
    if other:
        return "_motorlite_client"
    if marker and not has_asyncio:
        _fail(f"{node.name} has the mark asyncio, for which motorlite_client needs pytest-asyncio 0.26 or later.")
    if marker:
        # The older name of `loop_scope` is `scope`.
        scope = marker.kwargs.get("loop_scope") or marker.kwargs.get("scope")
        return f"_motorlite_client_in_{scope or request.config.getini(LOOP_SCOPE)}_loop"
    _fail(
        f"motorlite_client is for asynchronous tests, and {node.name} is not one of a known plugin: mark it with "
        "pytest.mark.anyio, pytest.mark.asyncio or pytest.mark.trio. A synchronous test can take motorlite_server and "
        "make a client of motorlite_server.uri in its own event loop."
    )


def _is_of_anyio(request: pytest.FixtureRequest) -> bool:
    return "anyio_backend" in request.fixturenames


def _fail(message: str) -> NoReturn:
    pytest.fail(message, pytrace=False)
