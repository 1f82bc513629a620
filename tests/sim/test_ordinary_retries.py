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
    InvalidOperation,
    NetworkTimeout,
    OperationFailure,
    PyMongoError,
    WaitQueueTimeoutError,
)
from motorlite.overload import CircuitBreaker
from motorlite.retry import BestEffort, FailFast, OverloadRetry, RetryBudget
from motorlite.testing.scripted import Close, Hang, ScriptedDeployment, failure
from tests.support.clients import scripted_client
from tests.support.core import (
    FOUND,
    HOST_UNREACHABLE,
    OVERLOADED,
    WRITTEN,
    driver,
    fails,
    find,
    gaps,
    insert,
    later,
    replica_set,
)
from tests.support.pools import settle
from tests.support.pymongo_clock import pymongo_clock  # noqa: F401  # a fixture

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._operations.contract import Operation

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time, pytest.mark.usefixtures("pymongo_clock")]

FOR_EVER = Deadline(inf, inf, inf, is_set=True)
# The delays at a jitter of 1.
LADDER = [0, 0.001, 0.01, 0.05, 0.1, 0.5, 1, 1, 1]


@pytest.mark.parametrize(("name", "make"), [("find", find), ("insert", insert)])
@pytest.mark.parametrize("code", [6, 7, 89, 262, 9001])
async def test_a_budget_ends_the_series(name: str, make: Callable[[], Operation[Any]], code: int) -> None:
    deployment = replica_set()
    deployment["a:1"].on(name, failure(code, "RetryableWriteError"))
    async with driver(deployment, retry_budget=RetryBudget(20)) as client:
        error = await fails(client, make(), deadline=FOR_EVER)
        times = deployment["a:1"].times(name)
        assert len(times) == error.attempts == 22
        assert gaps(times)[: len(LADDER)] == LADDER
        assert isinstance(error, OperationFailure)
        assert (error.code, error.retry_refusal, error.timeout) == (code, "tokens", False)
        assert client.tokens == 0
        # With an empty bucket, an operation with a time limit is what one without is: sent twice.
        error = await fails(client, make(), timeout=60)
        assert (error.attempts, error.retry_refusal) == (2, "tokens")
        assert client.tokens == 0


async def test_the_deadline_ends_the_series() -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", HOST_UNREACHABLE)
    async with driver(deployment) as client:
        before = client.now
        error = await fails(client, find(), timeout=1.5)
        # The next retry would be due at 1.661 s.
        assert gaps(deployment["a:1"].times("find")) == LADDER[:6]
        assert client.now - before == pytest.approx(0.661, abs=1e-6)
        assert (error.timeout, error.phase, error.retry_refusal) == (True, "retry delay", "deadline")
        assert isinstance(error, OperationFailure)
        assert error.code == 6


async def test_a_closed_connection_makes_a_series_too() -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", Close())
    async with driver(deployment, retry_budget=RetryBudget(5)) as client:
        error = await fails(client, find(), deadline=FOR_EVER)
        assert isinstance(error, AutoReconnect)
        assert len(deployment["a:1"].times("find")) == error.attempts == 7
        assert error.retry_refusal == "tokens"


async def test_operations_share_the_budget() -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", HOST_UNREACHABLE)
    budget = RetryBudget(20)
    async with scripted_client(deployment, retry_budget=budget, timeoutMS=60_000) as client:

        async def run() -> None:
            with pytest.raises(OperationFailure):
                await client.db.coll.find_one()

        async with anyio.create_task_group() as group:
            for _ in range(50):
                group.start_soon(run)
        sent = len(deployment["a:1"].commands("find"))
        assert sent == 50 + 50 + 20
        assert budget.tokens == 0
        # Statistics see every attempt.
        stats = client.stats()
        assert stats.retries == {"temporary failure": sent - 50}
        assert stats.refusals == {"tokens": 50}


async def test_without_a_budget_the_delays_alone_limit_the_series() -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", HOST_UNREACHABLE)
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


async def test_a_new_primary_ends_the_delay_of_a_series() -> None:
    deployment = replica_set(servers=2)
    deployment["a:1"].on("insert", HOST_UNREACHABLE)
    async with driver(deployment) as client, anyio.create_task_group() as group:
        finished: list[float] = []

        async def run() -> None:
            await client.run(insert(), timeout=30)
            finished.append(client.now)

        group.start_soon(run)
        await anyio.sleep(0.7)  # within the first delay of a second
        deployment.step_down("b:1")
        monitor = client.server("b").monitor
        assert monitor is not None
        changed = client.now
        monitor.request_check()
        await settle()
        await anyio.sleep(0.1)
        assert finished == [pytest.approx(changed, abs=0.05)]
    assert len(deployment["b:1"].commands("insert")) == 1


async def test_closing_the_client_ends_the_delay_of_a_series() -> None:
    deployment = replica_set()
    deployment["a:1"].on("insert", HOST_UNREACHABLE)
    async with driver(deployment) as client, anyio.create_task_group() as group:

        async def run() -> None:
            with pytest.raises(InvalidOperation, match="closed while the operation waited for its next attempt"):
                await client.run(insert(), timeout=30)

        group.start_soon(run)
        await anyio.sleep(0.7)
        tokens = client.tokens
        await client.core.close()
    # The delay was cut off, so its token came back.
    assert client.tokens == tokens + 1


async def test_a_cancelled_delay_of_a_series_returns_its_token() -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", HOST_UNREACHABLE)
    async with driver(deployment) as client:
        client.drain_to(100)
        with anyio.move_on_after(0.7):
            await client.run(find(), FOR_EVER)
        assert client.tokens == 100 - 5


@pytest.mark.parametrize("delay", [0.0499, 0.05, 0.2])
async def test_an_error_that_arrives_as_time_runs_out_says_so(delay: float) -> None:
    """Whether its reply comes right before the deadline, at it, or never: time ran out."""
    deployment = replica_set()
    deployment["a:1"].on("find", later(HOST_UNREACHABLE, delay))
    async with driver(deployment) as client:
        for limit in (0.05, 0.0501, 0.1, 0.101, 0.1499, 0.15, 0.2):
            error = await fails(client, find(), timeout=limit)
            assert (error.timeout, error.retry_refusal) == (True, "deadline"), limit


async def test_the_commit_of_a_transaction_is_a_series_too() -> None:
    """A write concern error does not say whether the transaction was committed, so it is committed again."""
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    deployment["a:1"].on(
        "commitTransaction", {"ok": 1, "writeConcernError": {"code": 64, "errmsg": "no", "errInfo": {"wtimeout": True}}}
    )
    budget = RetryBudget(6)
    async with (
        scripted_client(deployment, retry_budget=budget) as client,
        client.start_session() as session,
    ):
        with pytest.raises(PyMongoError) as caught:
            await session.with_transaction(lambda s: client.db.coll.insert_one({}, session=s))
        assert caught.value.has_error_label("UnknownTransactionCommitResult")
        assert caught.value.retry_refusal == "tokens"
    assert gaps(deployment["a:1"].times("commitTransaction")) == LADDER[:7]
    assert budget.tokens < 1  # each commit brought 0.1: its command succeeded


async def test_the_series_of_a_commit_ends_with_the_time_limit() -> None:
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    deployment["a:1"].on("commitTransaction", {"ok": 1, "writeConcernError": {"code": 64, "errmsg": "no"}})
    async with scripted_client(deployment) as client, client.start_session() as session:
        with pytest.raises(PyMongoError) as caught:
            await session.with_transaction(lambda s: client.db.coll.insert_one({}, session=s), timeoutMS=1500)
        assert caught.value.timeout
        assert caught.value.has_error_label("UnknownTransactionCommitResult")
    assert gaps(deployment["a:1"].times("commitTransaction")) == LADDER[:6]


async def test_without_a_budget_the_delays_alone_limit_a_commit() -> None:
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    deployment["a:1"].on("commitTransaction", {"ok": 1, "writeConcernError": {"code": 64, "errmsg": "no"}})
    async with (
        scripted_client(deployment, retry_budget=False) as client,
        client.start_session() as session,
    ):
        with pytest.raises(PyMongoError):
            await session.with_transaction(lambda s: client.db.coll.insert_one({}, session=s))
    # 120 seconds by the specification.
    assert 120 <= len(deployment["a:1"].commands("commitTransaction")) <= 128


# --- what a strategy makes of it ---


@pytest.mark.parametrize("answer", [OVERLOADED, HOST_UNREACHABLE, Close()])
@pytest.mark.parametrize("level", ["client", "block"])
@pytest.mark.parametrize("options", [{}, {"timeoutMS": 5_000}])
async def test_fail_fast_sends_once(answer: Any, level: str, options: dict[str, Any]) -> None:
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    deployment["a:1"].on("find", answer)
    deployment["a:1"].on("insert", answer)
    given = {**options, "retry_strategy": FailFast()} if level == "client" else options
    async with scripted_client(deployment, **given) as client:
        with motorlite.call_options(retry_strategy=FailFast() if level == "block" else None):
            for call in (client.db.coll.find_one, lambda: client.db.coll.insert_one({})):
                with pytest.raises(PyMongoError) as caught:
                    await call()
                assert (caught.value.attempts, caught.value.retry_refusal) == (1, "not retryable")
        assert (len(deployment["a:1"].commands("find")), len(deployment["a:1"].commands("insert"))) == (1, 1)
        assert client.stats().retries == {}


async def test_an_overload_policy_without_retries_in_a_block_sends_once() -> None:
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    deployment["a:1"].on("find", OVERLOADED)
    async with scripted_client(deployment) as client:
        with motorlite.call_options(retry_strategy=OverloadRetry(max_retries=0)), pytest.raises(OperationFailure):
            await client.db.coll.find_one()
        assert len(deployment["a:1"].commands("find")) == 1
        with pytest.raises(OperationFailure):
            await client.db.coll.find_one()
        assert len(deployment["a:1"].commands("find")) == 7


async def test_a_strategy_shortens_the_series() -> None:
    class Twice(BestEffort):
        scope = "decides"

        async def retry_after(self, request: Any, reason: Any) -> Any:
            if request.retry_attempts == 2:
                return motorlite.retry.RetryAction.no_retry()
            return await super().retry_after(request, reason)

    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    deployment["a:1"].on("find", HOST_UNREACHABLE)
    async with scripted_client(deployment, retry_strategy=Twice(), timeoutMS=5_000) as client:
        with pytest.raises(OperationFailure) as caught:
            await client.db.coll.find_one()
    assert (caught.value.attempts, gaps(deployment["a:1"].times("find"))) == (3, [0.001, 0.002])


@pytest.mark.parametrize("code", [24, 46, 112, 117, 133, 246])
async def test_a_strategy_names_codes(code: int) -> None:
    class Mine(BestEffort):
        codes = frozenset({24, 46, 112, 117, 133, 246})

    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    for name, success in (("find", FOUND), ("insert", WRITTEN)):
        deployment["a:1"].on(name, failure(code), failure(code), success)
    deployment["a:1"].on("update", failure(code))
    async with scripted_client(deployment) as client:
        coll = client.db.coll.with_options(retry_strategy=Mine())
        assert await coll.find_one() == {"_id": 1}
        await coll.insert_one({"_id": 1})
        assert gaps(deployment["a:1"].times("find")) == gaps(deployment["a:1"].times("insert")) == [0.001, 0.002]
        with pytest.raises(OperationFailure):
            await coll.update_many({}, {"$set": {"x": 1}})
        assert len(deployment["a:1"].commands("update")) == 1
        assert client.stats().retries == {"named code": 4}


# --- no limit ---


@pytest.mark.parametrize("block", [pymongo.timeout, motorlite.timeout])
async def test_a_block_of_0_retries_until_it_is_cancelled(block: Callable[[float], Any]) -> None:
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    deployment["a:1"].on("find", HOST_UNREACHABLE)
    async with scripted_client(deployment, timeoutMS=2_000) as client:
        async with anyio.create_task_group() as group:
            with block(0):
                group.start_soon(client.db.coll.find_one)
            await anyio.sleep(20)
            group.cancel_scope.cancel()
        # 0.661 s for the first seven attempts, then one in each second.
        assert len(deployment["a:1"].commands("find")) == 7 + 19


@pytest.mark.parametrize("block", [pymongo.timeout, motorlite.timeout])
async def test_tokens_end_a_block_of_0(block: Callable[[float], Any]) -> None:
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    deployment["a:1"].on("find", HOST_UNREACHABLE)
    async with scripted_client(deployment, retry_budget=RetryBudget(20)) as client:
        with block(0), pytest.raises(OperationFailure) as caught:
            await client.db.coll.find_one()
        assert (caught.value.attempts, caught.value.retry_refusal) == (22, "tokens")


@pytest.mark.parametrize("how", ["pymongo", "motorlite", "timeoutMS"])
async def test_other_limits_stay_in_force_without_one(how: str) -> None:
    """As in PyMongo. Without them, nothing would end the wait for a server that hangs."""
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    deployment["a:1"].on("update", Hang())
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
