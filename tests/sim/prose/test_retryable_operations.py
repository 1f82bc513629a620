"""The prose tests of the retryable reads and retryable writes specifications that need mongos, or exact delays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite import OverloadRetry
from motorlite.errors import NotPrimaryError, OperationFailure
from motorlite.monitoring import CommandFailedEvent
from motorlite.testing.scripted import Close, ScriptedDeployment, failure
from tests.support.clients import scripted_client
from tests.support.core import FOUND, HOST_UNREACHABLE, WRITTEN, answering, gaps
from tests.support.events import Recorder

if TYPE_CHECKING:
    from tests.support.clients import Client

pytestmark = pytest.mark.anyio

REVISION: dict[str, Any] = {"overload_policy": OverloadRetry.revision_2026_07()}
POLICIES = pytest.mark.parametrize("options", [REVISION, {}], ids=["newest revision", "defaults"])
COMMANDS = pytest.mark.parametrize("name", ["find", "insert"])
SUCCESS = {**FOUND, **WRITTEN}


async def run(client: Client, name: str) -> None:
    await (client.db.coll.find_one() if name == "find" else client.db.coll.insert_one({}))


@POLICIES
# Which of two servers that are both suitable and equally busy is taken, every time.
@pytest.mark.parametrize("choice", [0, 1])
@COMMANDS
async def test_2_1_and_4_another_mongos_gets_the_retry(options: dict[str, Any], choice: int, name: str) -> None:
    """Retryable reads, 2.1, and retryable writes, 4.

    The same choice would be made twice, were it not for the deprioritized server.
    """
    deployment = ScriptedDeployment(["a:1", "b:1"], mongos=True)
    for server in deployment.servers.values():
        server.on(name, HOST_UNREACHABLE, SUCCESS)
    recorder = Recorder()
    options = {"retryReads": True, "retryWrites": True, "event_listeners": [recorder], **options}
    async with scripted_client(deployment, world={"below": lambda count: min(choice, count - 1)}, **options) as client:
        await client.admin.command("ping")
        # Both are known then.
        await anyio.sleep(1)
        recorder.clear()
        with pytest.raises(OperationFailure) as caught:
            await run(client, name)
        assert (caught.value.code, caught.value.attempts) == (6, 2)
        assert recorder.history == [f"started {name}", f"failed {name}"] * 2
        failed = [event.connection_id for event in recorder.command_events if isinstance(event, CommandFailedEvent)]
        assert failed == [deployment.addresses[choice], deployment.addresses[1 - choice]]
        assert [event.deprioritized for event in recorder.retries if event.permitted] == [True]


@POLICIES
@COMMANDS
async def test_2_2_and_5_the_only_mongos_gets_the_retry(options: dict[str, Any], name: str) -> None:
    """Retryable reads, 2.2, and retryable writes, 5, where the connection is closed."""
    deployment = ScriptedDeployment(["a:1"], mongos=True)
    deployment["a:1"].on(name, HOST_UNREACHABLE if name == "find" else Close(), SUCCESS)
    recorder = Recorder()
    options = {"directConnection": False, "event_listeners": [recorder], **options}
    async with scripted_client(deployment, **options, retryReads=True, retryWrites=True) as client:
        await run(client, name)
        assert recorder.history == [f"started {name}", f"failed {name}", f"started {name}", f"succeeded {name}"]
        assert {event.connection_id for event in recorder.command_events} == {("a", 1)}
        assert [event.deprioritized for event in recorder.retries] == [True]


@pytest.mark.parametrize(
    ("options", "first_gap", "max_retries"), [(REVISION, 0.2, 2), ({}, 0.1, 5)], ids=["newest revision", "defaults"]
)
@COMMANDS
async def test_5_and_6_5_no_backoff_after_other_errors(
    options: dict[str, Any], first_gap: float, max_retries: int, name: str
) -> None:
    """Retryable reads, 5, and retryable writes, 6, case 5, with the times at which the attempts arrive."""
    overload = failure(91, "RetryableError", "SystemOverloadedError")
    deployment = answering(name, overload, failure(91, "RetryableError", "RetryableWriteError"))
    # Every error 91 makes the server unknown until its next check, which this lets follow at once.
    world = {"min_heartbeat_interval": 0.0}
    async with scripted_client(deployment, world=world, retryWrites=True, **options) as client:
        with pytest.raises(NotPrimaryError) as caught:
            await run(client, name)
        assert not caught.value.has_error_label("SystemOverloadedError")
        assert gaps(deployment["a:1"].times(name)) == [first_gap, *[0] * (max_retries - 1)]
