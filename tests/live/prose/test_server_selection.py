"""The test plan of the server selection specification, as far as real servers are needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.clients import make_client
from tests.support.events import Recorder
from tests.support.waiting import until

if TYPE_CHECKING:
    from motorlite.testing import LocalServer

pytestmark = pytest.mark.anyio


def highest_port(servers: list[Any]) -> list[Any]:
    return [max(servers, key=lambda server: server.address[1])]


async def test_plan_5_the_applications_own_selector(replica_set3: LocalServer, database_name: str) -> None:
    """Test plan, "Application-Provided Server Selector"."""
    record = Recorder()
    options: dict[str, Any] = {"readPreference": "nearest", "server_selector": highest_port}
    async with make_client(replica_set3, event_listeners=[record], **options) as client:
        await client.admin.command("ping")
        await until(lambda: len(client.topology_description.known_servers) == 3)
        record.clear()
        for _ in range(10):
            await client[database_name].coll.find_one()
    assert record.names[:10] == ["find"] * 10
    highest = max(replica_set3.addresses, key=lambda address: address[1] or 0)
    assert {event.connection_id for event in record.started_events[:10]} == {highest}
