"""When sockets and the simulation agree."""

from __future__ import annotations

from math import inf, nan

import pytest

from benchmarks.storm.agreement import BANDS, Band, row
from benchmarks.storm.summary import Estimate

POINTS, SHARE, ERRORS = BANDS


@pytest.mark.parametrize(
    ("band", "sockets", "twin", "difference", "allowed", "verdict"),
    [
        (POINTS, 0.90, 0.94, "4.0 points", "5 points", "agrees"),
        (POINTS, 0.90, 0.96, "6.0 points", "5 points", "DIFFERS"),
        (ERRORS, 0.96, 0.90, "6.0 points", "5 points", "DIFFERS"),
        (SHARE, 2.0, 2.15, "7.5 %", "10 %", "agrees"),
        (SHARE, 2.0, 2.25, "12.5 %", "10 %", "DIFFERS"),
        (SHARE, 0.0, 0.05, "5.0 %", "10 %", "agrees"),
        (SHARE, inf, inf, "0.0 %", "10 %", "agrees"),
        (SHARE, inf, 2.0, "inf %", "10 %", "DIFFERS"),
        (SHARE, nan, 2.0, "inf %", "10 %", "DIFFERS"),
    ],
)
def test_a_figure_is_compared_with_its_band(
    band: Band, sockets: float, twin: float, difference: str, allowed: str, verdict: str
) -> None:
    found = row("default", band, Estimate.of([sockets]), Estimate.of([twin]))
    assert found[:2] == ("default", band.title)
    assert found[4:] == (difference, allowed, verdict)


def test_an_interval_stands_behind_its_mean() -> None:
    assert row("a", POINTS, Estimate(0.9, 0.89, 0.91, 2), Estimate.of([0.9]))[2:4] == (
        "0.900 (0.890 to 0.910)",
        "0.900",
    )
