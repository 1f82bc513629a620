"""A thousand operations that wait for the same thing: all learn of it, in order, and never too many in one step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite._net.waking import AT_ONCE, Waking
from motorlite._topology.selection import WRITABLE
from motorlite.errors import (
    AutoReconnect,
    CircuitBreakerOpenError,
    InvalidOperation,
    OperationFailure,
    PoolClearedError,
    WaitQueueTimeoutError,
)
from motorlite.overload import CircuitBreaker, RateLimit, WaitQueue
from motorlite.testing.scripted import Reply, ScriptedDeployment
from tests.support.core import OVERLOADED_ONLY, driver, find, replica_set, run_command
from tests.support.pools import Waiting, pool_on, settle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

pytestmark = pytest.mark.anyio

NUMBER = 1000


class Asleep:
    """Counts how often it should wake waiters, and does so in `wake_late` only."""

    def __init__(self) -> None:
        self.asked = 0
        self._left: list[tuple[Collection[Any], Callable[[Any], object]]] = []

    def wake(self, waiting: Collection[Any], offer: Callable[[Any], object]) -> None:
        self.asked += 1
        self._left.append((waiting, offer))

    def wake_late(self) -> list[object]:
        return [offer(one) for waiting, offer in self._left for one in waiting]


class Crowd:
    """Tasks that all do the same. `steps`: for each that ended, in this order, how often another task had its turn.

    That other task begins when the first ones are woken: virtual time stands still while it runs.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._is_woken = anyio.Event()
        wake = Waking.wake

        def waking(self_: Waking, waiting: Collection[Any], offer: Callable[[Any], object]) -> None:
            self._is_woken.set()
            wake(self_, waiting, offer)

        monkeypatch.setattr(Waking, "wake", waking)
        self.ended: list[int] = []
        self.steps: list[int] = []
        self.outcomes: dict[int, Any] = {}
        self.scopes = [anyio.CancelScope() for _ in range(NUMBER)]
        self._step = 0

    async def run(self, wait: Callable[[], Awaitable[Any]], then: Callable[[], Awaitable[Any]]) -> None:
        """Have all of them wait, do something, and wait until all have ended."""
        async with anyio.create_task_group() as group:
            for number in range(NUMBER):
                group.start_soon(self._one, number, wait)
                await anyio.lowlevel.checkpoint()
            await anyio.sleep(0.01)
            assert not self.ended
            group.start_soon(self._tick)
            await then()

    async def _one(self, number: int, wait: Callable[[], Awaitable[Any]]) -> None:
        with self.scopes[number]:
            try:
                self.outcomes[number] = await wait()
            except Exception as error:
                self.outcomes[number] = error
        self.ended.append(number)
        self.steps.append(self._step)

    async def _tick(self) -> None:
        await self._is_woken.wait()
        while len(self.ended) < NUMBER:
            self._step += 1
            await anyio.lowlevel.checkpoint()

    def kinds(self) -> set[Any]:
        return {type(outcome) for outcome in self.outcomes.values()}

    def check_slices(self) -> None:
        """Fail if too many had their turn between two of another task. trio shuffles the tasks of a step."""
        assert sorted(self.ended) == list(range(NUMBER))
        assert max(self.steps.count(step) for step in set(self.steps)) <= 2 * AT_ONCE
        assert all(abs(place - number) <= 2 * AT_ONCE for place, number in enumerate(self.ended)), "out of order"


async def test_a_server_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = replica_set()
    async with driver(deployment, heartbeatFrequencyMS=500) as client:
        deployment.step_down(None)
        await anyio.sleep(2)
        crowd = Crowd(monkeypatch)

        async def elect() -> None:
            deployment.step_down("a:1")

        await crowd.run(lambda: client.select(WRITABLE), elect)
        assert set(crowd.outcomes.values()) == {"a"}
        crowd.check_slices()
        assert not client.core.topology._waiters


@pytest.mark.parametrize("change", ["closed", "found"])
async def test_who_is_to_be_woken_when_its_time_is_up_sees_the_change(change: str) -> None:
    deployment = replica_set()
    async with driver(deployment, heartbeatFrequencyMS=500) as client:
        deployment.step_down(None)
        await anyio.sleep(2)
        topology: Any = client.core.topology
        topology._waking = asleep = Asleep()
        outcomes: list[Any] = []

        async def one() -> None:
            try:
                outcomes.append(await client.select(WRITABLE, limit=5.0))
            except Exception as error:
                outcomes.append(type(error))

        begun = client.now
        async with anyio.create_task_group() as group:
            group.start_soon(one)
            await anyio.sleep(0.1)
            if change == "closed":
                topology.stop()
            else:
                deployment.step_down("a:1")
        assert client.now == begun + 5.0
        assert asleep.asked
        assert outcomes == [InvalidOperation if change == "closed" else "a"]


async def test_the_client_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = replica_set()
    async with driver(deployment) as client:
        deployment.step_down(None)
        await anyio.sleep(20)
        crowd = Crowd(monkeypatch)
        await crowd.run(lambda: client.select(WRITABLE), client.core.close)
        assert crowd.kinds() == {InvalidOperation}
        crowd.check_slices()


async def test_the_pool_is_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    async with pool_on(ScriptedDeployment(["a:1"]), max_size=1) as subject:
        connection = await subject.check_out()
        crowd = Crowd(monkeypatch)

        async def clear() -> None:
            subject.pool.clear(AutoReconnect("gone"))
            assert not subject.pool.state.queue
            # It would be told in the last slice.
            crowd.scopes[-1].cancel()
            subject.pool.ready()
            subject.pool.check_in(connection)
            # An operation that asks now is not affected.
            subject.pool.check_in(await subject.check_out())

        await crowd.run(subject.check_out, clear)
        assert sorted(crowd.outcomes) == list(range(NUMBER - 1))
        assert crowd.kinds() == {PoolClearedError}
        assert len({id(error) for error in crowd.outcomes.values()}) == NUMBER - 1, "each has an error of its own"
        assert {str(error) for error in crowd.outcomes.values()} == {
            "the connection pool of a:1 was cleared: gone (server a:1)"
        }
        crowd.ended.remove(NUMBER - 1)
        crowd.ended.append(NUMBER - 1)
        crowd.check_slices()


@pytest.mark.parametrize(("wait", "error"), [(0.5, PoolClearedError), (None, WaitQueueTimeoutError)])
async def test_whose_time_is_up_before_it_is_told_was_refused_all_the_same(
    wait: float | None, error: type[Exception]
) -> None:
    async with pool_on(ScriptedDeployment(["a:1"]), max_size=1) as subject, anyio.create_task_group() as group:
        connection = await subject.check_out()
        pool: Any = subject.pool
        pool._waking = asleep = Asleep()
        begun = subject.now
        waiting = Waiting(subject, until=begun + 1.0)
        group.start_soon(waiting.run)
        if wait is not None:
            await anyio.sleep(wait)
            pool.clear(AutoReconnect("gone"))
            pool.ready()
        await anyio.sleep(2.0)
        assert waiting.ended_at == begun + 1.0
        assert type(waiting.error) is error
        assert not any(asleep.wake_late())
        pool.check_in(connection)
        await settle()


async def test_the_breaker_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"maxPoolSize": 1, "circuit_breaker": CircuitBreaker(min_operations=2)}
    async with driver(replica_set(), **options) as client:
        server = client.deployment["a:1"]
        server.on("ping", Reply(OVERLOADED_ONLY, delay=1.0))
        crowd = Crowd(monkeypatch)

        async def fail() -> None:
            await anyio.sleep(2.0)

        async with anyio.create_task_group() as group:

            async def first() -> None:
                with pytest.raises(OperationFailure):
                    await client.run(run_command())

            group.start_soon(first)
            await anyio.sleep(0.5)
            await crowd.run(lambda: client.run(find()), fail)
        assert crowd.kinds() == {CircuitBreakerOpenError}
        assert client.core.stats().servers["a", 1].waiting == 0
        crowd.check_slices()


async def test_the_client_is_closed_while_operations_wait_for_their_rate_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = WaitQueue("queue", max_depth=NUMBER, timeout=60)
    limit = RateLimit(rate=20, burst=1, strategy="queue", queue=queue)
    crowd = Crowd(monkeypatch)
    async with driver(replica_set(), rate_limit=limit) as client:
        await client.run(find())
        await crowd.run(lambda: client.run(find()), client.core.close)
        assert crowd.kinds() == {InvalidOperation}
        crowd.check_slices()
