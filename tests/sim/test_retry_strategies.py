"""Retry strategies from end to end: where they are set, what they cost, and what happens when they misbehave."""

from __future__ import annotations

import gc
import logging
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any
from weakref import ref

import anyio
import anyio.lowlevel
import pytest

import motorlite
from motorlite.errors import (
    ExecutionTimeout,
    InvalidOperation,
    OperationFailure,
    PoolFullError,
    PyMongoError,
    RetryStrategyError,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
)
from motorlite.overload import RateLimit
from motorlite.retry import (
    BestEffort,
    OverloadRetry,
    RetryAction,
    RetryBudget,
    RetryReason,
    RetryRequest,
    RetryStrategy,
    SpecificationRetry,
)
from motorlite.testing.cancellation import cancel_at
from motorlite.testing.scripted import Close, Reply, ScriptedDeployment, failure
from tests.support.cancellation import settle
from tests.support.clients import make_client, scripted_client
from tests.support.core import FOUND, HOST_UNREACHABLE, OVERLOADED, WRITTEN, A, answering, gaps, replica_set
from tests.support.events import Recorder
from tests.support.strategies import Strategy

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.clients import Client

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

NO_RETRY = RetryAction.no_retry()


async def error_of(call: Callable[[], Any]) -> PyMongoError:
    with pytest.raises(PyMongoError) as caught:
        await call()
    return caught.value


# --- where a strategy is set ---


async def test_set_for_a_client() -> None:
    strategy = Strategy(0.5)
    deployment = answering("find", *[HOST_UNREACHABLE] * 3, FOUND)
    async with scripted_client(deployment, retry_strategy=strategy) as client:
        assert await client.db.coll.find_one() == {"_id": 1}
        assert gaps(deployment["a:1"].times("find")) == [0, 0.5, 0.5]
    assert strategy.reasons == [RetryReason.TEMPORARY_FAILURE] * 2


LEVELS: dict[str, Callable[[Client, RetryStrategy], tuple[Any, Any]]] = {
    "database": lambda client, inner: (client.db.with_options(retry_strategy=inner).coll, nullcontext()),
    "get_database": lambda client, inner: (
        client.get_database("db").with_options(retry_strategy=inner).get_collection("coll"),
        nullcontext(),
    ),
    "collection": lambda client, inner: (client.db.coll.with_options(retry_strategy=inner), nullcontext()),
    "with more options": lambda client, inner: (
        client.db.with_options(retry_strategy=inner).coll.with_options(timeoutMS=None),
        nullcontext(),
    ),
    "block": lambda client, inner: (client.db.coll, motorlite.call_options(retry_strategy=inner)),
}


@pytest.mark.parametrize("level", LEVELS)
async def test_the_innermost_level_counts(level: str) -> None:
    outer, inner = Strategy(NO_RETRY), Strategy(0.25)
    deployment = answering("find", *[HOST_UNREACHABLE] * 2, FOUND)
    async with scripted_client(deployment, retry_strategy=outer) as client:
        collection, block = LEVELS[level](client, inner)
        with motorlite.call_options(retry_strategy=outer) if level == "block" else nullcontext(), block:
            await collection.find_one()
        assert (len(outer.asked), len(inner.asked)) == (0, 1)
        # What is set there does not last.
        deployment["a:1"].on("find", HOST_UNREACHABLE)
        await error_of(client.db.coll.find_one)
        assert (len(outer.asked), len(inner.asked)) == (1, 1)
        # The default ends it too.
        collection, block = LEVELS[level](client, SpecificationRetry())
        with block:
            error = await error_of(collection.find_one)
        assert (error.attempts, error.retry_refusal, len(outer.asked)) == (2, "attempts", 1)


class Forgetful(BestEffort):
    def __init__(self) -> None:  # without super().__init__()
        self.mine = 5


def of_budget(budget: Any) -> RetryStrategy:
    strategy: RetryStrategy = type("Wrong", (Strategy,), {"budget": budget})()
    return strategy


@pytest.mark.parametrize(
    ("wrong", "kind", "text"),
    [
        ("BestEffort", TypeError, "^retry_strategy must be an instance of RetryStrategy, not"),
        (BestEffort, TypeError, "^retry_strategy must be an instance of RetryStrategy, not"),
        (5, TypeError, "^retry_strategy must be an instance of RetryStrategy, not"),
        (of_budget(RetryBudget(5)), TypeError, r"^retry_strategy\.budget must be 'client' or None, not "),
        (of_budget(5), TypeError, r"^retry_strategy\.budget must be 'client' or None, not "),
        (of_budget("server"), ValueError, r"^retry_strategy\.budget must be 'client' or None, not "),
        (Forgetful(), AttributeError, "_budget"),
    ],
)
async def test_wrong_strategies_are_refused_where_they_are_set(wrong: Any, kind: type[Exception], text: str) -> None:
    """Not in the middle of an operation."""
    async with scripted_client(answering("find", FOUND)) as client:
        for use in (client.db.with_options, client.db.coll.with_options):
            with pytest.raises(kind, match=text):
                use(retry_strategy=wrong)
        with pytest.raises(kind, match=text), motorlite.call_options(retry_strategy=wrong):
            pass
    if isinstance(wrong, RetryStrategy):
        with pytest.raises(kind):
            make_client(answering("find", FOUND), retry_strategy=wrong)


async def test_cursors_keep_the_strategy_and_take_the_context_of_the_moment() -> None:
    strategy = Strategy(0.1)
    batch = {"cursor": {"id": 7, "ns": "db.coll", "firstBatch": [{"_id": 1}]}}
    deployment = answering("find", HOST_UNREACHABLE, HOST_UNREACHABLE, batch)
    deployment["a:1"].on("getMore", failure(6, "RetryableError"), {"cursor": {"id": 0, "ns": "x", "nextBatch": []}})
    async with scripted_client(deployment, retry_strategy=strategy, maxAdaptiveRetries=0) as client:
        with motorlite.call_options(context={"page": 1}):
            cursor = await client.db.coll.find()
        with motorlite.call_options(context={"page": 2}):
            assert await cursor.to_list() == [{"_id": 1}]
    seen = [(request.command_name, request.namespace, dict(request.context)) for request, _ in strategy.asked]
    assert seen == [("find", "db.coll", {"page": 1}), ("getMore", "db.coll", {"page": 2})]
    assert [request.idempotent for request, _ in strategy.asked] == [True, False]


async def test_the_drivers_own_commands_ask_nothing() -> None:
    strategy = Strategy(0.0)
    deployment = answering("endSessions", failure(6, "RetryableError"))
    async with scripted_client(deployment, retry_strategy=strategy, maxAdaptiveRetries=0) as client:
        await client.db.coll.find_one()
    assert deployment["a:1"].commands("endSessions")
    assert strategy.asked == []


# --- what it sees, and what is published ---


async def test_what_it_sees() -> None:
    strategy = Strategy(0.5)
    deployment = answering("find", Reply(HOST_UNREACHABLE, 1.0), HOST_UNREACHABLE, HOST_UNREACHABLE, FOUND)
    async with scripted_client(deployment, retry_strategy=strategy) as client:
        await client.db.coll.find_one()
    (first, _), (second, _) = strategy.asked
    assert [first.elapsed, second.elapsed] == pytest.approx([1.0, 1.5])
    assert (first.retry_attempts, second.retry_attempts) == (1, 2)
    assert (first.address, first.remaining, first.server_hint) == (A, None, None)
    assert (first.command_name, first.namespace, first.idempotent) == ("find", "db.coll", True)


async def test_the_time_in_the_queue_counts() -> None:
    strategy = Strategy(NO_RETRY)
    options: dict[str, Any] = {"maxPoolSize": 1, "waitQueueTimeoutMS": 2000, "retry_strategy": strategy}
    async with (
        scripted_client(answering("find", Reply(FOUND, 10.0)), **options) as client,
        anyio.create_task_group() as group,
    ):
        group.start_soon(client.db.coll.find_one)
        await anyio.sleep(0.5)
        with pytest.raises(WaitQueueTimeoutError):
            await client.db.coll.find_one()
    ((request, reason),) = strategy.asked
    assert request.elapsed == pytest.approx(2.0)
    assert reason is RetryReason.CONNECTION_NOT_AVAILABLE


async def test_the_wait_for_a_rate_limit_counts() -> None:
    strategy = Strategy(NO_RETRY)
    deployment = answering("find", FOUND)
    limit = RateLimit(rate=0.5, burst=1, strategy="queue")
    async with scripted_client(deployment, retry_strategy=strategy, rate_limit=limit) as client:
        await client.db.coll.find_one()
        deployment["a:1"].on("find", HOST_UNREACHABLE)
        await error_of(client.db.coll.find_one)
    ((request, _),) = strategy.asked
    assert request.elapsed == pytest.approx(2.0)


async def test_one_that_repeats_refused_operations_at_once_lets_other_tasks_run() -> None:
    """Else the operations that it waits for would never end."""
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    strategy = Strategy(*[0.0] * 50, NO_RETRY)
    deployment = answering("find", FOUND, Reply(FOUND, 1.0))
    async with scripted_client(deployment, maxPoolSize=1, wait_queue="reject") as client:
        await client.db.coll.find_one()
        async with anyio.create_task_group() as group:
            group.start_soon(client.db.coll.find_one)
            await settle()
            group.start_soon(count_turns)
            impatient = client.db.coll.with_options(retry_strategy=strategy)
            error = await error_of(impatient.find_one)
            group.cancel_scope.cancel()
    assert isinstance(error, PoolFullError)
    assert strategy.reasons == [RetryReason.NOT_ADMITTED] * 51
    assert turns >= 40


async def test_an_operation_that_finds_no_server_can_be_retried() -> None:
    strategy = Strategy(0.0, NO_RETRY)
    deployment = replica_set(servers=2)
    async with scripted_client(deployment, retry_strategy=strategy, serverSelectionTimeoutMS=1000) as client:
        await client.aconnect(timeoutMS=0)
        deployment.step_down(None)
        await anyio.sleep(11)
        with pytest.raises(ServerSelectionTimeoutError) as caught:
            await client.db.coll.insert_one({})
    assert strategy.reasons == [RetryReason.NO_SUITABLE_SERVER] * 2
    assert [request.elapsed for request, _ in strategy.asked] == [pytest.approx(1.0), pytest.approx(2.0)]
    assert caught.value.attempts == 2


async def test_every_decision_is_published_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder()
    strategy = Strategy(0.5, NO_RETRY)
    deployment = answering("find", HOST_UNREACHABLE)
    with caplog.at_level(logging.DEBUG, "motorlite.retry"):
        async with scripted_client(deployment, retry_strategy=strategy, event_listeners=[recorder]) as client:
            error = await error_of(client.db.coll.find_one)
            assert client.stats().retries == {"temporary failure": 2}
            assert client.stats().refusals == {"attempts": 1}
    facts = [(event.reason, event.rule, event.permitted, event.refusal, event.delay) for event in recorder.retries]
    assert facts == [
        ("temporary failure", "specification", True, None, 0.0),
        ("temporary failure", "strategy", True, None, 0.5),
        ("temporary failure", "strategy", False, "attempts", 0.0),
    ]
    assert [event.attempt for event in recorder.retries] == [1, 2, 3]
    assert (error.attempts, error.retry_refusal) == (3, "attempts")
    assert error.retry_reasons == ("temporary failure",) * 2
    texts = [record.getMessage() for record in caplog.records if "Attempt" in record.getMessage()]
    assert len(texts) == 3
    assert all("temporary failure" in text for text in texts)
    assert "retrying in 500" in texts[1]
    assert "not retried (attempts)" in texts[2]


async def test_a_numbered_write_is_sent_again_with_the_same_number() -> None:
    strategy = Strategy(0.0)
    deployment = answering("insert", *[Close()] * 3, WRITTEN)
    async with scripted_client(deployment, retry_strategy=strategy) as client:
        await client.db.coll.insert_one({"_id": 1})
    assert len({command["txnNumber"] for command in deployment["a:1"].commands("insert")}) == 1
    assert [request.idempotent for request, _ in strategy.asked] == [True, True]


async def test_operations_of_several_tasks_have_no_order() -> None:
    """The first operation is retried; the second one, which began later, ends before it."""
    deployment = answering("find", HOST_UNREACHABLE, FOUND)
    ended: list[str] = []
    async with scripted_client(deployment, retry_strategy=Strategy(1.0), retryReads=True) as client:

        async def run(name: str) -> None:
            await client.db.coll.find_one()
            ended.append(name)

        async with anyio.create_task_group() as group:
            group.start_soon(run, "first")
            await anyio.lowlevel.checkpoint()
            deployment["a:1"].on("find", HOST_UNREACHABLE, HOST_UNREACHABLE, FOUND)
            await anyio.sleep(0.5)
            group.start_soon(run, "second")
    assert ended == ["second", "first"]


# --- time ---


@pytest.mark.parametrize("limit", [300, 2500])
async def test_a_delay_beyond_the_time_limit_ends_the_operation_when_its_time_has_passed(limit: int) -> None:
    recorder = Recorder()
    deployment = replica_set()
    options: dict[str, Any] = {"maxAdaptiveRetries": 0, "event_listeners": [recorder]}
    async with scripted_client(deployment, retry_strategy=Strategy(60.0), **options) as client:
        await client.aconnect(timeoutMS=0)
        deployment["a:1"].on("ping", Reply(failure(6, "RetryableError"), 0.1))
        begin = anyio.current_time()
        error = await error_of(lambda: client.db.command("ping", timeoutMS=limit))
        assert anyio.current_time() - begin == pytest.approx(limit / 1000)
    assert isinstance(error, ExecutionTimeout)
    assert isinstance(error.__cause__, OperationFailure)
    assert error.__cause__.code == 6
    assert (error.timeout, error.phase, error.attempts, error.retry_refusal) == (True, "retry delay", 1, "deadline")
    assert error.address == A
    assert len(deployment["a:1"].commands("ping")) == 1, "it is never sent again"
    refused = recorder.retries[-1]
    assert (refused.permitted, refused.rule, refused.refusal) == (False, "strategy", "deadline")
    assert refused.delay == pytest.approx(limit / 1000 - 0.1)


@pytest.mark.parametrize("extension", [None, 0, 0.0005, 10])
async def test_a_delay_beyond_a_cancel_scope_ends_with_its_cancellation(extension: float | None) -> None:
    """If both are due at the same time, either timer may fire first. The end of a scope is no timeout."""
    deployment = answering("find", HOST_UNREACHABLE)
    async with scripted_client(deployment, retry_strategy=Strategy(60.0)) as client, anyio.create_task_group() as group:
        begin, error = anyio.current_time(), None
        with anyio.CancelScope(deadline=begin + 2) as scope:

            async def extend() -> None:
                await anyio.sleep(1)
                scope.deadline += extension or 0

            if extension is not None:
                group.start_soon(extend)
            error = await error_of(client.db.coll.find_one)
        assert anyio.current_time() - begin == pytest.approx(2, abs=0.002)
    assert len(deployment["a:1"].commands("find")) == 2
    assert scope.cancelled_caught is (extension != 10)
    if not scope.cancelled_caught:
        assert isinstance(error, OperationFailure)
        assert (error.code, error.timeout, error.retry_refusal) == (6, False, "deadline")


async def test_a_new_primary_does_not_shorten_a_strategys_delay() -> None:
    """The policy's backoff ends then; what a strategy says is what it means."""
    deployment = replica_set(servers=2)
    options: dict[str, Any] = {"maxAdaptiveRetries": 0, "retry_strategy": Strategy(8.0)}
    async with scripted_client(deployment, **options) as client, anyio.create_task_group() as group:
        await client.db.command("ping")
        await anyio.sleep(1)
        deployment["a:1"].drop_connections()
        deployment["a:1"].is_down = True

        async def elect() -> None:
            await anyio.sleep(1)
            deployment.step_down("b:1")
            for server in client._core.topology.servers:
                assert server.monitor is not None
                server.monitor.request_check()

        group.start_soon(elect)
        begin = anyio.current_time()
        await client.db.coll.insert_one({})
        assert anyio.current_time() - begin == pytest.approx(8, abs=0.01)


async def test_best_effort_without_a_time_limit_gives_up() -> None:
    deployment = answering("find", HOST_UNREACHABLE)
    async with scripted_client(deployment, retry_strategy=BestEffort(give_up_after=3)) as client:
        begin = anyio.current_time()
        error = await error_of(client.db.coll.find_one)
        assert 3 <= anyio.current_time() - begin < 3.5
    assert error.retry_refusal == "attempts"


@pytest.mark.parametrize("limit", [2, 5])
async def test_best_effort_retries_until_the_timeout(limit: int) -> None:
    """And gives up no earlier."""
    deployment = answering("find", OVERLOADED)
    options: dict[str, Any] = {"maxAdaptiveRetries": 0, "retry_strategy": BestEffort(give_up_after=1)}
    async with scripted_client(deployment, **options) as client:
        await client.admin.command("ping")
        begin = anyio.current_time()
        error = await error_of(lambda: client.db.coll.find_one(timeoutMS=limit * 1000))
        assert anyio.current_time() - begin == pytest.approx(limit)
    assert error.timeout
    found = gaps(deployment["a:1"].times("find"))
    assert found[:9] == pytest.approx([0.001 * 2**number for number in range(9)])
    assert set(found[9:]) == {0.5}
    # Nothing is left out: the next retry would have been after the end.
    assert limit - sum(found) <= 0.5
    assert error.attempts == len(found) + 1


@pytest.mark.parametrize(
    ("answers", "limit", "rules"),
    [
        # A sixth and further retries after overload errors, whether or not there is a time limit.
        ([*[OVERLOADED] * 8, FOUND], None, ["overload policy"] * 5 + ["strategy"] * 3),
        ([*[OVERLOADED] * 8, FOUND], 5000, ["overload policy"] * 5 + ["strategy"] * 3),
        # Nothing where the time limit already permits further retries, as docs/retry-strategies.md says: the delays
        # are then those of the ordinary rule, up to a second each.
        ([*[HOST_UNREACHABLE] * 8, FOUND], 5000, ["specification"] * 8),
        ([*[HOST_UNREACHABLE] * 8, FOUND], None, ["specification"] + ["strategy"] * 7),
    ],
)
async def test_best_effort_adds_what_the_specifications_refuse(
    answers: list[Any], limit: int | None, rules: list[str]
) -> None:
    recorder = Recorder()
    options: dict[str, Any] = {"retry_strategy": BestEffort(), "event_listeners": [recorder]}
    async with scripted_client(answering("find", *answers), **options) as client:
        assert await client.db.coll.find_one(timeoutMS=limit) == {"_id": 1}
    assert [event.rule for event in recorder.retries] == rules


# --- strategies that misbehave ---


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (LookupError("no tenant"), "raised LookupError: no tenant"),
        (None, "returned None instead of a RetryAction"),
        (ExceptionGroup("many", [ValueError("x")]), "raised ExceptionGroup: many"),
        (OperationFailure("its own query", 91), "raised motorlite.errors.OperationFailure: its own query"),
    ],
)
async def test_a_strategy_that_fails_ends_its_operation_and_nothing_else(answer: Any, text: str) -> None:
    deployment = answering("find", HOST_UNREACHABLE, HOST_UNREACHABLE, FOUND)
    async with scripted_client(deployment, retry_strategy=Strategy(answer)) as client:
        error = await error_of(client.db.coll.find_one)
        assert isinstance(error, RetryStrategyError)
        assert text in str(error)
        assert isinstance(error.__cause__, OperationFailure)
        assert error.__cause__.code == 6
        assert (error.attempts, error.retry_refusal, error.address) == (2, "strategy failed", A)
        assert error.error_labels == frozenset()
        # Nothing is lost: the connection, the session and the budget are as before.
        assert await client.db.coll.find_one() == {"_id": 1}
        stats = client.stats()
        assert (stats.tokens, stats.sessions, stats.servers[A].idle) == (1000, 1, 1)


async def test_a_strategy_that_hangs_is_bounded_by_the_time_limit() -> None:
    deployment = answering("find", HOST_UNREACHABLE)
    options: dict[str, Any] = {"retry_strategy": Strategy(0.0, delay=1e9), "maxAdaptiveRetries": 0}
    async with scripted_client(deployment, **options) as client:
        begin = anyio.current_time()
        deployment["a:1"].on("ping", failure(6, "RetryableError"))
        error = await error_of(lambda: client.db.command("ping", timeoutMS=1500))
        assert anyio.current_time() - begin == pytest.approx(1.5, abs=0.01)
        assert isinstance(error, ExecutionTimeout)
        # Without a time limit: as long as the operation would wait for a server.
        begin = anyio.current_time()
        error = await error_of(client.db.coll.find_one)
        assert anyio.current_time() - begin == pytest.approx(30)
        assert isinstance(error, RetryStrategyError)
        assert "did not answer in time" in str(error)


@pytest.mark.parametrize(
    ("answer", "kind"), [(60.0, ExecutionTimeout), (LookupError("x"), RetryStrategyError)], ids=["too late", "failed"]
)
async def test_a_getmore_that_was_refused_leaves_its_cursor_usable(answer: Any, kind: type[PyMongoError]) -> None:
    deployment = answering("find", {"cursor": {"id": 7, "ns": "db.coll", "firstBatch": [{"_id": 1}]}})
    last = {"cursor": {"id": 0, "ns": "db.coll", "nextBatch": [{"_id": 2}]}}
    deployment["a:1"].on("getMore", OVERLOADED, last)
    async with scripted_client(deployment, retry_strategy=Strategy(answer), maxAdaptiveRetries=0) as client:
        cursor = client.db.coll.find({}, timeoutMS=1000, timeoutMode="iteration")
        assert isinstance(await error_of(cursor.to_list), kind)
        assert cursor.alive
        assert await cursor.to_list() == [{"_id": 1}, {"_id": 2}]
        assert deployment["a:1"].commands("killCursors") == []


async def test_cancelled_at_every_point() -> None:
    strategy = Strategy(0.25, delay=0.5)
    deployment = replica_set()
    async with scripted_client(deployment, retry_strategy=strategy, maxPoolSize=1) as client:
        await client.aconnect(timeoutMS=0)
        for late in (False, True):
            point, reached = 0, True
            while reached and point < 60:
                point += 1
                deployment["a:1"].on("find", *[HOST_UNREACHABLE] * 3, FOUND)
                reached = await cancel_at(client.db.coll.find_one, point, late=late)
                await settle()
                await anyio.sleep(2)
                deployment["a:1"].on("find", FOUND)
                assert await client.db.coll.find_one() == {"_id": 1}
                assert client.stats().tokens == 1000
            assert 3 < point < 60


@pytest.mark.parametrize(
    ("strategy", "limit", "kind"),
    [
        (Strategy(0.0, delay=1.0), None, OperationFailure),
        (Strategy(NO_RETRY, delay=1.0), None, OperationFailure),
        # Its delay runs, or the rest of the time limit.
        (Strategy(60.0), None, InvalidOperation),
        (Strategy(60.0), 20_000, InvalidOperation),
    ],
)
async def test_the_client_closes_while_a_strategy_thinks_or_its_delay_runs(
    strategy: Strategy, limit: int | None, kind: type[PyMongoError]
) -> None:
    deployment = answering("find", OVERLOADED)
    client = make_client(deployment, retry_strategy=strategy, maxAdaptiveRetries=0)
    errors: list[PyMongoError] = []

    async def run() -> None:
        errors.append(await error_of(lambda: client.db.coll.find_one(timeoutMS=limit)))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await anyio.sleep(0.5)
        begin = anyio.current_time()
        await client.close(grace=10)
        assert anyio.current_time() == begin
    await deployment.close()
    (error,) = errors
    assert len(deployment["a:1"].commands("find")) == 1
    assert type(error) is kind
    if kind is InvalidOperation:
        assert isinstance(error.__cause__, OperationFailure)
    else:
        assert error.retry_refusal in ("closed", "attempts")


@pytest.mark.parametrize("answer", [LookupError("x"), NO_RETRY, None, 60.0])
async def test_no_error_forms_a_cycle(answer: Any) -> None:
    class Probe:
        """Lives as long as the frame that it is in."""

    options: dict[str, Any] = {"maxAdaptiveRetries": 0, "timeoutMS": 1000}
    async with scripted_client(answering("find", OVERLOADED), retry_strategy=Strategy(answer), **options) as client:
        await error_of(client.db.coll.find_one)
        gc.collect()
        gc.disable()
        try:

            async def run() -> ref[Probe]:
                probe = Probe()
                with suppress(PyMongoError):
                    await client.db.coll.find_one()
                return ref(probe)

            probe = await run()
            # The loop of trio keeps what it resumed a task with, such as a cancellation, until the task's next step.
            await anyio.lowlevel.checkpoint()
            assert probe() is None
        finally:
            gc.enable()


@pytest.mark.parametrize("in_transaction", [False, True])
async def test_what_it_does_itself_is_no_part_of_the_callers_session(in_transaction: bool) -> None:
    """A write of its own would wait for the turn of the write that waits for it."""

    class Writing(RetryStrategy):
        async def retry_after(self, request: RetryRequest, reason: RetryReason) -> RetryAction:
            with motorlite.call_options(retry_strategy=SpecificationRetry()):
                await client.audit.log.insert_one({})
            return NO_RETRY

    deployment = replica_set()
    server = deployment["a:1"]
    server.on("insert", lambda command: WRITTEN if command["$db"] == "audit" else OVERLOADED)
    async with scripted_client(deployment, retry_strategy=Writing(), maxAdaptiveRetries=0) as client:
        begin = anyio.current_time()
        async with client.start_session() as session, session.bind(end_session=False):
            if in_transaction:
                session.start_transaction()
            error = await error_of(lambda: client.db.coll.insert_one({}))
            assert isinstance(error, OperationFailure)
        assert anyio.current_time() == begin
        refused, own = server.commands("insert")
        assert own["lsid"] != refused["lsid"]
        assert "autocommit" not in own


async def test_a_strategy_may_use_the_client() -> None:
    """It may ask a collection of its own for its decision."""

    class Asks(RetryStrategy):
        async def retry_after(self, request: RetryRequest, reason: RetryReason) -> RetryAction:
            with motorlite.call_options(retry_strategy=SpecificationRetry()):
                found = await client.settings.retries.find_one({"_id": request.namespace})
            assert found is not None
            return RetryAction.with_duration(0.125)

    failures = [HOST_UNREACHABLE] * 2
    deployment = answering("find", lambda command: failures.pop() if command["find"] == "coll" and failures else FOUND)
    async with scripted_client(deployment, retry_strategy=Asks()) as client:
        assert await client.db.coll.find_one() == {"_id": 1}
    assert [command["find"] for command in deployment["a:1"].commands("find")] == ["coll", "coll", "retries", "coll"]


# --- budgets and amplification ---


class Eager(RetryStrategy):
    """The worst that a user can write."""

    def retry_after(self, request: RetryRequest, reason: RetryReason) -> RetryAction:
        return RetryAction.with_duration(0.01)


STRATEGIES: dict[str, Callable[[], RetryStrategy]] = {
    "specifications": SpecificationRetry,
    "best effort": BestEffort,
    "overload": lambda: OverloadRetry(max_retries=8),
    "revision": OverloadRetry.revision_2026_07,
    "eager": Eager,
}


@pytest.mark.parametrize("per_server", [None, 25])
@pytest.mark.parametrize("name", STRATEGIES)
async def test_an_overloaded_server_gets_what_the_rules_allow(name: str, per_server: float | None) -> None:
    """Fifty operations against a server that always refuses: at most one token for each retry, whatever decides.

    The later revision has no budget. In place of the client's policy it permits two retries of each operation.
    """
    operations, capacity = 50, 40
    has_budget = name != "revision"
    budget = RetryBudget(capacity, per_server=per_server)
    deployment = answering("find", OVERLOADED)
    options: dict[str, Any] = {"retry_strategy": STRATEGIES[name](), "retry_budget": budget}
    async with scripted_client(deployment, **options) as client:
        async with anyio.create_task_group() as group:
            for _ in range(operations):
                group.start_soon(error_of, client.db.coll.find_one)
        allowed = capacity if per_server is None else per_server
        sent = len(deployment["a:1"].commands("find"))
        assert sent == (operations + allowed if has_budget else operations * 3)
        assert client.stats().retries == {"overload": sent - operations}
        left = capacity - allowed if has_budget else capacity
        assert (budget.tokens, client.stats().tokens) == (left, left)
        # Nothing has come back since.
        await error_of(client.db.coll.find_one)
        assert len(deployment["a:1"].commands("find")) == sent + (1 if has_budget else 3)


async def test_no_retry_reaches_an_overloaded_server_without_a_token() -> None:
    """Not even if retries between two overload errors do not get that far: those return their tokens."""
    budget, capacity, operations = RetryBudget(20), 20, 40
    deployment = answering("find", Reply(OVERLOADED, 0.02))
    options: dict[str, Any] = {"maxPoolSize": 2, "waitQueueTimeoutMS": 30, "maxAdaptiveRetries": 0}
    async with scripted_client(deployment, retry_strategy=Eager(), retry_budget=budget, **options) as client:
        async with anyio.create_task_group() as group:
            for _ in range(operations):
                group.start_soon(error_of, client.db.coll.find_one)
        assert client.stats().retries["connection not available"] > 0
        assert len(deployment["a:1"].commands("find")) <= operations + capacity
        assert budget.tokens == 0


@pytest.mark.parametrize("name", STRATEGIES)
async def test_a_server_that_always_fails_otherwise(name: str) -> None:
    """Ordinary errors cost no token: the strategy's delays limit what is sent in ten seconds."""
    deployment = answering("find", HOST_UNREACHABLE)
    async with scripted_client(deployment, retry_strategy=STRATEGIES[name]()) as client:
        with anyio.move_on_after(10):
            await error_of(client.db.coll.find_one)
        sent = len(deployment["a:1"].commands("find"))
        assert client.stats().tokens == 1000
    # Two by the specification; then after 2, 4, 8 ... 256 ms and every half second, or every 10 ms.
    assert sent == {"best effort": 2 + 8 + 18, "eager": 2 + 1000}.get(name, 2)


async def test_the_tokens_of_one_server_do_not_end_the_retries_of_another() -> None:
    budget = RetryBudget(100, per_server=3)
    deployment = ScriptedDeployment(["a:1", "b:1"], replica_set="rs")
    deployment["a:1"].on("insert", OVERLOADED)
    deployment["b:1"].on("find", *[OVERLOADED] * 2, FOUND)
    async with scripted_client(deployment, retry_budget=budget, enableOverloadRetargeting=False) as client:
        error = await error_of(lambda: client.db.coll.insert_one({}))
        assert (error.attempts, error.retry_refusal) == (4, "tokens")
        assert budget.tokens_for(("a", 1)) == 0
        secondary = client.db.coll.with_options(read_preference=motorlite.ReadPreference.SECONDARY)
        assert await secondary.find_one() == {"_id": 1}
        assert budget.tokens_for(("b", 1)) == pytest.approx(3 - 2 + 1.1)
        tokens = {address: server.retry_tokens for address, server in client.stats().servers.items()}
        assert tokens == {("a", 1): 0, ("b", 1): budget.tokens_for(("b", 1))}


async def test_clients_share_a_budget() -> None:
    budget = RetryBudget(7)
    first, second = answering("find", OVERLOADED), answering("find", OVERLOADED)
    async with (
        scripted_client(first, retry_budget=budget) as one,
        scripted_client(second, retry_budget=budget) as other,
    ):
        assert (await error_of(one.db.coll.find_one)).attempts == 6
        error = await error_of(other.db.coll.find_one)
        assert (error.attempts, error.retry_refusal) == (3, "tokens")
        assert one.stats().tokens == other.stats().tokens == budget.tokens == 0
        first["a:1"].on("find", FOUND)
        for _ in range(10):
            await one.db.coll.find_one()
        assert other.stats().tokens == pytest.approx(1)


@pytest.mark.parametrize(("of_client", "of_collection", "in_block"), [(0, 3, 1), (5, 1, 0)])
async def test_an_overload_policy_as_a_strategy(of_client: int, of_collection: int, in_block: int) -> None:
    """It takes the place of the client's, with more retries or fewer."""
    deployment = answering("find", OVERLOADED)
    async with scripted_client(deployment, maxAdaptiveRetries=of_client) as client:
        collection = client.db.coll.with_options(retry_strategy=OverloadRetry(max_retries=of_collection))
        assert (await error_of(collection.find_one)).attempts == of_collection + 1
        assert gaps(deployment["a:1"].times("find")) == [0.1, 0.2, 0.4][:of_collection]
        with motorlite.call_options(retry_strategy=OverloadRetry(max_retries=in_block)):
            assert (await error_of(client.db.coll.find_one)).attempts == in_block + 1
        assert (await error_of(client.db.coll.find_one)).attempts == of_client + 1
