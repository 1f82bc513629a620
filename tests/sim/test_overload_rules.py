"""The overload retry policy (client backpressure specification), rule by rule, with exact delays in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite._execution.executor import CommandNotRebuilt
from motorlite.concerns import WriteConcern
from motorlite.errors import (
    AutoReconnect,
    ConfigurationError,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
    PoolClearedError,
    PyMongoError,
    ServerSelectionTimeoutError,
)
from motorlite.read_preferences import ReadPreference
from motorlite.retry import OverloadRetry
from motorlite.testing.scripted import Close, Hang, ScriptedDeployment, failure, overloaded
from tests.support.core import (
    BAD_VALUE,
    DONE,
    FOUND,
    HOST_UNREACHABLE,
    OVERLOADED,
    OVERLOADED_ONLY,
    RETRYABLE_ONLY,
    WRITTEN,
    A,
    B,
    driver,
    find,
    gaps,
    get_more,
    insert,
    later,
    run_command,
    update_many,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._execution.operation import Operation
    from tests.support.core import Driver

pytestmark = pytest.mark.anyio

DELAYS = [0.1, 0.2, 0.4, 0.8, 1.6]
NEXT_BATCH = {"cursor": {"id": 0, "ns": "db.coll", "nextBatch": []}}
# Of every kind one, those included that no other specification retries: command name, operation, successful answer.
COMMANDS: list[tuple[str, Callable[[], Operation], dict[str, Any]]] = [
    ("find", find, FOUND),
    ("insert", insert, WRITTEN),
    ("update", update_many, WRITTEN),
    ("getMore", get_more, NEXT_BATCH),
    ("ping", run_command, DONE),
]
EVERY_KIND = pytest.mark.parametrize(("name", "make", "success"), COMMANDS, ids=[row[0] for row in COMMANDS])


def replica_set(*, servers: int = 1, **arguments: Any) -> ScriptedDeployment:
    addresses = [f"{name}:1" for name in "abc"[:servers]]
    return ScriptedDeployment(addresses, replica_set="rs", **arguments)


def make_unreachable(deployment: ScriptedDeployment, *, hangs_up: bool) -> None:
    """Drop all connections and let no operation make a new one; monitors do not look for ten seconds."""
    server = deployment["a:1"]
    server.drop_connections()
    server.is_down = not hangs_up
    if hangs_up:
        server.on("isMaster", Close())


def make_reachable(deployment: ScriptedDeployment) -> None:
    server = deployment["a:1"]
    server.is_down = False
    server.on("isMaster")


async def fails(client: Driver, operation: Operation, **arguments: Any) -> PyMongoError:
    with pytest.raises(PyMongoError) as raised:
        await client.run(operation, **arguments)
    return raised.value


# --- rule 1 ---


@EVERY_KIND
async def test_rule_1_success_on_the_first_attempt_deposits_a_tenth(
    name: str, make: Callable[[], Operation], success: dict[str, Any]
) -> None:
    deployment = replica_set()
    deployment["a:1"].on(name, success)
    async with driver(deployment) as client:
        client.drain_to(10)
        await client.run(make())
        assert client.tokens == 10.1
        await client.run(make())
        assert client.tokens == 10.2
        assert not client.recorder.retries


async def test_rule_1_never_above_the_capacity() -> None:
    async with driver(replica_set()) as client:
        assert client.tokens == client.bucket.capacity == 1000
        await client.run(find())
        assert client.tokens == 1000


async def test_rule_1_ten_thousand_tenths_are_a_thousand() -> None:
    # Floats would not give a whole number of tokens.
    async with driver(replica_set()) as client:
        client.drain_to(0)
        for _ in range(100):
            await client.run(find())
        assert client.tokens == 10


async def test_rule_1_an_unacknowledged_write_succeeds_when_it_is_written() -> None:
    async with driver(replica_set()) as client:
        client.drain_to(10)
        assert await client.run(insert(write_concern=WriteConcern(w=0))) is None
        assert client.tokens == 10.1


async def test_rule_1_a_first_attempt_that_fails_otherwise_deposits_nothing() -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", BAD_VALUE)
    async with driver(deployment) as client:
        client.drain_to(10)
        await fails(client, find())
        assert client.tokens == 10


# --- rule 2 ---


@EVERY_KIND
async def test_rule_2_success_on_a_retry_deposits_eleven_tenths(
    name: str, make: Callable[[], Operation], success: dict[str, Any]
) -> None:
    deployment = replica_set()
    deployment["a:1"].on(name, OVERLOADED, success)
    async with driver(deployment) as client:
        client.drain_to(10)
        await client.run(make())
        (event,) = client.recorder.retries
        assert event.tokens == 9
        assert client.tokens == 10.1


async def test_rule_2_one_deposit_for_many_retries() -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", *[OVERLOADED] * 5, FOUND)
    async with driver(deployment) as client:
        client.drain_to(10)
        await client.run(find())
        assert [event.tokens for event in client.recorder.retries] == [9, 8, 7, 6, 5]
        assert client.tokens == 6.1


async def test_rule_2_an_ordinary_retry_deposits_although_it_took_nothing() -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", HOST_UNREACHABLE, FOUND)
    async with driver(deployment) as client:
        client.drain_to(10)
        await client.run(find())
        assert [event.tokens for event in client.recorder.retries] == [10]
        assert client.tokens == 11.1


async def test_rule_2_never_above_the_capacity() -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", HOST_UNREACHABLE, FOUND)
    async with driver(deployment) as client:
        await client.run(find())
        assert client.tokens == 1000


# --- rule 3 ---


@pytest.mark.parametrize("answer", [BAD_VALUE, failure(91), Close()], ids=["error", "state change", "network"])
async def test_rule_3_a_retry_that_fails_without_overload_deposits_one(answer: Any) -> None:
    deployment = replica_set()
    deployment["a:1"].on("update", OVERLOADED, answer)
    async with driver(deployment) as client:
        client.drain_to(10)
        await fails(client, update_many())
        assert [event.tokens for event in client.recorder.retries] == [9, 10]
        assert client.tokens == 10


async def test_rule_3_a_retry_that_fails_with_overload_deposits_nothing() -> None:
    deployment = replica_set()
    deployment["a:1"].on("update", OVERLOADED, OVERLOADED_ONLY)
    async with driver(deployment) as client:
        client.drain_to(10)
        await fails(client, update_many())
        assert client.tokens == 9


async def test_rule_3_the_deposit_pays_for_the_next_retry() -> None:
    # RetryableError alone permits another retry: what this failure brings in is there when that one is paid for.
    deployment = replica_set()
    deployment["a:1"].on("update", OVERLOADED, RETRYABLE_ONLY, WRITTEN)
    async with driver(deployment) as client:
        client.drain_to(1)
        await client.run(update_many())
        assert [event.tokens for event in client.recorder.retries] == [0, 0]
        assert client.tokens == 1.1


async def test_rule_3_counts_for_ordinary_retries_as_well() -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", HOST_UNREACHABLE, BAD_VALUE)
    async with driver(deployment) as client:
        client.drain_to(10)
        await fails(client, find())
        assert client.tokens == 11


# --- rule 4 ---


@EVERY_KIND
async def test_rule_4_five_retries_and_no_sixth(
    name: str, make: Callable[[], Operation], success: dict[str, Any]
) -> None:
    deployment = replica_set()
    server = deployment["a:1"]
    server.on(name, OVERLOADED)
    async with driver(deployment) as client:
        client.drain_to(10)
        error = await fails(client, make())
        assert len(server.times(name)) == 6
        assert client.tokens == 5
        assert isinstance(error, OperationFailure)
        assert error.code == 462
        assert error.attempts == 6
        assert error.retry_reasons == ("overload",) * 5
        assert error.retry_refusal == "attempts"
        assert error.address == A
        assert "6 attempts, retried for: overload, overload, overload, overload, overload" in str(error)

        server.received.clear()
        server.on(name, *[OVERLOADED] * 5, success)
        await client.run(make())
        assert len(server.times(name)) == 6
        assert client.tokens == 1.1


@EVERY_KIND
async def test_rule_4_overloaded_without_retryable_is_never_retried(
    name: str, make: Callable[[], Operation], success: dict[str, Any]
) -> None:
    deployment = replica_set()
    # With a code that the retryable reads and writes specifications would retry.
    deployment["a:1"].on(name, failure(6, "SystemOverloadedError", "RetryableWriteError"))
    async with driver(deployment) as client:
        client.drain_to(10)
        error = await fails(client, make())
        assert len(deployment["a:1"].times(name)) == 1
        assert client.tokens == 10
        assert (error.attempts, error.retry_refusal) == (1, "not retryable")


@EVERY_KIND
async def test_rule_4_retryable_alone_is_retried_at_once_for_a_token(
    name: str, make: Callable[[], Operation], success: dict[str, Any]
) -> None:
    deployment = replica_set()
    deployment["a:1"].on(name, RETRYABLE_ONLY, RETRYABLE_ONLY, success)
    async with driver(deployment) as client:
        client.drain_to(10)
        await client.run(make())
        assert gaps(deployment["a:1"].times(name)) == [0, 0]
        assert [event.reason for event in client.recorder.retries] == ["retryable", "retryable"]
        # One taken, one given back by the second failure, one taken.
        assert [event.tokens for event in client.recorder.retries] == [9, 9]
        assert client.tokens == 10.1


async def test_rule_4_retryable_alone_five_times() -> None:
    deployment = replica_set()
    deployment["a:1"].on("ping", RETRYABLE_ONLY)
    async with driver(deployment) as client:
        error = await fails(client, run_command())
        assert len(deployment["a:1"].times("ping")) == 6
        assert (error.retry_refusal, error.retry_reasons) == ("attempts", ("retryable",) * 5)


@pytest.mark.parametrize("answer", [failure(462), BAD_VALUE], ids=["the code alone", "another error"])
@EVERY_KIND
async def test_rule_4_labels_decide_not_codes(
    name: str, make: Callable[[], Operation], success: dict[str, Any], answer: dict[str, Any]
) -> None:
    deployment = replica_set()
    deployment["a:1"].on(name, answer)
    async with driver(deployment) as client:
        await fails(client, make())
        assert len(deployment["a:1"].times(name)) == 1
        (event,) = client.recorder.retries
        assert (event.permitted, event.reason, event.refusal) == (False, "none", "not retryable")


async def test_rule_4_an_empty_bucket_fails_at_once() -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", OVERLOADED)
    async with driver(deployment) as client:
        client.drain_to(2)
        before = client.now
        error = await fails(client, find())
        assert len(deployment["a:1"].times("find")) == 3
        assert client.now == pytest.approx(before + 0.3, abs=1e-9)
        assert client.tokens == 0
        assert (error.attempts, error.retry_refusal) == (3, "tokens")
        assert client.core.stats().refusals == {"tokens": 1}

        error = await fails(client, find())
        assert (error.attempts, error.retry_refusal) == (1, "tokens")


async def test_rule_4_less_than_a_token_is_no_token() -> None:
    deployment = replica_set()
    server = deployment["a:1"]
    async with driver(deployment) as client:
        client.drain_to(0)
        for _ in range(9):
            await client.run(run_command())
        assert client.tokens == 0.9
        server.on("find", OVERLOADED)
        await fails(client, find())
        assert len(server.times("find")) == 1
        assert client.tokens == 0.9

        await client.run(run_command())
        server.on("find", OVERLOADED, FOUND)
        await client.run(find())
        assert client.tokens == 1.1


async def test_rule_4_the_bucket_is_the_clients() -> None:
    deployment, other = replica_set(), replica_set()
    deployment["a:1"].on("find", OVERLOADED)
    other["a:1"].on("find", OVERLOADED, FOUND)
    async with driver(deployment) as client, driver(other) as neighbour:
        client.drain_to(0)
        await fails(client, find())
        await neighbour.run(find())
        assert neighbour.tokens == 1000


async def test_rule_4_ordinary_retries_need_no_token() -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", HOST_UNREACHABLE, FOUND)
    async with driver(deployment) as client:
        client.drain_to(0)
        await client.run(find())
        assert client.tokens == 1.1


async def test_rule_4_a_delay_that_does_not_fit_the_deadline_raises_at_once_and_takes_no_token() -> None:
    deployment = replica_set()
    server = deployment["a:1"]
    server.on("find", OVERLOADED)
    async with driver(deployment) as client:
        client.drain_to(10)
        before = client.now
        # 0.1 and 0.2 fit, 0.4 does not.
        error = await fails(client, find(), timeout=0.5)
        assert gaps(server.times("find")) == [0.1, 0.2]
        assert client.now == pytest.approx(before + 0.3, abs=1e-9)
        assert client.tokens == 8
        assert isinstance(error, OperationFailure)
        assert (error.attempts, error.retry_refusal, error.phase) == (3, "deadline", "backoff")


@pytest.mark.parametrize(("limit", "attempts"), [(0.1, 1), (0.102, 2)])
async def test_rule_4_a_delay_that_ends_at_the_deadline_does_not_fit(limit: float, attempts: int) -> None:
    deployment = replica_set()
    deployment["a:1"].on("update", OVERLOADED)
    async with driver(deployment) as client:
        error = await fails(client, update_many(), timeout=limit)
        assert error.attempts == len(deployment["a:1"].times("update")) == attempts


async def test_rule_4_attempts_come_before_the_deadline_and_the_deadline_before_tokens() -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", OVERLOADED)
    async with driver(deployment) as client:
        client.drain_to(0)
        error = await fails(client, find(), timeout=0.05)
        assert error.retry_refusal == "deadline"
    async with driver(deployment, maxAdaptiveRetries=0) as client:
        client.drain_to(0)
        error = await fails(client, find(), timeout=0.05)
        assert error.retry_refusal == "attempts"


async def test_rule_4_timeout_ms_does_not_lift_the_limit_of_retries() -> None:
    deployment = replica_set()
    deployment["a:1"].on("insert", OVERLOADED)
    async with driver(deployment) as client:
        error = await fails(client, insert(), timeout=3600)
        assert (error.attempts, error.retry_refusal, error.phase) == (6, "attempts", None)


# --- rule 5 ---


@EVERY_KIND
async def test_rule_5_delays_double_from_100_ms(
    name: str, make: Callable[[], Operation], success: dict[str, Any]
) -> None:
    deployment = replica_set()
    deployment["a:1"].on(name, *[OVERLOADED] * 5, success)
    async with driver(deployment) as client:
        await client.run(make())
        assert gaps(deployment["a:1"].times(name)) == DELAYS
        assert [event.delay for event in client.recorder.retries] == DELAYS
        assert [event.attempt for event in client.recorder.retries] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("jitter", [0.0, 0.25, 0.5])
async def test_rule_5_jitter_scales_the_delay(jitter: float) -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", *[OVERLOADED] * 5, FOUND)
    async with driver(deployment, jitter=jitter) as client:
        await client.run(find())
        assert gaps(deployment["a:1"].times("find")) == [jitter * delay for delay in DELAYS]


async def test_rule_5_no_delay_exceeds_ten_seconds() -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", OVERLOADED)
    async with driver(deployment, maxAdaptiveRetries=9) as client:
        await fails(client, find())
        assert gaps(deployment["a:1"].times("find")) == [*DELAYS, 3.2, 6.4, 10, 10]


async def test_rule_5_the_delay_counts_from_the_answer() -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", later(OVERLOADED, 0.05), later(OVERLOADED, 0.05), FOUND)
    async with driver(deployment) as client:
        await client.run(find())
        assert gaps(deployment["a:1"].times("find")) == [0.15, 0.25]


async def test_rule_5_the_servers_base_backoff_replaces_the_drivers() -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", overloaded(baseBackoffMS=50), overloaded(baseBackoffMS=1000), OVERLOADED, FOUND)
    async with driver(deployment) as client:
        await client.run(find())
        assert gaps(deployment["a:1"].times("find")) == [0.05, 2.0, 0.4]


@pytest.mark.parametrize("value", [0, -5, "100", True, None])
async def test_rule_5_a_base_backoff_that_makes_no_sense_is_ignored(value: Any) -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", overloaded(baseBackoffMS=value), FOUND)
    async with driver(deployment) as client:
        await client.run(find())
        assert gaps(deployment["a:1"].times("find")) == [0.1]


async def test_rule_5_the_servers_base_backoff_is_limited_as_well() -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", overloaded(baseBackoffMS=60_000), FOUND)
    async with driver(deployment) as client:
        await client.run(find())
        assert gaps(deployment["a:1"].times("find")) == [10]


async def test_rule_5_no_delay_after_an_error_without_the_label() -> None:
    # The exponent goes on counting: the third retry waits 400 ms.
    deployment = replica_set()
    deployment["a:1"].on("update", OVERLOADED, RETRYABLE_ONLY, OVERLOADED, WRITTEN)
    async with driver(deployment) as client:
        await client.run(update_many())
        assert gaps(deployment["a:1"].times("update")) == [0.1, 0, 0.4]


async def test_rule_5_other_operations_go_on_during_a_backoff() -> None:
    deployment = replica_set()
    deployment["a:1"].on("find", OVERLOADED, FOUND)
    async with driver(deployment, maxPoolSize=1) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.run, find())
            await anyio.sleep(0.05)
            # Neither the connection nor anything else is held meanwhile.
            await client.run(run_command())
            assert client.server().operation_count == 0
        assert deployment["a:1"].times("ping")[0] == pytest.approx(deployment["a:1"].times("find")[0] + 0.05)


# --- rule 6 ---


def two_mongos() -> ScriptedDeployment:
    return ScriptedDeployment(["a:1", "b:1"], mongos=True)


async def test_rule_6_the_other_mongos_is_asked() -> None:
    deployment = two_mongos()
    for address in ("a:1", "b:1"):
        deployment[address].on("find", OVERLOADED, FOUND)
    async with driver(deployment) as client:
        await anyio.sleep(1)
        await client.run(find())
        first, second = client.recorder.retries[:2]
        assert {first.address, second.address} == {A, B}
        assert first.deprioritized
        assert second.deprioritized
    # Once both are on the list, both may be chosen again.
    assert len(deployment["a:1"].times("find") + deployment["b:1"].times("find")) == 3


async def test_rule_6_a_replica_set_with_primary_preferred_reads_from_a_secondary() -> None:
    deployment = replica_set(servers=2)
    deployment["a:1"].on("find", OVERLOADED)
    deployment["b:1"].on("find", FOUND)
    preference = ReadPreference.PRIMARY_PREFERRED
    async with driver(deployment) as client:
        reply = await client.run(find(selector=preference, read_preference=preference))
        assert reply.address == B
        assert len(deployment["a:1"].times("find")) == 1
        assert len(deployment["b:1"].times("find")) == 1
        # Only this operation avoids it.
        deployment["a:1"].on("find", FOUND)
        reply = await client.run(find(selector=preference, read_preference=preference))
        assert reply.address == A


async def test_rule_6_the_only_suitable_server_is_asked_again() -> None:
    deployment = replica_set(servers=2)
    deployment["a:1"].on("insert", OVERLOADED, OVERLOADED, WRITTEN)
    async with driver(deployment) as client:
        await client.run(insert())
        assert len(deployment["a:1"].times("insert")) == 3
        assert not deployment["b:1"].commands()


async def test_rule_6_retargeting_off() -> None:
    deployment = replica_set(servers=2)
    deployment["a:1"].on("find", OVERLOADED, FOUND)
    preference = ReadPreference.PRIMARY_PREFERRED
    async with driver(deployment, enableOverloadRetargeting=False) as client:
        reply = await client.run(find(selector=preference, read_preference=preference))
        assert reply.address == A
        (event,) = client.recorder.retries
        assert not event.deprioritized


@pytest.mark.parametrize("answer", [RETRYABLE_ONLY, HOST_UNREACHABLE], ids=["retryable", "ordinary"])
async def test_rule_6_only_after_overload_in_a_replica_set(answer: dict[str, Any]) -> None:
    deployment = replica_set(servers=2)
    deployment["a:1"].on("find", answer, FOUND)
    preference = ReadPreference.PRIMARY_PREFERRED
    async with driver(deployment) as client:
        reply = await client.run(find(selector=preference, read_preference=preference))
        assert reply.address == A


@pytest.mark.parametrize("answer", [OVERLOADED, RETRYABLE_ONLY, HOST_UNREACHABLE])
@pytest.mark.parametrize("retargeting", [True, False])
async def test_rule_6_a_mongos_is_avoided_after_every_error(answer: dict[str, Any], retargeting: bool) -> None:
    # Retryable reads and writes specifications: sharded clusters do so whatever the option says.
    deployment = two_mongos()
    deployment["a:1"].on("find", answer)
    async with driver(deployment, enableOverloadRetargeting=retargeting) as client:
        await anyio.sleep(1)
        reply = await client.run(find(selector=ReadPreference.PRIMARY))
        assert reply.address == B
        assert len(deployment["a:1"].times("find")) == 1
        assert [event.deprioritized for event in client.recorder.retries] == [True]


# --- ordinary and overload errors in one operation ---


@pytest.mark.parametrize(
    ("name", "make", "success"),
    [("find", find, FOUND), ("insert", insert, WRITTEN)],
    ids=["read", "write"],
)
class TestMixed:
    """Retryable reads and writes together with the overload policy."""

    async def test_an_ordinary_error_first(
        self, name: str, make: Callable[[], Operation], success: dict[str, Any]
    ) -> None:
        deployment = replica_set()
        deployment["a:1"].on(name, HOST_UNREACHABLE, OVERLOADED, success)
        async with driver(deployment) as client:
            client.drain_to(10)
            await client.run(make())
            # The second retry of the operation waits 200 ms, whatever the first was made for.
            assert gaps(deployment["a:1"].times(name)) == [0, 0.2]
            kind = "retryable read" if name == "find" else "retryable write"
            assert [event.reason for event in client.recorder.retries] == [kind, "overload"]
            assert client.tokens == 10.1

    async def test_an_overload_error_first(
        self, name: str, make: Callable[[], Operation], success: dict[str, Any]
    ) -> None:
        deployment = replica_set()
        deployment["a:1"].on(name, OVERLOADED, HOST_UNREACHABLE, success)
        async with driver(deployment) as client:
            client.drain_to(10)
            await client.run(make())
            assert gaps(deployment["a:1"].times(name)) == [0.1, 0]
            # One taken, one given for the failed retry, 1.1 for the success.
            assert client.tokens == 11.1

    @pytest.mark.parametrize("limit", [float("inf"), 60])
    async def test_after_an_overload_error_all_retries_together_are_five(
        self, name: str, make: Callable[[], Operation], success: dict[str, Any], limit: float
    ) -> None:
        deployment = replica_set()
        deployment["a:1"].on(name, OVERLOADED, later(HOST_UNREACHABLE, 0.01))
        async with driver(deployment) as client:
            error = await fails(client, make(), timeout=limit)
            assert len(deployment["a:1"].times(name)) == 6
            assert error.retry_refusal == "attempts"

    async def test_two_ordinary_errors_without_overload_end_it(
        self, name: str, make: Callable[[], Operation], success: dict[str, Any]
    ) -> None:
        deployment = replica_set()
        deployment["a:1"].on(name, HOST_UNREACHABLE, HOST_UNREACHABLE, success)
        async with driver(deployment) as client:
            error = await fails(client, make())
            assert (error.attempts, error.retry_refusal) == (2, "attempts")

    async def test_with_timeout_ms_ordinary_retries_go_on_and_overload_ends_that(
        self, name: str, make: Callable[[], Operation], success: dict[str, Any]
    ) -> None:
        deployment = replica_set()
        ordinary = later(HOST_UNREACHABLE, 0.01)
        deployment["a:1"].on(name, *[ordinary] * 20, success)
        async with driver(deployment) as client:
            await client.run(make(), timeout=60)
            assert len(deployment["a:1"].times(name)) == 21
            # More than five were made when the first overload error comes: no further one.
            deployment["a:1"].received.clear()
            deployment["a:1"].on(name, *[ordinary] * 7, OVERLOADED, success)
            error = await fails(client, make(), timeout=60)
            assert len(deployment["a:1"].times(name)) == 8
            assert error.retry_refusal == "attempts"
            # Fewer than five: the rest is left.
            deployment["a:1"].received.clear()
            deployment["a:1"].on(name, *[ordinary] * 3, OVERLOADED)
            error = await fails(client, make(), timeout=60)
            assert len(deployment["a:1"].times(name)) == 6
            assert gaps(deployment["a:1"].times(name)) == [0.01, 0.01, 0.01, 0.8, 1.6]

    async def test_an_error_that_nothing_permits_ends_it(
        self, name: str, make: Callable[[], Operation], success: dict[str, Any]
    ) -> None:
        deployment = replica_set()
        deployment["a:1"].on(name, OVERLOADED, BAD_VALUE, success)
        async with driver(deployment) as client:
            error = await fails(client, make())
            assert isinstance(error, OperationFailure)
            assert (error.code, error.attempts, error.retry_refusal) == (2, 2, "not retryable")


# --- options ---


@pytest.mark.parametrize(
    ("options", "retried"),
    [
        ({}, {"find", "insert", "update", "getMore", "ping"}),
        ({"retryReads": False}, {"insert", "update"}),
        ({"retryWrites": False}, {"find", "getMore"}),
        ({"retryReads": False, "retryWrites": False}, set()),
    ],
)
@pytest.mark.parametrize("answer", [OVERLOADED, RETRYABLE_ONLY])
async def test_retry_options(options: dict[str, bool], retried: set[str], answer: dict[str, Any]) -> None:
    deployment = replica_set()
    async with driver(deployment, **options) as client:
        for name, make, success in COMMANDS:
            deployment["a:1"].on(name, answer, success)
            if name in retried:
                await client.run(make())
                continue
            error = await fails(client, make())
            assert (error.attempts, error.retry_refusal) == (1, "disabled")
    assert client.tokens == 1000


@pytest.mark.parametrize("retries", [0, 1, 3, 7])
async def test_max_adaptive_retries(retries: int) -> None:
    deployment = replica_set()
    deployment["a:1"].on("ping", OVERLOADED)
    async with driver(deployment, maxAdaptiveRetries=retries) as client:
        error = await fails(client, run_command())
        assert error.attempts == len(deployment["a:1"].times("ping")) == retries + 1


async def test_without_a_budget_retries_are_free() -> None:
    deployment = replica_set()
    deployment["a:1"].on("ping", OVERLOADED, OVERLOADED, failure(2))
    async with driver(deployment, adaptiveRetries=False) as client:
        assert client.core.executor.bucket is None
        await fails(client, run_command())
        deployment["a:1"].on("ping", OVERLOADED, DONE)
        await client.run(run_command())
        assert {event.tokens for event in client.recorder.retries} == {float("inf")}
        assert client.core.stats().tokens == float("inf")


async def test_preset_of_the_later_revision() -> None:
    deployment = replica_set(servers=2)
    deployment["a:1"].on("find", OVERLOADED)
    preference = ReadPreference.PRIMARY_PREFERRED
    async with driver(deployment, overload_policy=OverloadRetry.revision_2026_07()) as client:
        error = await fails(client, find(selector=preference, read_preference=preference))
        assert gaps(deployment["a:1"].times("find")) == [0.2, 0.4]
        assert (error.attempts, error.retry_refusal) == (3, "attempts")
        assert not deployment["b:1"].commands("find")
        assert client.core.executor.bucket is None
        # Both labels are needed.
        deployment["a:1"].on("ping", RETRYABLE_ONLY)
        assert (await fails(client, run_command())).attempts == 1
        deployment["a:1"].on("update", OVERLOADED_ONLY)
        assert (await fails(client, update_many())).attempts == 1
        # SystemOverloadedError alone does not forbid an ordinary retry; it is delayed and capped.
        deployment["a:1"].received.clear()
        deployment["a:1"].on("insert", failure(6, "SystemOverloadedError", "RetryableWriteError"))
        assert (await fails(client, insert())).attempts == 3
        assert gaps(deployment["a:1"].times("insert")) == [0.2, 0.4]


async def test_preset_of_the_later_revision_with_an_option_on_top() -> None:
    deployment = replica_set()
    deployment["a:1"].on("ping", OVERLOADED)
    preset = OverloadRetry.revision_2026_07()
    async with driver(deployment, overload_policy=preset, maxAdaptiveRetries=1, adaptiveRetries=True) as client:
        client.drain_to(10)
        assert (await fails(client, run_command())).attempts == 2
        assert client.tokens == 9


# --- the error that is raised ---


async def test_a_server_that_is_gone_before_the_retry_does_not_hide_the_overload_error() -> None:
    deployment = replica_set()
    server = deployment["a:1"]

    server.on("find", overloaded(baseBackoffMS=5000))
    async with driver(deployment, serverSelectionTimeoutMS=2000, heartbeatFrequencyMS=500) as client:

        async def crash_during_the_backoff() -> None:
            await anyio.sleep(1)
            server.is_down = True
            server.drop_connections()

        before = client.now
        async with anyio.create_task_group() as group:
            group.start_soon(crash_during_the_backoff)
            error = await fails(client, find())
        # Not five retries: the time of the selection timeout is over.
        assert client.now == pytest.approx(before + 5 + 2, abs=1e-9)
        assert isinstance(error, OperationFailure)
        assert error.code == 462
        assert error.phase == "selection"
        assert (error.attempts, error.retry_reasons) == (2, ("overload",))
        assert isinstance(error.__cause__, ServerSelectionTimeoutError)
        assert error.__cause__.address is None
        assert [event.address for event in client.recorder.retries] == [A, None]
        # The failed retry was not for overload.
        assert client.tokens == 1000


@pytest.mark.parametrize("hangs_up", [False, True], ids=["refused", "closed during hello"])
async def test_check_outs_that_fail_before_a_retry_do_not_hide_the_overload_error(hangs_up: bool) -> None:
    deployment = replica_set()
    server = deployment["a:1"]
    server.on("find", OVERLOADED)
    async with driver(deployment) as client:

        async def crash_during_the_backoff() -> None:
            await anyio.sleep(0.05)
            make_unreachable(deployment, hangs_up=hangs_up)

        before = client.now
        async with anyio.create_task_group() as group:
            group.start_soon(crash_during_the_backoff)
            error = await fails(client, find())
        # A connection that cannot be made is an overload error of the operation, and as such retried.
        assert client.now == pytest.approx(before + 3.1, abs=1e-9)
        assert isinstance(error, OperationFailure)
        assert error.code == 462
        assert (error.attempts, error.retry_refusal) == (6, "attempts")
        assert isinstance(error.__cause__, AutoReconnect)


async def test_a_handshake_that_the_server_refuses_does_not_hide_the_overload_error() -> None:
    deployment = replica_set()
    server = deployment["a:1"]
    server.on("find", OVERLOADED)
    async with driver(deployment) as client:

        async def restart_during_the_backoff() -> None:
            await anyio.sleep(0.05)
            server.drop_connections()
            server.on("isMaster", BAD_VALUE)

        async with anyio.create_task_group() as group:
            group.start_soon(restart_during_the_backoff)
            error = await fails(client, find())
        assert isinstance(error, OperationFailure)
        assert (error.code, error.attempts) == (462, 2)
        assert isinstance(error.__cause__, OperationFailure)
        assert error.__cause__.code == 2


@pytest.mark.parametrize("hangs_up", [False, True], ids=["refused", "closed during hello"])
@EVERY_KIND
async def test_a_connection_that_cannot_be_made_is_an_overload_error(
    name: str, make: Callable[[], Operation], success: dict[str, Any], hangs_up: bool
) -> None:
    deployment = replica_set()
    server = deployment["a:1"]
    server.on(name, success)
    async with driver(deployment) as client:
        client.drain_to(10)
        make_unreachable(deployment, hangs_up=hangs_up)
        before = client.now
        error = await fails(client, make())
        assert client.now == pytest.approx(before + 3.1, abs=1e-9)
        assert client.tokens == 5
        assert isinstance(error, AutoReconnect)
        assert {"SystemOverloadedError", "RetryableError"} <= error.error_labels
        assert (error.attempts, error.retry_reasons, error.address) == (6, ("overload",) * 5, A)
        assert [event.delay for event in client.recorder.retries] == [*DELAYS, 0]
        # The server is there, it only has no room.
        assert client.server().description.is_server_type_known
        assert not client.recorder.cleared
        assert not client.recorder.commands

        async def recover() -> None:
            await anyio.sleep(0.15)
            make_reachable(deployment)

        before = client.now
        async with anyio.create_task_group() as group:
            group.start_soon(recover)
            await client.run(make())
        assert client.now == pytest.approx(before + 0.3, abs=1e-9)


@pytest.mark.parametrize("is_read", [True, False])
async def test_a_pool_that_is_cleared_before_a_retry_does_not_hide_the_overload_error(is_read: bool) -> None:
    deployment = replica_set()
    name, make = ("find", find) if is_read else ("update", update_many)
    deployment["a:1"].on(name, OVERLOADED)
    async with driver(deployment, maxPoolSize=1) as client:
        pool = client.server().pool

        async def clear_while_it_waits() -> None:
            await anyio.sleep(0.05)
            busy = pool.check_out_now()
            assert busy is not None
            for _ in range(6):
                await anyio.sleep(0.1)
                pool.clear(AutoReconnect("the monitor says so"))
                pool.ready()
            pool.check_in(busy)

        async with anyio.create_task_group() as group:
            group.start_soon(clear_while_it_waits)
            error = await fails(client, make())
        assert isinstance(error, OperationFailure)
        assert error.code == 462
        assert isinstance(error.__cause__, PoolClearedError)
        # For a read the cleared pool is retried as well; all retries together are five.
        assert error.attempts == (6 if is_read else 2)
        assert error.retry_reasons[0] == "overload"
        assert set(error.retry_reasons[1:]) == ({"retryable read"} if is_read else set())


async def test_a_connection_that_takes_too_long_is_an_overload_error() -> None:
    # The server queues new connections while it is overloaded.
    deployment = replica_set()
    async with driver(deployment, connectTimeoutMS=1000) as client:
        make_unreachable(deployment, hangs_up=True)
        deployment["a:1"].on("isMaster", Hang())
        before = client.now

        async def recover() -> None:
            await anyio.sleep(1.05)
            make_reachable(deployment)

        async with anyio.create_task_group() as group:
            group.start_soon(recover)
            await client.run(update_many())
        assert client.now == pytest.approx(before + 1.1, abs=1e-9)
        (event,) = client.recorder.retries
        assert isinstance(event.error, NetworkTimeout)
        assert (event.reason, event.delay, event.address) == ("overload", 0.1, A)


async def test_a_command_that_cannot_be_built_again_does_not_hide_the_overload_error() -> None:
    deployment = replica_set(servers=2)
    deployment["a:1"].on("find", OVERLOADED)
    # MongoDB 4.2, where allowDiskUse is an error.
    deployment["b:1"].hello["maxWireVersion"] = 8
    preference = ReadPreference.PRIMARY_PREFERRED
    async with driver(deployment) as client:
        operation = find(selector=preference, read_preference=preference, allow_disk_use=True)
        error = await fails(client, operation)
        assert isinstance(error, OperationFailure)
        assert (error.code, error.attempts, error.address) == (462, 2, A)
        assert isinstance(error.__cause__, CommandNotRebuilt)
        assert isinstance(error.__cause__.__cause__, ConfigurationError)
        assert not deployment["b:1"].commands()
        # No connection is lost on that way.
        assert not client.server(B).pool.state.in_use


async def test_a_command_that_cannot_be_built_at_all_raises_its_own_error() -> None:
    deployment = replica_set(wire_version=8)
    async with driver(deployment) as client:
        client.drain_to(10)
        error = await fails(client, find(allow_disk_use=True))
        assert isinstance(error, ConfigurationError)
        assert (error.attempts, error.retry_refusal, error.address) == (1, "not retryable", A)
        assert client.tokens == 10


async def test_the_cause_of_an_error_is_kept() -> None:
    cause = OSError("what the socket said")

    async def exchange(data: bytes, until: float) -> bytes:
        raise AutoReconnect("broken") from cause

    async with driver(replica_set()) as client:
        (connection,) = client.server().pool.state.idle
        setattr(connection.stream, "exchange", exchange)  # noqa: B010  # a method
        error = await fails(client, update_many())
        assert error.__cause__ is cause


async def test_a_state_change_on_a_retry_replaces_the_overload_error() -> None:
    deployment = replica_set()
    deployment["a:1"].on("update", OVERLOADED, failure(91))
    async with driver(deployment) as client:
        error = await fails(client, update_many())
        assert isinstance(error, NotPrimaryError)
        assert (error.code, error.attempts, error.retry_reasons) == (91, 2, ("overload",))


async def test_a_network_error_on_a_retry_replaces_the_overload_error() -> None:
    deployment = replica_set()
    deployment["a:1"].on("update", OVERLOADED, Close())
    async with driver(deployment) as client:
        error = await fails(client, update_many())
        assert isinstance(error, AutoReconnect)
        assert error.address == A
        assert (error.attempts, error.retry_refusal) == (2, "not retryable")
