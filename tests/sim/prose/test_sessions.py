"""The prose tests of the driver sessions specification that need a server of another kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest
from bson.timestamp import Timestamp

from motorlite.errors import ConfigurationError
from motorlite.read_preferences import Nearest, Primary, PrimaryPreferred, Secondary, SecondaryPreferred
from motorlite.testing.scripted import Reply, ScriptedDeployment
from tests.support.clients import scripted_client
from tests.support.events import Recorder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

pytestmark = pytest.mark.anyio

READS: dict[str, Callable[[Any, Any], Awaitable[Any]]] = {
    "find": lambda c, s: c.find_one(session=s),
    "aggregate": lambda c, s: c.aggregate([], session=s).to_list(),
    "distinct": lambda c, s: c.distinct("a", session=s),
}
WRITES: dict[str, Callable[[Any, Any], Awaitable[Any]]] = {
    "insert": lambda c, s: c.insert_one({}, session=s),
    "update": lambda c, s: c.update_many({}, {"$set": {"a": 1}}, session=s),
    "findAndModify": lambda c, s: c.find_one_and_delete({}, session=s),
}
PREFERENCES = [Primary(), PrimaryPreferred(), Secondary(), SecondaryPreferred(), Nearest()]


@pytest.mark.parametrize("preference", PREFERENCES, ids=[each.mongos_mode for each in PREFERENCES])
async def test_11_find_and_get_more_send_the_same_session_id(preference: Any) -> None:
    """Prose test 11, for a sharded cluster with two routers; tests/live has the other deployments."""
    deployment = ScriptedDeployment(["a:1", "b:1"], mongos=True)
    for address in ("a:1", "b:1"):
        deployment[address].on("find", {"cursor": {"id": 7, "ns": "db.c", "firstBatch": [{}, {}]}})
        deployment[address].on("getMore", {"cursor": {"id": 0, "ns": "db.c", "nextBatch": [{}]}})
    async with scripted_client(deployment) as client:
        assert len(await client.db.c.with_options(read_preference=preference).find(batch_size=2).to_list()) == 3
    received = [command for server in deployment.servers.values() for command in server.commands()]
    (find,) = (command for command in received if "find" in command)
    (get_more,) = (command for command in received if "getMore" in command)
    assert any(find["lsid"]["id"])
    assert find["lsid"] == get_more["lsid"]


def without_sessions() -> ScriptedDeployment:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].hello = {"logicalSessionTimeoutMinutes": None}
    deployment["a:1"].on("distinct", {"values": []})
    return deployment


async def assert_no_sessions(client: Any) -> None:
    """The setup of tests 18 and 19: the server at hand has no sessions."""
    assert (await client.admin.command("hello"))["logicalSessionTimeoutMinutes"] is None


async def test_18_implicit_session_is_ignored_without_support() -> None:
    """Prose test 18: reads and writes are sent without a session."""
    deployment, recorder = without_sessions(), Recorder()
    async with scripted_client(deployment, event_listeners=[recorder]) as client:
        await assert_no_sessions(client)
        recorder.clear()
        for call in (*READS.values(), *WRITES.values()):
            await call(client.db.c, None)
        started = [event for event in recorder.command_events if hasattr(event, "command")]
        assert [event.command_name for event in started] == [*READS, *WRITES]
        assert all("lsid" not in event.command for event in started)
    assert all("lsid" not in command for command in deployment["a:1"].commands())


async def test_19_explicit_session_raises_without_support() -> None:
    """Prose test 19: a session can be started, and its first operation says that there are none."""
    deployment = without_sessions()
    async with scripted_client(deployment) as client:
        await assert_no_sessions(client)
        async with client.start_session() as session:
            for call in (*READS.values(), *WRITES.values()):
                with pytest.raises(ConfigurationError, match="Sessions are not supported by this MongoDB deployment"):
                    await call(client.db.c, session)
    assert deployment["a:1"].commands() == []


@pytest.mark.parametrize("streaming", [False, True], ids=["polling", "streaming"])
async def test_20_cluster_time_is_not_gossiped_on_monitoring_commands(streaming: bool) -> None:
    """Prose test 20: monitors neither send $clusterTime nor learn it; tests/live has a real server."""
    deployment = ScriptedDeployment(["a:1"], replica_set="rs", streaming=streaming)
    server = deployment["a:1"]

    def cluster_time(seconds: int) -> dict[str, Any]:
        return {"clusterTime": Timestamp(seconds, 1), "signature": {"keyId": 1}}

    server.on("ping", Reply({"$clusterTime": cluster_time(1)}))
    # What an insert of another client does.
    server.hello = {"$clusterTime": cluster_time(2)}
    recorder = Recorder()
    async with scripted_client(
        deployment, directConnection=True, heartbeatFrequencyMS=500, event_listeners=[recorder]
    ) as client:
        assert (await client.admin.command({"ping": 1}))["$clusterTime"] == cluster_time(1)
        before = len(server.hellos)
        await anyio.sleep(2)
        assert len(server.hellos) > before
        await client.admin.command({"ping": 1})
    assert all("$clusterTime" not in hello.document for hello in server.hellos)
    assert [command.get("$clusterTime") for command in server.commands("ping")] == [None, cluster_time(1)]
