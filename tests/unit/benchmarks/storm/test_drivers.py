"""What the drivers' errors mean, and the clients that an arm gets."""

from __future__ import annotations

from typing import Any

import pymongo.errors
import pytest

from benchmarks.storm.arms import ARMS
from benchmarks.storm.drivers import DRIVERS
from benchmarks.storm.scenario import Load, Scenario, Server
from motorlite import errors
from tests.support import virtual_time

OVERLOADED = ["SystemOverloadedError", "RetryableError"]
REPLY = {"ok": 0, "code": 462, "errorLabels": OVERLOADED}


def scenario(**changes: Any) -> Scenario:
    return Scenario("test", "What?", Load(rate=1, patience=0.5), 1.0, **changes)


def labelled(error: Any) -> Any:
    for label in OVERLOADED:
        error._add_error_label(label)
    return error


@pytest.mark.parametrize("name", ["motorlite", "pymongo", "motor"])
def test_outcomes(name: str) -> None:
    module: Any = errors if name == "motorlite" else pymongo.errors
    driver = DRIVERS[name]("mongodb://x/", ARMS[name if name in ARMS else "default"], scenario())
    for error, outcome in (
        (module.OperationFailure("no", 462, REPLY), "rejected"),
        (labelled(module.AutoReconnect("closed before the handshake")), "rejected"),
        (labelled(module.NetworkTimeout("in the handshake")), "timed_out"),
        (module.NetworkTimeout("no reply"), "timed_out"),
        (module.ExecutionTimeout("late", 50, {"ok": 0, "code": 50}), "timed_out"),
        (module.AutoReconnect("closed"), "failed"),
        (module.OperationFailure("no", 2, {"ok": 0, "code": 2}), "failed"),
        (TimeoutError(), "timed_out"),
    ):
        assert driver.outcome(error) == outcome, error
    assert not driver.surprises


def test_an_error_that_no_driver_raises_is_a_surprise() -> None:
    driver = DRIVERS["motorlite"]("mongodb://x/", ARMS["default"], scenario())
    assert driver.outcome(ValueError("asked for document 1, got None")) == "failed"
    assert driver.surprises == {"ValueError: asked for document 1, got None": 1}


def test_outcomes_of_mongojet() -> None:
    mongojet = pytest.importorskip("mongojet")
    driver = DRIVERS["mongojet"]("mongodb://x/", ARMS["mongojet"], scenario())
    for error, outcome in (
        (
            mongojet.OperationFailure("Kind: Command failed: Error code 462 (IngressRequestRateLimitExceeded)"),
            "rejected",
        ),
        (mongojet.ConnectionFailure('Kind: I/O error, labels: {"SystemOverloadedError"}'), "rejected"),
        (mongojet.ServerSelectionError("Kind: Server selection timeout: No available servers"), "timed_out"),
        (mongojet.OperationFailure("Kind: Command failed: Error code 2, data: 0462"), "failed"),
        (TimeoutError(), "timed_out"),
    ):
        assert driver.outcome(error) == outcome, error


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """The processes of the benchmark run on asyncio."""
    return virtual_time.backend("asyncio")


@pytest.mark.anyio
async def test_each_client_has_the_arms_policy_and_the_patience() -> None:
    servers = (Server(),) * 3
    driver: Any = DRIVERS["motorlite"](
        "mongodb://x,y,z/?replicaSet=s", ARMS["small-budget"], scenario(servers=servers, read_preference="nearest")
    )
    await driver.open(2)
    first, second = driver.clients
    assert first.options.retry_budget is not second.options.retry_budget
    assert first.options.retry_budget.capacity == 20
    assert first.options.timeout == 0.5
    assert driver.collections[0].read_preference.mongos_mode == "nearest"
    assert driver.figures() == {"tokens": 20, "client_queue": 0}
    await driver.close()


@pytest.mark.anyio
async def test_an_arm_without_a_budget_shows_no_tokens() -> None:
    driver = DRIVERS["motorlite"]("mongodb://x/", ARMS["immediate"], scenario())
    await driver.open(1)
    assert driver.figures() == {"client_queue": 0}
    await driver.close()
