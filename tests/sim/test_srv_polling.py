"""A sharded cluster whose SRV records change."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from bson import ObjectId

from motorlite.errors import ConfigurationError, ServerSelectionTimeoutError
from motorlite.testing.scripted import Hang, ScriptedDeployment
from tests.support.core import gaps
from tests.support.srv import Records, srv_client
from tests.support.waiting import until

if TYPE_CHECKING:
    from tests.support.core import Driver

pytestmark = pytest.mark.anyio

A, B, C = "a.example.com:1", "b.example.com:1", "c.example.com:1"


def cluster() -> ScriptedDeployment:
    return ScriptedDeployment([A, B, C], mongos=True)


async def test_servers_come_and_go() -> None:
    records, deployment = Records(A, B), cluster()
    async with srv_client(records, deployment) as driver:
        await driver.run()
        await anyio.sleep(1)
        kept = driver.server("a.example.com")
        description = driver.description("a.example.com")
        driver.log.words()
        records.set(B, A)
        await anyio.sleep(60)
        assert driver.log.words("server|topology") == [], "nothing changed"
        records.set(C, A)
        records.time_to_live = 100
        await anyio.sleep(60)
        assert driver.types() == {"a.example.com": "Mongos", "c.example.com": "Mongos"}
        assert driver.server("a.example.com") is kept
        assert description == driver.description("a.example.com")
        assert driver.log.words("server|topology") == [
            "server opening c.example.com",
            "server closed b.example.com",
            "topology changed Sharded to Sharded",
            "server changed c.example.com Unknown to Mongos",
            "topology changed Sharded to Sharded",
        ]
        assert not deployment[B].open_connections
        await anyio.sleep(220)
        assert gaps(records.times()) == [60, 60, 100, 100], "the interval follows the newest records"


@pytest.mark.parametrize(("time_to_live", "interval"), [(0, 60), (59, 60), (90, 90), (600, 600)])
async def test_the_interval_is_how_long_the_records_live(time_to_live: float, interval: float) -> None:
    records, deployment = Records(A, time_to_live=time_to_live), cluster()
    records.delay = 3.0
    async with srv_client(records, deployment) as driver:
        await driver.run()
        found = driver.now
        await anyio.sleep(2.5 * interval + 10)
        # From the end of one look-up to the beginning of the next.
        later = records.times()[1:]
        assert later[0] == pytest.approx(found + interval)
        assert gaps(later) == [interval + 3.0] * (len(later) - 1)
        assert len(later) == 2
        assert len(records.times("TXT")) == 1


async def test_after_a_failure_it_is_tried_again_soon(caplog: pytest.LogCaptureFixture) -> None:
    records, deployment = Records(A, B, time_to_live=100), cluster()
    async with srv_client(records, deployment, heartbeatFrequencyMS=7000) as driver:
        await driver.run()
        records.failures["SRV"] = ConfigurationError("SERVFAIL")
        await anyio.sleep(125)
        assert driver.types() == {"a.example.com": "Mongos", "b.example.com": "Mongos"}
        records.failures.clear()
        records.set(A)
        await anyio.sleep(150)
        assert driver.types() == {"a.example.com": "Mongos"}
        assert gaps(records.times()) == [100, 7, 7, 7, 7, 100]
        await driver.run()
    assert [record.getMessage() for record in caplog.records] == ["rescan of SRV records: SERVFAIL"]


async def test_a_failure_whose_text_differs_each_time_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """dnspython says in its messages how long it waited."""

    def failed(cause: Exception) -> ConfigurationError:
        error = ConfigurationError(f"cannot be looked up: {cause}")
        error.__cause__ = cause
        return error

    records, deployment = Records(A, B), cluster()
    async with srv_client(records, deployment) as driver:
        await driver.run()
        records.failures["SRV"] = failed(TimeoutError("after 5.1 seconds"))
        await anyio.sleep(61)
        for text in ("after 5.2 seconds", "after 5.3 seconds"):
            records.failures["SRV"] = failed(TimeoutError(text))
            await anyio.sleep(10)
        records.failures["SRV"] = failed(OSError("no route"))
        await anyio.sleep(20)
        records.failures.clear()
        await anyio.sleep(10)
        records.failures["SRV"] = failed(OSError("no route"))
        await anyio.sleep(60)
    assert [record.getMessage() for record in caplog.records] == [
        "rescan of SRV records: cannot be looked up: after 5.1 seconds",
        "rescan of SRV records: cannot be looked up: no route",
        "rescan of SRV records: cannot be looked up: no route",
    ]


@pytest.mark.parametrize(
    ("hosts", "seconds", "text"),
    [
        ([], 0.0, "no SRV record points to a host in the domain"),
        (["a.evil.org:1"], 0.0, "no SRV record points to a host in the domain"),
        (
            [f"h{number}.example.com:1" for number in range(2000)],
            0.0,
            "there are 2000 SRV records, at most 500 are followed; set srvMaxHosts",
        ),
        (None, 5.0, "timed out"),
    ],
    ids=["none", "outside of the domain", "too many", "no answer"],
)
async def test_an_answer_that_cannot_be_followed_is_a_failure(
    hosts: list[str] | None, seconds: float, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    records, deployment = Records(A, B), cluster()
    async with srv_client(records, deployment, connectTimeoutMS=5000) as driver:
        await driver.run()
        if hosts is None:
            records.delay = 1e6
        else:
            records.set(*hosts)
        await anyio.sleep(71 + seconds)
        assert driver.types() == {"a.example.com": "Mongos", "b.example.com": "Mongos"}
        assert gaps(records.times()) == [60, 10 + seconds]
        assert text in caplog.text
        records.delay = 0.0
        records.set(A, C)
        await anyio.sleep(15)
        assert set(driver.types()) == {"a.example.com", "c.example.com"}


async def test_hosts_that_cannot_be_are_left_out_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    records, deployment = Records(A), cluster()
    async with srv_client(records, deployment) as driver:
        await driver.run()
        records.set(A, B, "c.example.com:0", "evil\\.example.com:1", "c.evil.org:1")
        await anyio.sleep(130)
        assert driver.types() == {"a.example.com": "Mongos", "b.example.com": "Mongos"}
        assert gaps(records.times()) == [60, 60]
    (logged,) = caplog.records
    assert (logged.name, logged.levelno) == ("motorlite.topology", logging.WARNING)
    names = r"c.example.com:0, evil\.example.com, c.evil.org"
    assert f"ignoring hosts that are not in the domain, or have port 0: {names}" in logged.getMessage()


@pytest.mark.parametrize("mongos", [True, False])
async def test_an_unknown_deployment_is_followed_until_it_is_found(mongos: bool) -> None:
    """A lone seed that became two hosts is no standalone."""
    records, deployment = Records("gone.example.com:1"), ScriptedDeployment([A, B], mongos=mongos)
    async with srv_client(records, deployment, serverSelectionTimeoutMS=100_000) as driver:
        async with anyio.create_task_group() as group:
            if mongos:
                group.start_soon(driver.run)
            else:
                group.start_soon(_times_out, driver)
            await anyio.sleep(30)
            records.set(A, B)
        assert driver.core.topology_description.topology_type_name == ("Sharded" if mongos else "Unknown")
        # Without servers, the records may still bring some.
        assert set(driver.types()) == ({"a.example.com", "b.example.com"} if mongos else set())


async def _times_out(driver: Driver) -> None:
    with pytest.raises(ServerSelectionTimeoutError):
        await driver.run()


@pytest.mark.parametrize("kind", ["replica set", "standalone", "load balanced", "named replica set"])
async def test_other_deployments_do_not_follow_their_records(kind: str) -> None:
    records = Records(A)
    options: dict[str, Any] = {}
    if kind == "named replica set":
        options["replicaSet"] = "rs"
    elif kind == "load balanced":
        options["loadBalanced"] = True
    deployment = ScriptedDeployment([A], replica_set="rs" if "replica" in kind else None)
    deployment[A].hello = {"serviceId": ObjectId(), "msg": "isdbgrid"} if kind == "load balanced" else {}
    async with srv_client(records, deployment, **options) as driver:
        await driver.run()
        records.set(A, B)
        await anyio.sleep(300)
        assert len(records.times()) == 1
        assert set(driver.types()) == {"a.example.com"}


async def test_an_answer_that_comes_after_the_deployment_was_found_is_not_followed() -> None:
    records, deployment = Records(A, B), ScriptedDeployment([A, B], replica_set="rs")
    for server in deployment.servers.values():
        server.on("isMaster", Hang())
    async with srv_client(records, deployment, connectTimeoutMS=30_000) as driver:
        async with anyio.create_task_group() as group:
            group.start_soon(_times_out, driver)
            await anyio.sleep(50)
            # The third check finds the primary at 80 s; the records that are asked for at 60 s come at 85 s.
            records.delay = 25.0
            records.set(C)
            for server in deployment.servers.values():
                server.on("isMaster")
            await until(lambda: len(records.times()) == 2, 60, interval=0.05)
            await until(lambda: driver.core.topology_description.topology_type_name == "ReplicaSetWithPrimary")
            await anyio.sleep(60)
        assert set(driver.types()) == {"a.example.com", "b.example.com"}
        assert len(records.times()) == 2


async def test_closing_during_a_rescan() -> None:
    records, deployment = Records(A), cluster()
    async with srv_client(records, deployment) as driver:
        await driver.run()
        records.delay = 10.0
        records.set(B)
        await anyio.sleep(61)
        await driver.core.close()
        await anyio.sleep(30)
        assert len(records.times()) == 2
    assert not any(server.open_connections for server in deployment.servers.values())
