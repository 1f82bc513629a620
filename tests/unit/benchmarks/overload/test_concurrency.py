"""The simulation of concurrency limits: it models what it says, and the gradient does what docs/limits.md says."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.overload.concurrency import AIMD, LIMITS, SERVICE_TIMES, NoLimit, Scenario, measure, table
from motorlite._admission.concurrency_limit import AdaptiveLimit
from motorlite.overload import ConcurrencyLimit


def scenario(name: str = "constant", **options: Any) -> Scenario:
    return Scenario(service=SERVICE_TIMES[name], **{"seconds": 18.0, **options})


def test_a_server_without_a_limit_is_always_busy_and_has_a_queue() -> None:
    for phase, capacity in zip(measure(scenario(), NoLimit()), (20, 10, 20), strict=True):
        assert phase.throughput == pytest.approx(1.0, abs=0.01)
        assert phase.limit == 100
        # All but those that run wait, each as long as a round takes.
        assert phase.median == pytest.approx(100 / capacity * 0.01, rel=0.05)
        assert phase.errors == 0


def test_a_server_without_room_refuses() -> None:
    full, half, _ = measure(scenario(room=30), NoLimit())
    assert full.errors > 100
    assert full.median == pytest.approx(0.025, rel=0.1)
    assert half.median == pytest.approx(0.04, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("room", [None, 30])
@pytest.mark.parametrize("name", SERVICE_TIMES)
def test_the_gradient_finds_the_capacity(name: str, room: int | None) -> None:
    phases = measure(scenario(name, room=room, seconds=45.0), AdaptiveLimit(ConcurrencyLimit()))
    for phase, capacity in zip(phases, (20, 10, 20), strict=True):
        assert phase.throughput >= 0.94
        assert capacity <= phase.limit <= 2.7 * capacity
        assert phase.errors < 1


def test_a_wrong_threshold_of_aimd_starves_the_server_or_does_nothing() -> None:
    assert all(phase.throughput < 0.2 for phase in measure(scenario(), AIMD(0.005)))
    assert all(phase.limit > 90 for phase in measure(scenario(), AIMD(0.2)))


def test_the_table_has_every_limit() -> None:
    lines = table(scenario(seconds=3.0)).splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == [f"| {name}" for name in LIMITS]
