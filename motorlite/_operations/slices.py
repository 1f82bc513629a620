"""Pure: long computations as generators, which can be interrupted between their slices."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, TypeAlias, TypeVar

T = TypeVar("T")

Slices: TypeAlias = Generator[None, None, T]
"""Yields after each slice of its work, and returns the result."""

ITEMS: Final = 64
"""How many of the small things that a slice is about (requests, errors, identifiers) it goes through."""


def all_at_once(slices: Slices[T]) -> T:
    """The result, without an interruption."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            result: T = end.value
            return result


def release(items: list[Any]) -> Slices[None]:
    """Empty a list: freeing what is in it takes its time as well."""
    while len(items) > ITEMS:
        del items[-ITEMS:]
        yield
    items.clear()
