"""Pure: the wait queue of a pool: who asked for a connection first gets one first."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")


class WaitQueue(Generic[T]):
    """First in, first out; a request that gave up leaves in constant time."""

    __slots__ = ("_items",)

    def __init__(self) -> None:
        # Not a dict: taking the oldest out of one gets slower with every one taken before.
        self._items: OrderedDict[T, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)

    def push(self, item: T) -> None:
        """Add `item` at the end."""
        self._items[item] = None

    def pop(self) -> T:
        """Take the oldest item out."""
        return self._items.popitem(last=False)[0]

    def discard(self, item: T) -> bool:
        """Take `item` out; False when it was not in."""
        if item not in self._items:
            return False
        del self._items[item]
        return True
