"""The pool's shell: who waits for a connection, for how long, and who is cancelled meanwhile."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import anyio
import pytest

from motorlite._base.deadline import Deadline
from motorlite._connection.establish import HandshakeSettings
from motorlite.errors import NetworkTimeout, WaitQueueTimeoutError
from motorlite.overload import WaitQueue
from motorlite.testing.scripted import Hang, ScriptedDeployment
from tests.support.pools import Waiting, pool_on, settle, slow, start

if TYPE_CHECKING:
    from motorlite._base.values import Address

pytestmark = pytest.mark.anyio


class SlowAuthenticator:
    """Authenticates, but not in time."""

    def begin(self, address: Address) -> SlowAuthenticator:
        return self

    def sasl_supported_mechs(self) -> None:
        return None

    def speculative_document(self) -> None:
        return None

    async def authenticate(self, *args: Any) -> None:
        await anyio.sleep(10)


@pytest.fixture
def deployment() -> ScriptedDeployment:
    return ScriptedDeployment(["a:1"])


# --- time limits ---


async def test_wait_queue_timeout(deployment: ScriptedDeployment) -> None:
    async with (
        pool_on(deployment, max_size=1, wait_queue_timeout=0.5) as subject,
        anyio.create_task_group() as group,
    ):
        connection = await subject.check_out()
        begun = subject.now
        waiting, other = await start(subject, group), await start(subject, group)
        await anyio.sleep(2)
        assert waiting.ended_at == other.ended_at == begun + 0.5
        error = waiting.error
        assert isinstance(error, WaitQueueTimeoutError)
        # Trio wakes the two in any order.
        assert sorted([str(error), str(other.error)]) == [
            "Timeout waiting for connection from the connection pool. maxPoolSize: 1, "
            "connections in use by cursors: 0, connections in use by transactions: 0, "
            "connections in use by other operations: 1, idle: 0, being "
            f"established: 0, more operations waiting: {others}, waited for a:1: 0.500 s (server a:1; time used up in "
            "phase: queue)"
            for others in (0, 1)
        ]
        assert error.phase == "queue"
        assert (error.wait_time, error.limit, error.retry_after) == (0.5, None, 1.0)
        assert error.address == ("a", 1)
        assert error.timeout
        assert subject.words("failed") == ["check-out failed timeout"] * 2
        subject.pool.check_in(connection)
        assert not subject.pool.state.in_use


async def test_a_server_that_does_not_answer_the_handshake_is_the_cause(deployment: ScriptedDeployment) -> None:
    deployment["a:1"].on("isMaster", Hang())
    async with pool_on(deployment, connect_timeout=2.0) as subject:
        with pytest.raises(WaitQueueTimeoutError) as caught:
            await subject.check_out(Deadline(subject.now + 0.5))
        text = "; the server accepted a new connection, but has not answered its handshake within 0.500 s (server a:1"
        assert text in str(caught.value)
        # It is left to be established for the next one, until that attempt fails; the one after it has a new attempt.
        with pytest.raises(NetworkTimeout):
            await subject.check_out()
        with pytest.raises(WaitQueueTimeoutError) as caught:
            await subject.check_out(Deadline(subject.now + 0.25))
        assert "handshake within 0.250 s; the attempt before it failed: a:1: no reply in time" in str(caught.value)
        # One attempt succeeds: what came before does not matter any more.
        subject.pool.clear(None)
        subject.pool.ready()
        deployment["a:1"].on("isMaster")
        subject.pool.check_in(await subject.check_out())
        assert subject.pool.state.last_failure == ""


@pytest.mark.parametrize("hangs", ["connecting", "authentication"])
async def test_the_step_that_hangs_is_the_cause(deployment: ScriptedDeployment, hangs: str) -> None:
    deployment["a:1"].is_unreachable = hangs == "connecting"
    cause = {
        "connecting": "the server has not accepted a new connection within",
        "authentication": "the authentication of a new connection has not ended within",
    }[hangs]
    async with pool_on(deployment, settings=HandshakeSettings(dict)) as subject:
        subject.pool._establisher._authenticator = cast("Any", SlowAuthenticator())
        with pytest.raises(WaitQueueTimeoutError, match=rf"; {cause} 0\.500 s"):
            await subject.check_out(Deadline(subject.now + 0.5))


async def test_a_young_handshake_is_not_the_cause(deployment: ScriptedDeployment) -> None:
    async with pool_on(deployment, max_size=2) as subject, anyio.create_task_group() as group:
        used = await subject.check_outs(2)
        slow(deployment, 10.0)
        waiting = [await start(subject, group, deadline=Deadline(subject.now + 1.0)) for _ in range(2)]
        await anyio.sleep(0.75)
        broken = used.pop()
        broken.close()
        subject.pool.check_in(broken)
        await anyio.sleep(1)
        for one in waiting:
            assert isinstance(one.error, WaitQueueTimeoutError)
            assert "being established: 1" in str(one.error)
            assert "handshake" not in str(one.error)
        subject.pool.check_in(used.pop())


@pytest.mark.parametrize("options", [{"wait_queue_timeout": 0.5}, {"wait_queue": WaitQueue("queue", timeout=0.5)}])
async def test_wait_queue_timeout_does_not_limit_ones_own_connection(
    deployment: ScriptedDeployment, options: dict[str, Any]
) -> None:
    slow(deployment, 3.0)
    async with pool_on(deployment, max_connecting=1, **options) as subject, anyio.create_task_group() as group:
        begun = subject.now
        own, queued = await start(subject, group), await start(subject, group)
        await anyio.sleep(10)
        # Only one connection may be opened at a time.
        assert isinstance(queued.error, WaitQueueTimeoutError)
        assert queued.ended_at == begun + 0.5
        assert own.connection is not None
        assert own.ended_at == begun + 3.0
        subject.pool.check_in(own.connection)


async def test_cancelled_while_only_ones_own_connection_is_waited_for(deployment: ScriptedDeployment) -> None:
    slow(deployment, 3.0)
    async with pool_on(deployment, wait_queue_timeout=0.5) as subject, anyio.create_task_group() as group:
        waiting = await start(subject, group)
        await anyio.sleep(1)
        waiting.scope.cancel()
        await anyio.sleep(5)
        assert not subject.pool.state.queue
        assert len(subject.pool.state.idle) == 1


@pytest.mark.parametrize("kind", ["deadline", "until"])
async def test_the_deadline_limits_everything(deployment: ScriptedDeployment, kind: str) -> None:
    slow(deployment, 3.0)
    async with (
        pool_on(deployment, max_connecting=1, wait_queue_timeout=1.0) as subject,
        anyio.create_task_group() as group,
    ):
        begun = subject.now

        async def begin(limit: float) -> Waiting:
            if kind == "until":
                return await start(subject, group, until=begun + limit)
            return await start(subject, group, deadline=Deadline(begun + limit))

        connecting, queued, both = await begin(0.5), await begin(0.75), await begin(2.0)
        await anyio.sleep(10)
        phases = []
        for waiting, limit in ((connecting, 0.5), (queued, 0.75), (both, 2.0)):
            assert isinstance(waiting.error, WaitQueueTimeoutError)
            assert waiting.ended_at == begun + limit
            phases.append(waiting.error.phase)
        # What the first had begun went to the second, then to the third.
        assert phases == ["connecting"] * 3
        assert len(subject.pool.state.idle) == 1, "what was begun for them is not lost"


async def test_with_a_deadline_wait_queue_timeout_is_ignored(deployment: ScriptedDeployment) -> None:
    # Client-side operations timeout, "Validation and Overrides".
    async with pool_on(deployment, max_size=1, wait_queue_timeout=0.5) as subject, anyio.create_task_group() as group:
        connection = await subject.check_out()
        begun = subject.now
        waiting = await start(subject, group, deadline=Deadline(begun + 2))
        await anyio.sleep(3)
        assert waiting.ended_at == begun + 2
        assert isinstance(waiting.error, WaitQueueTimeoutError)
        assert waiting.error.phase == "queue"
        subject.pool.check_in(connection)


async def test_a_deadline_that_has_passed(deployment: ScriptedDeployment) -> None:
    slow(deployment, 1.0)
    async with pool_on(deployment) as subject:
        with pytest.raises(WaitQueueTimeoutError):
            await subject.check_out(Deadline(subject.now - 1))
        (connection,) = await subject.idle()
        assert await subject.pool.check_out(Deadline(subject.now - 1), subject.now, subject.now) is connection, (
            "it is there"
        )
        subject.pool.check_in(connection)


async def test_connect_timeout(deployment: ScriptedDeployment) -> None:
    deployment["a:1"].is_unreachable = True
    async with pool_on(deployment, connect_timeout=4.0) as subject:
        begun = subject.now
        with pytest.raises(NetworkTimeout, match=r"no connection in time \(scripted\) \(server a:1\)"):
            await subject.check_out()
        assert subject.now == begun + 4.0
    other = ScriptedDeployment(["a:1"])
    slow(other, 3600.0)
    async with pool_on(other, connect_timeout=0.0) as subject:
        subject.pool.check_in(await subject.check_out())


# --- cancellation ---


@pytest.mark.parametrize("ordering", [None, "fifo", "priority", "adaptive"])
async def test_who_is_cancelled_leaves_the_queue(deployment: ScriptedDeployment, ordering: Any) -> None:
    queue = None if ordering is None else WaitQueue("queue", ordering=ordering)
    async with pool_on(deployment, max_size=1, wait_queue=queue) as subject, anyio.create_task_group() as group:
        connection = await subject.check_out()
        gone, waiting = await start(subject, group), await start(subject, group)
        subject.words()
        gone.scope.cancel()
        await settle()
        assert len(subject.pool.state.queue) == 1
        assert subject.words() == ["check-out failed connectionError"], "each start has its end"
        subject.pool.check_in(connection)
        await settle()
        assert waiting.connection is connection
        subject.pool.check_in(connection)
        bounded = subject.pool.state.bounded
        assert bounded is None or bounded.memory == 0


async def test_a_connection_that_was_given_at_the_moment_of_the_cancellation(
    deployment: ScriptedDeployment, anyio_backend_name: str
) -> None:
    if anyio_backend_name == "trio":
        return  # which does not cancel a task that was woken
    async with pool_on(deployment, max_size=1) as subject, anyio.create_task_group() as group:
        connection = await subject.check_out()
        gone = asyncio.get_running_loop().create_task(subject.check_out())
        await settle()
        waiting = await start(subject, group)
        subject.words()
        await anyio.sleep(1)
        subject.pool.check_in(connection)
        assert not subject.pool.state.idle, "it was given away"
        gone.cancel()
        await settle()
        assert gone.cancelled()
        assert waiting.connection is connection
        assert subject.words() == ["checked in 1", "check-out failed connectionError", "checked out 1"]
        subject.pool.check_in(connection)
