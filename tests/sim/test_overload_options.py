"""The overload policy together with ordinary retries, and under every option."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest

from motorlite.errors import (
    OperationFailure,
)
from motorlite.read_preferences import ReadPreference
from motorlite.retry import OverloadRetry
from motorlite.testing.scripted import failure
from tests.support.core import (
    BAD_VALUE,
    COMMANDS,
    DONE,
    FOUND,
    HOST_UNREACHABLE,
    OVERLOADED,
    OVERLOADED_ONLY,
    RETRYABLE_ONLY,
    WRITTEN,
    driver,
    fails,
    find,
    gaps,
    insert,
    later,
    make_unreachable,
    replica_set,
    run_command,
    update_many,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._operations.contract import Operation

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("name", "make", "success"),
    [("find", find, FOUND), ("insert", insert, WRITTEN)],
    ids=["read", "write"],
)
class TestMixed:
    """Retryable reads and writes together with the overload policy."""

    async def test_an_ordinary_error_first(
        self, name: str, make: Callable[[], Operation[Any]], success: dict[str, Any]
    ) -> None:
        deployment = replica_set()
        deployment["a:1"].on(name, HOST_UNREACHABLE, OVERLOADED, success)
        async with driver(deployment) as client:
            client.drain_to(10)
            await client.run(make())
            # The second retry of the operation waits 200 ms, whatever the first was made for.
            assert gaps(deployment["a:1"].times(name)) == [0, 0.2]
            assert [event.reason for event in client.recorder.retries] == ["temporary failure", "overload"]
            assert [event.rule for event in client.recorder.retries] == ["specification", "overload policy"]
            assert client.tokens == 10.1

    async def test_an_overload_error_first(
        self, name: str, make: Callable[[], Operation[Any]], success: dict[str, Any]
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
        self, name: str, make: Callable[[], Operation[Any]], success: dict[str, Any], limit: float
    ) -> None:
        deployment = replica_set()
        deployment["a:1"].on(name, OVERLOADED, later(HOST_UNREACHABLE, 0.01))
        async with driver(deployment) as client:
            error = await fails(client, make(), timeout=limit)
            assert len(deployment["a:1"].times(name)) == 6
            assert error.retry_refusal == "attempts"

    async def test_two_ordinary_errors_without_overload_end_it(
        self, name: str, make: Callable[[], Operation[Any]], success: dict[str, Any]
    ) -> None:
        deployment = replica_set()
        deployment["a:1"].on(name, HOST_UNREACHABLE, HOST_UNREACHABLE, success)
        async with driver(deployment) as client:
            error = await fails(client, make())
            assert (error.attempts, error.retry_refusal) == (2, "attempts")

    async def test_with_timeout_ms_ordinary_retries_go_on_and_overload_ends_that(
        self, name: str, make: Callable[[], Operation[Any]], success: dict[str, Any]
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
            # 10 ms for each reply, and the backoff: 1 and 10 ms for ordinary retries but the first.
            assert gaps(deployment["a:1"].times(name)) == [0.01, 0.011, 0.02, 0.8, 1.6]

    @pytest.mark.parametrize("limit", [float("inf"), 60])
    async def test_after_a_retry_by_the_label_alone_all_retries_together_are_five(
        self, name: str, make: Callable[[], Operation[Any]], success: dict[str, Any], limit: float
    ) -> None:
        deployment = replica_set()
        async with driver(deployment) as client:
            deployment["a:1"].on(name, *[RETRYABLE_ONLY] * 5, HOST_UNREACHABLE, success)
            error = await fails(client, make(), timeout=limit)
            assert len(deployment["a:1"].times(name)) == error.attempts == 6
            assert error.retry_refusal == "attempts"

    async def test_one_retry_by_the_label_alone_ends_the_endless_ones_of_timeout_ms(
        self, name: str, make: Callable[[], Operation[Any]], success: dict[str, Any]
    ) -> None:
        deployment = replica_set()
        ordinary = later(HOST_UNREACHABLE, 0.01)
        async with driver(deployment) as client:
            deployment["a:1"].on(name, RETRYABLE_ONLY, *[ordinary] * 40, success)
            error = await fails(client, make(), timeout=60)
            assert len(deployment["a:1"].times(name)) == error.attempts == 6
            assert error.retry_refusal == "attempts"

    @pytest.mark.parametrize("labels", [(), ("RetryableError",)], ids=["the code alone", "with RetryableError"])
    @pytest.mark.parametrize("tokens", [0, 10])
    @pytest.mark.parametrize("retries", [0, 5])
    async def test_the_label_makes_no_error_less_retryable(
        self,
        name: str,
        make: Callable[[], Operation[Any]],
        success: dict[str, Any],
        retries: int,
        tokens: int,
        labels: tuple[str, ...],
    ) -> None:
        deployment = replica_set()
        deployment["a:1"].on(name, failure(91, "RetryableWriteError", *labels), success)
        async with driver(deployment, maxAdaptiveRetries=retries) as client:
            client.drain_to(tokens)
            await client.run(make())
            assert len(deployment["a:1"].times(name)) == 2
            (event,) = client.recorder.retries
            assert event.reason == ("retryable error" if labels else "failover")
            assert event.rule == ("overload policy" if labels and tokens and retries else "specification")
            assert event.tokens == tokens - (event.rule == "overload policy")

    @pytest.mark.parametrize("limit", [float("inf"), 60])
    async def test_without_overload_retries_a_refused_connection_is_not_retried(
        self, name: str, make: Callable[[], Operation[Any]], success: dict[str, Any], limit: float
    ) -> None:
        # It carries both labels, and after an overload error no rule may retry more often than maxAdaptiveRetries.
        deployment = replica_set()
        async with driver(deployment, maxAdaptiveRetries=0) as client:
            make_unreachable(deployment, hangs_up=False)
            error = await fails(client, make(), timeout=limit)
            assert (error.attempts, error.retry_refusal) == (1, "attempts")
            assert {"SystemOverloadedError", "RetryableError"} <= error.error_labels

    async def test_an_error_that_nothing_permits_ends_it(
        self, name: str, make: Callable[[], Operation[Any]], success: dict[str, Any]
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
async def test_retry_options(options: dict[str, Any], retried: set[str], answer: dict[str, Any]) -> None:
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
    async with driver(deployment, retry_budget=False) as client:
        assert client.core.executor.bucket is None
        await fails(client, run_command())
        deployment["a:1"].on("ping", OVERLOADED, DONE)
        await client.run(run_command())
        assert {event.tokens for event in client.recorder.retries} == {float("inf")}
        assert client.core.stats().tokens == float("inf")


async def test_what_a_success_deposits_is_no_option() -> None:
    # Every field differs from its default; a new one must be added here, and may not change the amounts.
    policy = OverloadRetry(
        max_retries=3,
        is_budgeted=True,
        base_backoff=0.5,
        max_backoff=5,
        first_exponent=1,
        needs_both_labels=True,
        retargets=False,
        handshake="2",
    )
    usual = OverloadRetry()
    same = {field.name for field in fields(policy) if getattr(policy, field.name) == getattr(usual, field.name)}
    assert same == {"is_budgeted", "token_capacity"}, "without them there is no bucket, or another one"
    deployment = replica_set()
    deployment["a:1"].on("find", FOUND, OVERLOADED, FOUND, OVERLOADED, BAD_VALUE)
    async with driver(deployment, overload_policy=policy, retry_budget=20) as client:
        client.drain_to(10)
        await client.run(find())
        assert client.tokens == 10.1
        await client.run(find())
        assert client.tokens == pytest.approx(10.1 - 1 + 1.1)
        await fails(client, find())
        assert client.tokens == pytest.approx(10.2 - 1 + 1)


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
    async with driver(deployment, overload_policy=preset, maxAdaptiveRetries=1, retry_budget=True) as client:
        client.drain_to(10)
        assert (await fails(client, run_command())).attempts == 2
        assert client.tokens == 9
