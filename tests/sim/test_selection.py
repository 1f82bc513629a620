"""Server selection through the whole machinery: who is chosen, who waits, who wakes, and what the error says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite._base.deadline import Deadline
from motorlite._topology.selection import WRITABLE
from motorlite.errors import AutoReconnect, ConfigurationError, ServerSelectionTimeoutError
from motorlite.read_preferences import ReadPreference, Secondary
from motorlite.testing.scripted import Reply, ScriptedDeployment
from tests.support.clients import scripted_client
from tests.support.core import Driver, driver, find, insert
from tests.support.pools import settle

if TYPE_CHECKING:
    from motorlite._topology.selection import Selector

pytestmark = pytest.mark.anyio


def replica_set(*, streaming: bool = False) -> ScriptedDeployment:
    """Primary `a`, secondaries `b` and `c`."""
    deployment = ScriptedDeployment(["a:1", "b:1", "c:1"], replica_set="rs", streaming=streaming)
    deployment["b:1"].hello = {"tags": {"dc": "ny", "disk": "ssd"}}
    deployment["c:1"].hello = {"tags": {"dc": "sf"}}
    return deployment


async def everyone(client: Driver, selector: Selector, **arguments: Any) -> set[str]:
    """Which servers may be chosen: every pair of random numbers is tried."""
    found = set()
    numbers: list[int] = []
    topology: Any = client.core.topology
    topology._below = lambda count: numbers.pop(0) % count
    for first in range(3):
        for second in range(3):
            numbers[:] = [first, second]
            found.add(await client.select(selector, limit=0.1, **arguments))
    return found


# --- read preferences ---


@pytest.mark.parametrize("when", ["before", "meanwhile"])
async def test_a_cursor_on_a_server_that_has_left_is_given_up_at_once(when: str) -> None:
    deployment = replica_set()
    opened = {"cursor": {"id": 7, "ns": "db.coll", "firstBatch": []}}
    deployment["b:1"].on("find", opened)
    async with scripted_client(deployment, heartbeatFrequencyMS=10_000) as api:
        coll = api.db.get_collection("coll", read_preference=Secondary(tag_sets=[{"dc": "ny"}]))
        cursor = await coll.find()
        assert cursor.address == ("b", 1)
        if when == "before":
            deployment.remove("b:1")
        else:
            deployment["b:1"].is_down = True
            deployment["b:1"].drop_connections()
        await anyio.sleep(11)
        start = anyio.current_time()
        if when == "meanwhile":
            deployment.remove("b:1")
        with pytest.raises(AutoReconnect, match="b:1 has left the deployment, with the cursor") as caught:
            await cursor.next()
        assert not caught.value.timeout
        await cursor.close()
        took = anyio.current_time() - start
        assert took == 0 if when == "before" else took <= 10, "as soon as the deployment says so"
        assert not cursor.alive


async def test_operations_go_where_their_preference_says() -> None:
    deployment = replica_set()
    async with driver(deployment, connect=False) as client:
        await client.run(find())
        preference = Secondary(tag_sets=[{"dc": "sf"}])
        await client.run(find(selector=preference, read_preference=preference))
        await client.run(insert())
        names = {host: [item.name for item in deployment[f"{host}:1"].received] for host in "abc"}
        assert names == {"a": ["find", "insert"], "b": [], "c": ["find"]}
        (command,) = deployment["c:1"].commands("find")
        assert command["$readPreference"] == {"mode": "secondary", "tags": [{"dc": "sf"}]}


# --- the latency window and the choice in it ---


async def test_only_servers_about_as_near_as_the_nearest() -> None:
    deployment = replica_set()
    for host, delay in (("a", 0.1), ("b", 0.115), ("c", 0.1151)):
        deployment[f"{host}:1"].hello_delay = delay
    async with driver(deployment, localThresholdMS=15, connect=False) as client:
        await anyio.sleep(1)
        assert await everyone(client, ReadPreference.NEAREST) == {"a", "b"}
        assert await everyone(client, ReadPreference.SECONDARY) == {"b", "c"}, "the window is that of the suitable ones"
    async with driver(deployment, localThresholdMS=0, connect=False) as client:
        await anyio.sleep(1)
        assert await everyone(client, ReadPreference.NEAREST) == {"a"}


async def test_operations_at_the_same_time_are_all_counted() -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].on("insert", Reply({"n": 1}, 1))
    async with driver(deployment, connect=False) as client:
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(client.run, insert())
            await anyio.sleep(0.5)
            assert client.server("a").operation_count == 3
        assert client.server("a").operation_count == 0


# --- servers to avoid ---


async def test_a_deprioritised_server_is_taken_only_without_another() -> None:
    async with driver(replica_set(), connect=False) as client:
        await anyio.sleep(1)
        assert await everyone(client, ReadPreference.SECONDARY, avoid=[("b", 1)]) == {"c"}
        assert await everyone(client, ReadPreference.SECONDARY) == {"b", "c"}, "that was not remembered"
        assert await everyone(client, ReadPreference.SECONDARY, avoid=[("b", 1), ("c", 1)]) == {"b", "c"}


async def test_an_applications_own_filter() -> None:
    gone: list[Any] = []
    asked: list[int] = []

    def selector(servers: list[Any]) -> list[Any]:
        asked.append(len(servers))
        return gone or [one for one in servers if one.address[0] != "b"]

    async with driver(replica_set(), connect=False, server_selector=selector) as client:
        await anyio.sleep(1)
        assert await everyone(client, ReadPreference.SECONDARY) == {"c"}
        before = len(asked)
        for _ in range(3):
            assert await client.select(ReadPreference.PRIMARY, limit=0.1) == "a"
        assert len(asked) == before + 3, "it may return something else each time"
        # One that answers with what is not there any more.
        old = client.description("c")
        old.address = ("gone", 1)
        gone.append(old)
        with pytest.raises(ServerSelectionTimeoutError):
            await client.select(ReadPreference.SECONDARY, limit=0.1)
        old.address = ("c", 1)


async def test_a_cursor_goes_on_at_its_server_whatever_the_applications_filter_says_by_now() -> None:
    deployment = replica_set()
    deployment["b:1"].on("find", {"cursor": {"id": 7, "ns": "db.coll", "firstBatch": [{"_id": 1}]}})
    deployment["b:1"].on("getMore", {"cursor": {"id": 7, "ns": "db.coll", "nextBatch": [{"_id": 2}]}})
    wanted = "b"
    options: dict[str, Any] = {"server_selector": lambda servers: [one for one in servers if one.address[0] == wanted]}
    async with scripted_client(deployment, readPreference="secondary", **options) as client:
        cursor = client.db.coll.find()
        assert await cursor.next() == {"_id": 1}
        wanted = "c"
        assert await cursor.next() == {"_id": 2}
        await cursor.close()
    assert len(deployment["b:1"].commands("killCursors")) == 1


# --- waiting ---


async def test_selection_goes_on_as_soon_as_there_is_a_server() -> None:
    deployment = replica_set(streaming=True)
    deployment.step_down(None)
    async with driver(deployment, connect=False) as client, anyio.create_task_group() as group:
        await anyio.sleep(1)
        found: list[tuple[str, float]] = []

        async def select(preference: Selector) -> None:
            found.append((await client.select(preference), client.now - begun))

        begun = client.now
        for _ in range(3):
            group.start_soon(select, WRITABLE)
        await anyio.sleep(2)
        assert found == []
        deployment["b:1"].announce()
        await settle()
        assert found == [], "that was news, but no primary"
        deployment.step_down("c:1")
        deployment["c:1"].announce()
        await settle()
        assert found == [("c", 2.0)] * 3


async def test_who_is_served_does_not_wait_for_others() -> None:
    deployment = replica_set()
    deployment["a:1"].is_unreachable = True
    async with driver(deployment, connect=False) as client:
        begun = client.now
        assert await client.select(ReadPreference.SECONDARY) in "bc"
        assert client.now == begun


@pytest.mark.parametrize("shorter", ["timeout", "deadline"])
async def test_the_earlier_limit_counts(shorter: str) -> None:
    deployment = replica_set()
    deployment.step_down(None)
    async with driver(deployment, connect=False) as client:
        begun = client.now
        limits = {"timeout": (2.0, begun + 5.0), "deadline": (5.0, begun + 2.0)}[shorter]
        with pytest.raises(ServerSelectionTimeoutError) as caught:
            await client.select(WRITABLE, limit=limits[0], deadline=Deadline(limits[1]))
        assert client.now == begun + 2.0
        assert caught.value.phase == "selection"
        assert caught.value.timeout


async def test_server_selection_timeout() -> None:
    deployment = replica_set()
    deployment["a:1"].is_down = True
    deployment.step_down(None)
    async with driver(deployment, serverSelectionTimeoutMS=4000, connect=False) as client:
        await anyio.sleep(1)
        begun = client.now
        with pytest.raises(ServerSelectionTimeoutError) as caught:
            await client.run(insert())
        assert client.now == begun + 4.0
        assert str(caught.value) == (
            "No server for a write within 4 s (serverSelectionTimeoutMS): "
            "none of the known servers is suitable (ReplicaSetNoPrimary 'rs'). "
            "a:1 is Unknown: AutoReconnect: connection refused (scripted); "
            "b:1 is RSSecondary with tags {'dc': 'ny', 'disk': 'ssd'}; c:1 is RSSecondary with tags {'dc': 'sf'} "
            "(time used up in phase: selection)"
        )
        assert caught.value.address is None


async def test_who_is_cancelled_waits_no_longer() -> None:
    deployment = replica_set()
    deployment.step_down(None)
    async with driver(deployment, connect=False) as client:
        with anyio.move_on_after(1):
            await client.select(WRITABLE)
        assert not client.core.topology._waiters


# --- servers that are too old or too new ---


@pytest.mark.parametrize("delay", [0.0, 2.0])
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"maxWireVersion": 6},
            "Server at a:1 reports wire version 6 (MongoDB 3.6), but this version of motorlite requires at least 8 "
            "(MongoDB 4.2).",
        ),
        (
            {"minWireVersion": 900, "maxWireVersion": 901},
            "Server at a:1 requires wire version 900, but this version of motorlite only supports up to 29.",
        ),
    ],
)
async def test_a_server_of_the_wrong_age_is_refused_at_once(fields: dict[str, Any], message: str, delay: float) -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].hello = dict(fields)
    deployment["a:1"].hello_delay = delay
    async with driver(deployment, connect=False) as client:
        begun = client.now
        for _ in range(2):
            with pytest.raises(ConfigurationError) as caught:
                await client.run()
            assert str(caught.value) == message
            assert client.now == begun + delay, "nothing that time could change"
        assert deployment["a:1"].received == []
        # It may be upgraded, though.
        deployment["a:1"].hello = {}
        await anyio.sleep(11 + delay)
        await client.run()


async def test_one_member_that_is_too_old() -> None:
    deployment = replica_set()
    deployment["c:1"].hello = {"maxWireVersion": 7}
    async with driver(deployment, connect=False) as client:
        await anyio.sleep(1)
        with pytest.raises(ConfigurationError, match=r"Server at c:1 reports wire version 7 \(MongoDB 4.0\)"):
            await client.run()
        deployment["c:1"].is_down = True
        deployment["c:1"].drop_connections()
        await anyio.sleep(10)
        await client.run()


# --- what was selected before ---


async def test_selectors_that_take_turns() -> None:
    async with driver(replica_set(), connect=False) as client:
        await anyio.sleep(1)
        turns: list[Selector] = [WRITABLE, ("b", 1), ReadPreference.PRIMARY, ("c", 1), ReadPreference.PRIMARY, WRITABLE]
        assert [await client.select(turn, limit=0.1) for turn in turns * 2] == ["a", "b", "a", "c", "a", "a"] * 2


async def test_a_selection_ends_with_the_topology() -> None:
    deployment = replica_set()
    async with driver(deployment, connect=False) as client:
        await anyio.sleep(1)
        for _ in range(2):
            assert await client.select(ReadPreference.PRIMARY, limit=0.1) == "a"
        deployment.step_down("b:1")
        await anyio.sleep(15)
        for _ in range(2):
            assert await client.select(ReadPreference.PRIMARY, limit=0.1) == "b"
        topology: Any = client.core.topology
        assert topology.select_now(ReadPreference.PRIMARY, [("b", 1)]).address == ("b", 1)
        assert topology.select_now(("b", 1), [("b", 1)]).address == ("b", 1)
    assert topology.select_now(ReadPreference.PRIMARY) is None
