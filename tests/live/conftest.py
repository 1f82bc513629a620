"""Real servers, each started when the first test asks for it, and kept for the session.

Which one a test takes says what it needs: `deployment` for all that works on any server (it is the one of
MONGODB_URI where that is set, and tests touch only databases named ``motorlite_test_*`` there); `standalone`,
`replica_set` and `replica_set3` for failpoints, for a kind of deployment, and for servers that are killed or
frozen: these are always started here. A test that sets a failpoint does so through `fail`, which switches it
off again.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, Protocol

import pytest
from bson import ObjectId

from motorlite.testing import LocalServer, failpoints
from tests.support.mongos.cluster import Cluster

pytest.register_assert_rewrite("tests.live.oracle")
from tests.live.oracle import Oracle  # noqa: E402  # rewritten, so that a failure shows what differs

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from motorlite._base.values import Address


# Fixtures of replica sets with three members.
SEVERAL: Final = frozenset({"replica_set3", "proxied"})


class Fail(Protocol):
    """Sets a failpoint on a server until the test's end."""

    def __call__(self, server: LocalServer, document: Mapping[str, Any], address: Address | None = None) -> None: ...


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests on three members last.

    These talk to each other all the time, also while there is no test for them, and the first process of pytest-xdist
    may not have to start them.
    """
    items.sort(key=lambda item: not SEVERAL.isdisjoint(getattr(item, "fixturenames", ())))


@pytest.fixture(scope="session")
def standalone() -> Iterator[LocalServer]:
    """A standalone server of our own."""
    with LocalServer.start("standalone", own=True) as server:
        yield server


@pytest.fixture(scope="session")
def replica_set() -> Iterator[LocalServer]:
    """A replica set of our own with one member."""
    with LocalServer.start("replicaset", own=True) as server:
        yield server


@pytest.fixture(scope="session")
def replica_set3() -> Iterator[LocalServer]:
    """A replica set of our own with three members."""
    with LocalServer.start("replicaset", nodes=3, own=True) as server:
        yield server


@pytest.fixture(scope="session")
def running_cluster(replica_set: LocalServer) -> Iterator[Cluster]:
    """Two mongos, or rather a facade of two, in front of `replica_set`."""
    with Cluster(replica_set) as found:
        yield found


@pytest.fixture
def cluster(running_cluster: Cluster) -> Iterator[Cluster]:
    """The same; afterwards its failpoints are switched off, and what went wrong in the facade itself is raised."""
    yield running_cluster
    running_cluster.turn_fail_points_off()
    failures, running_cluster.failures = running_cluster.failures, []
    assert not failures


@pytest.fixture(scope="session")
def secured() -> Iterator[LocalServer]:
    """A standalone server of our own that demands TLS and authentication."""
    with LocalServer.start("standalone", auth=True, tls=True, own=True) as server:
        yield server


@pytest.fixture(scope="session")
def deployment(request: pytest.FixtureRequest) -> Iterator[LocalServer]:
    """The deployment of MONGODB_URI, or else the same server as `replica_set`."""
    if os.environ.get("MONGODB_URI"):
        with LocalServer.start() as server:
            yield server
    else:
        server = request.getfixturevalue("replica_set")
        yield server


@pytest.fixture(scope="session")
def oracle(deployment: LocalServer) -> Iterator[Oracle]:
    """PyMongo on `deployment`."""
    with Oracle(deployment) as found:
        yield found


@pytest.fixture
def database_name(request: pytest.FixtureRequest) -> Iterator[str]:
    """A new database name; afterwards the database is dropped from servers that outlive the tests."""
    name = f"motorlite_test_{ObjectId()}"
    yield name
    if "deployment" in request.fixturenames:
        server: LocalServer = request.getfixturevalue("deployment")
        # Ours go away with all that is in them, and dropping takes longer than most tests.
        if not server.started:
            server.command({"dropDatabase": 1}, name)


@pytest.fixture
def fail() -> Generator[Fail, None, None]:
    """Set failpoints; they are switched off when the test ends."""
    active: list[tuple[LocalServer, str, Address | None]] = []

    def set_failpoint(server: LocalServer, document: Mapping[str, Any], address: Address | None = None) -> None:
        active.append((server, document["configureFailPoint"], address))
        server.command(document, address=address)

    yield set_failpoint
    for server, name, address in active:
        server.command(failpoints.off(name), address=address)
