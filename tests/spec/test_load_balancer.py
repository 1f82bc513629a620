"""The load balancer that the runner makes of one server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from motorlite.errors import ServerSelectionTimeoutError
from motorlite.monitoring import CommandSucceededEvent
from tests.spec.unified.environment import Environment
from tests.support.clients import make_client
from tests.support.events import Recorder

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def environment() -> Iterator[Environment]:
    with Environment.start("load-balanced", has_auth=False) as found:
        yield found


@pytest.mark.parametrize("services", [1, 2])
async def test_connections_lead_to_the_services_in_turn(environment: Environment, services: int) -> None:
    record = Recorder(CommandSucceededEvent)
    uri = environment.uri(has_many_mongos=services == 2)
    async with make_client(uri, event_listeners=[record]) as client:
        coll = client.motorlite_test.coll
        await coll.delete_many({})
        await coll.insert_many([{} for _ in range(3)])
        cursors = [await coll.find(batch_size=1) for _ in range(4)]
        assert len({event.service_id for event in record.events[-4:]}) == services
        assert len(await cursors[0].to_list()) == 3
        for cursor in cursors:
            await cursor.close()


async def test_a_client_that_does_not_expect_a_load_balancer_is_refused(environment: Environment) -> None:
    uri = environment.uri().replace("loadBalanced=true", "serverSelectionTimeoutMS=200")
    async with make_client(uri) as client:
        with pytest.raises(ServerSelectionTimeoutError, match="this driver does not have load balancing enabled"):
            await client.admin.command("ping")
