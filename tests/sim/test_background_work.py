"""Background work survives every error but a cancellation, and logs what it did not expect."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import anyio
import pytest
import sniffio
import trio
from bson.datetime_ms import DatetimeMS

from motorlite._operations.cursors import KillCursors
from motorlite._pool.state import PoolState
from motorlite._sessions.session import Session
from motorlite._topology.monitor import RoundTripTimes
from motorlite.errors import ConfigurationError, ProtocolError
from motorlite.testing.scripted import Hang, Reply, ScriptedDeployment
from tests.support.clients import scripted_client
from tests.support.core import FOUND, driver, find
from tests.support.srv import Records, srv_client

if TYPE_CHECKING:
    from motorlite.testing.scripted import Answer

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

FAR_DATE = DatetimeMS(2**62)


def bug(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError("a bug")


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def streams(deployment: ScriptedDeployment, **ping: Any) -> None:
    """Let the server go silent as a stream of hello replies does; pings are answered with these fields too."""
    server = deployment["a:1"]

    def answer(document: dict[str, Any]) -> Answer:
        return Hang() if "topologyVersion" in document else {**server._hello_reply(document), **ping}

    server.on("hello", answer)


# --- round-trip times ---


@pytest.mark.parametrize("is_bug", [False, True], ids=["a date that Python cannot hold", "a bug"])
async def test_a_measurement_that_fails(
    is_bug: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = ScriptedDeployment(["a:1"], streaming=True)
    server = deployment["a:1"]
    streams(deployment)
    async with driver(deployment, connect=False) as sdam:
        await anyio.sleep(5)
        with monkeypatch.context() as patch:
            if is_bug:
                patch.setattr(RoundTripTimes, "add", bug)
            else:
                streams(deployment, lastWrite={"lastWriteDate": FAR_DATE})
            await anyio.sleep(10)
        assert server.connections_made == 2, "of the monitor, and the one that measures"
        streams(deployment)
        server.hello_delay = 0.5
        await anyio.sleep(10)
        assert server.connections_made == 3, "it measures on a new one"
        assert sdam.server("a").monitor.round_trip_times.average == pytest.approx(0.1)  # type: ignore[union-attr]
        assert sdam.types() == {"a": "Standalone"}
    # A ping that failed is nothing special.
    assert messages(caplog) == (["measuring round trips to a:1 failed; it continues"] if is_bug else [])


# --- checks ---


async def test_a_bug_after_a_check(caplog: pytest.LogCaptureFixture) -> None:
    async with driver(ScriptedDeployment(["a:1"]), connect=False) as sdam:
        await anyio.sleep(5)
        monitor = sdam.server("a").monitor
        assert monitor is not None
        usual, monitor._on_checked = monitor._on_checked, bug
        await anyio.sleep(20)
        monitor._on_checked = usual
        before = sdam.description("a").last_update_time
        await anyio.sleep(10)
        assert sdam.description("a").last_update_time > before
    assert set(messages(caplog)) == {"a check of a:1 failed; the next one follows"}


@pytest.mark.parametrize(
    "fields",
    [
        {"maxWireVersion": -1},
        {"minWireVersion": -1, "maxWireVersion": -5},
        {"maxWireVersion": True},
        {"setVersion": 2.5},
        {"logicalSessionTimeoutMinutes": -30},
        {"lastWrite": {"lastWriteDate": FAR_DATE}},
    ],
    ids=repr,
)
async def test_odd_fields_of_a_later_hello(fields: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    deployment = ScriptedDeployment(["a:1"])
    async with driver(deployment, connect=False) as sdam:
        await anyio.sleep(5)
        deployment["a:1"].hello = fields
        await anyio.sleep(10)
        assert sdam.types() == {"a": "Unknown"}
        assert isinstance(sdam.description("a").error, ProtocolError)
        deployment["a:1"].hello = {}
        await anyio.sleep(10)
        assert sdam.types() == {"a": "Standalone"}
    assert [message.partition(".")[0] for message in messages(caplog)] == ["Server a:1 replies, but cannot be used"]


async def test_a_topology_version_of_null_is_none() -> None:
    deployment = ScriptedDeployment(["a:1"])
    server = deployment["a:1"]
    server.hello = {"topologyVersion": None}
    async with driver(deployment, connect=False):
        await anyio.sleep(60)
        assert len(server.hellos) < 10, "such a server answers at once, so nothing can be awaited"


# --- SRV records ---


async def test_an_answer_of_dns_that_nobody_expects(caplog: pytest.LogCaptureFixture) -> None:
    records = Records("a.example.com:1", time_to_live=100)
    deployment = ScriptedDeployment(["a.example.com:1", "b.example.com:1"], mongos=True)
    async with srv_client(records, deployment, heartbeatFrequencyMS=7000) as sdam:
        await sdam.run()
        records.failures["SRV"] = ValueError("odd")
        await anyio.sleep(105)
        records.failures.clear()
        records.set("b.example.com:1")
        await anyio.sleep(10)
        assert sdam.types() == {"b.example.com": "Mongos"}
    (record,) = caplog.records
    assert record.getMessage() == "rescan of SRV records: _mongodb._tcp.cluster.example.com: ValueError('odd')"
    assert record.exc_info is not None, "the traceback says where"


# --- the pool ---


async def test_a_bug_in_the_maintenance(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    async with driver(ScriptedDeployment(["a:1"]), maxIdleTimeMS=1000) as core:
        with monkeypatch.context() as patch:
            patch.setattr(PoolState, "prune", bug)
            await core.run(find())
            await anyio.sleep(20)
            assert len(core.server().pool.state.idle) == 1
        await anyio.sleep(20)
        assert not core.server().pool.state.idle
    assert set(messages(caplog)) == {"maintenance of the pool of a:1 failed; it continues"}


async def test_a_bug_while_a_late_reply_is_read(caplog: pytest.LogCaptureFixture) -> None:
    deployment = ScriptedDeployment(["a:1"])
    deployment["a:1"].on("find", Reply(FOUND, 0.5), FOUND)
    async with driver(deployment, maxPoolSize=1) as core:
        pool = core.server().pool
        usual, pool.late_replies.learn = pool.late_replies.learn, bug
        with anyio.move_on_after(0.1):
            await core.run(find())
        await anyio.sleep(1)
        pool.late_replies.learn = usual
        assert not pool.state.pending
        assert not pool.state.in_use
        await core.run(find())
        assert pool.state.created == 2
    assert messages(caplog) == ["processing a late reply from a:1 failed"]


async def test_a_bug_while_a_cursor_is_closed_costs_no_pinned_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = ScriptedDeployment(["lb:1"], services=1)
    deployment.services[0].on("find", {"cursor": {"id": 7, "ns": "db.coll", "firstBatch": [{"_id": 1}]}})
    async with scripted_client(deployment) as subject:
        cursor = await subject.db.coll.find()
        monkeypatch.setattr(KillCursors, "command", bug)
        with pytest.raises(ZeroDivisionError):
            await cursor.close()
        await anyio.sleep(0.1)  # it is tried once more in the background, and fails again
        (stats,) = subject.stats().servers.values()
        assert (stats.in_use, stats.idle) == (0, 1)


# --- an application's own filter of servers ---


def refuse(_: list[Any]) -> Any:
    raise ConfigurationError("mine")


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        (bug, "the server_selector raised ZeroDivisionError: a bug"),
        (refuse, "^mine"),
        (lambda servers: None, "must return a list of server descriptions, but returned a NoneType"),
        (lambda servers: (server for server in servers), "returned a generator"),
        (lambda servers: [server.address for server in servers], "returned a list with other items"),
        (lambda servers: {"a": 1}, "returned a dict"),
    ],
)
async def test_a_server_selector_that_fails(selector: Any, message: str) -> None:
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    works = True

    def chosen(servers: list[Any]) -> Any:
        return tuple(servers) if works else selector(servers)

    async with driver(deployment, server_selector=chosen) as core:
        session = Session(is_implicit=False)
        await core.run(find(), session=session)
        works = False
        with pytest.raises(ConfigurationError, match=message) as caught:
            await core.run(find())
        assert isinstance(caught.value.__cause__, ZeroDivisionError) is (selector is bug)
        stats = core.core.stats().servers["a", 1]
        assert (stats.in_use, stats.operations, stats.waiting) == (0, 0, 0)
        core.core.executor.release(session)
    # And closing the client, which has a session to end, went well.
    assert not deployment["a:1"].commands("endSessions")


# --- the names of tasks, for those who look at them (`python -m asyncio pstree`, trio's instruments) ---


def names_of_tasks() -> list[str]:
    """The names of all tasks on this event loop but the test's own."""
    if sniffio.current_async_library() == "asyncio":
        mine = asyncio.current_task()
        return sorted(task.get_name() for task in asyncio.all_tasks() if task is not mine)
    root = trio.lowlevel.current_root_task()
    assert root is not None
    tasks, found = [root], []
    while tasks:
        task = tasks.pop()
        found.append(task.name)
        tasks += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return sorted(name for name in found if name.startswith("motorlite"))


async def test_every_task_in_the_background_says_what_it_is_for() -> None:
    before = set(names_of_tasks())
    deployment = ScriptedDeployment(["a:1"], streaming=True)
    streams(deployment)
    async with driver(deployment, maxIdleTimeMS=60_000, maxPoolSize=2) as sdam:
        deployment["a:1"].on("find", Hang())
        with anyio.move_on_after(0.1):
            await sdam.run(find())
        found = [name for name in names_of_tasks() if name not in before and not name.startswith("scripted")]
        assert found == [
            "motorlite client",
            "motorlite late reply a:1",
            "motorlite monitor a:1",
            "motorlite pool maintenance a:1",
            "motorlite round-trip times a:1",
        ]
        deployment["a:1"].on("isMaster", Hang())
        async with anyio.create_task_group() as group:
            group.start_soon(sdam.run, find())
            await anyio.sleep(0.1)
            assert "motorlite connecting a:1" in names_of_tasks()
            group.cancel_scope.cancel()
