"""The wait queue."""

from __future__ import annotations

from motorlite._pool.queue import WaitQueue


def test_first_in_is_first_out() -> None:
    queue: WaitQueue[str] = WaitQueue()
    assert not queue
    for item in ("c", "a", "b"):
        queue.push(item)
    assert len(queue) == 3
    assert list(queue) == ["c", "a", "b"]
    assert [queue.pop(), queue.pop(), queue.pop()] == ["c", "a", "b"]
    assert not queue


def test_who_gives_up_leaves_and_the_order_stays() -> None:
    queue: WaitQueue[str] = WaitQueue()
    for item in "abcd":
        queue.push(item)
    assert queue.discard("b")
    assert not queue.discard("b")
    assert queue.pop() == "a"
    assert not queue.discard("a"), "it has left already"
    assert list(queue) == ["c", "d"]


def test_who_comes_back_is_last() -> None:
    queue: WaitQueue[str] = WaitQueue()
    queue.push("a")
    queue.push("b")
    queue.discard("a")
    queue.push("a")
    assert list(queue) == ["b", "a"]
