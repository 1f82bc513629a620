"""Durations and sizes with a unit."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from motorlite._base.arguments import duration, size


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("5s", 5.0), ("500ms", 0.5), ("1m", 60.0), ("0.25 s", 0.25), (" 2s ", 2.0), (3, 3.0), (0.1, 0.1), (60, 60.0)],
)
def test_durations(value: Any, seconds: float) -> None:
    found = duration("timeout", value, 60.0)
    assert found == seconds
    assert type(found) is float


@pytest.mark.parametrize(
    "value", ["", "5", "5h", "-5s", "5 sec", "1e3s", "nan", "0s", "61s", 0, -1, 61, nan, inf, -inf]
)
def test_durations_out_of_range(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^timeout must be a duration above 0 and at most 60 s \(seconds, or a text "):
        duration("timeout", value, 60.0)


@pytest.mark.parametrize("value", [None, True, b"5s", [5], {}])
def test_what_is_no_duration(value: Any) -> None:
    with pytest.raises(TypeError, match=r"^timeout must be a duration"):
        duration("timeout", value, 60.0)


@pytest.mark.parametrize(
    ("value", "count"),
    [("10MB", 10_485_760), ("1GB", 2**30), ("1.5KB", 1536), ("200 B", 200), (1, 1), (2**30, 2**30)],
)
def test_sizes(value: Any, count: int) -> None:
    assert size("memory_limit", value, 2**30) == count


@pytest.mark.parametrize("value", ["", "10", "10mb", "10MiB", "-1MB", "0B", "2GB", "0.1B", 0, -1, 2**30 + 1, 10**30])
def test_sizes_out_of_range(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^memory_limit must be a size above 0 and at most 1073741824 bytes"):
        size("memory_limit", value, 2**30)


@pytest.mark.parametrize("value", [None, True, 1.0, nan, b"10MB"])
def test_what_is_no_size(value: Any) -> None:
    with pytest.raises(TypeError, match=r"^memory_limit must be a size"):
        size("memory_limit", value, 2**30)
