"""The prose tests of the max staleness specification that need a replica set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from tests.support.clients import make_client

if TYPE_CHECKING:
    from motorlite.testing import LocalServer

pytestmark = pytest.mark.anyio


async def test_driver_1_last_write_date_is_parsed(replica_set: LocalServer, database_name: str) -> None:
    """Driver tests, "Parse lastWriteDate"."""
    async with make_client(replica_set, heartbeatFrequencyMS=500) as client:

        async def insert() -> float:
            await client[database_name].coll.insert_one({})
            await anyio.sleep(1)
            (server,) = client.topology_description.known_servers
            description: Any = server
            assert description.last_write_date
            date: float = description.last_write_date
            return date

        first = await insert()
        await anyio.sleep(1)
        second = await insert()
    assert first < second < first + 10
