"""The figures of a run of a storm, and their intervals."""

from __future__ import annotations

import math

import pytest

from benchmarks.storm.results import STEP, Request, Run
from benchmarks.storm.summary import Estimate, over_seeds, recovery, student, summarize
from tests.unit.benchmarks.storm_runs import CAPACITY, Shape, make_run


def flat(goodput: list[float], offered: list[float], *, overload: tuple[float, float], capacity: float = 50.0) -> Run:
    """A run with one value per second."""

    def steps(values: list[float]) -> list[float]:
        return [value for value in values for _ in range(round(1 / STEP))]

    series = {"goodput": steps(goodput), "offered": steps(offered), "capacity": steps([capacity] * len(goodput))}
    return Run("s", "a", 1, "twin", float(len(goodput)), overload, 500.0, series)


def test_the_figures_of_a_run() -> None:
    run = make_run(shape=Shape(share=0.8, attempts=2.0))
    found = summarize(run)
    assert found.requests == len(run.requests) == sum(run.series["offered"])
    assert found.share == pytest.approx(0.8, abs=0.02)
    assert found.goodput == pytest.approx(0.8 * CAPACITY, rel=0.02)
    assert found.after == 1.0
    assert found.settled == pytest.approx(2.0)
    # From second 5 to 20: five seconds of storm, ten of calm.
    assert found.amplification == pytest.approx((5 * 600 + 10 * 80) / (5 * 300 + 10 * 80))
    assert found.per_success == pytest.approx((5 * 600 + 10 * 80) / (5 * 80 + 10 * 80), rel=0.02)
    assert found.errors == pytest.approx(5 * 220 / (15 * 80 + 5 * 300), rel=0.02)
    assert found.p50 == pytest.approx(0.002, rel=0.1)
    assert found.p99 == found.p999 == math.inf
    assert found.recovery == 0.0
    assert found.connections == 1.0
    assert found.cpu == pytest.approx(1.05 / (15 * 80 + 5 * 80), rel=0.1)


def test_what_the_application_cancelled_is_in_no_percentile() -> None:
    requests = [Request(0.0, 1.0, "ok"), *[Request(0.0, 0.5, "cancelled")] * 9]
    found = summarize(Run("s", "a", 1, "twin", 1.0, (0.0, 1.0), 500.0, {}, requests))
    assert (found.requests, found.errors, found.p99) == (10, 0.0, 1.0)


def test_a_run_without_anything_has_no_figures() -> None:
    found = summarize(Run("s", "a", 1, "twin", 1.0, (0.0, 1.0), 500.0, {}))
    assert found.requests == found.connections == found.goodput == 0
    names = ("share", "after", "amplification", "settled", "per_success", "errors", "p99", "cpu")
    assert all(math.isnan(getattr(found, name)) for name in names)


def test_attempts_without_success_cost_infinitely_much() -> None:
    run = make_run(shape=Shape(share=0.0, recovery=None))
    run.series["goodput"] = [0.0] * len(run.series["goodput"])
    assert summarize(run).per_success == math.inf


@pytest.mark.parametrize(
    ("goodput", "offered", "overload", "expected"),
    [
        ([40, 10, 40, 40, 40, 40], [40, 150, 40, 40, 40, 40], (1, 2), 0.0),
        ([40, 10, 10, 40, 40, 40], [40, 150, 40, 40, 40, 40], (1, 2), 1.0),
        ([40, 10, 10, 10, 10, 10], [40, 150, 40, 40, 40, 40], (1, 2), math.inf),
        # A short recovery is none.
        ([40, 10, 40, 10, 40, 10], [40, 150, 40, 40, 40, 40], (1, 2), math.inf),
        # The capacity is all that can be answered.
        ([40, 10, 49, 49, 49, 49], [40, 150, 90, 90, 90, 90], (1, 2), 0.0),
        # The callers of a closed loop wait for replies, and offer nothing.
        ([40, 1, 1, 1, 1, 1], [40, 1, 1, 1, 1, 1], (1, 2), math.inf),
        # In a short run one second is enough.
        ([40, 10, 40], [40, 150, 40], (1, 2), 0.0),
        # One that ends with its overload has none.
        ([40, 10], [40, 150], (1, 2), math.nan),
    ],
)
def test_recovery(goodput: list[float], offered: list[float], overload: tuple[float, float], expected: float) -> None:
    found = recovery(flat(goodput, offered, overload=overload))
    assert found == pytest.approx(expected, abs=0.15, nan_ok=True)
    assert math.isinf(found) == math.isinf(expected)


def test_an_interval_ends_at_zero() -> None:
    found = Estimate.of([1.0, 2.0, 3.0, 4.0, 5.0, math.nan])
    assert (found.mean, found.n, found.missing, found.infinite) == (3.0, 5, 1, 0)
    # 2.776 * sqrt(2.5) / sqrt(5)
    assert found.low == pytest.approx(1.037, abs=0.001)
    assert found.high == pytest.approx(4.963, abs=0.001)
    assert Estimate.of([0.0, 0.0, 0.1]).low == 0.0


def test_an_interval_of_a_share_ends_at_one() -> None:
    good, bad = (summarize(make_run(shape=Shape(share=share, recovery=None))) for share in (1.0, 0.1))
    found = over_seeds([good, bad])
    assert found["errors"].high == found["after"].high == 1.0


def test_an_interval_with_infinite_values_is_their_range() -> None:
    found = Estimate.of([1.0, 2.0, math.inf])
    assert (found.mean, found.low, found.high, found.infinite) == (2.0, 1.0, math.inf, 1)
    assert Estimate.of([math.inf, math.inf]).mean == math.inf


@pytest.mark.parametrize("values", [[], [math.nan], [2.0]])
def test_one_value_has_no_interval(values: list[float]) -> None:
    found = Estimate.of(values)
    assert math.isnan(found.low)
    assert math.isnan(found.mean) == (values != [2.0])


@pytest.mark.parametrize(("freedom", "quantile"), [(1, 12.706), (4, 2.776), (10, 2.262), (13, 2.201), (100, 2.001)])
def test_student(freedom: int, quantile: float) -> None:
    assert student(freedom) == quantile


def test_figures_over_seeds() -> None:
    found = over_seeds([summarize(make_run(shape=Shape(share=0.9), seed=seed)) for seed in (1, 2, 3)])
    assert found["share"].low < found["share"].mean < found["share"].high
    assert found["share"].mean == pytest.approx(0.9, abs=0.02)
    assert found["share"].n == 3
