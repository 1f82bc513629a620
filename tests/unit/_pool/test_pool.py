"""The pool's shell: events in the order of the pooling specification, failures, background work, clear and close."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite import monitoring as events
from motorlite._base.deadline import NO_DEADLINE
from motorlite._pool.state import PoolState
from motorlite.errors import (
    AutoReconnect,
    InvalidOperation,
    NetworkTimeout,
    PoolClearedError,
    PoolClosedError,
    WaitQueueTimeoutError,
)
from motorlite.testing.scripted import Hang, ScriptedDeployment, failure
from tests.support.kept_errors import is_kept_copy
from tests.support.pools import pool_on, settle, slow, start

if TYPE_CHECKING:
    from motorlite._admission.pool_queue import Request
    from motorlite._connection.connection import Connection

pytestmark = pytest.mark.anyio


@pytest.fixture
def deployment() -> ScriptedDeployment:
    return ScriptedDeployment(["a:1"])


# --- events ---


async def test_events_of_a_life(deployment: ScriptedDeployment) -> None:
    async with pool_on(deployment, ready=False) as subject:
        assert subject.words() == ["pool created"]
        subject.pool.ready()
        subject.pool.ready()
        assert subject.words() == ["pool ready"]
        connection = await subject.check_out()
        assert subject.words() == ["check-out started", "created 1", "ready 1", "checked out 1"]
        subject.pool.check_in(connection)
        assert subject.words() == ["checked in 1"]
        assert await subject.check_out() is connection
        assert subject.words() == ["check-out started", "checked out 1"]
        subject.pool.check_in(connection)
        subject.words()
        subject.pool.clear(AutoReconnect("gone"))
        subject.pool.clear(AutoReconnect("gone"))
        assert subject.words() == ["pool cleared", "closed 1 stale"]
        with pytest.raises(PoolClearedError, match=r"the connection pool of a:1 was cleared: gone \(server a:1\)"):
            await subject.check_out()
        assert subject.words() == ["check-out started", "check-out failed connectionError"]
        subject.pool.ready()
        connection = await subject.check_out()
        assert connection.generation == subject.pool.generation == 2
        subject.pool.check_in(connection)
        subject.words()
        subject.pool.close()
        subject.pool.close()
        assert subject.words() == ["closed 2 poolClosed", "pool closed"]
        with pytest.raises(PoolClosedError, match=r"the connection pool of a:1 is closed"):
            await subject.check_out()
        assert subject.words() == ["check-out started", "check-out failed poolClosed"]
        subject.pool.clear(None)
        subject.pool.ready()
        assert subject.words() == []


async def test_what_the_events_tell(deployment: ScriptedDeployment) -> None:
    slow(deployment, 0.5)
    async with pool_on(deployment, max_size=1) as subject, anyio.create_task_group() as group:
        connection = await subject.check_out()
        waiting = await start(subject, group, until=subject.now + 0.25)
        await anyio.sleep(1)
        assert isinstance(waiting.error, WaitQueueTimeoutError)
        ready, checked_out, failed = subject.log.of(
            events.ConnectionReadyEvent, events.ConnectionCheckedOutEvent, events.ConnectionCheckOutFailedEvent
        )
        assert ready.duration == checked_out.duration == 0.5
        assert failed.duration == 0.25
        assert is_kept_copy(failed.error, waiting.error)
        assert {event.address for event in subject.log.events} == {("a", 1)}
        subject.pool.clear(None, interrupt_in_use=True)
        assert subject.words()[-1] == "pool cleared interrupting"
        subject.pool.check_in(connection)


async def test_the_options_that_are_told(deployment: ScriptedDeployment) -> None:
    given = {"maxPoolSize": 100}
    async with pool_on(deployment, ready=False, max_connecting=3, given=given) as subject:
        (created,) = subject.log.events
        assert created.options == given, "those that the application has set, be they the defaults"


async def test_without_a_listener(deployment: ScriptedDeployment) -> None:
    async with pool_on(deployment, listen=False, max_size=1) as subject, anyio.create_task_group() as group:
        connection = await subject.check_out()
        late = await start(subject, group, until=subject.now + 1)
        waiting = await start(subject, group)
        await anyio.sleep(2)
        assert isinstance(late.error, WaitQueueTimeoutError)
        subject.pool.check_in(connection)
        await settle()
        assert waiting.connection is connection
        subject.pool.clear(None)
        subject.pool.check_in(connection)
        subject.server.is_down = True
        subject.pool.ready()
        with pytest.raises(AutoReconnect, match="connection refused"):
            await subject.check_out()
        assert subject.log.events == []


async def test_what_perished_is_closed_after_the_event_that_begins_the_check_out(
    deployment: ScriptedDeployment,
) -> None:
    async with pool_on(deployment, max_idle_time=5.0, maintenance_interval=100.0) as subject:
        await subject.idle(2)
        subject.words()
        await anyio.sleep(6)
        connection = await subject.check_out()
        assert connection.id == 3
        assert subject.words() == [
            "check-out started",
            "closed 1 idle",
            "closed 2 idle",
            "created 3",
            "ready 3",
            "checked out 3",
        ]
        subject.pool.check_in(connection)


async def test_one_of_two_perished(deployment: ScriptedDeployment) -> None:
    async with pool_on(deployment) as subject:
        one, two = await subject.idle(2)
        one.stream.abort()
        subject.words()
        assert await subject.check_out() is two
        assert subject.words() == ["check-out started", "closed 1 error", "checked out 2"]
        subject.pool.check_in(two)


async def test_a_foreign_connection_is_refused_before_anything_is_told(deployment: ScriptedDeployment) -> None:
    async with pool_on(deployment) as subject:
        connection = await subject.check_out()
        subject.pool.check_in(connection)
        subject.words()
        with pytest.raises(InvalidOperation, match="was not checked out"):
            subject.pool.check_in(connection)
        assert subject.words() == []


# --- connections that are not established ---


async def test_only_the_sponsor_gets_the_error(deployment: ScriptedDeployment) -> None:
    async with pool_on(deployment, max_connecting=1) as subject, anyio.create_task_group() as group:
        slow(deployment, 1.0)
        first, second = await start(subject, group), await start(subject, group)
        slow(deployment, 0.0)
        subject.server.drop_connections()
        await settle()
        assert isinstance(first.error, AutoReconnect)
        assert first.error.has_error_label("SystemOverloadedError")
        assert second.connection is not None
        told = subject.words()
        assert [text for text in told if "check" not in text] == ["created 1", "closed 1 error", "created 2", "ready 2"]
        assert [text for text in told if "check" in text] == [
            "check-out started",
            "check-out started",
            "check-out failed connectionError",
            "checked out 2",
        ]
        ((failed, generation),) = subject.failures
        assert failed.error is first.error
        assert generation == 0
        subject.pool.check_in(second.connection)


async def test_the_topology_judges_the_error_before_the_next_connection_is_begun(
    deployment: ScriptedDeployment,
) -> None:
    async with pool_on(deployment, max_connecting=1) as subject, anyio.create_task_group() as group:
        subject.on_error = lambda failure, generation: subject.pool.clear(failure.error)
        slow(deployment, 1.0)
        first, second = await start(subject, group), await start(subject, group)
        subject.words()
        subject.server.drop_connections()
        await settle()
        assert isinstance(first.error, AutoReconnect)
        assert not isinstance(first.error, PoolClearedError)
        assert isinstance(second.error, PoolClearedError)
        assert subject.words("pool|closed|created") == ["pool cleared", "closed 1 error"]


async def test_a_failure_that_concerns_nobody_is_told_to_the_topology(deployment: ScriptedDeployment) -> None:
    deployment["a:1"].on("isMaster", failure(91))
    async with pool_on(deployment, min_size=1) as subject:
        subject.on_error = lambda failure, generation: subject.pool.clear(failure.error)
        await settle()
        assert len(subject.failures) == 1
        assert subject.words() == ["created 1", "pool cleared", "closed 1 error"]


@pytest.mark.parametrize("kind", [ValueError, TypeError, ZeroDivisionError])
@pytest.mark.parametrize("is_waited_for", [True, False])
async def test_a_bug_while_connecting_is_told_to_who_waits_or_logged(
    deployment: ScriptedDeployment, caplog: pytest.LogCaptureFixture, is_waited_for: bool, kind: type[Exception]
) -> None:
    server: Any = deployment["a:1"]
    server.connect_error = lambda: kind("nobody thought of it")
    caplog.set_level(logging.DEBUG, "motorlite.client")
    async with pool_on(deployment, max_size=1, min_size=0 if is_waited_for else 1) as subject:
        if is_waited_for:
            with pytest.raises(PoolClearedError, match=f"a connection could not be made: {kind.__name__}") as caught:
                await subject.check_out()
            assert isinstance(caught.value.__cause__, kind)
            assert caught.value.__cause__.__traceback__ is None
        else:
            await anyio.sleep(0.5)
        assert not subject.pool.state.total
        assert subject.failures == []
        server.connect_error = None
        subject.pool.check_in(await subject.check_out())
    assert {record.levelname for record in caplog.records} == {"DEBUG" if is_waited_for else "ERROR"}
    assert kind.__name__ in caplog.text


# --- background work ---


async def test_min_size(deployment: ScriptedDeployment) -> None:
    slow(deployment, 0.25)
    async with pool_on(deployment, ready=False, min_size=5) as subject:
        await anyio.sleep(3)
        assert subject.server.connections_made == 0, "not before the pool is ready"
        subject.pool.ready()
        await settle()
        assert subject.server.connections_made == 2, "two at a time"
        await anyio.sleep(0.8)
        assert len(subject.pool.state.idle) == 5
        assert subject.words("check") == [], "nobody checked out"
        broken = await subject.check_out()
        broken.stream.abort()
        subject.pool.check_in(broken)
        await anyio.sleep(1.5)
        assert len(subject.pool.state.idle) == 5


async def test_min_size_while_the_server_refuses(deployment: ScriptedDeployment) -> None:
    deployment["a:1"].is_down = True
    async with pool_on(deployment, min_size=1) as subject:
        await anyio.sleep(4.5)
        # Once a second, not in a loop.
        assert len(subject.failures) == 5
        subject.server.is_down = False
        await anyio.sleep(1)
        assert len(subject.pool.state.idle) == 1


async def test_max_idle_time(deployment: ScriptedDeployment) -> None:
    async with pool_on(deployment, max_idle_time=5.0, min_size=1) as subject:
        await subject.idle(2)
        subject.words()
        await anyio.sleep(4.5)
        assert subject.words() == []
        await anyio.sleep(2)
        assert subject.words() == ["closed 2 idle", "closed 1 idle", "created 3", "ready 3"]
        subject.server.drop_connections()
        await anyio.sleep(1)
        assert subject.words() == ["closed 3 error", "created 4", "ready 4"], "noticed without an operation"


# --- clear ---


async def test_clear_tells_those_who_wait_at_once(deployment: ScriptedDeployment) -> None:
    async with pool_on(deployment, max_size=1) as subject, anyio.create_task_group() as group:
        connection = await subject.check_out()
        waiting = [await start(subject, group) for _ in range(3)]
        begun = subject.now
        subject.words()
        subject.pool.clear(AutoReconnect("primary lost"))
        await settle()
        assert subject.words() == ["pool cleared", *["check-out failed connectionError"] * 3]
        assert len({id(one.error) for one in waiting}) == 3, "each has an error of its own"
        for one in waiting:
            assert isinstance(one.error, PoolClearedError)
            assert "was cleared: primary lost" in str(one.error)
            assert one.error.address == ("a", 1)
            assert one.ended_at == begun
            assert not one.error.reached_server
        assert not connection.stream.is_closed, "what is in use may end"
        subject.pool.check_in(connection)
        assert subject.words() == ["checked in 1", "closed 1 stale"]


@pytest.mark.parametrize("interrupt", [False, True])
async def test_clear_abandons_what_is_under_way(deployment: ScriptedDeployment, interrupt: bool) -> None:
    slow(deployment, 10.0)
    async with pool_on(deployment) as subject, anyio.create_task_group() as group:
        waiting = await start(subject, group)
        subject.words()
        subject.pool.clear(None, interrupt_in_use=interrupt)
        await settle()
        cleared, *rest = subject.words()
        assert cleared.startswith("pool cleared")
        assert rest == ["closed 1 stale", "check-out failed connectionError"]
        assert isinstance(waiting.error, PoolClearedError)
        assert not subject.server.open_connections
        assert subject.failures == [], "nothing was wrong with the server"
        # The new generation need not wait for the old one.
        subject.pool.ready()
        slow(deployment, 0.0)
        connections = await subject.check_outs(2)
        assert {connection.generation for connection in connections} == {1}
        for connection in connections:
            subject.pool.check_in(connection)


@pytest.mark.parametrize("end", ["clear", "close"])
async def test_abandoned_before_it_began(deployment: ScriptedDeployment, end: str) -> None:
    # The background task is cancelled before its first step, which may mean that it never runs.
    async with pool_on(deployment, max_connecting=1) as subject:
        check_out = subject.pool.check_out(NO_DEADLINE, subject.now + 9, subject.now)
        error: BaseException | None = None
        with anyio.CancelScope() as scope:

            async def end_at_once() -> None:
                if end == "clear":
                    subject.pool.clear(None, interrupt_in_use=True)
                else:
                    subject.pool.close()

            async with anyio.create_task_group() as group:
                group.start_soon(end_at_once)
                try:
                    await check_out
                except (PoolClearedError, PoolClosedError) as raised:
                    error = raised
        assert not scope.cancelled_caught
        await settle()
        assert subject.pool.state.total == len(subject.pool.state.idle) + len(subject.pool.state.in_use)
        for connection in list(subject.pool.state.in_use):
            subject.pool.check_in(connection)
        if end == "clear":
            assert error is None or isinstance(error, PoolClearedError)
            subject.pool.ready()
            subject.pool.check_in(await subject.check_out(until=subject.now + 9))


async def test_abandoned_at_the_moment_in_which_it_is_done(deployment: ScriptedDeployment) -> None:
    async with pool_on(deployment) as subject:
        establisher: Any = subject.pool._establisher
        opened: list[Connection] = []
        really_open = establisher.open

        async def open_and_clear(*args: Any, **kwargs: Any) -> Connection:
            connection: Connection = await really_open(*args, **kwargs)
            opened.append(connection)
            subject.pool.clear(None)
            return connection

        establisher.open = open_and_clear
        with pytest.raises(PoolClearedError):
            await subject.check_out()
        await settle()
        assert opened[0].stream.is_closed
        assert subject.words() == [
            "check-out started",
            "created 1",
            "pool cleared",
            "closed 1 stale",
            "check-out failed connectionError",
        ]


async def test_a_failure_after_it_was_abandoned_is_nobodys_business(
    deployment: ScriptedDeployment, caplog: pytest.LogCaptureFixture
) -> None:
    async with pool_on(deployment) as subject:

        def refuse() -> AutoReconnect:
            subject.pool.clear(None)
            return AutoReconnect("refused")

        subject.server.connect_error = refuse
        with pytest.raises(PoolClearedError):
            await subject.check_out()
        await settle()
        assert subject.failures == []
        assert subject.words("closed 1") == ["closed 1 stale"]
    assert caplog.text == ""


async def test_clear_with_interruption_ends_operations(deployment: ScriptedDeployment) -> None:
    deployment["a:1"].on("ping", lambda _: pytest.fail("not sent"))
    async with pool_on(deployment) as subject, anyio.create_task_group() as group:
        reading, resting = await subject.check_outs(2)
        subject.server.on("slow", Hang())
        outcome: list[BaseException] = []

        async def operate() -> None:
            try:
                await reading.command("db", {"slow": 1}, subject.now + 100)
            except PoolClearedError as error:
                outcome.append(error)

        group.start_soon(operate)
        await settle()
        begun = subject.now
        subject.pool.clear(NetworkTimeout("the check timed out"), interrupt_in_use=True)
        await settle()
        assert subject.now == begun
        (error,) = outcome
        assert str(error) == "Connection to a:1 interrupted due to server monitor timeout"
        assert isinstance(error.__cause__, AutoReconnect)
        with pytest.raises(PoolClearedError, match="interrupted"):
            await resting.command("db", {"ping": 1}, subject.now + 100)
        subject.words()
        subject.pool.check_in(reading)
        subject.pool.check_in(resting)
        assert subject.words() == ["checked in 1", "closed 1 stale", "checked in 2", "closed 2 stale"]


# --- close ---


async def test_close_with_connections_in_use(deployment: ScriptedDeployment) -> None:
    async with pool_on(deployment, max_connecting=1) as subject, anyio.create_task_group() as group:
        in_use, idle = await subject.check_outs(2)
        slow(deployment, 10.0)
        served, sponsor, queued = [await start(subject, group) for _ in range(3)]
        subject.pool.check_in(idle)
        await settle()
        assert served.connection is idle
        begun = subject.now
        subject.words()

        subject.pool.close()
        await settle()
        assert subject.words() == ["closed 3 poolClosed", "pool closed", *["check-out failed poolClosed"] * 2]
        for waiting in (sponsor, queued):
            assert isinstance(waiting.error, PoolClosedError)
            assert waiting.ended_at == begun
        assert not in_use.stream.is_closed, "its operation may end"
        assert await in_use.command("db", {"ping": 1}, subject.now + 1) == {"ok": 1, "n": 1}
        subject.pool.check_in(in_use)
        subject.pool.check_in(idle)
        assert subject.words() == ["checked in 1", "closed 1 poolClosed", "checked in 2", "closed 2 poolClosed"]
        assert not subject.server.open_connections


async def test_close_ends_the_background_work(deployment: ScriptedDeployment, monkeypatch: pytest.MonkeyPatch) -> None:
    async with pool_on(deployment, min_size=1) as subject:
        await settle()
        subject.pool.close()
        monkeypatch.setattr(PoolState, "prune", lambda self, now: pytest.fail("it goes on"))
        await anyio.sleep(10)
        assert subject.server.connections_made == 1
        assert not subject.server.open_connections


async def test_the_client_ends_while_connecting(deployment: ScriptedDeployment) -> None:
    slow(deployment, 10.0)
    async with pool_on(deployment) as subject, anyio.create_task_group() as group:
        waiting = await start(subject, group)
        await subject.host.close()
        await settle()
        assert isinstance(waiting.error, PoolClearedError)
        assert subject.failures == []
        assert not subject.server.open_connections


async def test_an_interrupt_before_a_connection_is_begun(
    deployment: ScriptedDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    async with pool_on(deployment) as subject:
        with monkeypatch.context() as patch:
            patch.setattr(subject.host, "spawn", interrupted)
            with pytest.raises(KeyboardInterrupt):
                await subject.check_out()
        subject.words()
        subject.pool.close()
        assert subject.words() == ["closed 1 poolClosed", "pool closed"]


async def test_a_pool_that_is_ready_again_is_filled_at_once(deployment: ScriptedDeployment) -> None:
    async with pool_on(deployment, min_size=2) as subject:
        await anyio.sleep(0.3)
        subject.pool.clear(None)
        subject.pool.ready()
        await settle()
        assert subject.pool.state.total == 2


async def test_a_request_that_could_not_be_made_is_not_served(
    deployment: ScriptedDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pool_on(deployment, max_size=1, listen=False) as subject:
        connection = await subject.check_out()
        state, enqueue = subject.pool.state, PoolState.enqueue

        def fail(state: PoolState, request: Request, now: float) -> None:
            enqueue(state, request, now)
            raise RecursionError

        with monkeypatch.context() as patch:
            patch.setattr(PoolState, "enqueue", fail)
            with pytest.raises(RecursionError):
                subject.pool.ask(subject.now)
        subject.pool.check_in(connection)
        assert (len(state.queue), list(state.idle)) == (0, [connection])
