"""Figures as texts, and whether two arms differ in one by more than the noise."""

from __future__ import annotations

import math
from dataclasses import asdict, replace

import pytest

from benchmarks.storm.report.figures import FIGURES, Figure, difference, interval, value
from benchmarks.storm.session import Group, Record
from benchmarks.storm.summary import Estimate, Summary, summarize
from tests.unit.benchmarks.storm_runs import make_run

RUN = make_run()
SUMMARY = summarize(RUN)
NEVER, NAN = math.inf, math.nan


def group(figure: Figure, values: list[float], first_seed: int = 1) -> Group:
    records = [
        Record(replace(RUN, seed=seed), Summary(**{**asdict(SUMMARY), figure.field: value}))
        for seed, value in enumerate(values, start=first_seed)
    ]
    return Group("s", "a", "twin", tuple(records))


@pytest.mark.parametrize(
    ("figure", "first", "second", "verdict"),
    [
        (FIGURES["share"], [0.8, 0.81, 0.82], [0.9, 0.91, 0.92], "better"),
        (FIGURES["share"], [0.9, 0.91, 0.92], [0.8, 0.81, 0.82], "worse"),
        (FIGURES["errors"], [0.8, 0.81, 0.82], [0.9, 0.91, 0.92], "worse"),
        # Less than what matters, although without any spread.
        (FIGURES["share"], [0.9, 0.9, 0.9], [0.901, 0.901, 0.901], "same"),
        # The seeds differ by more than the arms, but the arms by the same with each seed.
        (FIGURES["share"], [0.5, 0.7, 0.9], [0.55, 0.751, 0.949], "better"),
        (FIGURES["share"], [0.5, 0.7, 0.9], [0.9, 0.7, 0.6], "same"),
        (FIGURES["recovery"], [NEVER] * 3, [0.1, 0.2, 0.1], "better"),
        (FIGURES["recovery"], [0.1, 0.2, 0.1], [NEVER] * 3, "worse"),
        (FIGURES["recovery"], [NEVER] * 3, [NEVER] * 3, "same"),
        (FIGURES["recovery"], [0.1, 0.2, NEVER], [NEVER] * 3, "same"),
        (FIGURES["recovery"], [NEVER], [0.1], "unknown"),
        (FIGURES["share"], [0.5], [0.9], "unknown"),
        (FIGURES["share"], [], [0.9, 0.9], "unknown"),
        (FIGURES["share"], [NAN, NAN], [0.9, 0.9], "unknown"),
    ],
)
def test_verdicts(figure: Figure, first: list[float], second: list[float], verdict: str) -> None:
    assert difference(figure, group(figure, first), group(figure, second)).verdict == verdict


def test_the_interval_of_a_difference_seed_by_seed() -> None:
    first, second = [0.5, 0.7, 0.9], [0.55, 0.751, 0.949]
    found = difference(FIGURES["share"], group(FIGURES["share"], first), group(FIGURES["share"], second))
    assert found.delta == pytest.approx(0.05)
    assert [found.low, found.high] == pytest.approx([0.0475, 0.0525], abs=1e-4)


def test_other_seeds_are_compared_by_their_intervals() -> None:
    first, second = [0.5, 0.7, 0.9], [0.55, 0.751, 0.949]
    found = difference(FIGURES["share"], group(FIGURES["share"], first), group(FIGURES["share"], second, first_seed=4))
    assert found.verdict == "same"
    assert found.high - found.low > 1


# --- texts ---


@pytest.mark.parametrize(
    ("figure", "number", "text"),
    [
        (FIGURES["share"], 0.9731, "97.3 %"),
        (FIGURES["share"], 1.0, "100 %"),
        (FIGURES["errors"], 0.0, "0 %"),
        (FIGURES["goodput"], 1234.4, "1,234"),
        (FIGURES["amplification"], 1.049, "1.05"),
        (FIGURES["per_success"], 14.26, "14.3"),
        (FIGURES["per_success"], math.inf, "\N{INFINITY}"),
        (FIGURES["p50"], 0.00214, "2.1 ms"),
        (FIGURES["p50"], 0.0996, "100 ms"),
        (FIGURES["p50"], 0.99999, "1.0 s"),
        (FIGURES["p99"], 1.26, "1.3 s"),
        (FIGURES["p99"], 61.0, "61 s"),
        (FIGURES["p99"], math.inf, "failed"),
        (FIGURES["recovery"], 0.0, "0.0 s"),
        (FIGURES["recovery"], math.inf, "never"),
        (FIGURES["cpu"], 0.0000451, "45 \N{MICRO SIGN}s"),
        (FIGURES["cpu"], math.nan, "\N{EN DASH}"),
    ],
)
def test_a_value(figure: Figure, number: float, text: str) -> None:
    assert value(figure, number) == text


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(1.0, 0.5, 1.5, 5), "500 ms\N{EN DASH}1.5 s"),
        (Estimate(1.4, 1.2, 1.6, 5), "1.2\N{EN DASH}1.6 s"),
        (Estimate(1.4, 1.41, 1.42, 5), ""),
        (Estimate(1.4, math.nan, math.nan, 1), ""),
        (Estimate(math.nan, math.nan, math.nan, 0), ""),
        (Estimate(1.4, 1.0, math.inf, 5, infinite=2), "failed in 2 of 5"),
        (Estimate(math.inf, math.inf, math.inf, 5, infinite=5), ""),
    ],
)
def test_an_interval(estimate: Estimate, text: str) -> None:
    assert interval(FIGURES["p99"], estimate) == text
