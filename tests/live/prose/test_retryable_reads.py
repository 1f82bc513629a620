"""The prose tests of the retryable reads specification that a real server can show."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite.errors import NotPrimaryError
from motorlite.monitoring import PoolEvent
from motorlite.testing import failpoints
from tests.live.prose.steps import BOTH, DEFAULTS, MAXIMA, POLLING, REVISION, SHUTDOWN_IN_PROGRESS, TwoSteps
from tests.support.clients import make_client
from tests.support.events import Recorder
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from motorlite.testing import LocalServer
    from tests.live.conftest import Fail

pytestmark = pytest.mark.anyio

HOST_UNREACHABLE = 6


async def test_1_pool_cleared_error_retryability(replica_set: LocalServer, database_name: str, fail: Fail) -> None:
    """Retryable reads, 1."""
    record, pool = Recorder(), Recorder(PoolEvent)
    options: dict[str, Any] = {"maxPoolSize": 1, "retryReads": True, "event_listeners": [record, pool], **POLLING}
    async with make_client(replica_set, **options) as client:
        find_fails = failpoints.fail_command(
            ["find"], error_code=SHUTDOWN_IN_PROGRESS, times=1, block_ms=1000, namespace=f"{database_name}.coll"
        )
        fail(replica_set, find_fails)
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(client[database_name].coll.find_one)
        # Both waited for the new connection then.
        assert pool.words("checked out|check-out failed|pool cleared") == [
            "checked out 1",
            "pool cleared",
            "check-out failed connectionError",
            "checked out 2",
            "checked out 2",
        ]
        assert record.names == ["find"] * 3
        assert record.history.count("succeeded find") == 2


ON, OFF = {"enableOverloadRetargeting": True}, {"enableOverloadRetargeting": False}


@pytest.mark.parametrize(
    ("labels", "options", "stays"),
    [
        pytest.param(BOTH, REVISION | ON, False, id="3.1 newest revision"),
        pytest.param(BOTH, DEFAULTS, False, id="3.1 defaults"),
        pytest.param(("RetryableError",), REVISION, True, id="3.2 newest revision"),
        pytest.param(("RetryableError",), DEFAULTS, True, id="3.2 defaults"),
        pytest.param(BOTH, REVISION, True, id="3.3 newest revision"),
        pytest.param(BOTH, DEFAULTS | OFF, True, id="3.3 defaults"),
    ],
)
async def test_3_overloaded_reads_go_to_another_server_with_retargeting(
    replica_set3: LocalServer,
    database_name: str,
    fail: Fail,
    labels: Sequence[str],
    options: dict[str, Any],
    stays: bool,
) -> None:
    """Retryable reads, 3.1 to 3.3: the primary fails one find with primaryPreferred."""
    record = Recorder()
    options = {"readPreference": "primaryPreferred", "retryReads": True, "event_listeners": [record], **options}
    async with make_client(replica_set3, jitter=0.0, **options) as client:
        # A retry cannot go to a server that the client has not found yet.
        expected = {"RSPrimary": 1, "RSSecondary": 2}
        await client.aconnect(timeoutMS=0)
        await until(lambda: Counter(member.server_type for member in client.stats().servers.values()) == expected)
        primary = await client.primary
        failing: dict[str, Any] = {"error_code": HOST_UNREACHABLE, "times": 1, "namespace": f"{database_name}.coll"}
        fail(replica_set3, failpoints.fail_command(["find"], error_labels=labels, **failing), primary)
        record.clear()
        assert await client[database_name].coll.find_one() is None
        assert record.history == ["started find", "failed find", "started find", "succeeded find"]
        failed, succeeded = (event.connection_id for event in record.ended_events)
        assert failed == primary
        assert (succeeded == primary) is stays


@MAXIMA
async def test_4_an_overload_error_sets_the_maximum_of_all_retries(
    replica_set: LocalServer, database_name: str, fail: Fail, options: dict[str, Any], max_retries: int
) -> None:
    """Retryable reads, 4: an overload error and then, for ever, one that is merely retryable."""
    failing: dict[str, Any] = {"error_code": SHUTDOWN_IN_PROGRESS, "namespace": f"{database_name}.coll"}
    labels = ["RetryableError"]
    record = TwoSteps(replica_set, failpoints.fail_command(["find"], error_labels=labels, **failing))
    async with make_client(replica_set, jitter=0.0, event_listeners=[record], **POLLING, **options) as client:
        fail(replica_set, failpoints.fail_command(["find"], error_labels=BOTH, times=1, **failing))
        with pytest.raises(NotPrimaryError) as caught:
            await client[database_name].coll.find_one()
    assert caught.value.code == SHUTDOWN_IN_PROGRESS
    # The newest, of the second failpoint.
    assert caught.value.error_labels == set(labels)
    assert caught.value.attempts == len(record.commands("find")) == max_retries + 1
