"""The prose tests of the retryable writes specification that a real server can show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite.errors import NotPrimaryError, WriteConcernError
from motorlite.monitoring import PoolEvent
from motorlite.testing import failpoints
from tests.live.prose.steps import BOTH, MAXIMA, POLICIES, POLLING, SHUTDOWN_IN_PROGRESS, TwoSteps
from tests.support.clients import make_client
from tests.support.events import Recorder

if TYPE_CHECKING:
    from motorlite.testing import LocalServer
    from tests.live.conftest import Fail

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
) -> NotPrimaryError:
    """Let an insert fail with an overload error 91 and then, for ever, with `code` and `labels`."""
    namespace = f"{database_name}.coll"
    then = failpoints.fail_command(["insert"], error_code=code, error_labels=labels, namespace=namespace)
    record = TwoSteps(server, then)
    options = {"retryWrites": True, "event_listeners": [record], **POLLING, **options}
    async with make_client(server, jitter=0.0, **options) as client:
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
    return caught.value


WITHOUT_WRITES = (*BOTH, NO_WRITES_PERFORMED)


@POLICIES
@pytest.mark.parametrize(
    ("errors", "code"),
    [
        pytest.param({"code": NOT_WRITABLE_PRIMARY, "labels": BOTH}, NOT_WRITABLE_PRIMARY, id="case 1: the newest"),
        pytest.param(
            {"first_labels": WITHOUT_WRITES, "code": NOT_WRITABLE_PRIMARY, "labels": WITHOUT_WRITES},
            SHUTDOWN_IN_PROGRESS,
            id="case 2: the first",
        ),
        pytest.param({"labels": WITHOUT_WRITES}, SHUTDOWN_IN_PROGRESS, id="case 3: the newest without the label"),
    ],
)
async def test_6_cases_1_to_3_errors_with_and_without_no_writes_performed(
    replica_set: LocalServer,
    database_name: str,
    fail: Fail,
    errors: dict[str, Any],
    code: int,
    options: dict[str, Any],
    max_retries: int,
) -> None:
    """Retryable writes, 6, cases 1 to 3: which error is raised."""
    error = await two_errors(replica_set, database_name, fail, options, **errors)
    assert (error.code, error.attempts) == (code, max_retries + 1)
    is_labelled = NO_WRITES_PERFORMED in errors.get("first_labels", ())
    assert error.has_error_label(NO_WRITES_PERFORMED) is is_labelled


@MAXIMA
async def test_6_case_4_an_overload_error_sets_the_maximum_of_all_retries(
    replica_set: LocalServer, database_name: str, fail: Fail, options: dict[str, Any], max_retries: int
) -> None:
    """Retryable writes, 6, case 4."""
    labels = ("RetryableError", "RetryableWriteError")
    error = await two_errors(replica_set, database_name, fail, options, labels=labels)
    assert (error.code, error.attempts) == (SHUTDOWN_IN_PROGRESS, max_retries + 1)
