"""Pure: checks of public configuration values: numbers, durations (``"500ms"``) and sizes (``"10MB"``)."""

from __future__ import annotations

import re
from typing import Any, Final

from motorlite._base.arguments import wrong

_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m)")
_SIZE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(B|KB|MB|GB)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0}
# Powers of two: "10MB" is 10,485,760 bytes.
_BYTES: Final = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30}


def duration(name: str, value: object, most: float) -> float:
    """Return a duration in seconds: a number, or a text such as ``"5s"``, ``"500ms"`` or ``"1m"``.

    Raises:
        TypeError: `value` is neither a number nor a text.
        ValueError: it is not above 0 and at most `most` seconds, or a text without a known unit.
    """
    allowed = f'a duration above 0 and at most {most:g} s (seconds, or a text such as "5s" or "500ms")'
    seconds: object = value
    if isinstance(value, str):
        found = _DURATION.fullmatch(value.strip())
        if found is None:
            raise ValueError(wrong(name, value, allowed))
        seconds = float(found[1]) * _SECONDS[found[2]]
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TypeError(wrong(name, value, allowed))
    # The comparison is also false for NaN.
    if not 0 < seconds <= most:
        raise ValueError(wrong(name, value, allowed))
    return float(seconds)


def size(name: str, value: object, most: int) -> int:
    """Return a size in bytes: an integer, or a text such as ``"10MB"`` (in powers of 1024: B, KB, MB, GB).

    Raises:
        TypeError: `value` is neither an integer nor a text.
        ValueError: it is not above 0 and at most `most` bytes, or a text without a known unit.
    """
    allowed = f'a size above 0 and at most {most} bytes (an integer, or a text such as "10MB")'
    number: object = value
    if isinstance(value, str):
        found = _SIZE.fullmatch(value.strip())
        if found is None:
            raise ValueError(wrong(name, value, allowed))
        number = int(float(found[1]) * _BYTES[found[2]])
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(wrong(name, value, allowed))
    if not 0 < number <= most:
        raise ValueError(wrong(name, value, allowed))
    return number


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
