"""Commands that users write, and what is known of the deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest
from bson import Int64
from bson.codec_options import CodecOptions
from bson.son import SON

from motorlite.read_preferences import Nearest, Primary, PrimaryPreferred, Secondary, SecondaryPreferred
from tests.live.clients import numbered
from tests.live.oracle import Cases, same_outcome
from tests.support.clients import make_client
from tests.support.events import Recorder
from tests.support.waiting import until

if TYPE_CHECKING:
    from motorlite.testing import LocalServer
    from tests.live.oracle import Oracle

pytestmark = pytest.mark.anyio

CASES = Cases()


@CASES.add
async def command(db: Any, lib: Any) -> Any:
    await db.c.insert_many(numbered(3))
    return [
        await db.command("ping"),
        await db.command("count", "c"),
        await db.command("count", "c", query={"_id": {"$gt": 0}}),
        await db.command({"count": "c", "limit": 1}),
        await db.command(SON([("distinct", "c"), ("key", "_id")]), comment="x"),
        await db.command("ping", read_preference=lib.ReadPreference.PRIMARY_PREFERRED),
    ]


@CASES.add
async def an_unknown_command(db: Any, lib: Any) -> Any:
    await db.command("noSuchCommand")


@CASES.add
async def errors_that_are_allowed(db: Any, lib: Any) -> Any:
    first = await db.command("noSuchCommand", check=False)
    second = await db.command("noSuchCommand", allowable_errors=[59])
    return [first["code"], second["code"]]


@CASES.add
async def codec_options(db: Any, lib: Any) -> Any:
    await db.c.insert_one({"_id": 1, "n": Int64(5)})
    reply = await db.command("find", "c", codec_options=CodecOptions(document_class=SON))
    return [type(reply).__name__, type(reply["cursor"]["firstBatch"][0]).__name__]


@CASES.add
async def cursor_command(db: Any, lib: Any) -> Any:
    await db.c.insert_many(numbered(10))
    cursor = await db.cursor_command({"find": "c", "batchSize": 3, "sort": {"_id": 1}})
    second = await db.cursor_command("aggregate", "c", pipeline=[{"$match": {"_id": 2}}], cursor={})
    return [await cursor.to_list(), await second.to_list()]


@CASES.add
async def cursor_command_without_a_cursor(db: Any, lib: Any) -> Any:
    await db.cursor_command("ping")


@CASES.add
async def server_info(db: Any, lib: Any) -> Any:
    info = await db.client.server_info()
    return [info["version"], info["maxBsonObjectSize"]]


@pytest.mark.parametrize("name", CASES)
async def test_as_pymongo(name: str, deployment: LocalServer, database_name: str, oracle: Oracle) -> None:
    await same_outcome(CASES[name], deployment, database_name, oracle)


async def test_what_is_known_of_the_deployment(replica_set3: LocalServer) -> None:
    async with make_client(replica_set3) as client:
        assert not client.nodes
        primary = await client.primary
        assert primary == replica_set3.wait_for_primary()
        assert await client.address == primary
        await until(lambda: len(client.nodes) == 3)
        assert client.nodes == set(replica_set3.addresses)
        with anyio.fail_after(30):  # a member that another one lists may not have replied yet
            while await client.secondaries != set(replica_set3.addresses) - {primary}:  # noqa: ASYNC110  # no event to wait for
                await anyio.sleep(0.01)
        assert await client.arbiters == set()
        assert await client.is_primary
        assert not await client.is_mongos
        stats = client.stats().servers
        assert {server.server_type for server in stats.values()} == {"RSPrimary", "RSSecondary"}
        assert all(0 < (server.round_trip_time or 0) < 1 for server in stats.values())


async def test_which_members_are_read_from(replica_set3: LocalServer, database_name: str) -> None:
    record = Recorder()
    async with make_client(replica_set3, localThresholdMS=60_000, event_listeners=[record]) as client:
        primary = replica_set3.wait_for_primary()
        await client.aconnect(timeoutMS=0)
        await until(lambda: len(client.nodes) == 3)
        secondaries = set(replica_set3.addresses) - {primary}
        expected: list[tuple[Any, set[Any]]] = [
            (Primary(), {primary}),
            (PrimaryPreferred(), {primary}),
            (Secondary(), secondaries),
            (SecondaryPreferred(), secondaries),
            (Nearest(), {primary, *secondaries}),
        ]
        for preference, addresses in expected:
            record.clear()
            collection = client[database_name].c.with_options(read_preference=preference)
            for _ in range(40):
                await collection.find_one()
            assert {event.connection_id for event in record.started_events} == addresses, preference
        # Writes go to the primary, whatever the preference.
        record.clear()
        await client[database_name].c.with_options(read_preference=Secondary()).insert_one({})
        assert record.started_events[0].connection_id == primary
