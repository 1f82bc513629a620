"""Pure: long computations as generators, which can be interrupted between slices."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from motorlite._base.values import estimated_size

T = TypeVar("T")

Slices: TypeAlias = Generator[None, None, T]
"""Yields after each slice of its work, and returns the result."""

ITEMS: Final = 64
"""The number of small items (requests, errors, identifiers) that one slice processes."""

MAX_STATEMENTS: Final = 100_000
"""The number of statements that one command may have: what all servers so far accept."""

MAX_SIZE: Final = 8 * 1024 * 1024
"""The bytes of all statements of a collection's command, unless a single one has more.

Building a message and writing it to the socket cannot be interrupted. On a busy machine, 16 MiB blocked the loop for
70 ms, and 8 MiB for 35 ms; a bulk write in commands of either size takes as long.
"""

STATEMENT_ALLOWANCE: Final = 16 * 1024
"""How much larger than a document a statement may be (write commands specification, "Request Size Limits")."""

# A slice of statements to encode ends after about this many bytes. Each statement adds a constant for its fields.
_WORK: Final = 64 * 1024
_WORK_PER_STATEMENT: Final = 1024
# A larger statement is a slice by itself.
_LARGEST: Final = _WORK - _WORK_PER_STATEMENT


def slice_length(statements: Sequence[Any], position: int, average: int) -> int:
    """Return how many statements from `position` on are encoded in one slice.

    Args:
        statements: All statements.
        position: The first one of the slice.
        average: The average size of those in the slice before; 0 if there was none.
    """
    if position == len(statements) - 1:
        return 1
    size = min(average, _LARGEST) or _probable_size(statements[position])
    length = _WORK // (size + _WORK_PER_STATEMENT)
    # Statements may have become larger since.
    last = _probable_size(statements[min(position + length, len(statements)) - 1])
    return length if last <= size else _WORK // (last + _WORK_PER_STATEMENT)


def _probable_size(statement: Any) -> int:
    return min(estimated_size(statement, _LARGEST), _LARGEST) if type(statement) is dict else 0


def is_slice(size: int) -> bool:
    """Whether statements of so many bytes make up a slice."""
    return size > _LARGEST


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
