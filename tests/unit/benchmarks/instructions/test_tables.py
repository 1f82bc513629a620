from __future__ import annotations

import pytest

from benchmarks.instructions.command import Count, render
from benchmarks.instructions.marks import DECODE, LOOP, Part

BARE = Count("bare", "", [60_000, 64_000], {}, [])
OURS = Count("motorlite", "abc", [124_000, 124_000], {DECODE: Part(30_000, 1000), LOOP: Part(99_000, 4000)}, ["m:gone"])


def test_a_total_is_the_mean_of_its_samples() -> None:
    assert BARE.total == 62_000
    assert pytest.approx(2000 / 62_000) == BARE.error


def test_the_tables_have_totals_ratios_parts_and_what_is_missing() -> None:
    text = render([BARE, OURS])
    lines = [line.split() for line in text.splitlines()]
    assert ["motorlite", "abc", "124.00", "2.00", "0.00", "%"] in lines
    assert ["decode", "29.0"] in lines
    assert ["total", "124.0"] in lines
    assert "has no m:gone" in text


def test_without_the_bare_protocol_there_is_no_ratio() -> None:
    assert "  -  " in render([OURS])
    assert "by part" not in render([BARE])
