"""The prose tests of the client backpressure specification with exact delays, and with a server newer than at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite import OverloadRetry
from motorlite.errors import OperationFailure
from motorlite.testing.scripted import ScriptedDeployment, failure, overloaded
from tests.support.clients import scripted_client
from tests.support.core import answering
from tests.support.events import Recorder

if TYPE_CHECKING:
    from motorlite import AsyncMongoClient
    from motorlite.testing.scripted import Answer

pytestmark = pytest.mark.anyio

BOTH = ("RetryableError", "SystemOverloadedError")
REVISION: dict[str, Any] = {"overload_policy": OverloadRetry.revision_2026_07()}
ALMOST_ONE = 1 - 2**-53


async def seconds_of_failing_insert(client: AsyncMongoClient[dict[str, Any]]) -> tuple[float, OperationFailure]:
    started = anyio.current_time()
    with pytest.raises(OperationFailure) as caught:
        await client.db.coll.insert_one({"a": 1})
    return anyio.current_time() - started, caught.value


@pytest.mark.parametrize(("options", "seconds"), [(REVISION, 0.6), ({}, 3.1)], ids=["newest revision", "defaults"])
async def test_1_operation_retry_uses_exponential_backoff(options: dict[str, Any], seconds: float) -> None:
    """Client backpressure, test 1: 200 and 400 ms; by the token bucket revision 100, 200, 400, 800 and 1600 ms."""
    deployment = answering("insert", failure(2, *BOTH))
    jitter = 0.0
    async with scripted_client(deployment, world={"jitter": lambda: jitter}, **options) as client:
        await client.admin.command("ping")
        no_backoff, error = await seconds_of_failing_insert(client)
        assert no_backoff == 0
        jitter = ALMOST_ONE
        with_backoff, second_error = await seconds_of_failing_insert(client)
        assert with_backoff == pytest.approx(seconds)
        assert error.code == second_error.code == 2


@pytest.mark.parametrize(
    ("options", "delays"),
    [(REVISION, [0.2, 0.4]), ({}, [0.1, 0.2, 0.4, 0.8, 1.6])],
    ids=["newest revision", "defaults"],
)
async def test_5_base_backoff_ms_overrides_the_base_backoff(options: dict[str, Any], delays: list[float]) -> None:
    """Client backpressure, test 5: 50 ms are half of the driver's own base, so every delay is half as long."""
    deployment = ScriptedDeployment(["a:1"], replica_set="rs")
    base_backoff_ms = 0

    def set_parameter(command: dict[str, Any]) -> Answer:
        nonlocal base_backoff_ms
        base_backoff_ms = command["externalClientBaseBackoffMS"]
        return {"ok": 1}

    def insert(_: dict[str, Any]) -> Answer:
        return overloaded(**({"baseBackoffMS": base_backoff_ms} if base_backoff_ms else {}))

    deployment["a:1"].on("setParameter", set_parameter)
    deployment["a:1"].on("insert", insert)
    recorder = Recorder()
    options = {"event_listeners": [recorder], **options}
    async with scripted_client(deployment, world={"jitter": lambda: ALMOST_ONE}, **options) as client:

        async def run(base: int, expected: list[float]) -> float:
            await client.admin.command("setParameter", 1, externalClientBaseBackoffMS=base)
            recorder.clear()
            seconds, error = await seconds_of_failing_insert(client)
            assert error.details is not None
            assert error.details.get("baseBackoffMS", 0) == base
            assert [event.delay for event in recorder.retries if event.permitted] == pytest.approx(expected)
            assert seconds == pytest.approx(sum(expected))
            return seconds

        exponential = await run(0, delays)
        with_base = await run(50, [delay / 2 for delay in delays])
        assert with_base < exponential
        assert await run(0, delays) == pytest.approx(exponential)
