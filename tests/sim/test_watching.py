"""What a watch says of operations: how many ended how, what those under way wait for, and the time that was lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from motorlite import InsertOne, UpdateOne
from motorlite.errors import NetworkTimeout, OperationFailure, ServerSelectionTimeoutError
from motorlite.overload import RateLimit
from motorlite.read_preferences import ReadPreference
from motorlite.retry import OverloadRetry
from motorlite.testing.scripted import Reply, failure, overloaded
from tests.support.clients import scripted_client
from tests.support.core import FOUND, OVERLOADED, Driver, driver, find, hello_delay, insert, replica_set

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

pytestmark = pytest.mark.anyio


def watched(client: Driver) -> dict[str, Any]:
    report = client.core.watch()
    assert report is not None
    return report


async def during(client: Driver, wait: float, *works: Callable[[], Coroutine[Any, Any, Any]]) -> dict[str, Any]:
    """The report some time after all `works` began; returns when they have ended."""
    watched(client)
    async with anyio.create_task_group() as group:
        for work in works:
            group.start_soon(work)
            await checkpoint()
        await anyio.sleep(wait)
        report = watched(client)
    return report


def only(report: dict[str, Any]) -> dict[str, Any]:
    (running,) = report["running"]
    found: dict[str, Any] = running
    return found


async def test_an_operation_that_succeeds() -> None:
    deployment = replica_set()
    async with driver(deployment) as client:
        deployment["a:1"].on("find", Reply(FOUND, 0.03))
        report = await during(client, 0.02, lambda: client.run(find()))
        assert report["in_flight"] == {"reply": 1}
        assert only(report) == {
            "operation": "find",
            "namespace": "db.coll",
            "seconds": pytest.approx(0.02),
            "phase": "reply",
            "attempts": 1,
            "server": "a:1",
        }
        report = watched(client)
        counts = report["operations"]["find"]
        assert (counts["succeeded"], counts["failed"], counts["cancelled"]) == (1, 0, 0)
        assert counts["seconds"] == pytest.approx(0.03)
        assert [bound for bound, count in zip(report["bounds"], counts["buckets"], strict=False) if count] == [0.05]
        assert (report["running"], report["in_flight"], report["lost"], report["slow"]) == ([], {}, {}, [])


async def test_errors_and_cancellations() -> None:
    deployment = replica_set()
    async with driver(deployment) as client:
        watched(client)
        deployment["a:1"].on("insert", failure(11000))
        with pytest.raises(OperationFailure):
            await client.run(insert())
        deployment["a:1"].on("find", Reply(FOUND, 5))
        with anyio.move_on_after(1):
            await client.run(find())
        report = watched(client)
        assert report["errors"] == {"DuplicateKeyError": 1}
        assert report["operations"]["insert"]["failed"] == 1
        assert report["operations"]["find"]["cancelled"] == 1
        (slow,) = report["slow"]
        assert (slow["operation"], slow["outcome"], slow["phase"]) == ("find", "cancelled", "reply")
        assert slow["seconds"] == pytest.approx(1)
        assert report["lost"] == {}
        await anyio.sleep(11)
        assert watched(client)["slow"] == [], "it is old"


async def test_a_wait_for_a_connection() -> None:
    deployment = replica_set()
    async with driver(deployment, maxPoolSize=1) as client:
        deployment["a:1"].on("find", Reply(FOUND, 0.5), Reply(FOUND, 0.1))
        report = await during(client, 0.2, *([lambda: client.run(find())] * 2))
        assert report["in_flight"] == {"reply": 1, "queue": 1}
        report = watched(client)
        assert report["lost"] == {"queue": pytest.approx(0.5)}
        slowest, other = report["slow"]
        assert (slowest["phase"], slowest["seconds"]) == ("queue", pytest.approx(0.6))
        assert (other["phase"], other["seconds"]) == ("reply", pytest.approx(0.5))


async def test_a_connection_that_is_being_established() -> None:
    deployment = replica_set()
    async with driver(deployment) as client:
        deployment["a:1"].on("find", Reply(FOUND, 5))
        hello_delay(deployment, "a:1", 2)
        report = await during(client, 1, *([lambda: client.run(find())] * 2))
        assert report["in_flight"] == {"reply": 1, "queue": 1}
        assert watched(client)["lost"] == {"queue": pytest.approx(2)}


async def test_a_wait_for_a_server() -> None:
    deployment = replica_set()
    async with driver(deployment) as client:

        async def work() -> None:
            with pytest.raises(ServerSelectionTimeoutError):
                await client.run(find(selector=ReadPreference.SECONDARY), timeout=2)

        report = await during(client, 1, work)
        assert only(report)["phase"] == "selection"
        assert only(report)["server"] is None
        assert watched(client)["lost"] == {"selection": pytest.approx(2)}


async def test_retries_and_their_backoff() -> None:
    deployment = replica_set()
    policy = OverloadRetry(base_backoff=1.0)
    async with driver(deployment, overload_policy=policy, jitter=1.0) as client:
        deployment["a:1"].on("find", Reply(overloaded(), 0.25), Reply(FOUND, 0.5))
        report = await during(client, 1, lambda: client.run(find()))
        assert (only(report)["phase"], only(report)["attempts"]) == ("backoff", 1)
        report = watched(client)
        assert report["lost"] == {"failed attempt": pytest.approx(0.25), "backoff": pytest.approx(1)}
        (slow,) = report["slow"]
        assert (slow["phase"], slow["attempts"], slow["outcome"]) == ("backoff", 2, "ok")


async def test_an_operation_that_is_cancelled_in_its_backoff() -> None:
    deployment = replica_set()
    async with driver(deployment, overload_policy=OverloadRetry(base_backoff=8.0), jitter=1.0) as client:
        watched(client)
        deployment["a:1"].on("find", OVERLOADED)
        async with anyio.create_task_group() as group:
            group.start_soon(client.run, find())
            await anyio.sleep(3)
            group.cancel_scope.cancel()
        assert watched(client)["lost"] == {"backoff": pytest.approx(3)}


async def test_time_that_runs_out_before_the_reply() -> None:
    deployment = replica_set()
    async with driver(deployment) as client:
        watched(client)
        deployment["a:1"].on("find", Reply(FOUND, 5))
        with pytest.raises(NetworkTimeout):
            await client.run(find(), timeout=2)
        assert watched(client)["lost"] == {"reply": pytest.approx(2)}


async def test_a_rate_limit() -> None:
    deployment = replica_set()
    limit = RateLimit(rate=1, burst=1, strategy="queue", timeout=10)
    async with driver(deployment, rate_limit=limit) as client:
        await anyio.sleep(5)
        deployment["a:1"].on("find", Reply(FOUND, 0.5))
        report = await during(client, 0.75, *([lambda: client.run(find())] * 2))
        assert only(report)["phase"] == "rate limit"
        assert watched(client)["lost"] == {"rate limit": pytest.approx(1)}


async def test_the_turn_of_a_session() -> None:
    deployment = replica_set()
    async with scripted_client(deployment) as client:
        coll = client.db.coll
        deployment["a:1"].on("insert", Reply({"n": 1}, 1))
        async with client.start_session() as session:
            await coll.insert_one({}, session=session)
            assert client._core.watch() is not None
            async with anyio.create_task_group() as group:
                for _ in range(2):
                    group.start_soon(lambda: coll.insert_one({}, session=session))
                    await checkpoint()
                await anyio.sleep(0.5)
                report = client._core.watch()
                assert report is not None
                assert report["in_flight"] == {"reply": 1, "session": 1}
            report = client._core.watch()
            assert report is not None
            assert report["lost"] == {"session": pytest.approx(1)}


async def test_an_operation_of_several_commands_is_one() -> None:
    deployment = replica_set()
    async with scripted_client(deployment, maxPoolSize=1) as client:
        coll = client.db.coll
        await coll.find_one()
        assert client._core.watch() is not None
        deployment["a:1"].on("insert", Reply({"n": 1}, 0.5))
        deployment["a:1"].on("update", Reply({"n": 1, "nModified": 1}, 0.5))
        reports = []
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: coll.bulk_write([InsertOne({}), UpdateOne({}, {"$set": {"x": 1}})]))
            for _ in range(2):
                await anyio.sleep(0.3)
                reports.append(client._core.watch())
        for report in reports:
            assert report is not None
            assert (only(report)["operation"], only(report)["phase"]) == ("bulkWrite", "reply")
        report = client._core.watch()
        assert report is not None
        assert {name: counts["succeeded"] for name, counts in report["operations"].items()} == {"bulkWrite": 1}


async def test_what_began_before_the_watch_or_ends_after_it() -> None:
    deployment = replica_set()
    async with driver(deployment) as client:
        deployment["a:1"].on("find", Reply(FOUND, 1))
        reports = client.core.executor.reports
        async with anyio.create_task_group() as group:
            group.start_soon(client.run, find())
            await anyio.sleep(0.5)
            assert watched(client)["running"] == []
            group.start_soon(client.run, find())
            await anyio.sleep(0.1)
            assert len(watched(client)["running"]) == 1
            client.core.end_watch()
            assert reports.watch is None
            assert reports.follows is reports.publish_operation
        assert watched(client)["operations"] == {}, "it begins anew"


async def test_listeners_hear_the_same_while_somebody_watches() -> None:
    deployment = replica_set()
    async with driver(deployment) as client:
        heard = []
        for _ in range(2):
            client.recorder.clear()
            deployment["a:1"].on("insert", failure(11000))
            await client.run(find())
            with pytest.raises(OperationFailure):
                await client.run(insert())
            heard.append(client.recorder.words("operation"))
            watched(client)
        assert heard[0] == heard[1] != []


async def test_a_client_that_has_not_begun_or_is_closed_has_no_report() -> None:
    deployment = replica_set()
    client = Driver(deployment)
    assert client.core.watch() is None
    client.core.end_watch()
    client.core.enter()
    assert watched(client)["operations"] == {}
    await client.core.close()
    assert client.core.watch() is None
    await deployment.close()
