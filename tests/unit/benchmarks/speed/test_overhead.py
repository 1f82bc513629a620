from __future__ import annotations

import argparse

import pytest

from benchmarks.figures import Round
from benchmarks.speed import overhead
from benchmarks.speed.overhead import SMOKE_ROUNDS, Layers, ratios, render, verdict


def test_samples_share_the_total() -> None:
    one = Layers("motorlite", 80.0, {"decode": 30, "encode": 10})
    assert (one.of("decode"), one.of("encode"), one.of("nothing")) == (60, 20, 0)
    assert Layers("bare", 80.0, {}).of("decode") == 0


def test_the_most_expensive_layer_comes_first() -> None:
    text = render([Layers("bare", 20.0, {"decode": 1}), Layers("motorlite", 50.0, {"encode": 2, "decode": 8})])
    assert [line.split() for line in text.splitlines()] == [
        ["bare", "motorlite"],
        ["decode", "20.0", "40.0"],
        ["encode", "0.0", "10.0"],
        ["total", "20.0", "50.0"],
        ["x", "bare", "1.00", "2.50"],
    ]


def test_unknown_arms_are_rejected() -> None:
    parser = argparse.ArgumentParser(exit_on_error=False)
    overhead.add_arguments(parser)
    with pytest.raises(argparse.ArgumentError, match="unknown arms"):
        parser.parse_args(["--arms", "other"])
    assert parser.parse_args([]).arms == ["motorlite"]


def one(arm: str, number: int, cpu: float) -> Round:
    return Round("find_one", arm, 50, number, 100, 1.0, cpu, 0.001, 0.002)


def test_each_round_is_compared_with_the_bare_protocol_next_to_it() -> None:
    rounds = [one("bare", 1, 1.0), one("motorlite", 1, 2.0), one("motorlite", 2, 9.0), one("bare", 2, 3.0)]
    assert ratios([*rounds, one("motorlite", 3, 5.0)]) == pytest.approx([2.0, 3.0])


def test_the_median_decides() -> None:
    line, is_met = verdict([1.0, 1.0, 1.0, 2.2, 9.0, 9.0, 9.0], 2.2)
    assert is_met
    assert line.startswith("met: ")
    assert "(2.20; median of 7 rounds, 1.00 to 9.00)" in line
    line, is_met = verdict([2.21] * SMOKE_ROUNDS, 2.2)
    assert not is_met
    assert line.startswith("NOT MET: ")


def test_too_few_rounds_prove_nothing() -> None:
    assert verdict([1.0] * (SMOKE_ROUNDS - 1), 2.2) == ("NOT MET: only 6 of 7 rounds were measured", False)
