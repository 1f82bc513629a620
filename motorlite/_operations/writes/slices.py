"""Pure: long computations as generators, which can be interrupted between slices."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, TypeAlias, TypeVar

T = TypeVar("T")

Slices: TypeAlias = Generator[None, None, T]
"""Yields after each slice of its work, and returns the result."""

ITEMS: Final = 64
"""The number of small items (requests, errors, identifiers) that one slice processes."""


def all_at_once(slices: Slices[T]) -> T:
    """Run to the end without interruption and return the result."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            result: T = end.value
            return result


def release(items: list[Any]) -> Slices[None]:
    """Empty a list in slices, because freeing its items also takes time."""
    while len(items) > ITEMS:
        del items[-ITEMS:]
        yield
    items.clear()
