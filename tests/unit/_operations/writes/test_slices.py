from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._operations.writes.slices import ITEMS, all_at_once, release

if TYPE_CHECKING:
    from motorlite._operations.writes.slices import Slices


def test_all_at_once() -> None:
    seen: list[int] = []

    def counted() -> Slices[str]:
        for number in range(3):
            seen.append(number)
            yield
        return "done"

    assert all_at_once(counted()) == "done"
    assert seen == [0, 1, 2]


def test_release() -> None:
    items: list[Any] = list(range(ITEMS * 2 + 1))
    assert [len(items) for _ in release(items)] == [ITEMS + 1, 1]
    assert items == []
    assert list(release([])) == []
