"""Runs coroutines that wait for nothing but the bytes of a target, without an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        coroutine.close()
    raise AssertionError("the coroutine waits for something that is not in the input")


class Pieces:
    """Bytes that are read in pieces.

    Args:
        data: The bytes.
        size: The most that one read returns.
    """

    def __init__(self, data: bytes, size: int) -> None:
        self.left = data
        self._size = size
        self.taken = 0

    async def read(self, count: int) -> bytes:
        """Return at most `count` bytes; none at the end."""
        found = self.left[: min(count, self._size)]
        self.left = self.left[len(found) :]
        self.taken += len(found)
        return found

    async def peek(self) -> bytes:
        """Return the next byte, which stays; none at the end."""
        return self.left[:1]
