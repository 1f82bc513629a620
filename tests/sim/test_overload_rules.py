"""The overload retry policy (client backpressure specification), rule by rule, with exact delays in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite.errors import (
    OperationFailure,
)
from motorlite.read_preferences import ReadPreference
from motorlite.testing.scripted import Close, ScriptedDeployment, failure, overloaded
from motorlite.write_concern import WriteConcern
from tests.support.core import (
    BAD_VALUE,
    DELAYS,
    EVERY_KIND,
    FOUND,
    HOST_UNREACHABLE,
    OVERLOADED,
    OVERLOADED_ONLY,
    RETRYABLE_ONLY,
    WRITTEN,
    A,
    B,
    driver,
    fails,
    find,
    gaps,
    insert,
    later,
    replica_set,
    run_command,
    update_many,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._operations.contract import Operation

pytestmark = pytest.mark.anyio

# --- rule 1 ---


@EVERY_KIND
async def test_rule_1_success_on_the_first_attempt_deposits_a_tenth(
    name: str, make: Callable[[], Operation[Any]], success: dict[str, Any]
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
    name: str, make: Callable[[], Operation[Any]], success: dict[str, Any]
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
    name: str, make: Callable[[], Operation[Any]], success: dict[str, Any]
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
        assert "server a:1; 6 attempts, retried for: overload; not retried again: attempts" in str(error)

        server.received.clear()
        server.on(name, *[OVERLOADED] * 5, success)
        await client.run(make())
        assert len(server.times(name)) == 6
        assert client.tokens == 1.1


@EVERY_KIND
async def test_rule_4_overloaded_without_retryable_is_never_retried(
    name: str, make: Callable[[], Operation[Any]], success: dict[str, Any]
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
    name: str, make: Callable[[], Operation[Any]], success: dict[str, Any]
) -> None:
    deployment = replica_set()
    deployment["a:1"].on(name, RETRYABLE_ONLY, RETRYABLE_ONLY, success)
    async with driver(deployment) as client:
        client.drain_to(10)
        await client.run(make())
        assert gaps(deployment["a:1"].times(name)) == [0, 0]
        assert [event.reason for event in client.recorder.retries] == ["retryable error"] * 2
        # One taken, one given back by the second failure, one taken.
        assert [event.tokens for event in client.recorder.retries] == [9, 9]
        assert client.tokens == 10.1


async def test_rule_4_retryable_alone_five_times() -> None:
    deployment = replica_set()
    deployment["a:1"].on("ping", RETRYABLE_ONLY)
    async with driver(deployment) as client:
        error = await fails(client, run_command())
        assert len(deployment["a:1"].times("ping")) == 6
        assert (error.retry_refusal, error.retry_reasons) == ("attempts", ("retryable error",) * 5)


@pytest.mark.parametrize("answer", [failure(462), BAD_VALUE], ids=["the code alone", "another error"])
@EVERY_KIND
async def test_rule_4_labels_decide_not_codes(
    name: str, make: Callable[[], Operation[Any]], success: dict[str, Any], answer: dict[str, Any]
) -> None:
    deployment = replica_set()
    deployment["a:1"].on(name, answer)
    async with driver(deployment) as client:
        error = await fails(client, make())
        assert len(deployment["a:1"].times(name)) == 1
        # No rule about retries is about such an error, so there was nothing to refuse.
        assert (error.attempts, error.retry_refusal) == (1, None)
        assert not client.recorder.retries
        assert client.core.stats().refusals == {}


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
    name: str, make: Callable[[], Operation[Any]], success: dict[str, Any]
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


async def test_rule_6_every_mongos_is_asked_before_one_is_asked_again() -> None:
    deployment = ScriptedDeployment(["a:1", "b:1", "c:1"], mongos=True)
    for address in ("a:1", "b:1", "c:1"):
        deployment[address].on("find", OVERLOADED)
    async with driver(deployment) as client:
        await anyio.sleep(1)
        await fails(client, find())
        assert len({event.address for event in client.recorder.retries[:3]}) == 3


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
