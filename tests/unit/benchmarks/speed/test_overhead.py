from __future__ import annotations

import argparse

import pytest

from benchmarks.speed import overhead
from benchmarks.speed.overhead import Layers, render


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
