"""Figures as words."""

from __future__ import annotations

import math

import pytest

from benchmarks.storm.report import wording
from benchmarks.storm.report.wording import Column, interval, listed, value
from benchmarks.storm.summary import Estimate


@pytest.mark.parametrize(
    ("column", "number", "text"),
    [
        (wording.SHARE, 0.9731, "97.3 %"),
        (wording.SHARE, 1.0, "100 %"),
        (wording.ERRORS, 0.0, "0 %"),
        (wording.GOODPUT, 1234.4, "1,234"),
        (wording.AMPLIFICATION, 1.049, "1.05"),
        (wording.PER_SUCCESS, 14.26, "14.3"),
        (wording.PER_SUCCESS, math.inf, "\N{INFINITY}"),
        (wording.P50, 0.00214, "2.1 ms"),
        (wording.P50, 0.0996, "100 ms"),
        (wording.P50, 0.99999, "1.0 s"),
        (wording.P99, 1.26, "1.3 s"),
        (wording.P99, 61.0, "61 s"),
        (wording.P99, math.inf, "failed"),
        (wording.RECOVERY, 0.0, "0.0 s"),
        (wording.RECOVERY, math.inf, "never"),
        (wording.CPU, 0.0000451, "45 \N{MICRO SIGN}s"),
        (wording.CPU, math.nan, "\N{EN DASH}"),
    ],
)
def test_a_value(column: Column, number: float, text: str) -> None:
    assert value(column, number) == text


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
    assert interval(wording.P99, estimate) == text


@pytest.mark.parametrize(("words", "text"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), ("abc", "a, b and c")])
def test_a_list(words: list[str], text: str) -> None:
    assert listed(words) == text
