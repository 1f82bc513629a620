"""The default maxTimeMS of a client: where it comes from, and which values it may have."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest
from bson.int64 import Int64

from motorlite._execution.building import LONGEST_MS, CommandDefaults, default_milliseconds, document_milliseconds


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (None, None),
        (0, 0),
        (0.0, 0),
        (1, 1000),
        (1.1, 1100),
        (0.0015, 2),
        # Not 0, which is no limit.
        (1e-9, 1),
        (1e-300, 1),
        (1e300, LONGEST_MS),
        (inf, 0),
    ],
)
def test_seconds(seconds: float | None, expected: int | None) -> None:
    assert default_milliseconds(seconds) == expected


# The mongo shell writes numbers as doubles.
@pytest.mark.parametrize("value", [1000, 1000.0, Int64(1000)])
def test_a_document_s_value(value: Any) -> None:
    found = document_milliseconds(value)
    assert (found, type(found)) == (1000, int)


@pytest.mark.parametrize("value", [0, 0.0, LONGEST_MS])
def test_the_ends_of_the_range(value: float) -> None:
    assert document_milliseconds(value) == value


@pytest.mark.parametrize("value", [None, True, "1000", [1000], {}, -1, 0.5, 1000.5, nan, inf, -inf, LONGEST_MS + 1])
def test_wrong_values(value: Any) -> None:
    with pytest.raises(ValueError, match="not a whole number of milliseconds from 0 to 2147483647"):
        document_milliseconds(value)


def test_the_nearer_source_wins() -> None:
    limits = CommandDefaults(1)
    assert (limits.milliseconds, limits.are_used) == (1, True)
    limits.read(2)
    assert limits.milliseconds == 2
    limits.choose(3)
    assert limits.milliseconds == 3
    limits.read(4)
    assert limits.milliseconds == 3
    limits.choose(None)
    assert limits.milliseconds == 4
    limits.read(None)
    assert limits.milliseconds == 1


@pytest.mark.parametrize("option", [None, 0, 5])
def test_0_is_no_limit_and_hides_the_farther_sources(option: int | None) -> None:
    limits = CommandDefaults(option)
    limits.read(7)
    limits.choose(0)
    assert (limits.milliseconds, limits.are_used) == (0, False)
    limits.choose(None)
    limits.read(0)
    assert (limits.milliseconds, limits.are_used) == (0, False)


def test_comments_alone_are_used_too() -> None:
    limits = CommandDefaults(None, "motorlite 1")
    assert (limits.milliseconds, limits.are_used) == (0, True)
