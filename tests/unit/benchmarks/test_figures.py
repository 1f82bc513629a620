from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from benchmarks.figures import Round, Spread, align, judge, markdown, percentile, summarise, together

if TYPE_CHECKING:
    from collections.abc import Sequence


def rounds(arm: str, rates: Sequence[float], tasks: int = 50) -> list[Round]:
    """Rounds of two seconds that need 100 us of CPU per operation."""
    return [
        Round("find_one", arm, tasks, number, int(rate * 2), 2.0, rate * 2 * 1e-4, 0.001, 0.002)
        for number, rate in enumerate(rates, 1)
    ]


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1), (0.01, 1), (0.5, 50), (0.501, 51), (0.99, 99), (1.0, 100)])
def test_a_percentile_is_one_of_the_values(share: float, expected: int) -> None:
    assert percentile(range(1, 101), share) == expected


def test_processes_that_work_together_have_the_sum_of_their_work_and_the_worst_p99() -> None:
    one = {"operations": 10, "seconds": 1.0, "cpu_seconds": 0.5, "p50": 0.1, "p99": 0.9}
    other = {"operations": 30, "seconds": 2.0, "cpu_seconds": 0.25, "p50": 0.3, "p99": 0.4}
    both = {"operations": 40, "seconds": 2.0, "cpu_seconds": 0.75, "p50": 0.2, "p99": 0.9}
    assert together([one, other]) == pytest.approx(both)
    assert together([{"score": 1}]) == {"score": 1}
    assert together([one, {}]) == {}
    assert together([]) == {}


def test_nothing_has_no_percentile() -> None:
    assert math.isnan(percentile([], 0.5))


def test_a_summary_holds_the_medians_of_its_own_rounds_only() -> None:
    found = summarise(rounds("motorlite", [100, 900, 300]) + rounds("motorlite", [7], tasks=1))
    assert list(found) == [("find_one", "motorlite", 50), ("find_one", "motorlite", 1)]
    summary = found["find_one", "motorlite", 50]
    assert summary.rate == Spread(300, 100, 900)
    assert summary.cpu.median == pytest.approx(1e-4)
    assert summary.rounds == 3


# --- tables and verdicts ---


def test_columns_are_aligned() -> None:
    assert align([("a", "1"), ("long", "1,000")]) == "a         1\nlong  1,000"


def test_a_table_in_markdown_has_a_head() -> None:
    assert markdown([("", "n"), ("a", "1")]) == "|  | n |\n| --- | --- |\n| a | 1 |"


def test_all_conditions_must_be_met(capsys: pytest.CaptureFixture[str]) -> None:
    assert (judge([("a", True)]), judge([("a", True), ("b", False)]), judge([])) == (0, 1, 1)
    assert capsys.readouterr().out.splitlines() == ["met: a", "met: a", "NOT MET: b"]
