"""A refused connection may mean overload or a dead server: the backoff ends when another server can take over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite.errors import InvalidOperation
from motorlite.read_preferences import ReadPreference
from motorlite.retry import OverloadRetry
from tests.support.core import HOST_UNREACHABLE, OVERLOADED, Driver, answering, driver, find, insert, replica_set
from tests.support.pools import settle

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._operations.contract import Operation
    from motorlite.testing.scripted import ScriptedDeployment

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

# Long enough to tell a backoff that was cut short from one that was not.
SLOW = OverloadRetry(base_backoff=8.0)


class Run:
    """One operation in the background, and when it was done."""

    def __init__(self, client: Driver, group: anyio.abc.TaskGroup, operation: Operation[Any] | None = None) -> None:
        self.client = client
        self.seconds: float | None = None
        group.start_soon(self._run, operation or insert())

    async def _run(self, operation: Operation[Any]) -> None:
        started = self.client.now
        # Ordinary retries go on until then.
        await self.client.run(operation, timeout=60)
        self.seconds = self.client.now - started


def refuse(deployment: ScriptedDeployment) -> None:
    """The primary dies; its monitor, which polls, does not know yet."""
    deployment["a:1"].drop_connections()
    deployment["a:1"].is_down = True


def answer_with_an_error(deployment: ScriptedDeployment) -> None:
    """After 0.661 s of ordinary retries, each delay is a second."""
    deployment["a:1"].on("insert", HOST_UNREACHABLE)


KINDS = pytest.mark.parametrize("fail", [refuse, answer_with_an_error], ids=["refused", "a series"])


async def check(client: Driver) -> None:
    monitor = client.server("b").monitor
    assert monitor is not None
    monitor.request_check()
    await settle()


@KINDS
async def test_a_new_primary_ends_it(fail: Callable[[ScriptedDeployment], None]) -> None:
    deployment = replica_set(servers=2)
    async with driver(deployment, overload_policy=SLOW) as client, anyio.create_task_group() as group:
        fail(deployment)
        run = Run(client, group)
        await anyio.sleep(0.7)
        assert run.seconds is None
        if fail is refuse:
            assert [event.delay for event in client.recorder.retries if event.rule == "overload policy"] == [8.0]
        deployment.step_down("b:1")
        await check(client)
        await anyio.sleep(0.5)
        assert run.seconds is not None
        assert run.seconds == pytest.approx(0.7, abs=0.1)
        assert len(deployment["b:1"].commands("insert")) == 1


async def test_another_change_does_not() -> None:
    deployment = replica_set(servers=2)
    async with driver(deployment, overload_policy=SLOW) as client, anyio.create_task_group() as group:
        refuse(deployment)
        run = Run(client, group)
        await anyio.sleep(1)
        deployment["b:1"].hello["tags"] = {"rack": "2"}
        await check(client)
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
        run = Run(client, group, find(selector=ReadPreference.PRIMARY_PREFERRED))
        await anyio.sleep(0.1)
        assert len(client.recorder.retries) >= 1
        assert run.seconds is None


async def test_what_an_overloaded_server_answered_is_waited_out() -> None:
    deployment = answering("insert", OVERLOADED, servers=2)
    async with driver(deployment, overload_policy=SLOW) as client, anyio.create_task_group() as group:
        run = Run(client, group)
        await anyio.sleep(2)
        deployment.step_down("b:1")
        await check(client)
        await anyio.sleep(5.5)
        assert run.seconds is None
        await anyio.sleep(1)
        assert run.seconds == pytest.approx(8, abs=0.1)


@KINDS
async def test_closing_the_client_ends_it(fail: Callable[[ScriptedDeployment], None]) -> None:
    deployment = replica_set()
    async with driver(deployment, overload_policy=SLOW) as client:
        client.drain_to(20)
        fail(deployment)

        async def run() -> None:
            with pytest.raises(
                InvalidOperation, match=r"^the client was closed while the operation waited for its next attempt"
            ) as caught:
                await client.run(insert(), timeout=30)
            assert ("connection refused" in str(caught.value.__cause__)) is (fail is refuse)

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await anyio.sleep(0.7)
            started, tokens = client.now, client.tokens
            await client.core.close()
        assert client.now - started < 0.5
        # The delay was cut off, so its token came back. The command that ends the session brings a tenth.
        assert client.tokens - tokens == pytest.approx(1 if fail is refuse else 1.1)


@KINDS
async def test_cancelled_it_costs_no_token(fail: Callable[[ScriptedDeployment], None]) -> None:
    deployment = replica_set()
    async with driver(deployment, overload_policy=SLOW) as client:
        fail(deployment)
        client.drain_to(20)
        async with anyio.create_task_group() as group:
            Run(client, group)
            await anyio.sleep(0.7)
            retries = len(client.recorder.retries)
            # One token for the refused connection; for the series, one for each but the first.
            assert (client.tokens, retries) == ((19, 1) if fail is refuse else (14, 7))
            group.cancel_scope.cancel()
        assert client.tokens == (20 if fail is refuse else 15)
        # It was decided on all the same, and the event of that was published.
        assert all(event.permitted for event in client.recorder.retries)
        assert sum(client.core.stats().retries.values()) == retries
