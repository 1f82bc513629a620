"""Further ordinary retries of an operation back off and take tokens, so that timeoutMS makes no storm."""

from __future__ import annotations

from contextlib import nullcontext
from math import inf
from typing import TYPE_CHECKING, Any

import anyio
import pymongo
import pytest

import motorlite
from motorlite._base.deadline import Deadline
from motorlite.errors import (
    AutoReconnect,
    CircuitBreakerOpenError,
    NetworkTimeout,
    OperationFailure,
    PyMongoError,
    WaitQueueTimeoutError,
)
from motorlite.overload import CircuitBreaker
from motorlite.retry import BestEffort, FailFast, RetryBudget
from motorlite.testing.scripted import Close, Hang, failure
from tests.support.clients import scripted_client
from tests.support.core import (
    FOUND,
    HOST_UNREACHABLE,
    OVERLOADED,
    WRITTEN,
    answering,
    driver,
    fails,
    find,
    gaps,
    insert,
    later,
    replica_set,
)
from tests.support.pymongo_clock import pymongo_clock  # noqa: F401  # a fixture

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._operations.contract import Operation

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time, pytest.mark.usefixtures("pymongo_clock")]

FOR_EVER = Deadline(inf, inf, inf, is_set=True)
# The delays at a jitter of 1.
LADDER = [0, 0.001, 0.01, 0.05, 0.1, 0.5, 1, 1, 1]


@pytest.mark.parametrize(("name", "make"), [("find", find), ("insert", insert)])
@pytest.mark.parametrize("answer", [HOST_UNREACHABLE, Close()])
async def test_a_budget_ends_the_series(name: str, make: Callable[[], Operation[Any]], answer: Any) -> None:
    deployment = answering(name, answer)
    async with driver(deployment, retry_budget=RetryBudget(20)) as client:
        error = await fails(client, make(), deadline=FOR_EVER)
        times = deployment["a:1"].times(name)
        assert len(times) == error.attempts == 22
        if answer is HOST_UNREACHABLE:  # else the server must be found again before each
            assert gaps(times)[: len(LADDER)] == LADDER
        assert isinstance(error, OperationFailure if answer is HOST_UNREACHABLE else AutoReconnect)
        assert (error.retry_refusal, error.timeout) == ("tokens", False)
        assert client.tokens == 0
        # With an empty bucket, an operation with a time limit is what one without is: sent twice.
        error = await fails(client, make(), timeout=60)
        assert (error.attempts, error.retry_refusal) == (2, "tokens")
        assert client.tokens == 0


async def test_the_deadline_ends_the_series() -> None:
    deployment = answering("find", HOST_UNREACHABLE)
    async with driver(deployment) as client:
        before = client.now
        error = await fails(client, find(), timeout=1.5)
        # The next retry would be due at 1.661 s.
        assert gaps(deployment["a:1"].times("find")) == LADDER[:6]
        assert client.now - before == pytest.approx(0.661, abs=1e-6)
        assert (error.timeout, error.phase, error.retry_refusal) == (True, "retry delay", "deadline")
        assert isinstance(error, OperationFailure)
        assert error.code == 6


async def test_without_a_budget_the_delays_alone_limit_the_series() -> None:
    deployment = answering("find", HOST_UNREACHABLE)
    async with driver(deployment, retry_budget=False) as client:
        error = await fails(client, find(), timeout=10.5)
        assert error.timeout
        # 0.661 s for the first seven attempts, then one in each second.
        assert len(deployment["a:1"].times("find")) == 7 + 9


@pytest.mark.parametrize("read", [True, False])
async def test_a_breaker_sees_every_attempt(read: bool) -> None:
    deployment = replica_set()
    deployment["a:1"].on("find" if read else "insert", Close())
    # The first command of `driver` is one of the five.
    breaker = CircuitBreaker(min_operations=5)
    async with driver(deployment, circuit_breaker=breaker) as client:
        error = await fails(client, find() if read else insert(), timeout=30)
        assert error.attempts == 5
        assert (error.retry_refusal, isinstance(error.__cause__, CircuitBreakerOpenError)) == ("circuit breaker", True)
        assert len(deployment["a:1"].times("find" if read else "insert")) == 4


@pytest.mark.parametrize("delay", [0.0499, 0.05, 0.2])
async def test_an_error_that_arrives_as_time_runs_out_says_so(delay: float) -> None:
    """Whether its reply comes right before the deadline, at it, or never: time ran out."""
    deployment = answering("find", later(HOST_UNREACHABLE, delay))
    async with driver(deployment) as client:
        for limit in (0.05, 0.0501, 0.1, 0.101, 0.1499, 0.15, 0.2):
            error = await fails(client, find(), timeout=limit)
            assert (error.timeout, error.retry_refusal) == (True, "deadline"), limit


# By the specification, with_transaction commits for 120 seconds.
@pytest.mark.parametrize(
    ("options", "limit", "refusal", "attempts"),
    [
        ({"retry_budget": 6}, None, "tokens", (8, 8)),
        ({}, 1500, None, (7, 7)),
        # The delays alone limit it.
        ({"retry_budget": False}, None, None, (120, 128)),
    ],
    ids=["budget", "time limit", "neither"],
)
async def test_the_commit_of_a_transaction_is_a_series_too(
    options: dict[str, Any], limit: int | None, refusal: str | None, attempts: tuple[int, int]
) -> None:
    """A write concern error does not say whether the transaction was committed, so it is committed again."""
    deployment = answering("commitTransaction", {"ok": 1, "writeConcernError": {"code": 64, "errmsg": "no"}})
    async with scripted_client(deployment, **options) as client, client.start_session() as session:
        with pytest.raises(PyMongoError) as caught:
            await session.with_transaction(lambda s: client.db.coll.insert_one({}, session=s), timeoutMS=limit)
        assert caught.value.has_error_label("UnknownTransactionCommitResult")
        assert (caught.value.retry_refusal, caught.value.timeout) == (refusal, refusal is None)
        if refusal == "tokens":
            assert client.stats().tokens < 1  # each commit brought 0.1: its command succeeded
    times = deployment["a:1"].times("commitTransaction")
    assert gaps(times)[: len(LADDER)] == LADDER[: len(times) - 1]
    assert attempts[0] <= len(times) <= attempts[1]


# --- what a strategy makes of it ---


@pytest.mark.parametrize("answer", [OVERLOADED, HOST_UNREACHABLE, Close()])
@pytest.mark.parametrize("is_block", [False, True])
@pytest.mark.parametrize("options", [{}, {"timeoutMS": 5_000}])
async def test_fail_fast_sends_once(answer: Any, is_block: bool, options: dict[str, Any]) -> None:
    deployment = replica_set()
    options = options if is_block else {**options, "retry_strategy": FailFast()}
    async with scripted_client(deployment, **options) as client:
        for name, call in (("find", client.db.coll.find_one), ("insert", lambda: client.db.coll.insert_one({}))):
            deployment["a:1"].on(name, answer, {**FOUND, **WRITTEN})
            strategy = FailFast() if is_block else None
            with motorlite.call_options(retry_strategy=strategy), pytest.raises(PyMongoError) as caught:
                await call()
            assert (caught.value.attempts, caught.value.retry_refusal) == (1, "not retryable")
            assert len(deployment["a:1"].commands(name)) == 1
        assert client.stats().retries == {}
        # Other calls are as they were.
        deployment["a:1"].on("find", answer, FOUND)
        with pytest.raises(PyMongoError) if not is_block else nullcontext():
            await client.db.coll.find_one()


class Patient(BestEffort):
    """Twice, also for errors that only the application can judge."""

    scope = "decides"
    codes = frozenset({24, 2})

    async def retry_after(self, request: Any, reason: Any) -> Any:
        if request.retry_attempts == 2:
            return motorlite.retry.RetryAction.no_retry()
        return await super().retry_after(request, reason)


@pytest.mark.parametrize(
    ("code", "reason"), [(6, "temporary failure"), (24, "named code"), (2, "named code"), (27, None)]
)
@pytest.mark.parametrize("options", [{}, {"timeoutMS": 5_000}])
async def test_a_strategy_names_codes_and_shortens_the_series(
    code: int, reason: str | None, options: dict[str, Any]
) -> None:
    deployment = replica_set()
    commands: dict[str, Callable[[Any], Any]] = {
        "find": lambda coll: coll.find_one(),
        "insert": lambda coll: coll.insert_one({"_id": 1}),
        # Not idempotent.
        "update": lambda coll: coll.update_many({}, {"$set": {"x": 1}}),
    }
    async with scripted_client(deployment, **options) as client:
        coll = client.db.coll.with_options(retry_strategy=Patient())
        for name, call in commands.items():
            deployment["a:1"].on(name, failure(code))
            with pytest.raises(OperationFailure) as caught:
                await call(coll)
            assert caught.value.code == code
            expected = [0.001, 0.002] if reason and name != "update" else []
            assert gaps(deployment["a:1"].times(name)) == expected
        assert client.stats().retries == ({reason: 4} if reason else {})


# --- no limit ---


@pytest.mark.parametrize("block", [pymongo.timeout, motorlite.timeout])
async def test_a_block_of_0_retries_until_it_is_cancelled(block: Callable[[float], Any]) -> None:
    deployment = answering("find", HOST_UNREACHABLE)
    async with scripted_client(deployment, timeoutMS=2_000) as client:
        async with anyio.create_task_group() as group:
            with block(0):
                group.start_soon(client.db.coll.find_one)
            await anyio.sleep(20)
            group.cancel_scope.cancel()
        # 0.661 s for the first seven attempts, then one in each second.
        assert len(deployment["a:1"].commands("find")) == 7 + 19


@pytest.mark.parametrize("how", ["pymongo", "motorlite", "timeoutMS"])
async def test_other_limits_stay_in_force_without_one(how: str) -> None:
    """As in PyMongo. Without them, nothing would end the wait for a server that hangs."""
    deployment = answering("update", Hang())
    options = {"socketTimeoutMS": 300, "waitQueueTimeoutMS": 200, "maxPoolSize": 1, "killAbandoned": True}
    async with scripted_client(deployment, **options) as client:
        given: dict[str, Any] = {"timeoutMS": 0} if how == "timeoutMS" else {}
        blocks = {"pymongo": pymongo.timeout, "motorlite": motorlite.timeout}
        with blocks[how](0) if not given else nullcontext():

            async def update() -> None:
                with pytest.raises(NetworkTimeout) as caught:
                    await client.db.coll.update_many({}, {"$set": {"x": 1}}, **given)
                assert caught.value.client_limit == 0.3

            async with anyio.create_task_group() as group:
                started = anyio.current_time()
                group.start_soon(update)
                await anyio.sleep(0.01)
                with pytest.raises(WaitQueueTimeoutError):
                    await client.db.command("ping", **given)
                assert anyio.current_time() - started == pytest.approx(0.21, abs=0.01)
            assert anyio.current_time() - started == pytest.approx(0.3, abs=0.01)
