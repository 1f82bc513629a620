from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from benchmarks.figures import Round, Spread, conditions, exit_code, percentile, summarise

if TYPE_CHECKING:
    from collections.abc import Sequence


def rounds(arm: str, rates: Sequence[float], tasks: int = 50) -> list[Round]:
    """Rounds of two seconds that need 100 us of CPU per operation."""
    return [
        Round(arm, tasks, number, int(rate * 2), 2.0, rate * 2 * 1e-4, 0.001, 0.002)
        for number, rate in enumerate(rates, 1)
    ]


def verdict(*groups: list[Round]) -> tuple[list[bool | None], int]:
    found = conditions(summarise([one for group in groups for one in group]))
    return [condition.met for condition in found], exit_code(found)


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1), (0.01, 1), (0.5, 50), (0.501, 51), (0.99, 99), (1.0, 100)])
def test_a_percentile_is_one_of_the_values(share: float, expected: int) -> None:
    assert percentile(range(1, 101), share) == expected


def test_nothing_has_no_percentile() -> None:
    assert math.isnan(percentile([], 0.5))


def test_a_summary_holds_the_medians_of_its_own_rounds_only() -> None:
    found = summarise(rounds("motorlite", [100, 900, 300]) + rounds("motorlite", [7], tasks=1))
    assert list(found) == [("motorlite", 50), ("motorlite", 1)]
    assert found["motorlite", 50].rate == Spread(300, 100, 900)
    assert found["motorlite", 50].cpu.median == pytest.approx(1e-4)
    assert found["motorlite", 50].rounds == 3


def test_medians_decide_and_not_single_rounds() -> None:
    fast = rounds("motorlite", [100, 2500, 2500, 2500, 100])
    assert verdict(fast, rounds("pymongo", [1000] * 5), rounds("mongojet", [2400] * 5)) == ([True, True], 0)


def test_too_slow_against_either_peer_fails() -> None:
    mine = rounds("motorlite", [2490])
    assert verdict(mine, rounds("pymongo", [1000]), rounds("mongojet", [2000])) == ([False, True], 1)
    assert verdict(mine, rounds("pymongo", [900]), rounds("mongojet", [2500])) == ([True, False], 1)


def test_only_mongojet_may_be_missing() -> None:
    mine, baseline = rounds("motorlite", [2500]), rounds("pymongo", [1000])
    assert verdict(mine, baseline) == ([True, None], 0)
    assert verdict(mine, rounds("mongojet", [10])) == ([None, True], 1)
    assert verdict(baseline, rounds("mongojet", [10])) == ([None, None], 1)


def test_other_numbers_of_tasks_do_not_count() -> None:
    assert verdict(rounds("motorlite", [9000], tasks=8), rounds("pymongo", [1000], tasks=8)) == (
        [None, None],
        1,
    )


def test_a_condition_says_what_was_found_and_what_is_missing() -> None:
    first, second = conditions(summarise(rounds("motorlite", [2000]) + rounds("pymongo", [1000])))
    assert first.line.startswith("NOT MET: at 50 tasks")
    assert "(2.00 times)" in first.line
    assert second.line.startswith("not measured: ")
    assert "(mongojet was not measured)" in second.line


@pytest.mark.parametrize(("cpu", "expected"), [(1.05, True), (1.06, False)])
def test_the_cpu_may_not_grow(cpu: float, expected: bool) -> None:
    mine = [replace(one, cpu_seconds=one.cpu_seconds * cpu) for one in rounds("motorlite", [2500])]
    others = rounds("before", [9000]) + rounds("bare", [9000])
    (first, *_) = conditions(summarise(mine + others))
    assert first.met is expected
    assert f"({cpu:.2f}, was 1.00: {cpu:.3f} times)" in first.line
    (first, *_) = conditions(summarise(mine + rounds("before", [9000])))
    assert (first.met, first.required) == (None, True)
