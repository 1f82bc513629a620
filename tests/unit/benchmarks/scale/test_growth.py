from __future__ import annotations

import shutil

import pytest

from benchmarks.instructions.counting import CountingError
from benchmarks.processes import ask, serving
from benchmarks.scale import growth
from benchmarks.scale.growth import Series


@pytest.mark.parametrize(
    ("values", "is_total", "each"),
    [
        ({0: 10.0, 16: 260.0, 4: 140.0}, True, 10.0),
        ({0: 100.0}, True, None),
        ({}, True, None),
        # These are of each thing already.
        ({100: 7.0, 1000: 9.0}, False, None),
    ],
)
def test_what_each_further_thing_costs(values: dict[int, float], is_total: bool, each: float | None) -> None:
    assert Series("find_one", "bytes", "listeners", values, is_total).each == each


def test_without_valgrind_only_bytes_and_cpu_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "vgdb" else name)
    for function in ("_client", "_connection", "_waiter", "_member"):
        monkeypatch.setattr(growth, function, lambda *arguments: float(arguments[-1]))
    found = growth.measure(quick=False)
    assert {one.unit: one.why for one in found} == {"bytes": "", "us CPU": "", "instructions": "vgdb is missing"}
    numbers = [list(one.values) for one in found[:5]]
    assert numbers == [[100, 1000], [100, 1000], [100, 1000], [1000, 10_000], [1, 3, 10, 50]]


def test_a_series_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_number: int) -> float:
        raise CountingError("the client ended early")

    assert growth._series("x", "bytes", "waiters", (1,), fail) == Series(
        "x", "bytes", "waiters", why="the client ended early"
    )


@pytest.mark.slow
def test_clients_connections_and_members_are_measured() -> None:
    with serving(growth.PEER, "1") as port:
        # A buffer for each would have 64 KB.
        assert 1_000 < ask(growth.MODULE, "connections", str(port), "20", "allocated", limit=50) < 20_000
        client = ask(growth.MODULE, "clients", str(port), "20", limit=50)
    assert client["motorlite/_topology"] > 1_000
    # Less than a receive buffer, which the clients of a loop share.
    assert sum(client.values()) < 60_000
    found = ask(growth.MODULE, "members", "3", limit=50)
    assert 10 < found["heartbeats"] < 1_000_000
    assert 10 < found["discovery"] < 1_000_000
