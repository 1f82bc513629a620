"""Net: tries the addresses of a host on asyncio, each a moment after the one before it (RFC 8305, section 5).

What asyncio has for that (`happy_eyeballs_delay`) leaves sockets open when it is cancelled, and uvloop has none of it.
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

# Seconds between the beginnings of two attempts (RFC 8305, section 8; trio's too).
STAGGER: Final = 0.25


async def first_of(attempts: Iterable[Callable[[], Coroutine[Any, Any, T]]], close: Callable[[T], None]) -> T:
    """What the first successful attempt returns; what others return is closed, also when the caller is cancelled.

    The next attempt begins a moment after the one before it, or at once when one has failed.

    Raises:
        OSError: all attempts failed; it is the error of the first one that did.
    """
    waiting = deque(attempts)
    running: set[asyncio.Task[T]] = set()
    winner: asyncio.Task[T] | None = None
    failure: OSError | None = None
    try:
        while waiting or running:
            if waiting:
                running.add(asyncio.ensure_future(waiting.popleft()()))
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
                failure = failure or copy(error)  # the task keeps the other one
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
        del failure  # its traceback has this frame


async def _end(tasks: set[asyncio.Task[T]], close: Callable[[T], None]) -> None:
    for task in tasks:
        task.cancel()
        # It may be done all the same; called back even if nobody is left to wait for it.
        task.add_done_callback(partial(_close_result, close))
    if tasks:
        await asyncio.wait(tasks)


def _close_result(close: Callable[[T], None], task: asyncio.Task[T]) -> None:
    if not task.cancelled() and task.exception() is None:
        close(task.result())
