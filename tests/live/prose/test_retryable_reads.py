"""The prose tests of the retryable reads specification that a real server can show."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite.errors import NotPrimaryError, OperationFailure
from motorlite.monitoring import PoolEvent
from motorlite.testing import failpoints
from tests.live.prose.steps import BOTH, DEFAULTS, MAXIMA, POLICIES, POLLING, REVISION, SHUTDOWN_IN_PROGRESS, TwoSteps
from tests.support.clients import make_client
from tests.support.events import Recorder
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from motorlite.testing import LocalServer
    from tests.live.conftest import Fail
    from tests.support.mongos.cluster import Cluster

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


async def addresses_of_two_finds(
    server: LocalServer, database_name: str, fail: Fail, labels: Sequence[str], options: dict[str, Any]
) -> tuple[Any, Any]:
    """Let the primary fail one find with primaryPreferred; the servers that failed it and that then answered it."""
    record = Recorder()
    options = {"readPreference": "primaryPreferred", "retryReads": True, "event_listeners": [record], **options}
    async with make_client(server, jitter=0.0, **options) as client:
        # A retry cannot go to a server that the client has not found yet.
        expected = {"RSPrimary": 1, "RSSecondary": 2}
        await client.aconnect(timeoutMS=0)
        await until(lambda: Counter(member.server_type for member in client.stats().servers.values()) == expected)
        primary = await client.primary
        find_fails = failpoints.fail_command(
            ["find"],
            error_code=HOST_UNREACHABLE,
            error_labels=labels,
            times=1,
            namespace=f"{database_name}.coll",
        )
        fail(server, find_fails, primary)
        record.clear()
        assert await client[database_name].coll.find_one() is None
        assert record.history == ["started find", "failed find", "started find", "succeeded find"]
        failed, succeeded = (event.connection_id for event in record.ended_events)
        assert failed == primary
        return failed, succeeded


@pytest.mark.parametrize(
    "options", [REVISION | {"enableOverloadRetargeting": True}, DEFAULTS], ids=["newest revision", "defaults"]
)
async def test_3_1_overloaded_reads_go_to_another_server_with_retargeting(
    replica_set3: LocalServer, database_name: str, fail: Fail, options: dict[str, Any]
) -> None:
    """Retryable reads, 3.1. At the defaults retargeting is on."""
    failed, succeeded = await addresses_of_two_finds(replica_set3, database_name, fail, BOTH, options)
    assert failed != succeeded


@pytest.mark.parametrize("options", [REVISION, DEFAULTS], ids=["newest revision", "defaults"])
async def test_3_2_other_failed_reads_stay_on_the_same_server(
    replica_set3: LocalServer, database_name: str, fail: Fail, options: dict[str, Any]
) -> None:
    """Retryable reads, 3.2."""
    labels = ["RetryableError"]
    failed, succeeded = await addresses_of_two_finds(replica_set3, database_name, fail, labels, options)
    assert failed == succeeded


@pytest.mark.parametrize(
    "options", [REVISION, DEFAULTS | {"enableOverloadRetargeting": False}], ids=["newest revision", "defaults"]
)
async def test_3_3_overloaded_reads_stay_on_the_same_server_without_retargeting(
    replica_set3: LocalServer, database_name: str, fail: Fail, options: dict[str, Any]
) -> None:
    """Retryable reads, 3.3."""
    failed, succeeded = await addresses_of_two_finds(replica_set3, database_name, fail, BOTH, options)
    assert failed == succeeded


async def overload_and_then_shutdown(
    server: LocalServer, database_name: str, fail: Fail, jitter: float, options: dict[str, Any]
) -> TwoSteps:
    """Let a find fail with an overload error and then, for ever, with an error that is merely retryable."""
    namespace = f"{database_name}.coll"
    labels = ["RetryableError"]
    then = failpoints.fail_command(["find"], error_code=SHUTDOWN_IN_PROGRESS, error_labels=labels, namespace=namespace)
    record = TwoSteps(server, then)
    async with make_client(server, jitter=jitter, event_listeners=[record], **POLLING, **options) as client:
        overload = failpoints.fail_command(
            ["find"], error_code=SHUTDOWN_IN_PROGRESS, error_labels=BOTH, times=1, namespace=namespace
        )
        fail(server, overload)
        with pytest.raises(NotPrimaryError) as caught:
            await client[database_name].coll.find_one()
        assert caught.value.code == SHUTDOWN_IN_PROGRESS
        # The newest, of the second failpoint.
        assert caught.value.error_labels == set(labels)
        assert caught.value.attempts == len(record.commands("find"))
    return record


@MAXIMA
async def test_4_an_overload_error_sets_the_maximum_of_all_retries(
    replica_set: LocalServer, database_name: str, fail: Fail, options: dict[str, Any], max_retries: int
) -> None:
    """Retryable reads, 4."""
    record = await overload_and_then_shutdown(replica_set, database_name, fail, 0.0, options)
    assert len(record.commands("find")) == max_retries + 1


@POLICIES
async def test_5_no_backoff_after_other_errors(
    replica_set: LocalServer, database_name: str, fail: Fail, options: dict[str, Any], max_retries: int
) -> None:
    """Retryable reads, 5. That nothing else delays the retries is shown in tests/sim."""
    record = await overload_and_then_shutdown(replica_set, database_name, fail, 0.5, options)
    backoff, *others = record.delays()
    assert backoff > 0
    assert others == [0] * (max_retries - 1)
    assert record.gaps[0] >= backoff - 1e-6


async def test_2_1_reads_are_retried_on_a_different_mongos(cluster: Cluster, database_name: str) -> None:
    """Retryable reads, 2.1."""
    record = Recorder()
    fails = failpoints.fail_command(["find"], error_code=HOST_UNREACHABLE, times=1, namespace=f"{database_name}.coll")
    async with make_client(cluster.uri, retryReads=True, event_listeners=[record]) as client:
        await client.aconnect(timeoutMS=0)
        await until(lambda: len(client.topology_description.known_servers) == 2)
        for number in (0, 1):
            cluster.command(number, fails)
        with pytest.raises(OperationFailure) as caught:
            await client[database_name].coll.find_one()
        assert caught.value.code == HOST_UNREACHABLE
        assert record.history == ["started find", "failed find"] * 2
        assert {event.connection_id for event in record.ended_events} == set(cluster.addresses)


async def test_2_2_reads_are_retried_on_the_same_mongos_when_no_other_is_available(
    cluster: Cluster, database_name: str
) -> None:
    """Retryable reads, 2.2."""
    record = Recorder()
    fails = failpoints.fail_command(["find"], error_code=HOST_UNREACHABLE, times=1, namespace=f"{database_name}.coll")
    cluster.command(0, fails)
    options: dict[str, Any] = {"directConnection": False, "retryReads": True, "event_listeners": [record]}
    async with make_client(cluster.uri_of_one, **options) as client:
        assert await client[database_name].coll.find_one() is None
        assert record.history == ["started find", "failed find", "started find", "succeeded find"]
        assert {event.connection_id for event in record.ended_events} == {cluster.addresses[0]}
