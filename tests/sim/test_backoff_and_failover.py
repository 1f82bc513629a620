"""A refused connection may mean overload or a dead server: the backoff ends when another server can take over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

from motorlite.errors import InvalidOperation
from motorlite.read_preferences import ReadPreference
from motorlite.retry import OverloadRetry
from tests.support.core import OVERLOADED, Driver, driver, find, insert, replica_set
from tests.support.pools import settle

if TYPE_CHECKING:
    from motorlite.testing.scripted import ScriptedDeployment

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

# Long enough to tell a backoff that was cut short from one that was not.
SLOW = OverloadRetry(base_backoff=8.0)


class Run:
    """One operation in the background, and when it was done."""

    def __init__(self, client: Driver, group: anyio.abc.TaskGroup, *, read: bool = False) -> None:
        self.client = client
        self.seconds: float | None = None
        self._read = read
        group.start_soon(self._run)

    async def _run(self) -> None:
        started = self.client.now
        operation = find(selector=ReadPreference.PRIMARY_PREFERRED) if self._read else insert()
        await self.client.run(operation)
        self.seconds = self.client.now - started


def refuse(deployment: ScriptedDeployment) -> None:
    """The primary dies; its monitor, which polls, does not know yet."""
    deployment["a:1"].drop_connections()
    deployment["a:1"].is_down = True


async def elect(deployment: ScriptedDeployment, client: Driver) -> None:
    deployment.step_down("b:1")
    monitor = client.server("b").monitor
    assert monitor is not None
    monitor.request_check()
    await settle()


async def test_a_new_primary_ends_it() -> None:
    deployment = replica_set(servers=2)
    async with driver(deployment, overload_policy=SLOW) as client, anyio.create_task_group() as group:
        refuse(deployment)
        run = Run(client, group)
        await anyio.sleep(2)
        assert run.seconds is None
        assert [event.delay for event in client.recorder.retries if event.rule == "overload policy"] == [8.0]
        await elect(deployment, client)
        await anyio.sleep(0.5)
        assert run.seconds is not None
        assert run.seconds == pytest.approx(2, abs=0.5)
        assert len(deployment["b:1"].commands("insert")) == 1


async def test_another_change_does_not() -> None:
    deployment = replica_set(servers=2)
    async with driver(deployment, overload_policy=SLOW) as client, anyio.create_task_group() as group:
        refuse(deployment)
        run = Run(client, group)
        await anyio.sleep(1)
        deployment["b:1"].hello["tags"] = {"rack": "2"}
        monitor = client.server("b").monitor
        assert monitor is not None
        monitor.request_check()
        await anyio.sleep(1)
        deployment["a:1"].is_down = False
        await anyio.sleep(5)
        assert run.seconds is None
        await anyio.sleep(2)
        assert run.seconds == pytest.approx(8, abs=0.2)


async def test_a_server_that_was_suitable_all_along_does_not() -> None:
    deployment = replica_set(servers=2)
    policy = OverloadRetry(base_backoff=8.0, retargets=False)
    async with driver(deployment, overload_policy=policy) as client, anyio.create_task_group() as group:
        refuse(deployment)
        run = Run(client, group, read=True)
        await anyio.sleep(0.1)
        assert len(client.recorder.retries) >= 1
        assert run.seconds is None


async def test_what_an_overloaded_server_answered_is_waited_out() -> None:
    deployment = replica_set(servers=2)
    deployment["a:1"].on("insert", OVERLOADED)
    async with driver(deployment, overload_policy=SLOW) as client, anyio.create_task_group() as group:
        run = Run(client, group)
        await anyio.sleep(2)
        await elect(deployment, client)
        await anyio.sleep(5.5)
        assert run.seconds is None
        await anyio.sleep(1)
        assert run.seconds == pytest.approx(8, abs=0.1)


async def test_closing_the_client_ends_it() -> None:
    deployment = replica_set(servers=1)
    async with driver(deployment, overload_policy=SLOW) as client:
        refuse(deployment)

        async def run() -> None:
            with pytest.raises(
                InvalidOperation, match=r"^the client was closed while the operation waited for its next attempt"
            ) as caught:
                await client.run(insert())
            assert "connection refused" in str(caught.value.__cause__)

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await anyio.sleep(0.1)
            started = client.now
            await client.core.close()
        assert client.now - started < 1


async def test_cancelled_it_costs_no_token() -> None:
    deployment = replica_set(servers=1)
    async with driver(deployment, overload_policy=SLOW) as client:
        refuse(deployment)
        client.drain_to(10)
        async with anyio.create_task_group() as group:
            Run(client, group)
            await anyio.sleep(1)
            assert client.tokens == 9
            group.cancel_scope.cancel()
        assert client.tokens == 10
        # It was decided on all the same, and the event of that was published.
        assert [event.permitted for event in client.recorder.retries] == [True]
        assert client.core.stats().retries == {"server not available": 1}
