"""Whether two arms differ by more than the noise."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import pytest

from benchmarks.storm.report import wording
from benchmarks.storm.report.differences import difference
from benchmarks.storm.report.session import Group, Record
from benchmarks.storm.summary import Summary, summarize
from tests.support.storm_runs import make_run

if TYPE_CHECKING:
    from benchmarks.storm.report.wording import Column

RUN = make_run()
SUMMARY = summarize(RUN)
NEVER, NAN = math.inf, math.nan


def group(column: Column, values: list[float], first_seed: int = 1) -> Group:
    records = [
        Record(replace(RUN, seed=seed), Summary(**{**asdict(SUMMARY), column.figure: value}))
        for seed, value in enumerate(values, start=first_seed)
    ]
    return Group("s", "a", "twin", tuple(records))


@pytest.mark.parametrize(
    ("column", "first", "second", "verdict"),
    [
        (wording.SHARE, [0.8, 0.81, 0.82], [0.9, 0.91, 0.92], "better"),
        (wording.SHARE, [0.9, 0.91, 0.92], [0.8, 0.81, 0.82], "worse"),
        (wording.ERRORS, [0.8, 0.81, 0.82], [0.9, 0.91, 0.92], "worse"),
        # Less than what matters, although without any spread.
        (wording.SHARE, [0.9, 0.9, 0.9], [0.901, 0.901, 0.901], "same"),
        # The seeds differ by more than the arms, but the arms by the same with each seed.
        (wording.SHARE, [0.5, 0.7, 0.9], [0.55, 0.751, 0.949], "better"),
        (wording.SHARE, [0.5, 0.7, 0.9], [0.9, 0.7, 0.6], "same"),
        (wording.RECOVERY, [NEVER] * 3, [0.1, 0.2, 0.1], "better"),
        (wording.RECOVERY, [0.1, 0.2, 0.1], [NEVER] * 3, "worse"),
        (wording.RECOVERY, [NEVER] * 3, [NEVER] * 3, "same"),
        (wording.RECOVERY, [0.1, 0.2, NEVER], [NEVER] * 3, "same"),
        (wording.RECOVERY, [NEVER], [0.1], "unknown"),
        (wording.SHARE, [0.5], [0.9], "unknown"),
        (wording.SHARE, [], [0.9, 0.9], "unknown"),
        (wording.SHARE, [NAN, NAN], [0.9, 0.9], "unknown"),
        (replace(wording.SHARE, better=0), [0.5, 0.5], [0.9, 0.9], "changed"),
    ],
)
def test_verdicts(column: Column, first: list[float], second: list[float], verdict: str) -> None:
    assert difference(column, group(column, first), group(column, second)).verdict == verdict


def test_the_interval_of_a_difference_seed_by_seed() -> None:
    first, second = [0.5, 0.7, 0.9], [0.55, 0.751, 0.949]
    found = difference(wording.SHARE, group(wording.SHARE, first), group(wording.SHARE, second))
    assert found.delta == pytest.approx(0.05)
    assert [found.low, found.high] == pytest.approx([0.0475, 0.0525], abs=1e-4)


def test_other_seeds_are_compared_by_their_intervals() -> None:
    first, second = [0.5, 0.7, 0.9], [0.55, 0.751, 0.949]
    found = difference(wording.SHARE, group(wording.SHARE, first), group(wording.SHARE, second, first_seed=4))
    assert found.verdict == "same"
    assert found.high - found.low > 1
