"""Pure: checks the numbers of public configuration values."""

from __future__ import annotations

from typing import Any

from motorlite._base.arguments import wrong


def check_whole(name: str, value: Any, least: int, most: int) -> None:
    """Raise unless `value` is an integer from `least` to `most`."""
    allowed = f"an integer from {least} to {most}"
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(wrong(name, value, allowed))
    if not least <= value <= most:
        raise ValueError(wrong(name, value, allowed))


def check_above(name: str, value: Any, most: float, *, above: float = 0, unit: str = "a number") -> None:
    """Raise unless `value` is a number above `above`, and at most `most`. NaN and infinities are refused."""
    allowed = f"{unit} above {above:g}, at most {most:g}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(wrong(name, value, allowed))
    # The comparison is also false for NaN.
    if not above < value <= most:
        raise ValueError(wrong(name, value, allowed))
