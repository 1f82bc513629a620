"""The prose tests of the retryable writes specification that a real server can show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite.errors import NotPrimaryError, OperationFailure, WriteConcernError
from motorlite.monitoring import PoolEvent
from motorlite.testing import failpoints
from tests.live.prose.steps import BOTH, MAXIMA, POLICIES, POLLING, SHUTDOWN_IN_PROGRESS, TwoSteps
from tests.support.clients import make_client
from tests.support.events import Recorder
from tests.support.waiting import until

if TYPE_CHECKING:
    from motorlite.testing import LocalServer
    from tests.live.conftest import Fail
    from tests.support.mongos.cluster import Cluster

pytestmark = pytest.mark.anyio

HOST_UNREACHABLE = 6
NOT_WRITABLE_PRIMARY = 10107
NO_WRITES_PERFORMED = "NoWritesPerformed"


async def test_2_pool_cleared_errors_are_retried(replica_set: LocalServer, database_name: str, fail: Fail) -> None:
    """Retryable writes, 2."""
    record, pool = Recorder(), Recorder(PoolEvent)
    options: dict[str, Any] = {"maxPoolSize": 1, "retryWrites": True, "event_listeners": [record, pool], **POLLING}
    async with make_client(replica_set, **options) as client:
        insert_fails = failpoints.fail_command(
            ["insert"],
            error_code=SHUTDOWN_IN_PROGRESS,
            error_labels=["RetryableWriteError"],
            times=1,
            block_ms=1000,
            namespace=f"{database_name}.coll",
        )
        fail(replica_set, insert_fails)
        collection = client[database_name].coll
        async with anyio.create_task_group() as tasks:
            for number in range(2):
                tasks.start_soon(collection.insert_one, {"_id": number})
        # Both waited for the new connection then.
        assert pool.words("checked out|check-out failed|pool cleared") == [
            "checked out 1",
            "pool cleared",
            "check-out failed connectionError",
            "checked out 2",
            "checked out 2",
        ]
        assert record.names == ["insert"] * 3
        assert record.history.count("succeeded insert") == 2
        assert await collection.count_documents({}) == 2


async def test_3_a_write_concern_error_is_kept_when_the_retry_wrote_nothing(
    replica_set: LocalServer, database_name: str, fail: Fail
) -> None:
    """Retryable writes, 3."""
    namespace = f"{database_name}.coll"
    then = failpoints.fail_command(
        ["insert"],
        error_code=NOT_WRITABLE_PRIMARY,
        error_labels=["RetryableWriteError", NO_WRITES_PERFORMED],
        times=1,
        namespace=namespace,
    )
    record = TwoSteps(replica_set, then)
    async with make_client(replica_set, retryWrites=True, event_listeners=[record], **POLLING) as client:
        concern_fails = failpoints.fail_command(
            ["insert"],
            error_labels=["RetryableWriteError"],
            write_concern_error={"code": SHUTDOWN_IN_PROGRESS, "errmsg": "shutting down"},
            times=1,
            namespace=namespace,
        )
        fail(replica_set, concern_fails)
        with pytest.raises(WriteConcernError) as caught:
            await client[database_name].coll.insert_one({"_id": 1})
        assert caught.value.code == SHUTDOWN_IN_PROGRESS
        assert not caught.value.has_error_label(NO_WRITES_PERFORMED)
        assert record.history == ["started insert", "succeeded insert", "started insert", "failed insert"]


async def two_errors(
    server: LocalServer,
    database_name: str,
    fail: Fail,
    options: dict[str, Any],
    *,
    first_labels: tuple[str, ...] = BOTH,
    code: int = SHUTDOWN_IN_PROGRESS,
    labels: tuple[str, ...],
    jitter: float = 0.0,
) -> tuple[NotPrimaryError, TwoSteps]:
    """Let an insert fail with an overload error 91 and then, for ever, with `code` and `labels`."""
    namespace = f"{database_name}.coll"
    then = failpoints.fail_command(["insert"], error_code=code, error_labels=labels, namespace=namespace)
    record = TwoSteps(server, then)
    options = {"retryWrites": True, "event_listeners": [record], **POLLING, **options}
    async with make_client(server, jitter=jitter, **options) as client:
        overload = failpoints.fail_command(
            ["insert"],
            error_code=SHUTDOWN_IN_PROGRESS,
            error_labels=first_labels,
            times=1,
            namespace=namespace,
        )
        fail(server, overload)
        with pytest.raises(NotPrimaryError) as caught:
            await client[database_name].coll.insert_one({"_id": 1})
    assert record.is_second_set
    assert caught.value.attempts == len(record.commands("insert"))
    return caught.value, record


@POLICIES
async def test_6_case_1_only_errors_without_no_writes_performed(
    replica_set: LocalServer, database_name: str, fail: Fail, options: dict[str, Any], max_retries: int
) -> None:
    """Retryable writes, 6, case 1: the newest error."""
    error, _ = await two_errors(replica_set, database_name, fail, options, code=NOT_WRITABLE_PRIMARY, labels=BOTH)
    assert (error.code, error.attempts) == (NOT_WRITABLE_PRIMARY, max_retries + 1)


@POLICIES
async def test_6_case_2_only_errors_with_no_writes_performed(
    replica_set: LocalServer, database_name: str, fail: Fail, options: dict[str, Any], max_retries: int
) -> None:
    """Retryable writes, 6, case 2: the first error."""
    labels = (*BOTH, NO_WRITES_PERFORMED)
    error, _ = await two_errors(
        replica_set, database_name, fail, options, first_labels=labels, code=NOT_WRITABLE_PRIMARY, labels=labels
    )
    assert (error.code, error.attempts) == (SHUTDOWN_IN_PROGRESS, max_retries + 1)


@POLICIES
async def test_6_case_3_some_errors_with_no_writes_performed(
    replica_set: LocalServer, database_name: str, fail: Fail, options: dict[str, Any], max_retries: int
) -> None:
    """Retryable writes, 6, case 3: the newest error without the label."""
    error, _ = await two_errors(replica_set, database_name, fail, options, labels=(*BOTH, NO_WRITES_PERFORMED))
    assert (error.code, error.attempts) == (SHUTDOWN_IN_PROGRESS, max_retries + 1)
    assert not error.has_error_label(NO_WRITES_PERFORMED)


@MAXIMA
async def test_6_case_4_an_overload_error_sets_the_maximum_of_all_retries(
    replica_set: LocalServer, database_name: str, fail: Fail, options: dict[str, Any], max_retries: int
) -> None:
    """Retryable writes, 6, case 4."""
    error, record = await two_errors(
        replica_set, database_name, fail, options, labels=("RetryableError", "RetryableWriteError")
    )
    assert error.code == SHUTDOWN_IN_PROGRESS
    assert len(record.commands("insert")) == max_retries + 1


@POLICIES
async def test_6_case_5_no_backoff_after_other_errors(
    replica_set: LocalServer, database_name: str, fail: Fail, options: dict[str, Any], max_retries: int
) -> None:
    """Retryable writes, 6, case 5. That nothing else delays the retries is shown in tests/sim."""
    labels = ("RetryableError", "RetryableWriteError")
    _, record = await two_errors(replica_set, database_name, fail, options, labels=labels, jitter=0.5)
    backoff, *others = record.delays()
    assert backoff > 0
    assert others == [0] * (max_retries - 1)
    assert record.gaps[0] >= backoff - 1e-6


def insert_fails(database_name: str, **effect: Any) -> dict[str, Any]:
    """Let one insert fail with an error after which it is sent again."""
    return failpoints.fail_command(
        ["insert"],
        error_code=HOST_UNREACHABLE,
        error_labels=["RetryableWriteError"],
        times=1,
        namespace=f"{database_name}.coll",
        **effect,
    )


async def test_4_writes_are_retried_on_a_different_mongos(cluster: Cluster, database_name: str) -> None:
    """Retryable writes, 4."""
    record = Recorder()
    async with make_client(cluster.uri, retryWrites=True, event_listeners=[record]) as client:
        await client.aconnect()
        await until(lambda: len(client.topology_description.known_servers) == 2)
        for number in (0, 1):
            cluster.command(number, insert_fails(database_name))
        with pytest.raises(OperationFailure) as caught:
            await client[database_name].coll.insert_one({})
        assert caught.value.code == HOST_UNREACHABLE
        assert record.history == ["started insert", "failed insert"] * 2
        assert {event.connection_id for event in record.ended_events} == set(cluster.addresses)


async def test_5_writes_are_retried_on_the_same_mongos_when_no_other_is_available(
    cluster: Cluster, database_name: str
) -> None:
    """Retryable writes, 5."""
    record = Recorder()
    cluster.command(0, insert_fails(database_name, close_connection=True))
    options: dict[str, Any] = {"directConnection": False, "retryWrites": True, "event_listeners": [record]}
    async with make_client(cluster.uri_of_one, **options) as client:
        await client[database_name].coll.insert_one({})
        assert record.history == ["started insert", "failed insert", "started insert", "succeeded insert"]
        assert {event.connection_id for event in record.ended_events} == {cluster.addresses[0]}
