"""What the pile-up benchmark reads in its curves."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import pytest

from benchmarks.overload.pile_up import Arm, Curve, draw, render, verdict

if TYPE_CHECKING:
    from pathlib import Path

LIMITED = Arm("limited", "motorlite", (), is_limited=True)
FREE = Arm("free", "motorlite", (), is_limited=False)
PEER = Arm("peer", "pymongo", (), is_limited=True)


def curve(*counts: int, arm: Arm = LIMITED, load: float = 3.0) -> Curve:
    """Samples at seconds 1, 2, 3 ..."""
    samples = tuple((float(second), count) for second, count in enumerate(counts, start=1))
    return Curve(arm, 2, load, samples, 7, (0.001, 0.002, 0.004))


@pytest.mark.parametrize(
    ("counts", "peak", "last", "tail"),
    [
        ((2, 4, 2, 0), 4, 2, 1.0),
        ((2, 4, 2, 1, 1, 0), 4, 2, 3.0),
        ((2, 4, 2, 1, 1), 4, 2, None),
        ((2, 0, 0, 0), 2, 0, 0.0),
        ((0, 0), 0, 0, 0.0),
        ((), 0, 0, 0.0),
    ],
)
def test_a_curve(counts: tuple[int, ...], peak: int, last: int, tail: float | None) -> None:
    found = curve(*counts)
    assert (found.peak, found.last, found.tail) == (peak, last, tail)


@pytest.mark.parametrize(
    ("curves", "is_met"),
    [
        ([curve(8, 8, 8, 0)], True),
        ([curve(8, 9, 8, 0)], False),
        ([curve(2, 2, 2, 2, 0)], False),
        ([curve(2, 2, 2, 2)], False),
        ([curve(2, 2, 2, 0), curve(90, 90, 90, arm=FREE), curve(90, 90, 90, arm=PEER)], True),
        ([curve(90, 90, 90, arm=FREE)], False),
        ([], False),
    ],
)
def test_the_condition(curves: list[Curve], is_met: bool) -> None:
    assert verdict(curves)[1] is is_met


def test_the_table() -> None:
    head, one, other = render([curve(2, 4, 2, 0), curve(9, 9, 9, arm=FREE)]).splitlines()
    assert head.split()[:2] == ["in", "progress"]
    assert one.split() == ["limited", "4", "2", "1.0", "s", "7", "2", "ms", "4", "ms"]
    assert "not within the run" in other


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="needs matplotlib")
def test_the_picture(tmp_path: Path) -> None:
    path = tmp_path / "new" / "curves.svg"
    draw([curve(2, 4, 2, 0), curve(9, 9, 9, arm=FREE)], path)
    text = path.read_text(encoding="utf-8")
    assert "limited" in text
    assert "free" in text
    draw([curve(2, 4, 2, 0), curve(9, 9, 9, arm=FREE)], path)
    assert path.read_text(encoding="utf-8") == text
