"""The application of a storm, in virtual time: when it sends, what it makes of outcomes, how it ends."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from benchmarks.storm.arms import ARMS
from benchmarks.storm.drivers import Driver
from benchmarks.storm.load import GRACE, Application, Record
from benchmarks.storm.scenario import Change, Load, Scenario
from benchmarks.storm.timeline import arrivals
from tests.support import virtual_time

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """The processes of the benchmark run on asyncio."""
    return virtual_time.backend("asyncio")


class RejectedError(Exception):
    """What the driver below raises."""


class FakeDriver(Driver):
    """Answers after some seconds, after as many failures as given."""

    def __init__(
        self, scenario: Scenario, seconds: float = 0.01, failures: int = 0, *, is_stubborn: bool = False
    ) -> None:
        super().__init__("mongodb://x/", ARMS["default"], scenario)
        self.seconds = seconds
        self.failures = failures
        self.is_stubborn = is_stubborn
        self.calls: list[tuple[float, int]] = []
        self.running = 0

    async def find(self, client: int, number: int) -> None:
        self.calls.append((asyncio.get_running_loop().time(), client))
        self.running += 1
        try:
            await asyncio.sleep(self.seconds)
            while self.is_stubborn:
                await self._stay()
        finally:
            self.running -= 1
        if self.failures:
            self.failures -= 1
            raise RejectedError

    async def _stay(self) -> None:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            if not self.is_stubborn:
                raise

    def outcome(self, error: Exception) -> str:
        assert isinstance(error, RejectedError)
        return "rejected"

    def figures(self) -> dict[str, float]:
        return {"tokens": 5.0}


def open_loop(seconds: float = 2.0, changes: tuple[Change, ...] = (), **load: Any) -> Scenario:
    return Scenario("test", "What?", Load(**{"rate": 50, "clients": 3, **load}), seconds, changes=changes)


async def run(scenario: Scenario, driver: Driver, steps: list[dict[str, float]] | None = None) -> tuple[Record, float]:
    start = asyncio.get_running_loop().time() + 1.0
    values: list[dict[str, float]] = [] if steps is None else steps
    record = await Application(scenario, 1, driver, start).run(lambda _, step: values.append(step))
    return record, start


def outcomes(record: Record) -> Counter[str]:
    return Counter(request.outcome for request in record.requests)


async def test_requests_are_sent_when_they_are_due_whatever_becomes_of_earlier_ones() -> None:
    scenario = open_loop()
    driver = FakeDriver(scenario, seconds=0.5)
    record, start = await run(scenario, driver)
    due = list(arrivals(scenario, 1))
    assert [time - start for time, _ in driver.calls] == pytest.approx([arrival.due for arrival in due], abs=1e-3)
    assert [client for _, client in driver.calls] == [arrival.client for arrival in due]
    assert [request.due for request in record.requests] == [arrival.due for arrival in due]
    assert outcomes(record) == {"ok": len(due)}
    assert all(request.ended - request.due == pytest.approx(0.5, abs=1e-3) for request in record.requests)
    assert record.late == 0


async def test_each_step_has_its_values() -> None:
    scenario = open_loop()
    steps: list[dict[str, float]] = []
    record, _ = await run(scenario, FakeDriver(scenario), steps)
    assert len(steps) == 20
    assert sum(step["offered"] for step in steps) == len(record.requests)
    assert sum(step["goodput"] for step in steps) >= len(record.requests) - 2
    assert record.values == {"tokens": [5.0] * 20}


async def test_an_answer_after_the_patience_is_of_no_use() -> None:
    scenario = open_loop(patience=0.2)
    record, _ = await run(scenario, FakeDriver(scenario, seconds=0.3))
    assert set(outcomes(record)) == {"timed_out"}


async def test_the_application_retries_at_once() -> None:
    scenario = open_loop(application_retries=2)
    driver = FakeDriver(scenario, failures=10**9)
    record, _ = await run(scenario, driver)
    assert set(outcomes(record)) == {"rejected"}
    assert len(driver.calls) == 3 * len(record.requests)
    assert record.requests[0].ended - record.requests[0].due == pytest.approx(0.03, abs=1e-3)
    # Only while it has patience.
    scenario = open_loop(application_retries=100, patience=0.1)
    driver = FakeDriver(scenario, seconds=0.04, failures=10**9)
    record, _ = await run(scenario, driver)
    assert len(driver.calls) == 3 * len(record.requests)


async def test_requests_are_cancelled() -> None:
    scenario = open_loop(cancelled=0.5, patience=1.0)
    record, _ = await run(scenario, FakeDriver(scenario, seconds=0.9))
    cancelled = [request for request in record.requests if request.outcome == "cancelled"]
    assert len(cancelled) == pytest.approx(len(record.requests) * 0.45, rel=0.4)
    assert max(request.ended - request.due for request in cancelled) < 0.9


async def test_what_has_not_ended_long_after_the_end_counts_as_timed_out() -> None:
    scenario = open_loop()
    record, start = await run(scenario, FakeDriver(scenario, seconds=1000))
    assert set(outcomes(record)) == {"timed_out"}
    assert asyncio.get_running_loop().time() - start == pytest.approx(scenario.seconds + GRACE, abs=0.1)


async def test_a_driver_that_swallows_cancellations_does_not_stop_the_end() -> None:
    scenario = open_loop(patience=0.5)
    driver = FakeDriver(scenario, seconds=0.01, is_stubborn=True)
    record, _ = await run(scenario, driver)
    assert outcomes(record) == {"timed_out": len(list(arrivals(scenario, 1)))}
    assert driver.running == len(record.requests)
    driver.is_stubborn = False
    await asyncio.sleep(1001)
    assert driver.running == 0
