"""The public vocabulary of retries: what an overload policy may be made of."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest

from motorlite.retry import OverloadRetry

INTEGERS = ("max_retries", "first_exponent")
NUMBERS = ("token_capacity", "base_backoff", "max_backoff")
FLAGS = ("is_budgeted", "needs_both_labels", "retargets")


OUT_OF_RANGE = [-1, 2**53 + 1, 10**400]
Row = tuple[tuple[str, ...], list[Any], type[Exception], str, list[Any]]
# Fields, values that they may have, and others with what the error says.
ROWS: list[Row] = [
    (
        INTEGERS,
        [0, 1, 7, 2**53],
        TypeError,
        "a non-negative integer",
        ["5", None, True, [5], 5j, 1.0, 2.5, math.nan, math.inf],
    ),
    (INTEGERS, [], ValueError, r"a non-negative integer, at most 2\*\*53", OUT_OF_RANGE),
    (
        NUMBERS,
        [0, 1, 7, 2**53, 0.0, 0.25, 2.0**53],
        TypeError,
        "a non-negative number",
        ["5", None, True, [5], 5j],
    ),
    (
        NUMBERS,
        [],
        ValueError,
        r"a non-negative number, at most 2\*\*53",
        [*OUT_OF_RANGE, -0.1, math.nan, math.inf, -math.inf],
    ),
    (FLAGS, [True, False], TypeError, "True or False", [0, 1, "true", None]),
    (("handshake",), [True, False, "2"], TypeError, "True, False or a string", [None, 2]),
]


@pytest.mark.parametrize(("names", "good", "kind", "wanted", "wrong"), ROWS)
def test_values(names: tuple[str, ...], good: list[Any], kind: type[Exception], wanted: str, wrong: list[Any]) -> None:
    for name in names:
        for value in good:
            assert getattr(replace(OverloadRetry(), **{name: value}), name) == value
        for value in wrong:
            fields = {name: value}
            with pytest.raises(kind, match=f"^{name} must be {wanted}, not {re.escape(repr(value))}$"):
                OverloadRetry(**fields)


def test_every_field_is_checked() -> None:
    assert {name for names, *_ in ROWS for name in names} == set(OverloadRetry.__dataclass_fields__)
    with pytest.raises(ValueError, match=r"^handshake must not be an empty string$"):
        OverloadRetry(handshake="")


def test_options_are_checked_as_well() -> None:
    with pytest.raises(ValueError, match="max_retries"):
        OverloadRetry().with_options(max_retries=-1)
    with pytest.raises(TypeError, match="is_budgeted"):
        OverloadRetry().with_options(is_budgeted="no")  # type: ignore[arg-type]  # what is refused


@pytest.mark.parametrize("policy", [OverloadRetry(), OverloadRetry.revision_2026_07()])
def test_what_is_shipped_passes(policy: OverloadRetry) -> None:
    assert replace(policy) == policy
