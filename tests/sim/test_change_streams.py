"""Change streams on scripted deployments: failover, overload, time limits, cancellation, load balancers."""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite.errors import InvalidOperation, NetworkTimeout, OperationFailure, PyMongoError
from motorlite.monitoring import RetryEvent, ServerSelectionFailedEvent, ServerSelectionWaitingEvent
from motorlite.testing.cancellation import cancel_at, count_await_points
from motorlite.testing.scripted import Close, Hang, Reply, ScriptedDeployment, failure, overloaded
from tests.support.cancellation import counted
from tests.support.change_log import ChangeLog, numbers, token
from tests.support.clients import Client, scripted_client
from tests.support.events import Recorder
from tests.support.kept_errors import garbage, without_collector

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from motorlite import AsyncChangeStream
    from motorlite.testing.scripted import Answer

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

LABEL = "ResumableChangeStreamError"
LATE_FAILURE = Reply(failure(6, LABEL), 0.001)
LEVELS: dict[str, Callable[[Client], Any]] = {
    "collection": lambda client: client.db.coll,
    "database": lambda client: client.db,
    "client": lambda client: client,
}


class Watched:
    """A client, its deployment, and the log of changes behind all servers."""

    def __init__(self, deployment: ScriptedDeployment, log: ChangeLog, client: Client) -> None:
        self.deployment = deployment
        self.log = log
        self.client = client

    def watch(self, **options: Any) -> AsyncChangeStream[dict[str, Any]]:
        return self.client.db.coll.watch(**options)

    @property
    def server(self) -> Any:
        return self.deployment.services[0] if self.deployment.services else self.deployment["a:1"]

    async def settle(self) -> None:
        """Let what kills cursors in the background finish."""
        await anyio.sleep(20)

    def in_use(self) -> int:
        return sum(server.in_use + server.pending for server in self.client.stats().servers.values())


@asynccontextmanager
async def watched(
    log: ChangeLog | None = None, *, members: int = 1, services: int = 0, wire_version: int = 17, **options: Any
) -> AsyncIterator[Watched]:
    addresses = ["a:1", "b:1", "c:1"][:members]
    name = None if services else "rs"
    deployment = ScriptedDeployment(addresses, replica_set=name, services=services, wire_version=wire_version)
    log = log or ChangeLog()
    log.serve(*(deployment.services or deployment.servers.values()))
    async with scripted_client(deployment, **options) as client:
        await client.admin.command("ping")
        yield Watched(deployment, log, client)


# --- retries ---


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("answer", [Close(), failure(189), overloaded()], ids=["network", "failover", "overload"])
async def test_watch_is_retried_on_all_levels(level: str, answer: Answer) -> None:
    async with watched() as it:
        it.server.on("aggregate", answer, it.log.aggregate)
        async with await LEVELS[level](it.client).watch() as stream:
            assert stream.alive
        assert len(it.server.commands("aggregate")) == 2


async def test_an_overloaded_server_gets_more_attempts_at_opening_and_reading() -> None:
    log = ChangeLog(3)
    async with watched(log) as it:
        it.server.on("aggregate", *[overloaded()] * 5, log.aggregate)
        it.server.on("getMore", *[overloaded()] * 5, log.get_more)
        async with it.watch(resume_after=token(0)) as stream:
            assert numbers(await stream.to_list()) == [1, 2, 3]
        assert (len(it.server.commands("aggregate")), len(it.server.commands("getMore"))) == (6, 7)
        assert it.client.stats().retries["overload"] == 10


@pytest.mark.parametrize("answer", [overloaded(), failure(462, "RetryableError")], ids=["overload", "retryable"])
async def test_a_stream_whose_getmore_was_shed_too_often_continues_where_it_was(answer: Answer) -> None:
    log = ChangeLog(3)
    async with watched(log) as it:
        it.server.on("getMore", *[answer] * 6, log.get_more)
        async with it.watch(resume_after=token(0)) as stream:
            assert numbers([await stream.next(), await stream.next()]) == [1, 2]
            with pytest.raises(OperationFailure) as caught:
                await stream.next()
            assert caught.value.attempts == 6
            assert numbers([await stream.next()]) == [3]
        assert len(log.stages) == 1


# --- resuming ---


FAILURES: dict[str, Answer] = {
    "network": Close(),
    "labelled": failure(6, LABEL),
    "labelled failover": failure(11602, LABEL),
    "cursor not found": failure(43),
}


@pytest.mark.parametrize("services", [0, 2], ids=["replica set", "load balanced"])
@pytest.mark.parametrize("what", FAILURES)
async def test_no_change_is_lost_or_repeated(what: str, services: int) -> None:
    log = ChangeLog(20, batch=3)
    async with watched(log, services=services) as it:
        for server in it.deployment.services or [it.server]:
            server.on("getMore", log.get_more, FAILURES[what], log.get_more, FAILURES[what], log.get_more)
        async with it.watch(resume_after=token(0)) as stream:
            assert numbers([await stream.next() for _ in range(20)]) == list(range(1, 21))
            assert stream.resume_token == token(20)
        assert len(log.stages) > 2
        await it.settle()
        assert it.in_use() == 0
        # Behind a load balancer, a cursor ends with its connection.
        assert log.cursors == {} or what == "cursor not found" or (services and what == "network")


async def test_a_stream_without_a_session_gets_one_where_there_are_sessions() -> None:
    log = ChangeLog(1)
    async with watched(log) as it:
        it.server.hello = {"logicalSessionTimeoutMinutes": None}
        it.server.drop_connections()
        await anyio.sleep(20)
        async with it.watch(resume_after=token(0)) as stream:
            await stream.next()
            it.server.hello = {}
            it.server.drop_connections()
            log.length = 2
            assert numbers([await stream.next()]) == [2]
            log.length = 3
            assert numbers([await stream.next()]) == [3]
        sent = [received.document.get("lsid") for received in it.server.received if received.name != "killCursors"][1:]
        assert sent[0] is None
        assert len({one["id"] for one in sent[2:] if one is not None}) == 1
        assert it.client.stats().sessions == 1


async def test_the_next_primary_continues() -> None:
    log = ChangeLog(4)
    async with watched(log, members=3, heartbeatFrequencyMS=500) as it:
        a, b = it.deployment["a:1"], it.deployment["b:1"]
        async with it.watch(resume_after=token(0)) as stream, anyio.create_task_group() as group:
            assert len(await stream.to_list()) == 4

            async def fail_over() -> None:
                await anyio.sleep(0.1)
                a.is_down = True
                a.drop_connections()
                it.deployment.step_down(None)
                await anyio.sleep(3)
                log.length = 6
                it.deployment.step_down("b:1")

            group.start_soon(fail_over)
            assert numbers([await stream.next(), await stream.next()]) == [5, 6]
            assert stream.address == b.address


async def test_a_primary_that_was_lost_between_two_steps_is_not_waited_for() -> None:
    log = ChangeLog(2)
    async with watched(log, members=3, heartbeatFrequencyMS=500) as it:
        a = it.deployment["a:1"]
        async with it.watch(resume_after=token(0)) as stream:
            await stream.to_list()
            a.is_down = True
            a.drop_connections()
            it.deployment.step_down("b:1")
            await anyio.sleep(5)
            log.length = 3
            before = anyio.current_time()
            assert numbers([await stream.next()]) == [3]
            assert anyio.current_time() - before < 0.1
            assert not it.deployment["b:1"].commands("getMore")


@pytest.mark.parametrize("options", [{}, {"timeoutMS": 10_000}], ids=["no limit", "limit"])
async def test_a_primary_that_is_lost_after_it_rejected_a_getmore_is_not_waited_for(options: dict[str, Any]) -> None:
    """It waited for the server selection timeout, and then raised the error of the overloaded server."""
    log, recorder = ChangeLog(2), Recorder(RetryEvent, ServerSelectionFailedEvent, ServerSelectionWaitingEvent)
    async with watched(log, members=3, heartbeatFrequencyMS=500, event_listeners=[recorder], **options) as it:
        a = it.deployment["a:1"]
        async with it.watch(resume_after=token(0)) as stream, anyio.create_task_group() as group:
            await stream.to_list()
            recorder.clear()
            a.on("getMore", overloaded())

            async def fail_over() -> None:
                await anyio.sleep(0.05)  # in the first backoff
                a.is_down = True
                a.drop_connections()
                log.length = 3
                it.deployment.step_down("b:1")

            group.start_soon(fail_over)
            before = anyio.current_time()
            assert numbers([await stream.next()]) == [3]
            assert anyio.current_time() - before < 2
            assert len(log.stages) == 2
    # No event says that the getMore begins to wait, or names an option or a deadline.
    waiting = recorder.of(ServerSelectionWaitingEvent)
    assert {event.operation_name for event in waiting} <= {"killCursors"}
    [failed] = [each for each in recorder.of(ServerSelectionFailedEvent) if each.operation_name == "getMore"]
    refused = recorder.of(RetryEvent)[-1]
    assert str(failed.failure).startswith("No server for the server a:1: none of the known servers is suitable (")
    assert str(refused.error) == str(failed.failure)
    assert "time used up" not in str(failed.failure)
    assert refused.refusal == "not retryable"


async def test_a_connection_that_is_lost_after_a_getmore_was_rejected_on_it() -> None:
    """Behind a load balancer, no other connection reaches the cursor."""
    log = ChangeLog(2)
    async with watched(log, services=1) as it:
        async with it.watch(resume_after=token(0)) as stream, anyio.create_task_group() as group:
            await stream.to_list()
            it.server.on("getMore", overloaded(), log.get_more)

            async def lose() -> None:
                await anyio.sleep(0.05)  # in the first backoff
                log.length = 3
                it.server.drop_connections()

            group.start_soon(lose)
            assert numbers([await stream.next()]) == [3]
            assert len(log.stages) == 2
        await it.settle()
        assert it.in_use() == 0


async def test_reading_that_fails_again_and_again_does_not_flood_the_server() -> None:
    """Pauses grow; closing the client ends one."""
    async with watched() as it, anyio.create_task_group() as group:
        it.server.on("getMore", failure(6, LABEL))
        stream = await it.watch()

        async def read() -> None:
            with pytest.raises(InvalidOperation, match="closed"):
                await stream.next()

        group.start_soon(read)
        await anyio.sleep(60)
        assert 5 < len(it.log.stages) < 20
        before = anyio.current_time()
        await it.client.close()
        assert anyio.current_time() - before < 0.1


async def test_closing_the_stream_ends_a_step_of_another_task() -> None:
    async with watched() as it, anyio.create_task_group() as group:
        it.server.on("getMore", Reply(failure(237, message="operation was interrupted"), 1.0))
        stream = await it.watch()
        ended: list[Any] = []

        async def read() -> None:
            ended.extend([change async for change in stream])
            ended.append(None)

        group.start_soon(read)
        await anyio.sleep(0.5)
        await stream.close()
        await anyio.sleep(1)
        assert ended == [None]


# --- time limits ---


async def test_a_limit_covers_the_whole_step() -> None:
    log = ChangeLog(wait=0.4)
    async with watched(log) as it:
        async with await it.watch(timeoutMS=1000) as stream:
            before = anyio.current_time()
            with pytest.raises(NetworkTimeout) as caught:
                await stream.next()
            assert anyio.current_time() - before == pytest.approx(1.0, abs=0.05)
            assert (caught.value.timeout, stream.alive) == (True, True)
            assert len(it.server.commands("getMore")) == 3
            log.length = 1
            assert numbers([await stream.next()]) == [1]
            assert len(log.stages) == 2
        await it.settle()
        assert (log.cursors, it.in_use()) == ({}, 0)


async def test_the_limit_goes_on_while_the_stream_resumes() -> None:
    async with watched() as it:
        it.server.on("getMore", Reply(failure(6, LABEL), 0.6))
        it.server.on("aggregate", it.log.aggregate, Hang())
        async with await it.watch(timeoutMS=1000) as stream:
            before = anyio.current_time()
            with pytest.raises(NetworkTimeout):
                await stream.next()
            assert anyio.current_time() - before == pytest.approx(1.0, abs=0.05)
            sent = it.server.commands("aggregate")
            assert [command["maxTimeMS"] for command in sent] == pytest.approx([1000, 400], abs=2)


async def test_a_cancel_scope_around_a_step_loses_nothing() -> None:
    log = ChangeLog(wait=0.3)
    async with watched(log) as it, await it.watch() as stream:
        found: list[Any] = []
        for number in range(1, 40):
            log.length = number // 2
            with anyio.move_on_after(0.05 * (number % 7) + 0.01):
                found.append(await stream.next())
        found += await stream.to_list()
        assert numbers(found) == list(range(1, log.length + 1))


# --- cancellation ---


async def read(stream: AsyncChangeStream[Any]) -> list[Any]:
    return [await stream.next()]


async def read_a_list(stream: AsyncChangeStream[Any]) -> list[Any]:
    """Several batches, of which the application gets all or nothing."""
    return await stream.to_list()


async def open_it(stream: AsyncChangeStream[Any]) -> list[Any]:
    await stream
    return []


async def close_it(stream: AsyncChangeStream[Any]) -> list[Any]:
    await stream.close()
    return []


def fail_once(it: Watched) -> None:
    it.server.on("getMore", LATE_FAILURE, it.log.get_more)


def break_the_connection(it: Watched) -> None:
    it.server.on("getMore", Close(), it.log.get_more)


def fail_twice(it: Watched) -> None:
    def at_last(command: dict[str, Any]) -> Any:
        it.log.length = 3
        return it.log.get_more(command)

    it.log.length = 0
    it.server.on("getMore", LATE_FAILURE, LATE_FAILURE, at_last, it.log.get_more)


@dataclass
class Scenario:
    """One step to cancel. `points`: the await points that were known when the test was written."""

    points: int = 1
    script: Callable[[Watched], None] = lambda _: None
    step: Callable[[AsyncChangeStream[Any]], Coroutine[Any, Any, list[Any]]] = read
    services: int = 0


SCENARIOS = {
    "opening": Scenario(step=open_it),
    "reading": Scenario(),
    "reading a list": Scenario(4, step=read_a_list),
    "resuming": Scenario(2, fail_once),
    "resuming over a new connection": Scenario(3, break_the_connection),
    "resuming slowly": Scenario(6, fail_twice),
    "closing": Scenario(step=close_it),
    "behind a load balancer": Scenario(2, fail_once, services=1),
}


@pytest.mark.parametrize("late", [False, True], ids=["now", "late"])
@pytest.mark.parametrize("name", SCENARIOS)
async def test_cancelled_at_each_await(name: str, late: bool, anyio_backend_name: str) -> None:
    if late and anyio_backend_name == "trio":
        pytest.skip("trio delivers a cancellation only when the task waits")
    scenario, point, was_reached = SCENARIOS[name], 0, True
    while was_reached:
        point += 1
        log = ChangeLog(0, batch=1, wait=0.1)
        async with watched(log, services=scenario.services) as it:
            with without_collector():
                stream = it.watch()
                if name != "opening":
                    await stream
                    log.length = 3
                scenario.script(it)
                found: list[Any] = []

                async def step(stream: Any = stream, found: list[Any] = found) -> None:
                    found.extend(await scenario.step(stream))

                was_reached = await cancel_at(step, point, late=late)
                if was_reached and name != "closing":
                    # Whatever the cancellation met, the stream goes on from where the application is.
                    await stream
                    log.length = max(log.length, 3) if name != "opening" else 0
                    found += await stream.to_list()
                    assert numbers(found) == list(range(1, log.length + 1))
                await stream.close()
                del stream, step
                await it.settle()
                assert it.in_use() == 0
                # Behind a load balancer, a cursor also ends with its connection.
                assert log.cursors == {} or scenario.services
    counted[f"change stream: {name}{' late' if late else ''} {anyio_backend_name}"] = point - 1
    assert point - 1 >= scenario.points


@pytest.mark.parametrize("services", [0, 1], ids=["replica set", "load balanced"])
@pytest.mark.parametrize("what", [*FAILURES, "fatal", "malformed", "cancellation"])
async def test_a_dropped_stream_leaves_nothing(what: str, services: int) -> None:
    """Dropped in every state that a failure may leave it in."""
    answers = {**FAILURES, "fatal": failure(280), "malformed": {"cursor": 5}, "cancellation": Hang()}
    async with watched(services=services, maxPoolSize=2) as it:
        sessions = None
        for resumes in (True, False):
            with without_collector():
                stream = await it.watch()
                it.server.on("getMore", answers[what])
                if not resumes:
                    it.server.on("aggregate", failure(13))
                with suppress(PyMongoError), anyio.move_on_after(20):
                    await stream.try_next()
                del stream
                await it.settle()
                assert not garbage()
            it.server.on("aggregate", it.log.aggregate)
            assert it.in_use() == 0
            assert it.log.cursors == {} or what == "cursor not found" or services
            assert sessions is None or it.client.stats().sessions == sessions
            sessions = it.client.stats().sessions


async def test_the_number_of_suspensions_of_a_warm_step() -> None:
    log = ChangeLog()
    async with watched(log) as it, await it.watch() as stream:
        log.length = 4
        assert await count_await_points(stream.next) == 1
        assert await count_await_points(stream.next) == 0
