"""Pure: reads values of replies that may have any type: what answers may be no server, or no good one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def document(value: object) -> Mapping[str, Any]:
    """The document, or an empty one."""
    return value if isinstance(value, Mapping) else {}


def documents(value: object) -> list[Mapping[str, Any]]:
    """The documents of an array."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def texts(value: object) -> list[str]:
    """The strings of an array."""
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def whole(value: object) -> int:
    """The whole number, or 0."""
    return value if isinstance(value, int) else 0
