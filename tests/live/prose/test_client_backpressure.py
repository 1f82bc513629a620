"""The prose tests of the client backpressure specification that a real server can show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from motorlite.errors import OperationFailure
from motorlite.testing import failpoints
from tests.live.prose.steps import BOTH, POLICIES
from tests.support.clients import make_client
from tests.support.events import Recorder

if TYPE_CHECKING:
    from motorlite.testing import LocalServer
    from tests.live.conftest import Fail

pytestmark = pytest.mark.anyio


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


# --- of the token bucket revision, whose test 3 is the one above with the driver's defaults ---


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
