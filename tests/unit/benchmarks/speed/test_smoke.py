from __future__ import annotations

import pytest

from benchmarks.figures import Round
from benchmarks.speed.smoke import ROUNDS, ratios, verdict


def one(arm: str, number: int, cpu: float) -> Round:
    return Round("find_one", arm, 50, number, 100, 1.0, cpu, 0.001, 0.002)


def test_each_round_is_compared_with_the_bare_protocol_next_to_it() -> None:
    rounds = [one("bare", 1, 1.0), one("motorlite", 1, 2.0), one("motorlite", 2, 9.0), one("bare", 2, 3.0)]
    assert ratios([*rounds, one("motorlite", 3, 5.0)]) == pytest.approx([2.0, 3.0])


def test_the_median_of_all_rounds_decides() -> None:
    text, is_met = verdict([1.0, 1.0, 1.0, 2.2, 9.0, 9.0, 9.0], 2.2)
    assert is_met
    assert "(2.20; median of 7 rounds, 1.00 to 9.00)" in text
    assert not verdict([2.21] * ROUNDS, 2.2)[1]
    assert verdict([1.0] * (ROUNDS - 1), 2.2) == ("only 6 of 7 rounds were measured", False)
