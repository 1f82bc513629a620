"""Cancels a coroutine at each of its await points, one run per point, on asyncio and trio."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import sniffio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator


# Number of await points of each scenario, by name and backend; printed at the end of a test run.
counted: dict[str, int] = {}


class _Counted:
    """Runs a coroutine and calls `on_point` at its `point`-th suspension (counted from 1)."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], point: int, on_point: Callable[[Any], None] | None) -> None:
        self._coroutine = coroutine
        self._point = point
        self._on_point = on_point
        self.suspensions = 0

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
            if self.suspensions == self._point and self._on_point is not None:
                self._on_point(yielded)
            try:
                step = partial(self._coroutine.send, (yield yielded))
            except BaseException as error:
                step = partial(self._coroutine.throw, error)


async def count_suspensions(function: Callable[[], Coroutine[Any, Any, Any]]) -> int:
    """The number of suspensions of ``await function()`` without cancellation."""
    counted = _Counted(function(), 0, None)
    await counted
    return counted.suspensions


async def cancel_at(function: Callable[[], Coroutine[Any, Any, Any]], point: int, *, late: bool) -> bool:
    """Run ``await function()`` and cancel it at its `point`-th suspension; False if it ended before that.

    `late` (asyncio only): cancel after the awaited event has happened and before the task runs again. At that moment,
    a connection or a reply that was just handed over is easily lost.
    """
    reached = False
    with anyio.CancelScope() as scope:
        if sniffio.current_async_library() == "asyncio":
            task = asyncio.current_task()
            assert task is not None

            def cancel_task(yielded: Any) -> None:
                nonlocal reached
                reached = True
                if late and yielded is not None:
                    yielded.add_done_callback(lambda _: task.cancel("late"))
                else:
                    task.cancel("now")

            try:
                await _Counted(function(), point, cancel_task)
            except asyncio.CancelledError as error:
                if error.args not in (("late",), ("now",)):
                    raise
                task.uncancel()
        else:

            def cancel_scope(_yielded: Any) -> None:
                nonlocal reached
                reached = True
                scope.cancel()

            await _Counted(function(), point, cancel_scope)
    return reached


async def settle(awaitable: Callable[[], Awaitable[None]] = lambda: anyio.sleep(0.001), rounds: int = 5) -> None:
    """Let background work that a cancellation started finish."""
    for _ in range(rounds):
        await awaitable()
