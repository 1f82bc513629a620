"""The public vocabulary of retries: what an overload policy may be made of."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from motorlite.retry import OverloadRetry

INTEGERS = ("max_retries", "first_exponent")
NUMBERS = ("token_capacity", "base_backoff", "max_backoff")
FLAGS = ("is_budgeted", "needs_both_labels", "retargets")


def made_with(name: str, value: Any) -> OverloadRetry:
    fields: dict[str, Any] = {name: value}
    return OverloadRetry(**fields)


def test_every_field_is_checked() -> None:
    assert {*INTEGERS, *NUMBERS, *FLAGS, "handshake"} == set(OverloadRetry.__dataclass_fields__)


@pytest.mark.parametrize("name", [*INTEGERS, *NUMBERS])
@pytest.mark.parametrize("value", [0, 1, 7, 2**53])
def test_numbers(name: str, value: int) -> None:
    assert getattr(made_with(name, value), name) == value


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [0.0, 0.25, 2.0**53])
def test_fractions(name: str, value: float) -> None:
    assert getattr(made_with(name, value), name) == value


@pytest.mark.parametrize("name", [*INTEGERS, *NUMBERS])
@pytest.mark.parametrize("value", ["5", None, True, [5], 5j])
def test_wrong_types_of_numbers(name: str, value: Any) -> None:
    noun = "integer" if name in INTEGERS else "number"
    with pytest.raises(TypeError, match=f"^{name} must be a non-negative {noun}, not "):
        made_with(name, value)


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("value", [1.0, 2.5, math.nan, math.inf])
def test_fractions_where_integers_are_wanted(name: str, value: float) -> None:
    with pytest.raises(TypeError, match=f"^{name} must be a non-negative integer, not "):
        made_with(name, value)


@pytest.mark.parametrize("name", [*INTEGERS, *NUMBERS])
@pytest.mark.parametrize("value", [-1, 2**53 + 1, 10**400])
def test_integers_out_of_range(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be a non-negative .*, at most 2\\*\\*53, not {value}$"):
        made_with(name, value)


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf, -math.inf])
def test_numbers_out_of_range(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be a non-negative number, at most 2\\*\\*53, not {value}$"):
        made_with(name, value)


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize("value", [0, 1, "true", None])
def test_flags(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"^{name} must be True or False, not {value!r}$"):
        made_with(name, value)


@pytest.mark.parametrize("value", [True, False, "2"])
def test_handshake(value: Any) -> None:
    assert OverloadRetry(handshake=value).handshake == value


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (None, TypeError, "handshake must be True, False or a string, not None"),
        (2, TypeError, "handshake must be True, False or a string, not 2"),
        ("", ValueError, "handshake must not be an empty string"),
    ],
)
def test_wrong_handshakes(value: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=f"^{text}$"):
        OverloadRetry(handshake=value)


def test_options_are_checked_as_well() -> None:
    with pytest.raises(ValueError, match="max_retries"):
        OverloadRetry().with_options(max_retries=-1)
    with pytest.raises(TypeError, match="is_budgeted"):
        OverloadRetry().with_options(is_budgeted="no")  # type: ignore[arg-type]  # what is refused


@pytest.mark.parametrize("policy", [OverloadRetry(), OverloadRetry.revision_2026_07()])
def test_what_is_shipped_passes(policy: OverloadRetry) -> None:
    assert replace(policy) == policy
