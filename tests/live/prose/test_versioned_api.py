"""The Stable API specification's testing with a required API version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from motorlite import ServerApi
from motorlite.errors import ServerSelectionTimeoutError
from motorlite.monitoring import (
    CommandFailedEvent,
    ServerHeartbeatFailedEvent,
    ServerHeartbeatSucceededEvent,
)
from motorlite.testing import LocalServer
from tests.live.clients import numbered
from tests.live.prose import session_methods
from tests.support.clients import make_client
from tests.support.events import Recorder
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.anyio

DECLARED: dict[str, Any] = {"server_api": ServerApi("1")}


@pytest.fixture(scope="module")
def demanding() -> Iterator[LocalServer]:
    """A standalone server with authentication that refuses commands without an API version."""
    with LocalServer.start("standalone", auth=True, own=True) as server:
        server.command({"setParameter": 1, "requireApiVersion": True})
        yield server


def check(record: Recorder) -> None:
    """All commands have the version, and none has failed."""
    assert record.started_events
    assert all(event.command.get("apiVersion") == "1" for event in record.started_events)
    assert not [event for event in record.ended_events if isinstance(event, CommandFailedEvent)]


@pytest.mark.parametrize(
    "method",
    sorted(session_methods.CALLS.keys() - session_methods.SEARCH.keys() - session_methods.STREAMS.keys()),
)
async def test_required_api_version(demanding: LocalServer, database_name: str, method: str) -> None:
    """Testing with required API version: every method works, after handshake and authentication."""
    record = Recorder()
    async with make_client(demanding, event_listeners=[record], **DECLARED) as client:
        collection = await session_methods.prepare(client, database_name, method)
        # A collection that is not there cannot be dropped.
        record.clear()
        async with client.start_session() as session:
            await session_methods.CALLS[method](collection, session)
    check(record)


async def test_required_api_version_to_the_end(demanding: LocalServer, database_name: str) -> None:
    """Testing with required API version: so do the commands that no method stands for, and monitoring."""
    record = Recorder()
    monitoring = {"heartbeatFrequencyMS": 500, "serverMonitoringMode": "poll"}
    options: dict[str, Any] = {"event_listeners": [record], **monitoring, **DECLARED}
    async with make_client(demanding, **options) as client:
        await client[database_name].c.insert_many(numbered(5))
        cursor = await client[database_name].c.find(batch_size=2)
        await cursor.close()
        await until(lambda: len(record.of(ServerHeartbeatSucceededEvent)) >= 2)
    assert record.names == ["insert", "find", "killCursors", "endSessions"]
    assert not record.of(ServerHeartbeatFailedEvent)
    check(record)


async def test_required_api_version_is_really_required(demanding: LocalServer) -> None:
    """Testing with required API version: the server is one that refuses clients without it."""
    async with make_client(demanding, serverSelectionTimeoutMS=200) as client:
        with pytest.raises(ServerSelectionTimeoutError, match="apiVersion parameter is required"):
            await client.admin.command("ping")
