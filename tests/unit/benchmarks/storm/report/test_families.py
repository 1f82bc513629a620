"""What sweeps show, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.storm.published import BROOKER
from benchmarks.storm.report.families import axis_name, conclusion, phrase, points, tick
from tests.support.storm_runs import SUSTAINED, Shape, make_runs, make_session


def swept(shapes: dict[tuple[float, ...], dict[str, Shape]], *names: str, published: bool = False) -> list[str]:
    """The conclusion of a sweep with these arms at each of its points."""
    session = make_session({})
    for place, arms in shapes.items():
        point = tuple(zip(names, place, strict=True))
        scenario = replace(SUSTAINED, name=str(place), family="f", point=point)
        session.scenarios.append(scenario)
        for run in make_runs(arms, scenario, seeds=1):
            session.add(run)
    return conclusion(list(names), points(session, "f", "twin"), BROOKER if published else None)


def test_a_map_of_recoveries() -> None:
    stable, slow, stuck = Shape(), Shape(0.5, recovery=4.0), Shape(0.5, recovery=None)
    seed, pymongo, motor = swept(
        {
            (0.8, 1.0): {"default": stable, "pymongo": stable, "motor": stuck},
            (0.8, 5.0): {"default": stable, "pymongo": slow, "motor": stuck},
            (0.9, 5.0): {"default": stable, "pymongo": stuck, "motor": stuck},
            (0.9, 1.0): {"default": stable, "pymongo": stable, "motor": stuck},
        },
        "load",
        "seconds",
    )
    assert seed == "`default` recovers in all 4 cases, in at most 0.0 s."
    assert pymongo.startswith("`pymongo` recovers in 3 of 4 cases, in at most 3.")
    assert pymongo.endswith(
        " s (a load of 80 % and 5 s); the mildest case in which it does not is a load of 90 % and 5 s."
    )
    assert motor == "`motor` recovers in 0 of 4 cases; the mildest case in which it does not is a load of 80 % and 1 s."


def test_curves() -> None:
    first, last = swept(
        {(1.0,): {"default": Shape(1.0, 1.0)}, (100.0,): {"default": Shape(0.5, 2.0), "shared": Shape(0.9, 1.2)}},
        "clients",
    )
    assert first.startswith("Goodput and attempts per request at 1 client: `default` ")
    assert first.endswith(" %, 1.00.")
    assert last.startswith("Goodput and attempts per request at 100 clients: `default` ")
    assert "; `shared` " in last


def test_published_curves_are_compared_with_ours() -> None:
    *_, text = swept(
        {
            (0.1,): {"no-retry": Shape(1.0, 1.0), "three": Shape(1.0, 1.11)},
            (0.3,): {"no-retry": Shape(1.0, 1.0), "three": Shape(1.0, 1.4)},
        },
        "failure_rate",
        published=True,
    )
    assert text.startswith("The largest differences from the published curves: `no-retry` ")
    assert "points of success, 0.00 attempts; `three` " in text


def test_without_runs_there_is_nothing_to_say() -> None:
    assert swept({}, "load") == []


@pytest.mark.parametrize(
    ("quantity", "value", "axis", "mark", "text"),
    [
        ("load", 0.85, "load before the trigger, % of the capacity", "85", "a load of 85 %"),
        ("failure_rate", 0.05, "failure rate, %", "5", "a failure rate of 5 %"),
        ("clients", 1000.0, "clients, at the same total rate", "1000", "1000 clients"),
        ("queue_depth", 2.5, "queue depth", "2.5", "queue depth 2.5"),
    ],
)
def test_quantities(quantity: str, value: float, axis: str, mark: str, text: str) -> None:
    assert (axis_name(quantity), tick(quantity, value), phrase(quantity, value)) == (axis, mark, text)
