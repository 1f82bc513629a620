"""Net: cancels a coroutine at each of the points where it waits, one run for each point.

Code that is cancelled must give back what it holds, wherever it waits at that moment: a connection, a lock, a row that
it reserved. Tests with timeouts hit the few points where it waits for long. These functions hit every one of them, on
asyncio and on trio::

    for point in itertools.count(1):
        async with make_shop() as shop:
            reached = await cancel_at(lambda: shop.sell("apples", 3), point)
            await shop.check_that_nothing_is_reserved()
        if not reached:
            break  # this run was not cancelled: it has fewer points

The points are those of the coroutine itself, and of all that it awaits. Tasks that it starts have points of their own,
which are not counted; a task group cancels its tasks when it is cancelled itself.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from motorlite._base.arguments import wrong
from motorlite._net.current import current_runtime

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator

__all__ = ["cancel_at", "cancel_at_every_point", "count_await_points"]


class Steps:
    """Runs a coroutine, and calls `on_point` at each suspension with its number, from 1, and what it waits for."""

    def __init__(self, coroutine: Any, on_point: Callable[[int, Any], None]) -> None:
        self._coroutine = coroutine
        self._on_point = on_point
        self.suspensions: int = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        step: Callable[[], Any] = partial(self._coroutine.send, None)
        while True:
            try:
                yielded = step()
            except StopIteration as stop:
                return stop.value
            finally:
                # It may hold an error that was raised through this frame (on trio, as the value of an outcome), which
                # must not keep it alive.
                del step
            self.suspensions += 1
            self._on_point(self.suspensions, yielded)
            try:
                step = partial(self._coroutine.send, (yield yielded))
            except BaseException as error:
                step = partial(self._coroutine.throw, error)


async def count_await_points(function: Callable[[], Coroutine[Any, Any, Any]]) -> int:
    """Return how often ``await function()`` waits for something when it is not cancelled.

    Args:
        function: Makes the coroutine, which runs to its end.

    Returns:
        The number of its await points. An `await` that need not wait, as that of a lock that is free, is none.
    """
    steps = Steps(function(), lambda _point, _yielded: None)
    await steps
    return steps.suspensions


async def cancel_at(function: Callable[[], Coroutine[Any, Any, Any]], point: int, *, late: bool = False) -> bool:
    """Run ``await function()``, and cancel it while it waits at one of its await points.

    This function itself is not cancelled: it returns as soon as `function` has ended. An error that `function` raises
    instead of the cancellation, or before it, is raised here.

    Args:
        function: Makes the coroutine.
        point: Which of its await points, from 1.
        late: Cancel only when that has happened for which the coroutine waits, but before it runs again. At that moment
            something that was just handed over, such as a connection, is easily lost. On asyncio only; trio has no such
            moment, and cancels at the point itself.

    Returns:
        Whether it was cancelled; False if it ended without reaching the point.

    Raises:
        ValueError: `point` is less than 1.
    """
    if point < 1:
        raise ValueError(wrong("point", point, "a number from 1"))
    if current_runtime().name == "trio":
        return await _cancel_on_trio(function, point)
    return await _cancel_on_asyncio(function, point, late)


async def cancel_at_every_point(
    function: Callable[[], Coroutine[Any, Any, Any]],
    check: Callable[[], Awaitable[object]] | None = None,
    *,
    late: bool = False,
) -> int:
    """Run ``await function()`` once for each of its await points, cancelled there, and at last to its end.

    Use it where the runs may follow each other on the same objects, for example on one client, and `cancel_at` where
    each needs new ones.

    Args:
        function: Makes the coroutine, a new one for each run.
        check: Awaited after each run, also after the last one. It raises what is wrong.
        late: As in `cancel_at`.

    Returns:
        The number of cancelled runs.
    """
    points = 0
    while await cancel_at(function, points + 1, late=late):
        points += 1
        if check is not None:
            await check()
    if check is not None:
        await check()
    return points


async def _cancel_on_asyncio(function: Callable[[], Coroutine[Any, Any, Any]], point: int, late: bool) -> bool:
    task = asyncio.current_task()
    assert task is not None
    earlier, requested = task.cancelling(), 0

    def cancel(_future: object = None) -> None:
        nonlocal requested
        requested += 1
        task.cancel()

    def on_point(number: int, yielded: Any) -> None:
        if number == point:
            if late and yielded is not None:
                yielded.add_done_callback(cancel)  # before that which wakes the task
            else:
                cancel()

    steps = Steps(function(), on_point)
    try:
        await steps
    except asyncio.CancelledError:
        # Cancelled by others as well: they expect the error.
        if not requested or task.cancelling() - requested > earlier:
            raise
    finally:
        for _ in range(requested):
            task.uncancel()
    return steps.suspensions >= point


async def _cancel_on_trio(function: Callable[[], Coroutine[Any, Any, Any]], point: int) -> bool:
    with anyio.CancelScope() as scope:

        def on_point(number: int, _yielded: Any) -> None:
            if number == point:
                scope.cancel()

        await Steps(function(), on_point)
    return scope.cancel_called
