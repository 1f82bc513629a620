"""The benchmark of prefetched batches: the table and the verdict."""

from __future__ import annotations

import pytest

from benchmarks.prefetch import Outcome, misses, render

ONE = Outcome(20, "waits", 20, 0.9, 0.5)


def test_the_table() -> None:
    none = Outcome(0, "none", 0, 0.05, 0.05)
    assert render([ONE, none]).splitlines()[1:] == [
        "20 ms more                waits 20 ms   900 ms  500 ms          1.80",
        "0 ms more                     nothing    50 ms   50 ms          1.00",
    ]


@pytest.mark.parametrize(
    ("outcome", "found"),
    [
        (ONE, []),
        (Outcome(20, "waits", 20, 0.6, 0.5), ["20 ms on the server, program waits 20 ms: 1.20 times"]),
        # Nothing to gain, or little.
        (Outcome(20, "waits", 5, 0.5, 0.5), []),
        (Outcome(5, "computes", 5, 0.5, 0.5), []),
    ],
)
def test_what_falls_short(outcome: Outcome, found: list[str]) -> None:
    assert misses([outcome]) == found
