"""When sockets and the simulation agree."""

from __future__ import annotations

from math import inf, nan

import pytest

from benchmarks.storm.agreement import BANDS, Band, Row
from benchmarks.storm.summary import Estimate

POINTS, SHARE = Band("share", "goodput", 0.05, is_relative=False), Band("amplification", "a", 0.1, is_relative=True)


def row(band: Band, sockets: float, twin: float) -> Row:
    return Row("default", band, Estimate.of([sockets, sockets + 0.01]), Estimate.of([twin, twin + 0.01]))


@pytest.mark.parametrize(
    ("band", "sockets", "twin", "agrees"),
    [
        (POINTS, 0.90, 0.94, True),
        (POINTS, 0.90, 0.96, False),
        (POINTS, 0.96, 0.90, False),
        (SHARE, 2.0, 2.15, True),
        (SHARE, 2.0, 2.25, False),
        (SHARE, 0.0, 0.05, True),
        (SHARE, inf, inf, True),
        (SHARE, inf, 2.0, False),
        (SHARE, nan, 2.0, False),
    ],
)
def test_a_band(band: Band, sockets: float, twin: float, agrees: bool) -> None:
    assert (band.distance(sockets, twin) <= band.width) is agrees


def test_a_row_says_what_differs() -> None:
    first, second = row(POINTS, 0.9, 0.92).cells, row(SHARE, 1.0, 1.5).cells
    assert first[:2] == ("default", "goodput")
    assert first[2].startswith("0.905 (")
    assert first[4:] == ("2.0 points", "5 points", "agrees")
    assert second[4:] == ("49.8 %", "10 %", "DIFFERS")


def test_the_bands_are_the_stated_ones() -> None:
    assert {band.figure: band.text for band in BANDS} == {
        "share": "5 points",
        "amplification": "10 %",
        "errors": "5 points",
    }
