"""The load balancer that the runner makes of one server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from motorlite import AsyncMongoClient
from motorlite.errors import ServerSelectionTimeoutError
from motorlite.monitoring import CommandListener, CommandSucceededEvent
from tests.spec.unified.environment import Environment

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def environment() -> Iterator[Environment]:
    with Environment.start("load-balanced", has_auth=False) as found:
        yield found


class Services(CommandListener):
    """The services that have answered."""

    def __init__(self) -> None:
        self.found: list[Any] = []

    def succeeded(self, event: CommandSucceededEvent) -> None:
        self.found.append(event.service_id)


@pytest.mark.parametrize("services", [1, 2])
async def test_connections_lead_to_the_services_in_turn(environment: Environment, services: int) -> None:
    record = Services()
    uri = environment.uri(has_many_services=services == 2)
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(uri, event_listeners=[record])
    async with client:
        coll = client.motorlite_test.coll
        await coll.delete_many({})
        await coll.insert_many([{} for _ in range(3)])
        cursors = [await coll.find(batch_size=1) for _ in range(4)]
        assert len(set(record.found[-4:])) == services
        assert len(await cursors[0].to_list()) == 3
        for cursor in cursors:
            await cursor.close()


async def test_a_client_that_does_not_expect_a_load_balancer_is_refused(environment: Environment) -> None:
    uri = environment.uri().replace("loadBalanced=true", "serverSelectionTimeoutMS=200")
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(uri)
    async with client:
        with pytest.raises(ServerSelectionTimeoutError, match="the client does not have load balancing enabled"):
            await client.admin.command("ping")
