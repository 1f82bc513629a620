"""The prose tests of the client backpressure specification that a real server can show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from motorlite.errors import OperationFailure
from motorlite.testing import failpoints
from tests.live.prose.steps import BOTH, POLICIES, REVISION
from tests.support.clients import make_client
from tests.support.events import Recorder

if TYPE_CHECKING:
    from motorlite.testing import LocalServer
    from tests.live.conftest import Fail

pytestmark = pytest.mark.anyio

BAD_VALUE = 2
ALMOST_ONE = 1 - 2**-53


async def failing_find(server: LocalServer, database_name: str, fail: Fail, **options: Any) -> Recorder:
    """Let every find fail with error 462 and both labels; check what is raised, and tell what happened."""
    record = Recorder()
    async with make_client(server, jitter=0.0, event_listeners=[record], **options) as client:
        fail(server, failpoints.overload(1.0, ["find"], error_labels=BOTH, namespace=f"{database_name}.coll"))
        with pytest.raises(OperationFailure) as caught:
            await client[database_name].coll.find_one()
        assert caught.value.code == failpoints.INGRESS_REQUEST_RATE_LIMIT_EXCEEDED
        assert caught.value.error_labels == set(BOTH)
        assert caught.value.attempts == len(record.names)
        assert set(record.names) == {"find"}
    return record


async def test_1_operation_retry_uses_exponential_backoff(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    """Client backpressure, test 1. Its delays at the defaults are in tests/sim, where 3.1 seconds take none."""
    insert_fails = failpoints.fail_command(
        ["insert"], error_code=BAD_VALUE, error_labels=BOTH, namespace=f"{database_name}.coll"
    )
    fail(replica_set, insert_fails)
    for jitter, expected in ((0.0, 0.0), (ALMOST_ONE, 0.6)):
        record = Recorder()
        async with make_client(replica_set, jitter=jitter, event_listeners=[record], **REVISION) as client:
            await client.admin.command("ping")
            record.clear()
            with pytest.raises(OperationFailure) as caught:
                await client[database_name].coll.insert_one({"a": 1})
            assert (caught.value.code, caught.value.attempts) == (BAD_VALUE, 3)
        # What the machine adds to both is left out: the test compares what is waited for.
        assert sum(event.delay for event in record.retries) == pytest.approx(expected)
        assert sum(record.gaps) >= expected - 1e-6


@POLICIES
async def test_3_overload_errors_are_retried_max_retries_times(
    replica_set: LocalServer, database_name: str, fail: Fail, options: dict[str, Any], max_retries: int
) -> None:
    """Client backpressure, test 3."""
    record = await failing_find(replica_set, database_name, fail, **options)
    assert record.names.count("find") == max_retries + 1


@POLICIES
async def test_4_overload_errors_are_retried_max_adaptive_retries_times_when_configured(
    replica_set: LocalServer, database_name: str, fail: Fail, options: dict[str, Any], max_retries: int
) -> None:
    """Client backpressure, test 4."""
    assert max_retries > 1
    record = await failing_find(replica_set, database_name, fail, maxAdaptiveRetries=1, **options)
    assert record.names.count("find") == 2


# --- of the token bucket revision, whose tests 1 and 3 are those above with the driver's defaults ---


async def test_2_token_bucket_capacity_is_enforced(replica_set: LocalServer) -> None:
    """Client backpressure, test 2 of the token bucket revision."""
    async with make_client(replica_set, retry_budget=True) as client:
        assert client.stats().tokens == client.stats().token_capacity == 1000
        await client.admin.command("ping")
        assert client.stats().tokens == client.stats().token_capacity == 1000


async def test_4_adaptive_retries_are_limited_by_token_bucket_tokens(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    """Client backpressure, test 4 of the token bucket revision."""
    record = Recorder()
    options: dict[str, Any] = {"retry_budget": 2}
    async with make_client(replica_set, jitter=0.0, event_listeners=[record], **options) as client:
        assert client.stats().tokens == 2
        find_fails = failpoints.overload(commands=["find"], times=3, namespace=f"{database_name}.coll")
        fail(replica_set, find_fails)
        with pytest.raises(OperationFailure) as caught:
            await client[database_name].coll.find_one()
        assert caught.value.error_labels == set(BOTH)
        assert record.names == ["find"] * 3
        assert (caught.value.attempts, caught.value.retry_refusal) == (3, "tokens")
        assert client.stats().tokens == 0
