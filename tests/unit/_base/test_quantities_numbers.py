"""Checks of numbers in public configuration values."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from motorlite._base.quantities import check_above, check_whole


@pytest.mark.parametrize("value", [1, 2, 5])
def test_whole_numbers_within(value: int) -> None:
    check_whole("n", value, 1, 5)


@pytest.mark.parametrize(
    ("value", "kind"),
    [(0, ValueError), (6, ValueError), (10**400, ValueError), (True, TypeError), (2.0, TypeError), ("2", TypeError)],
)
def test_other_whole_numbers(value: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"^n must be an integer from 1 to 5, not "):
        check_whole("n", value, 1, 5)


@pytest.mark.parametrize("value", [1e-9, 1, 2.5])
def test_numbers_above(value: float) -> None:
    check_above("n", value, 2.5)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (0, ValueError),
        (-1.0, ValueError),
        (nan, ValueError),
        (inf, ValueError),
        (2.6, ValueError),
        (10**400, ValueError),
        (False, TypeError),
        ("1", TypeError),
        (None, TypeError),
    ],
)
def test_other_numbers(value: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"^n must be a number of seconds above 0, at most 2\.5, not "):
        check_above("n", value, 2.5, unit="a number of seconds")


def test_the_lower_bound_is_excluded() -> None:
    with pytest.raises(ValueError, match="above 1, at most 3"):
        check_above("n", 1.0, 3, above=1)
