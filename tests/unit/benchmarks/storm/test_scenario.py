"""Scenarios in another length, and in the shape of another deployment."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.storm.scenario import Change, Load, Scenario, Server, reshaped, shortened

SCENARIO = Scenario(
    "s", "?", Load(rate=100.0, clients=5), 20.0, (Server(), Server(work=1500)), changes=(Change(5, 10, load=2),)
)


def test_a_shorter_scenario() -> None:
    short = shortened(SCENARIO, 4.0)
    assert (short.seconds, short.overload) == (4.0, (1.0, 2.0))
    assert replace(short, seconds=20.0, changes=SCENARIO.changes) == SCENARIO


def test_another_capacity_takes_the_load_along() -> None:
    shaped = reshaped(SCENARIO, capacity=50.0)
    assert [server.capacity for server in shaped.servers] == [50.0, 50.0]
    assert [server.work for server in shaped.servers] == [75.0, 150.0]
    assert shaped.load.rate == 10.0
    assert reshaped(SCENARIO, capacity=50.0, rate=30.0).load.rate == 30.0


def test_other_clients() -> None:
    assert reshaped(SCENARIO, clients=7).load == replace(SCENARIO.load, clients=7)
    assert reshaped(SCENARIO) == SCENARIO


@pytest.mark.parametrize("wrong", [{"capacity": 0.0}, {"clients": 0}, {"rate": -1.0}, {"rate": float("nan")}])
def test_sizes_must_be_positive(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        reshaped(SCENARIO, **wrong)  # type: ignore[arg-type]
