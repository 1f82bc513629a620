"""The prose tests of the retryable reads specification that need mongos, or exact delays."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from motorlite import OverloadRetry
from motorlite.errors import NotPrimaryError, OperationFailure
from motorlite.monitoring import CommandFailedEvent
from motorlite.testing.scripted import ScriptedDeployment, failure
from tests.support.clients import scripted_client
from tests.support.core import FOUND, gaps
from tests.support.events import Recorder

pytestmark = pytest.mark.anyio

HOST_UNREACHABLE = failure(6)
REVISION: dict[str, Any] = {"overload_policy": OverloadRetry.revision_2026_07()}
POLICIES = pytest.mark.parametrize("options", [REVISION, {}], ids=["newest revision", "defaults"])
# Which of two servers that are both suitable and equally busy is taken, every time.
CHOICES = pytest.mark.parametrize("choice", [0, 1])


@POLICIES
@CHOICES
async def test_2_1_reads_are_retried_on_a_different_mongos(options: dict[str, Any], choice: int) -> None:
    """Retryable reads, 2.1. The same choice would be made twice, were it not for the deprioritized server."""
    deployment = ScriptedDeployment(["a:1", "b:1"], mongos=True)
    for server in deployment.servers.values():
        server.on("find", HOST_UNREACHABLE, FOUND)
    recorder = Recorder()
    options = {"retryReads": True, "event_listeners": [recorder], **options}
    async with scripted_client(deployment, world={"below": lambda count: min(choice, count - 1)}, **options) as client:
        await client.admin.command("ping")
        # Both are known then.
        await anyio.sleep(1)
        recorder.clear()
        with pytest.raises(OperationFailure) as caught:
            await client.db.coll.find_one()
        assert (caught.value.code, caught.value.attempts) == (6, 2)
        assert recorder.history == ["started find", "failed find"] * 2
        failed = [event.connection_id for event in recorder.command_events if isinstance(event, CommandFailedEvent)]
        assert failed == [deployment.addresses[choice], deployment.addresses[1 - choice]]
        assert [event.deprioritized for event in recorder.retries if event.permitted] == [True]


@POLICIES
async def test_2_2_reads_are_retried_on_the_same_mongos_when_no_other_is_available(options: dict[str, Any]) -> None:
    """Retryable reads, 2.2."""
    deployment = ScriptedDeployment(["a:1"], mongos=True)
    deployment["a:1"].on("find", HOST_UNREACHABLE, FOUND)
    recorder = Recorder()
    options = {"directConnection": False, "retryReads": True, "event_listeners": [recorder], **options}
    async with scripted_client(deployment, **options) as client:
        assert await client.db.coll.find_one() == {"_id": 1}
        assert recorder.history == ["started find", "failed find", "started find", "succeeded find"]
        assert {event.connection_id for event in recorder.command_events} == {("a", 1)}
        assert [event.deprioritized for event in recorder.retries] == [True]


@pytest.mark.parametrize(
    ("options", "first_gap", "max_retries"), [(REVISION, 0.2, 2), ({}, 0.1, 5)], ids=["newest revision", "defaults"]
)
async def test_5_no_backoff_after_other_errors(options: dict[str, Any], first_gap: float, max_retries: int) -> None:
    """Retryable reads, 5, with the times at which the attempts arrive."""
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    overload = failure(91, "RetryableError", "SystemOverloadedError")
    deployment["a:1"].on("find", overload, failure(91, "RetryableError"))
    # Every error 91 makes the server unknown until its next check, which this lets follow at once.
    world = {"min_heartbeat_interval": 0.0}
    async with scripted_client(deployment, world=world, **options) as client:
        with pytest.raises(NotPrimaryError) as caught:
            await client.db.coll.find_one()
        assert caught.value.error_labels == {"RetryableError"}
        assert gaps(deployment["a:1"].times("find")) == [first_gap, *[0] * (max_retries - 1)]
