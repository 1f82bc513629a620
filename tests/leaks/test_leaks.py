"""Short versions of `python -m tests.leaks` and `python -m tests.floods`: what is left, and how all operations end."""

from __future__ import annotations

import pytest

from benchmarks.processes import ask, serving
from tests.floods.bounds import complaints as of_flood
from tests.floods.bounds import uri_of
from tests.floods.child import CASES
from tests.floods.child import Figures as Flood
from tests.leaks.child import measured
from tests.leaks.figures import complaints

pytestmark = pytest.mark.slow
LIMIT = 280.0


@pytest.mark.parametrize(
    ("scenario", "way", "number"),
    [
        ("operations", "asyncio, dev", 200),
        ("operations", "trio", 400),
        ("clients", "uvloop", 20),
        ("dropped", "asyncio", 5),
        ("second-loop", "trio", 5),
        ("threads", "asyncio", 2),
        ("forks", "asyncio", 2),
    ],
)
def test_nothing_leaks(scenario: str, way: str, number: int) -> None:
    with serving("tests.support.faulty_server") as port:
        before, after = measured(scenario, way, number, f"mongodb://127.0.0.1:{port}/?replicaSet=rs", LIMIT)
    assert complaints(before, after, number) == []


@pytest.mark.parametrize("case", CASES)
def test_every_operation_of_a_flood_ends(case: str) -> None:
    number = 500
    with uri_of(case) as uri:
        found = Flood(**ask("tests.floods.child", case, "trio", str(number), uri, limit=LIMIT))
    assert list(of_flood(case, number, found)) == []
