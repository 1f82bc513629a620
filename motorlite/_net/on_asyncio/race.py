"""Net: staggered connection attempts to the addresses of a host on asyncio (RFC 8305, section 5).

asyncio's own `happy_eyeballs_delay` leaves sockets open when it is cancelled, and uvloop does not support it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

T = TypeVar("T")

# Seconds between the starts of two attempts (RFC 8305, section 8; trio uses the same).
STAGGER: Final = 0.25


async def first_of(attempts: Iterable[Callable[[], Coroutine[Any, Any, T]]], close: Callable[[T], None]) -> T:
    """Return the first successful attempt's result. Other results are closed, also when the caller is cancelled.

    The next attempt starts `STAGGER` seconds after the previous one, or immediately when one has failed.

    Raises:
        OSError: all attempts failed; the error of the first to fail.
    """
    waiting = deque(attempts)
    running: set[asyncio.Task[T]] = set()
    winner: asyncio.Task[T] | None = None
    failure: OSError | None = None
    try:
        while waiting or running:
            if waiting:
                running.add(asyncio.create_task(waiting.popleft()(), name="motorlite connection attempt"))
            pause = STAGGER if waiting else None
            done, _ = await asyncio.wait(running, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                error = task.exception()
                if error is None:
                    winner = task
                    running.discard(task)
                    return task.result()
                if not isinstance(error, OSError):  # a TimeoutError is one
                    raise error
                failure = failure or copy(error)  # the task keeps the original
            running -= done
    finally:
        try:
            await _end(running, close)
        except BaseException:
            if winner is not None:
                close(winner.result())
            raise
    assert failure is not None
    try:
        raise failure
    finally:
        del failure  # its traceback references this frame


async def _end(tasks: set[asyncio.Task[T]], close: Callable[[T], None]) -> None:
    for task in tasks:
        task.cancel()
        # The task may succeed all the same. The callback runs even if this coroutine is cancelled.
        task.add_done_callback(partial(_close_result, close))
    if tasks:
        await asyncio.wait(tasks)


def _close_result(close: Callable[[T], None], task: asyncio.Task[T]) -> None:
    if not task.cancelled() and task.exception() is None:
        close(task.result())
